"""docs/porting.md: its scripts and commands, in order, print what the page says."""

import json
import os
import pathlib
import re
import subprocess

import interpreter
import pytest

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs/porting.md").read_text()
IMAGES, TEXTS = PAGE.split("\n## A text model on two IPUs\n")


def block(page, kind):
    return re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1]


def texts(page):
    """What check, plan and report print."""
    return re.findall(r"```text\n(.*?)```", page, re.DOTALL)


def prints(tool, lines, *command, code=0):
    """The tool prints lines that begin with these."""
    result = tool(*command)
    assert result.returncode == code, result.stderr
    for line in lines.splitlines():
        assert f"\n{line}" in f"\n{result.stdout}", result.stdout


def patch(tool, text):
    subprocess.run(["patch", "-p0"], cwd=tool.folder, input=text, text=True, check=True)


def fix(tool, script, rest):
    """Mends what --fix mends; `rest` is what the next check says of the whole."""
    patch(tool, tool("check", "--fix", script).stdout)
    assert rest in tool("check", script).stdout


def losses(tool, script, **environment):
    done = interpreter.run([script], cwd=tool.folder, env={
        **os.environ, "TREMULA_RUNTIME_DIR": str(tool.folder), **environment})
    assert done.returncode == 0, done.stderr[-3000:]
    return [float(one) for one in re.fullmatch(r"loss (.*) (.*)\n", done.stdout).groups()]


def profiled(tool, script, page):
    """Trains as the page says; the losses and the profile."""
    options = json.loads(re.search(r"POPLAR_ENGINE_OPTIONS='(.*)'", page)[1])
    found = losses(tool, script, POPLAR_ENGINE_OPTIONS=json.dumps(options))
    profile, *_ = sorted((tool.folder / "report").iterdir())
    prints(tool, texts(page)[-1], "report", profile)
    tool.ok("report", profile, "--html", "page.html")
    assert "Profile" in (tool.folder / "page.html").read_text()
    return found


def check_and_fix_images(tool):
    tool.write("train.py", block(IMAGES, "python"))
    prints(tool, texts(IMAGES)[0], "check", "train.py", code=1)
    fix(tool, "train.py", "1 file, 41 lines: 1 warning")
    assert "[gpu-only]" in tool("check", "train.py").stdout


def test_check_and_fix(tool):
    check_and_fix_images(tool)
    patch(tool, block(IMAGES, "diff"))
    assert "nothing found" in tool.ok("check", "train.py")


def test_check_and_fix_texts(tool):
    tool.write("text.py", block(TEXTS, "python"))
    prints(tool, "\n".join(texts(TEXTS)[0].splitlines()[:2]), "check", "text.py", code=1)
    fix(tool, "text.py", "nothing found")
    patch(tool, block(TEXTS, "diff"))
    assert "nothing found" in tool.ok("check", "text.py")


@pytest.mark.long
def test_images(tool):
    check_and_fix_images(tool)
    before = losses(tool, "train.py")
    prints(tool, texts(IMAGES)[1], "plan", "resnet.keras", "--batch", "16", "--training",
           "momentum")
    patch(tool, block(IMAGES, "diff"))
    after = profiled(tool, "train.py", IMAGES)
    assert after == pytest.approx(before, rel=.05) and after[1] < .9 * after[0]


@pytest.mark.long
def test_texts(tool):
    tool.write("text.py", block(TEXTS, "python"))
    prints(tool, texts(TEXTS)[0], "check", "--run", "text.py", code=1)
    assert not (tool.folder / "text.keras").exists()
    fix(tool, "text.py", "nothing found")
    before = losses(tool, "text.py")
    prints(tool, texts(TEXTS)[1], "plan", "text.keras", "--batch", "16", "--training", "sgd",
           code=3)
    patch(tool, block(TEXTS, "diff"))
    after = profiled(tool, "text.py", TEXTS)
    # On IPUs an epoch is one update: its first loss is that of the first weights.
    assert before[1] < before[0] < after[0] and after[1] < after[0]
