"""SavedModels and GraphDefs, through the TensorFlow of the interpreter that runs pytest."""

import json
import os
import re
import sys

import interpreter
import numpy as np
import pytest

MODELS = '''
import numpy as np
import tensorflow as tf

class Model(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(np.arange(8, dtype="f4").reshape(4, 2))
        self.table = tf.Variable([0.5, 0.25])

    # The names are not in the order of the arguments, one input is not used, there is a loop.
    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="zeta"),
                                  tf.TensorSpec([2], tf.float32, name="alpha"),
                                  tf.TensorSpec([], tf.int32, name="unused")])
    def serve(self, zeta, alpha, unused):
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * self.table),
                             [0, tf.matmul(zeta, self.weights) + alpha])
        return {"probabilities": tf.nn.softmax(y), "logits": y}

    @tf.function(input_signature=[tf.TensorSpec([2], tf.string, name="text")])
    def words(self, text):
        return {"length": tf.strings.length(text)}

model = Model()
tf.saved_model.save(model, "saved", signatures={"serving_default": model.serve,
                                                "words": model.words})

with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="in/x")
    y = tf.compat.v1.placeholder(tf.float32, [3], name="in/y")
    top, index = tf.math.top_k(x * 2. + y, k=2, name="out/top")
    variable = tf.compat.v1.get_variable("v", [3], use_resource=True)
    tf.add(variable, 1., name="out/variable")
open("graph.pb", "wb").write(graph.as_graph_def().SerializeToString())
open("graph.pbtxt", "w").write(str(graph.as_graph_def()))
'''


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with the models."""
    folder = tmp_path_factory.mktemp("models")
    result = interpreter.run(["-c", MODELS], cwd=folder,
                             env=os.environ)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.smoke
def test_saved_model(tool, models):
    text = tool.ok("compile", models / "saved", "-o", "m.poplar_exec", "--shape", "zeta=3,4",
                   TREMULA_PYTHON=sys.executable)
    assert re.match(r"wrote m.poplar_exec: 3 inputs, 2 outputs", text)
    zeta = np.random.RandomState(1).randn(3, 4).astype(np.float32)
    alpha = np.array([1, -1], np.float32)
    tool.save("z.npy", zeta)
    tool.save("a.npy", alpha)
    tool.save("u.npy", np.int32(3))
    tool.ok("run", "m.poplar_exec", "--input", "zeta=z.npy", "--input", "unused=u.npy", "--input",
            "alpha=a.npy", "--output", "out")
    logits = (zeta @ np.arange(8, dtype="f4").reshape(4, 2) + alpha) * [0.5 ** 3, 0.25 ** 3]
    np.testing.assert_allclose(tool.load("out/logits.npy"), logits, rtol=1e-5)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(tool.load("out/probabilities.npy"),
                               powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)
    assert sorted(os.listdir(tool.folder / "out")) == ["logits.npy", "probabilities.npy"]
    assert "the input 'alpha' (number 0, f32[2]) is missing" in tool.fails("run", "m.poplar_exec")


# Several runs of tremula.tool.lower in one process.
SEVERAL = """
import contextlib, io, json, sys
from tremula.tool import lower
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            lower.main()
            code = 0
        except SystemExit as end:
            code = end.code
    print(json.dumps([code, said.getvalue()]))
