"""The TensorFlow 1 runner."""

import importlib.util
import os
import pathlib

import interpreter
import pytest

PYTHON = pathlib.Path(__file__).resolve().parents[3] / "python"

SCRIPT = '''
import logging
import sys
import numpy as np
import tensorflow as tf
import tensorflow.contrib.layers
from tensorflow.contrib.compiler import xla
from tensorflow.keras.layers import Dense
from tensorflow.python import ipu
from tensorflow_core.python.keras.backend import unique_object_name

assert __name__ == "__main__" and sys.argv == [__file__, "--flag", "x"]
assert sys.path[0].endswith("scripts"), sys.path[0]
assert tf.python.ipu is ipu and Dense is tf.keras.layers.Dense
import tensorflow.pywrap_tensorflow
from tensorflow import pywrap_tensorflow
from tensorflow.python import pywrap_tensorflow as inner

assert tf.pywrap_tensorflow is pywrap_tensorflow is inner
assert pywrap_tensorflow.NewCheckpointReader is tf.train.NewCheckpointReader
assert ipu.data.ops.dataset_ops.BufferDataset
tf.set_random_seed(1)
assert not tf.executing_eagerly() and tf.Session and xla.compile
assert np.float is float and np.bool and np.product([2, 3]) == 6
assert unique_object_name("conv", zero_based=True) == "conv"

kernel = tf.get_variable("w", shape=[3, 3, tf.Dimension(128).value / 32, tf.Dimension(8) / 1],
                         dtype=tf.float16,
                         initializer=tf.contrib.layers.xavier_initializer(dtype=tf.float16))
assert kernel.shape[2].value == 4 and kernel.dtype.base_dtype == tf.float16
try:
    tf.get_variable("half", shape=[2.5])
except ValueError as error:
    assert "Ambiguous dimension: 2.5" in str(error)
other = tf.get_variable("o", [64, 64], initializer=tf.variance_scaling_initializer(),
                        regularizer=tf.contrib.layers.l2_regularizer(0.1))
x = tf.placeholder(tf.float16, [2, 8, 8, 4])
y = tf.layers.batch_normalization(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], padding="SAME"),
                                  fused=True)
assert {one.dtype.base_dtype for one in tf.global_variables()[-4:]} == {tf.float16}
resource = tf.get_variable("r", [], use_resource=True)
variables = resource, resource.assign_add(1), kernel, other
assert all(isinstance(one, tf.Variable) for one in variables)
assert not isinstance(x, tf.Variable) and not isinstance(kernel, type(resource))
loss = tf.reduce_sum(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)[0])
data = tf.data.Dataset.range(1).map(lambda k: {"a": tf.cast(k, tf.float32)})
for name in ("tf.contrib.crf", "tf.contrib.rnn.fully_connected", "tf.nothing"):
    try:
        eval(name)
    except AttributeError as error:
        assert name.rpartition(".")[2] in str(error)
    else:
        raise AssertionError(name)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    assert session.run(y, {x: np.ones([2, 8, 8, 4])}).dtype == np.float16
    values = session.run(kernel).astype(np.float32)
    assert abs(values.std() - (2. / (9 * (4 + 8))) ** .5) < .02, values.std()
    np.testing.assert_allclose(session.run(loss), .05 * (session.run(other) ** 2).sum(), rtol=1e-4)
logging.warning("logged")
print("done")
'''


def run(tmp_path, source, *arguments):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    script = scripts / "script.py"
    script.write_text(source)
    environment = dict(os.environ, PYTHONPATH=str(PYTHON))
    return interpreter.run(["-m", "tremula.tf1", script, *arguments], env=environment)


def test_a_tensorflow_1_script(tmp_path):
    result = run(tmp_path, "import tremula._finder\n" + SCRIPT, "--flag", "x")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "done\n"
    assert "WARNING:root:logged" in result.stderr
    assert "AutoGraph" not in result.stderr and "deprecated" not in result.stderr


def test_a_traceback_is_the_scripts(tmp_path):
    result = run(tmp_path, "def f():\n  raise RuntimeError('no')\nprint(1)\nf()\n")
    assert result.returncode == 1 and result.stdout == "1\n"
    trace = result.stderr[result.stderr.index("Traceback"):]
    assert trace.count('File "') == 2 and "tremula" not in trace
    assert trace.rstrip().endswith("RuntimeError: no")


TRAINS = '''
import tensorflow as tf
from tensorflow.python import ipu


def model_fn(features, labels, mode):
    step = tf.get_variable("step", initializer=0.0)
    return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(features.pop("x")),
                                      train_op=step.assign_add(1.0))


config = ipu.ipu_run_config.RunConfig(
    ipu_run_config=ipu.ipu_run_config.IPURunConfig(iterations_per_loop=2))
estimator = ipu.ipu_estimator.IPUEstimator(model_fn, config=config)
estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0])).repeat(), steps=4)
print(estimator.get_variable_value("step"))
'''


@pytest.mark.skipif(importlib.util.find_spec("tensorflow_estimator") is None,
                    reason="this TensorFlow has no estimators")
def test_an_estimator_whose_train_op_is_an_assignment(tmp_path):
    result = run(tmp_path, "import tremula._finder\n" + TRAINS)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout == "4.0\n"


def command(folder, *arguments):
    return interpreter.run(
        ["-m", "tremula.tf1", *arguments], cwd=folder,
        env=dict(os.environ, PYTHONPATH=str(PYTHON)))


def test_modules_and_texts(tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("import tensorflow as tf\nSESSION = tf.Session\n")
    (tmp_path / "pack/__main__.py").write_text(
        "import sys\nfrom . import SESSION\n"
        "print(__name__, __package__, sys.argv[1:], sys.argv[0] == __file__, SESSION.__name__)\n")
    (tmp_path / "pack/fails.py").write_text("import os\nimport no_such_module\n")
    done = command(tmp_path, "-m", "pack", "-x", "y")
    assert done.stdout == "__main__ pack ['-x', 'y'] True Session\n", done.stderr
    done = command(tmp_path, "-c", "import sys, pack, tensorflow as tf\n"
                   "print(sys.argv, tf.__version__)", "z")
    assert done.stdout == "['-c', 'z'] 1.15.5\n", done.stderr
    done = command(tmp_path, "-m", "pack.fails")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("No module named 'no_such_module'")
    assert "tremula" not in done.stderr[done.stderr.index("Traceback"):]
    for arguments, code, text in ((["-m", "pack.none"], 1, "No module named pack.none"),
                                  (["-m"], 2, "usage"), (["-x"], 2, "unknown option -x"),
                                  (["-c", "1 +"], 1, "SyntaxError")):
        done = command(tmp_path, *arguments)
        assert done.returncode == code and text in done.stderr, done.stderr


def test_exit_codes(tmp_path):
    result = run(tmp_path, "import sys\nsys.exit(3)\n")
    assert result.returncode == 3
    missing = command(PYTHON, "/nowhere.py")
    assert missing.returncode == 2 and "/nowhere.py" in missing.stderr
    usage = command(PYTHON)
    assert usage.returncode == 2 and "usage" in usage.stderr
