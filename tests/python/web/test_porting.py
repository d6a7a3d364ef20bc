"""docs/porting.md: its scripts and commands, in order, print what the page says, and the browser
shows the same figures."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import built
import interpreter
import pytest

from analyser import VIEWS

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs/porting.md").read_text()
IMAGES, TEXTS = PAGE.split("\n## A text model on two IPUs\n")
TEXTS, SESSIONS = TEXTS.split("\n## A script of TensorFlow 1\n")
SCRIPT = """
import numpy as np
import tensorflow as tf

images = tf.placeholder(tf.float32, [4, 8, 8, 3], "images")
labels = tf.placeholder(tf.int32, [4], "labels")
x = tf.layers.conv2d(images, 4, 3, use_bias=False)
x = tf.reduce_mean(tf.nn.relu(tf.layers.batch_normalization(x, training=True)), [1, 2])
logits = tf.layers.dense(x, 10, name="logits")
loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
step = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    given = {images: np.ones([4, 8, 8, 3]), labels: [1, 2, 3, 4]}
    print("loss", *(session.run([loss, step], given)[0] for _ in range(2)))
"""


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


def losses(tool, *script, **environment):
    done = interpreter.run([*script], cwd=tool.folder, env={
        **os.environ, "TREMULA_RUNTIME_DIR": str(tool.folder), **environment})
    assert done.returncode == 0, done.stderr[-3000:]
    return [float(one) for one in re.fullmatch(r"loss (.*) (.*)\n", done.stdout).groups()]


def profiled(tool, script, page):
    """Trains as the page says; the losses and the profile that its commands name."""
    options = re.search(r"POPLAR_ENGINE_OPTIONS='(.*)'", page)[1]
    found = losses(tool, script, POPLAR_ENGINE_OPTIONS=options)
    folder, *others = set(re.findall(r"^    tremula (?:report|view) (\S+)/\*", page, re.MULTILINE))
    assert not others and json.loads(options)["autoReport.directory"] == folder
    profile, = (tool.folder / folder).iterdir()
    prints(tool, texts(page)[-1], "report", profile)
    return found, profile


@contextlib.contextmanager
def viewed(tool, profile):
    """The address that `tremula view DIR --open` gives to the browser."""
    opened = tool.folder / "opened"
    process = subprocess.Popen(
        ["env", "--default-signal=INT", built.program("tremula"), "view", profile, "--open"],
        cwd=tool.folder, text=True, stdout=subprocess.PIPE, start_new_session=True,
        env={**tool.environment, "BROWSER": f"sh -c 'echo \"$0\" > {opened}' %s"})
    try:
        address = re.search(r"http://\S+", process.stdout.readline())[0]
        assert process.stdout.readline() == "Ctrl-C ends it.\n"
        while not opened.exists() or not opened.read_text().endswith("\n"):
            assert process.poll() is None
            time.sleep(.1)
        assert opened.read_text() == address + "\n"
        yield address
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=600)


def look(tool, new_page, profile):
    """Each view in the browser, and the figures that the text has."""
    report = json.loads(tool.ok("report", profile, "--json"))
    with viewed(tool, profile) as address:
        page = new_page().open(address)
        verdict = re.search(r"^Memory: (?:it )?(.*)", tool.ok("report", profile), re.MULTILINE)[1]
        assert page.page.locator('[data-key="fits"]').inner_text().removeprefix("it ") == verdict
        for key in ("cycles", "worst_tile_bytes", "memory_bytes"):
            assert page.value(key) == report[key]
        for view in VIEWS:
            page.go(f"v={view}")
            assert page.main().strip()
        page.go("v=trace")
        assert page.value("range.cycles") == report["cycles"]
        assert not page.faults


def look_at_plans(tool, new_page, page):
    """The page with plans that a command of the page writes."""
    command, = re.findall(r"^    tremula (plan .* --html (\S+))", page, re.MULTILINE)
    answer = json.loads(tool.ok(*command[0].split(), "--json"))
    shown = new_page().open((tool.folder / command[1]).as_uri(), "plans")
    assert len(answer["cases"]) == 3
    bytes_of = shown.page.locator('#plans tr[data-key="worst_tile_bytes"] td').evaluate_all(
        "all => all.slice(1).map((one) => Number(one.dataset.value))")
    assert bytes_of == [case["memory"]["worst_tile_bytes"] for case in answer["cases"]]
    assert not shown.faults


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


def test_tensorflow_1(tool):
    lines = re.findall(r"^    (.*)", SESSIONS, re.MULTILINE)
    command = next(line for line in lines if line.startswith("tremula "))
    tool.write("train.py", SCRIPT + next(line for line in lines if line.startswith("tf.io.")))
    assert "nothing found" in tool.ok("check", "train.py")
    assert "IPUs: 1, which it fits" in tool("check", "--run", "train.py").stdout
    first, second = losses(tool, "-m", "tremula.tf1", "train.py")
    assert second < first
    text = tool.ok(*command.split()[1:])
    assert "trained with momentum\nModel size: 174 parameters" in text
    assert "First input: images f32[4,8,8,3]" in text


@pytest.mark.long
def test_images(tool, new_page):
    check_and_fix_images(tool)
    before = losses(tool, "train.py")
    prints(tool, texts(IMAGES)[1], "plan", "resnet.keras", "--batch", "16", "--training",
           "momentum")
    look_at_plans(tool, new_page, IMAGES)
    patch(tool, block(IMAGES, "diff"))
    after, profile = profiled(tool, "train.py", IMAGES)
    look(tool, new_page, profile)
    assert after == pytest.approx(before, rel=.05) and after[1] < .9 * after[0]


@pytest.mark.long
def test_texts(tool, new_page):
    tool.write("text.py", block(TEXTS, "python"))
    prints(tool, texts(TEXTS)[0], "check", "--run", "text.py", code=1)
    assert not (tool.folder / "text.keras").exists()
    fix(tool, "text.py", "nothing found")
    before = losses(tool, "text.py")
    prints(tool, texts(TEXTS)[1], "plan", "text.keras", "--batch", "16", "--training", "sgd",
           code=3)
    patch(tool, block(TEXTS, "diff"))
    after, profile = profiled(tool, "text.py", TEXTS)
    look(tool, new_page, profile)
    # On IPUs an epoch is one update: its first loss is that of the first weights.
    assert before[1] < before[0] < after[0] and after[1] < after[0]
