"""SavedModels with a compiled part run where only the plugin is loaded, without our Python."""

import os
import sys
import textwrap

import interpreter
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

LOAD = """
    import os, sys
    import tensorflow.compat.v1 as tf
    from tensorflow.python.framework import load_library
    load_library.load_pluggable_device_library(
        os.path.join(os.environ["TREMULA_LIBRARY_DIR"], "libtremula_tf.so"))
    {before}
    tf.disable_eager_execution()
    with tf.Session() as s:
        model = tf.saved_model.load(s, ["serve"], sys.argv[1])
        signature = model.signature_def["serving_default"]
        x, y = signature.inputs["x"].name, signature.outputs["y"].name
        print("ran:", [s.run(y, {{x: [1, 2]}}).tolist() for _ in range(2)])
    print("ours:", [name for name in sys.modules if name.startswith("tremula.tf")] != [])
"""


@pytest.fixture
def saved(tmp_path):
    """Saves a program that counts, for an input of a shape; returns the folder."""
    def save(shape, write):
        with tf.Graph().as_default(), tf.Session() as s:
            with tf.device("cpu"):
                x = tf.placeholder(tf.float32, shape)

            def computation(x):
                v = tf.get_variable("v", [], initializer=tf.ones_initializer())
                return x * 2. + v.assign_add(1.)

            with ipu.scopes.ipu_scope("/device:IPU:0"):
                y, = ipu.ipu_compiler.compile(computation, [x])
            s.run(tf.global_variables_initializer())
            s.run(y, {x: [0, 0]})
            write(s, str(tmp_path / "model"), {"x": x}, {"y": y})
        return str(tmp_path / "model")
    return save


def build(session, folder, inputs, outputs):
    builder = tf.saved_model.Builder(folder)
    signature = tf.saved_model.predict_signature_def(inputs, outputs)
    builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
    builder.save()


def run(folder, tmp_path, before=""):
    text = textwrap.dedent(LOAD.format(before=before))
    return interpreter.run(["-c", text, folder],
                           env={**os.environ, "TREMULA_RUNTIME_DIR": str(tmp_path)})


@pytest.mark.parametrize("write", [
    lambda *arguments: tf.saved_model.simple_save(*arguments), build], ids=["simple", "builder"])
def test_model_runs_without_python(saved, tmp_path, write):
    done = run(saved([2], write), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ran: [[5.0, 7.0], [6.0, 8.0]]" in done.stdout
    assert "ours: False" in done.stdout
    assert "attached to IPU" in done.stderr


def test_unknown_shapes_need_python(saved, tmp_path):
    folder = saved([None], build)
    done = run(folder, tmp_path)
    assert done.returncode != 0
    assert "the shapes of this program are known only when it runs" in done.stderr
    assert "Import tensorflow.python.ipu" in done.stderr
    path = os.path.dirname(os.path.dirname(sys.modules["tremula"].__file__))
    done = run(folder, tmp_path, f"sys.path.insert(0, {path!r}); import tremula._finder; "
               "from tensorflow.python import ipu")
    assert done.returncode == 0, done.stderr
    assert "ran: [[5.0, 7.0], [6.0, 8.0]]" in done.stdout
