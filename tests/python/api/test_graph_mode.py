"""Programs of TensorFlow 1.15 that use it as tensorflow.compat.v1, run as they are."""

import os

import built
import interpreter
import pytest

from tremula.tf import graph_mode

USES = "x = tf.placeholder(tf.float32, [2])\n"
V1 = "import tensorflow.compat.v1 as tf\n"


@pytest.mark.parametrize("source, wanted", [
    (V1 + USES, True),
    ("import numpy\nfrom numpy import value\n" + V1 + USES, True),
    ("from tensorflow.compat import v1 as tf\nwith tf.Session() as sess:\n  pass", True),
    (V1 + "from tensorflow import keras\n" + USES, True),
    (V1 + "tf.disable_v2_behavior()\n" + USES, False),
    (V1 + "tf.enable_eager_execution()\n" + USES, False),
    (V1 + "import tensorflow as tf2\n" + USES, False),
    ("import tensorflow as tf\nwith tf.compat.v1.Session():\n  pass", False),
    (V1 + "print(tf.constant(1))", False),
    (V1 + "with tf.Graph().as_default():\n  " + USES, False),
    (V1 + "with tf.Graph().as_default():\n  " + USES + "  print(x.shape[0].value)", True),
    (V1 + "with tf.Session(graph=make()) as sess:\n  pass", False),
    (V1 + "tf.estimator.Estimator(lambda: 0)\ndef serve():\n  " + USES, False),
    (V1 + "tf.estimator.Estimator(lambda: 0)\nsess = tf.Session()", True),
    (V1 + "print(tf.constant(1).numpy())\ndef serve():\n  " + USES, False),
    (V1 + "if not tf.executing_eagerly():\n  " + USES, False),
    (V1 + "from tensorflow.compat.v1 import disable_v2_behavior\n" + USES, False),
    (V1 + "text = 'tf.placeholder'", False),
    (b"\x00", False), ("def", False), ("", False),
])
def test_what_a_program_wants(source, wanted):
    assert graph_mode.wants_graphs(source) is wanted


PROGRAM = """
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import utils

x = tf.placeholder(tf.float32, [2, 3])
cfg = utils.auto_select_ipus(utils.create_ipu_config(), 1)
utils.configure_ipu_system(cfg)
with ipu.scopes.ipu_scope("/device:IPU:0"):
    y, = ipu.ipu_compiler.compile(lambda x: x * x.shape[1].value, [x])
with tf.Session() as sess:
    print(sess.run(y, {x: [[1, 2, 3], [4, 5, 6]]}).tolist())
"""


@pytest.mark.parametrize("first, code", [("", 0), ("import tensorflow as tf2\n", 1)])
def test_a_program_that_does_not_say_it_wants_graphs(tmp_path, first, code):
    program = tmp_path / "program.py"
    program.write_text(first + PROGRAM)
    environment = {**os.environ, **built.variables(), "TREMULA_RUNTIME_DIR": str(tmp_path)}
    start = ("import sys, runpy, tremula._finder; sys.argv = sys.argv[1:]; "
             "runpy.run_path(sys.argv[0], run_name='__main__')")
    result = interpreter.run(["-c", start, program], env=environment)
    assert result.returncode == code, result.stderr[-2000:]
    if code == 0:
        assert result.stdout == "[[3.0, 6.0, 9.0], [12.0, 15.0, 18.0]]\n"
    else:
        assert "not compatible with eager execution" in result.stderr
