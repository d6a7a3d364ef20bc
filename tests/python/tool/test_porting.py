"""docs/porting.md: its script and commands, in order, print what the page says."""

import json
import os
import pathlib
import re
import subprocess

import interpreter
import pytest

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs/porting.md").read_text()
CHECKED, PLANNED, REPORTED = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


def block(kind):
    return re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[1]


def prints(tool, lines, *command, code=0):
    """The tool prints lines that begin with these."""
    result = tool(*command)
    assert result.returncode == code, result.stderr
    for line in lines.splitlines():
        assert f"\n{line}" in f"\n{result.stdout}", result.stdout


def patch(tool, text):
    subprocess.run(["patch", "-p0"], cwd=tool.folder, input=text, text=True, check=True)


def check_and_fix(tool):
    tool.write("train.py", block("python"))
    prints(tool, CHECKED, "check", "train.py", code=1)
    patch(tool, tool("check", "--fix", "train.py").stdout)
    text = tool("check", "train.py").stdout
    assert "[gpu-only]" in text and "1 file, 41 lines: 1 warning" in text


def test_check_and_fix(tool):
    check_and_fix(tool)
    patch(tool, block("diff"))
    assert "nothing found" in tool.ok("check", "train.py")


@pytest.mark.long
def test_the_whole_page(tool):
    def losses(**environment):
        done = interpreter.run(["train.py"], cwd=tool.folder, env={
            **os.environ, "TREMULA_RUNTIME_DIR": str(tool.folder), **environment})
        assert done.returncode == 0, done.stderr[-3000:]
        return [float(one) for one in re.fullmatch(r"loss (.*) (.*)\n", done.stdout).groups()]

    check_and_fix(tool)
    before = losses()
    prints(tool, PLANNED, "plan", "resnet.keras", "--batch", "16", "--training", "momentum")
    patch(tool, block("diff"))
    options = json.loads(re.search(r"POPLAR_ENGINE_OPTIONS='(.*)'", PAGE)[1])
    after = losses(POPLAR_ENGINE_OPTIONS=json.dumps(options))
    assert after == pytest.approx(before, rel=.05) and after[1] < .9 * after[0]
    profile, = (tool.folder / "report").iterdir()
    prints(tool, REPORTED, "report", profile)
    tool.ok("report", profile, "--html", "page.html")
    assert "Profile" in (tool.folder / "page.html").read_text()