"""


def complaints(tool, *runs):
    """The message of each run, all of which must fail."""
    runs = [[*map(str, arguments), "--output", "lowered.pb"] for arguments in runs]
    result = interpreter.run(["-c", SEVERAL, json.dumps(runs)], env=tool.environment,
                             cwd=tool.folder)
    assert result.returncode == 0, result.stderr
    messages = []
    for line in result.stdout.splitlines():
        code, text = json.loads(line)
        assert code == 3 and text.startswith("tremula: ") and text.count("\n") == 1, text
        messages.append(text.removeprefix("tremula: ").rstrip())
    assert len(messages) == len(runs)
    return messages


def test_what_is_wrong_with_a_saved_model_is_said(tool, models):
    saved = models / "saved"
    (tool.folder / "empty").mkdir()
    unknown, misfit, signature, text, misnamed, empty = complaints(
        tool, [saved], [saved, "--shape", "zeta=3,5"], [saved, "--signature", "other"],
        [saved, "--signature", "words"], [saved, "--shape", "zeta=3,4", "--shape", "beta=1"],
        ["empty"])
    assert unknown == ("the input 'zeta' has the shape [?,4], but an IPU program is static: give "
                       "its shape with --shape zeta=DIMS")
    assert misfit == "the input 'zeta' has the shape [?,4], which --shape zeta=3,5 does not fit"
    assert signature.endswith("has no signature 'other'. It has: serving_default, words")
    assert text == "the input 'text' is of the type string, which an IPU does not have"
    assert misnamed.startswith("--shape names 'beta', which is not an input. The inputs are: alpha")
    assert empty == "empty is a folder without a saved_model.pb, so not a SavedModel"


def test_a_message_from_python_is_the_only_one(tool, models):
    assert tool.fails("compile", models / "saved", "-o", "x").startswith("the input 'zeta' has")
    assert "--feed and --fetch are for GraphDefs" in tool.fails(
        "compile", models / "saved", "-o", "x", "--fetch", "y")
    graph = models / "graph.pb"
    assert tool.fails("compile", graph, "-o", "x").endswith(
        "If it is a GraphDef, name its outputs with --fetch")
    assert "needs --fetch" in tool.fails("compile", graph, "-o", "x", "--feed", "in/x")
    assert "--signature is for a SavedModel" in tool.fails("compile", graph, "-o", "x",
                                                           "--signature", "y")


@pytest.mark.parametrize("file", ["graph.pb", "graph.pbtxt"])
def test_graph(tool, models, file):
    tool.ok("compile", models / file, "-o", "g.poplar_exec", "--feed", "in/x:f32[2,3]", "--feed",
            "in/y", "--fetch", "out/top:1", "--fetch", "out/top")
    tool.save("x.npy", np.array([[1, 5, 2], [9, 7, 8]], np.float32))
    tool.save("y.npy", np.array([0, -1, 100], np.float32))
    tool.ok("run", "g.poplar_exec", "--input", "in/x=x.npy", "--input", "in/y=y.npy", "--output",
            "out")
    np.testing.assert_array_equal(tool.load("out/out_top_1.npy"), [[2, 1], [2, 0]])
    np.testing.assert_array_equal(tool.load("out/out_top.npy"), [[104, 9], [116, 18]])


def test_what_is_wrong_with_a_graph_is_said(tool, models):
    graph = models / "graph.pb"
    tool.write("text.pbtxt", "this is no graph")
    node, tensor, fed, frozen, syntax, dtype, content, missing = complaints(
        tool, [graph, "--fetch", "nothing"], [graph, "--fetch", "out/top:7"],
        [graph, "--feed", "in/x:f32[2,3]", "--fetch", "out/top"],
        [graph, "--fetch", "out/variable"], [graph, "--fetch", "out/top", "--feed", "in/x:f32["],
        [graph, "--fetch", "out/top", "--feed", "in/x:f33[2]"],
        ["text.pbtxt", "--fetch", "y"], ["missing.pb", "--fetch", "y"])
    assert node.endswith("has no node 'nothing'")
    assert "has no tensor 'out/top:7'" in tensor
    assert fed.endswith("needs the placeholder 'in/y': name it with --feed in/y")
    assert "has the variable 'v'; freeze it first" in frozen
    assert syntax.startswith("--feed wants NAME or NAME:TYPE[DIMS]")
    assert dtype.startswith("'f33' in --feed in/x:f33[2] is not a type")
    assert content.startswith("text.pbtxt is no GraphDef")
    assert missing == "cannot open missing.pb: No such file or directory"


@pytest.mark.smoke
def test_ops(tool):
    rows = dict(line.split(None, 1) if " " in line else (line, "")
                for line in tool.ok("ops").splitlines())
    assert len(rows) > 300
    assert "T=" in rows["MatMul"] and "float16" in rows["MatMul"]
    assert "float64" not in rows["MatMul"]
    assert "Conv2D" in rows and "FFT" not in rows


def test_what_check_says_of_models(tool, models):
    ran = tool("check", models / "saved")
    assert ran.returncode == 1 and f"{models}/saved:1:1: error: the input 'zeta'" in ran.stdout
    assert "1 file: 1 error" in ran.stdout and "[unknown-shape]" in ran.stdout
    assert "nothing found" in tool.ok("check", models / "saved", "--shape", "zeta=3,4")
    words = tool("check", models / "saved", "--signature", "words").stdout
    assert "is the op StringLength, which an IPU does not have [unsupported-op]" in words
    assert "1 file: 1 error" in tool("check", models / "graph.pb").stdout
    assert "graph.pbtxt:1:1: error: the input 'in/x' has the shape [?, 3]" in tool(
        "check", models / "graph.pbtxt").stdout
    assert tool.fails("check", models / "saved", "--shape", "beta=1").startswith(
        "--shape names 'beta', which is not an input")
    assert tool.fails("check", models / "saved", "--signature", "no") == \
        f"{models}/saved has no signature 'no'. It has: serving_default, words"


@pytest.mark.parametrize("command", [["check", "m.keras"], ["check", "--run", "script.py"],
                                     ["plan", "m.keras", "--batch", "1"], ["ops"],
                                     ["compile", "m.keras", "-o", "x"]])
def test_a_tensorflow_that_cannot_be_imported(tool, command):
    (tool.folder / "tensorflow").mkdir()
    tool.write("tensorflow/__init__.py", "raise ImportError('libfoo.so.1 is missing')")
    for name in ("script.py", "m.keras"):
        tool.write(name, "")
    path = os.pathsep.join([str(tool.folder), tool.environment["PYTHONPATH"]])
    message = tool.fails(*command, PYTHONPATH=path, TREMULA_PYTHON=sys.executable)
    assert "cannot import its TensorFlow: libfoo.so.1 is missing" in message
