"""POPLAR_LOG_LEVEL and its relatives, by the command line `tremula`."""

import os
import re
import subprocess

import built
import pytest

PROGRAM = "HloModule step\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] add(x, x)\n}\n"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z PO:\w+ +(\d+)\.\d+ ([EWIDT]): .+")


@pytest.fixture
def compile_with(tmp_path):
    """Compiles a program with the variables; returns the lines on stderr."""
    tool = built.program("tremula")
    (tmp_path / "step.hlo").write_text(PROGRAM)

    def run(*options, **variables):
        clean = {key: value for key, value in os.environ.items() if "LOG_LEVEL" not in key}
        result = subprocess.run([tool, "compile", "step.hlo", "-o", "step.poplar_exec", *options],
                                cwd=tmp_path, env={**clean, **variables}, text=True,
                                capture_output=True, timeout=600, check=True)
        return result.stderr.splitlines()
    return run


def test_info_tells_the_story(compile_with):
    lines = compile_with(POPLAR_LOG_LEVEL="INFO")
    assert all(LINE.fullmatch(line).group(2) == "I" for line in lines)
    text = "\n".join(lines)
    assert "compiling the module step: 2 instructions in 1 computation" in text
    assert re.search(r"pass simplify +2 -> +2 instructions +\d+\.\d\d ms", text)
    assert re.search(r"memory plan: \d+ steps", text)


@pytest.mark.parametrize("variables, told", [
    ({}, ""), ({"POPLAR_LOG_LEVEL": "OFF"}, ""), ({"POPLAR_LOG_LEVEL": "warn"}, ""),
    ({"POPLIBS_LOG_LEVEL": "TRACE"}, ""), ({"TF_POPLAR_VLOG_LEVEL": "1"}, "I"),
    ({"TF_POPLAR_VLOG_LEVEL": "2", "POPLAR_LOG_LEVEL": "ERR"}, "ID"),
    ({"POPLAR_LOG_LEVEL": "trace"}, "ID")])
def test_levels(compile_with, variables, told):
    lines = compile_with("--option", "verify=true", **variables)
    assert {LINE.fullmatch(line).group(2) for line in lines} == set(told)


def test_the_verifier_looks_after_every_pass(compile_with):
    lines = compile_with("--option", "verify=true", POPLAR_LOG_LEVEL="DEBUG")
    passes = [line.split("pass ")[1].split()[0] for line in lines if " I: pass " in line]
    verified = [line.split("after pass ")[1] for line in lines if " D: verified" in line]
    assert len(passes) > 5 and verified == passes


def test_a_level_that_is_none_is_named(compile_with):
    lines = compile_with(POPLAR_LOG_LEVEL="LOUD")
    assert len(lines) == 1 and "LOUD" in lines[0] and "TRACE" in lines[0]


def test_lines_of_several_instances(compile_with, tmp_path):
    """Each line names the instance, and instances share a file."""
    for rank in "01":
        compile_with(POPLAR_LOG_LEVEL="INFO", POPLAR_LOG_DEST="log", OMPI_COMM_WORLD_RANK=rank,
                     OMPI_COMM_WORLD_SIZE="2")
    lines = (tmp_path / "log").read_text().splitlines()
    assert all(LINE.fullmatch(line) for line in lines)
    ranks = [re.search(r" I: \[(\d)\] \w", line).group(1) for line in lines]
    assert ranks == sorted(ranks) and set(ranks) == {"0", "1"}
