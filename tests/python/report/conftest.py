"""Fixtures: those of end-to-end tests, and profiles of programs run in processes of their own."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from end_to_end import *  # noqa: E402,F401,F403

PROGRAM = """
    import numpy as np
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    def network(x):
        with tf.variable_scope("first"):
            x = tf.layers.dense(x, 64, tf.nn.relu)
        with tf.variable_scope("second"):
            return tf.reduce_mean(tf.layers.dense(x, 10))
"""

UNFED = PROGRAM + """
    x = tf.placeholder(tf.float32, [32, 100])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(network, [x])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(6):
            session.run(result, {x: np.ones([32, 100], np.float32)})
"""

FED = PROGRAM + """
    data = tf.data.Dataset.from_tensors(np.ones([32, 100], np.float32)).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    def body(x):
        return outfeed.enqueue(network(x))
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(1000, body, [], infeed))
    with tf.Session() as session:
        session.run(infeed.initializer)
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(result)
"""


def largest(folder):
    """The directory of the program with the most steps; the others initialise variables."""
    import pva
    return max(folder.glob("tf_report__*"),
               key=lambda one: len(pva.openReport(str(one)).compilation.programs))


@pytest.fixture(scope="session")
def profiled(tmp_path_factory):
    """profiled(text, **options): runs a program in a folder of its own with autoReport.all and
    these options; returns the folder and the completed process."""
    import os
    import subprocess
    import textwrap
    root = pathlib.Path(__file__).resolve().parents[3]

    def run(text, options=None, check=True, **environment):
        folder = tmp_path_factory.mktemp("profile")
        wanted = {"autoReport.all": "true", **(options or {})}
        path = os.pathsep.join([str(root / "python"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", "import tremula._finder\n" + textwrap.dedent(text)], cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "POPLAR_ENGINE_OPTIONS": json.dumps(wanted),
                 **environment}, text=True, capture_output=True, timeout=120, check=False)
        assert not check or done.returncode == 0, done.stderr
        return folder, done
    return run


@pytest.fixture(scope="session")
def unfed(profiled):
    """The folder in which the program without feeds was run."""
    return profiled(UNFED)[0]


@pytest.fixture(scope="session")
def fed(profiled):
    """The folder in which the program with feeds was run."""
    return profiled(FED)[0]
