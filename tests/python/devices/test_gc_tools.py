"""gc-monitor, gc-info, gc-inventory."""

import json
import re

import pytest


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_monitor_shows_the_table_of_the_guide(tool):
    result = tool("gc-monitor", TREMULA_INVENTORY="m2000-2")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert cells(lines[1]) == ["gc-monitor", "Partition: 'p_ipuof' has 8 reconfigurable IPUs"]
    assert cells(lines[3]) == ["IPU-M", "Serial", "ICU FW", "Type", "Server version", "ID",
                               "PCIe ID", "Routing", "GWSW"]
    assert cells(lines[5]) == ["10.44.44.253", "0001.0002.8204221", "2.1.3", "M2000", "1.5.4", "0",
                               "3", "DNC", ""]
    boards = result.stdout.split("No attached")[0].count("M2000")
    assert boards == 8
    assert cells(lines[-2]) == ["No attached processes"]
    # A rule between boards, and every line of a table is as long as its first.
    assert [line[0] for line in lines[4:17]] == list("+||+||+||+||+")
    assert len({len(line) for line in lines[:17]}) == 1


def test_monitor_shows_who_is_attached(tool, hold):
    process = hold(4, TREMULA_INVENTORY="m2000-2")
    lines = tool("gc-monitor", TREMULA_INVENTORY="m2000-2").stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if "Attached processes" in line)
    assert cells(lines[start]) == ["Attached processes", "IPU", "Board"]
    assert cells(lines[start + 2]) == ["PID", "Command", "Time", "User", "ID", "Clock", "Temp",
                                       "Temp", "Power"]
    rows = [cells(line) for line in lines[start + 3:] if line.startswith("|")]
    assert [row[0] for row in rows] == [str(process.pid)] * 4
    assert [row[4] for row in rows] == ["0", "1", "2", "3"]
    assert all(re.fullmatch(r"(\d+m)?\d+s", row[2]) for row in rows)
    assert all(row[5:] == ["1330MHz", "N/A", "N/A", "N/A"] for row in rows)
    process.kill()
    process.wait()
    assert "No attached processes" in tool("gc-monitor", TREMULA_INVENTORY="m2000-2").stdout


def test_monitor_as_json(tool, hold):
    process = hold(2)
    result = json.loads(tool("gc-monitor", "--json").stdout)
    ipus = [ipu for card in result["cards"] for ipu in card["ipus"]]
    assert [ipu["id"] for ipu in ipus] == [str(i) for i in range(16)]
    taken = {ipu["id"]: ipu["PID"] for ipu in ipus if ipu["PID"] != "N/A"}
    assert taken == {"4": str(process.pid), "5": str(process.pid)}
    assert ipus[4]["attached to"] == "16" and ipus[4]["average board temp"] == "N/A"
    assert len(result["cards"]) == 8


def test_cards_have_other_columns(tool):
    lines = tool("gc-monitor", TREMULA_INVENTORY="c2-16").stdout.splitlines()
    assert cells(lines[1])[1] == "Partition: 'c2-16' has 16 reconfigurable IPUs"
    assert "PCIe ID" in cells(lines[3]) and "IPU-M" not in cells(lines[3])


def test_info_lists_devices(tool):
    lines = tool("gc-info", "--list-devices").stdout.splitlines()
    assert lines[0] == "Graphcore device listing:"
    assert lines[2] == "Partition: p1 [active]"
    assert lines[3] == "-+- Id: [0], target: [Fabric], IPU-M host: [10.1.5.10], IPU#: [3]"
    start = lines.index("-+- Id: [24], target: [Multi IPU]")
    assert [re.search(r"Id: \[(\d+)\], DNC Id: \[(\d+)\]", line).groups()
            for line in lines[start + 1:start + 5]] == [("4", "0"), ("5", "1"), ("6", "2"),
                                                        ("7", "3")]
    assert sum(line.startswith("-+- Id:") for line in lines) == 31
    assert tool("gc-info", "-l").stdout.splitlines() == lines


def test_info_of_a_device(tool, hold):
    process = hold(1)
    lines = tool("gc-info", "-i", "-d", 0).stdout.splitlines()
    assert lines[0] == "Device Info:"
    values = dict(line.strip().split(": ", 1) for line in lines[1:])
    assert values["id"] == "0" and values["target"] == "Fabric"
    assert values["ipu architecture"] == "ipu2" and values["clock"] == "1330MHz"
    assert values["user process id"] == str(process.pid)
    assert values["ipu power"] == values["average die temp"] == "N/A"
    free = tool("gc-info", "-d", 3, "--device-info").stdout
    assert "  user process id: N/A\n" in free
    group = tool("gc-info", "-d", 24, "-i").stdout
    assert "  target: Multi IPU\n" in group and "  ipu ids: 4,5,6,7\n" in group


@pytest.mark.parametrize("arguments, expected", [
    (["-d", "0", "--ipu-arch"], "ipu2"), (["-d", "24", "--ipu-count"], "4"),
    (["--ipu-count"], "16"), (["-d", "0", "--tile-clock-speed"], "1330MHz")])
def test_info_of_one_thing(tool, arguments, expected):
    assert tool("gc-info", *arguments).stdout == expected + "\n"


def test_inventory(tool):
    devices = json.loads(tool("gc-inventory", "-j").stdout)["devices"]
    assert len(devices) == 16 and devices[3]["board type"] == "M2000"
    text = tool("gc-inventory").stdout
    assert text.count("  ipu architecture: ipu2\n") == 16


@pytest.mark.parametrize("name, arguments, words", [
    ("gc-monitor", ["--jsn"], "'--jsn' is not an option"),
    ("gc-monitor", ["--json=yes"], "no value"),
    ("gc-monitor", ["everything"], "'everything'"),
    ("gc-info", ["-z"], "'-z' is not an option"),
    ("gc-info", ["-d"], "needs a value"),
    ("gc-info", ["-d", "first", "-i"], "'first'"),
    ("gc-info", ["-i"], "-d ID"),
    ("gc-info", [], "-l"),
    ("gc-info", ["-l", "-d", "0"], "-l lists all"),
    ("gc-info", ["-d", "0", "-i", "--ipu-arch"], "one thing"),
    ("gc-inventory", ["-k"], "'-k'")])
def test_mistakes_in_the_command_line(tool, name, arguments, words):
    result = tool(name, *arguments)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.count("\n") == 1 and result.stderr.startswith(name + ": ")
    assert words in result.stderr and f"{name} --help" in result.stderr
    assert tool(name, "--help").stdout.startswith(f"usage: {name}")


def test_failures(tool):
    result = tool("gc-info", "-d", 99, "-i")
    assert result.returncode == 1 and "0 to 30" in result.stderr
    result = tool("gc-monitor", TREMULA_INVENTORY="no-such")
    assert result.returncode == 1 and "TREMULA_INVENTORY" in result.stderr
