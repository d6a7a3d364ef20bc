"""tremula plan of SavedModels and GraphDefs: batch sizes, training, model size."""

import json
import os
import pathlib

import interpreter
import numpy as np
import pytest

MODELS = '''
import os
import tensorflow as tf
from tremula.tool import plan

class Network(tf.Module):
    """A convolution, batch normalisation, a dense layer, softmax."""
    def __init__(self):
        start = tf.random.stateless_normal
        self.kernel = tf.Variable(start([3, 3, 4, 16], [1, 2]), name="kernel")
        self.scale, self.offset = tf.Variable(tf.ones(16)), tf.Variable(tf.zeros(16))
        self.mean, self.variance = tf.Variable(tf.zeros(16)), tf.Variable(tf.ones(16))
        self.dense = tf.Variable(start([16, 10], [3, 4]))

    def logits(self, images):
        with tf.name_scope("first"):
            x = tf.nn.conv2d(images, self.kernel, 1, "SAME")
            x = tf.compat.v1.nn.fused_batch_norm(x, self.scale, self.offset, self.mean,
                                                 self.variance, is_training=False)[0]
            x = tf.nn.swish(x)  # its gradient is a custom one
        with tf.name_scope("last"):
            return tf.reduce_mean(x, [1, 2]) @ self.dense

    @tf.function(input_signature=[tf.TensorSpec([None, 16, 16, 4], name="images")])
    def serve(self, images):
        return {"probabilities": tf.nn.softmax(self.logits(images))}

    @tf.function(input_signature=[tf.TensorSpec([2, 16, 16, 4], name="images")])
    def fixed(self, images):
        return {"class": tf.argmax(self.logits(images), -1, tf.int32)}

network = Network()
tf.saved_model.save(network, "saved", signatures={"serving_default": network.serve,
                                                  "fixed": network.fixed})

with tf.Graph().as_default() as graph:  # not frozen
    x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
    w = tf.compat.v1.get_variable("layer/w", [3, 1], use_resource=True)
    tf.matmul(x, w, name="layer/y")
open("line.pb", "wb").write(graph.as_graph_def().SerializeToString())

with tf.Graph().as_default() as graph:  # of a batch of its own, and one that works on a part of it
    x = tf.compat.v1.placeholder(tf.float32, [4, 3], name="x")
    w = tf.compat.v1.get_variable("layer/w", [3, 1], use_resource=True)
    y = tf.matmul(x, w, name="layer/y")
    tf.identity(y[1:], "rest")
open("fixed.pb", "wb").write(graph.as_graph_def().SerializeToString())

with tf.Graph().as_default() as graph:  # a script's whole graph, with variables of TensorFlow 1
    x = tf.compat.v1.placeholder(tf.float32, [4, 3], name="x")
    labels = tf.compat.v1.placeholder(tf.float32, [4, 1], name="labels")
    w = tf.compat.v1.get_variable("layer/w", [3, 1], use_resource=False)
    with graph.colocate_with(w.initializer):
        y = tf.matmul(x, w, name="layer/y")
    loss = tf.reduce_mean((y - labels) ** 2, name="loss")
    tf.compat.v1.train.MomentumOptimizer(.1, .9).minimize(loss)
    tf.compat.v1.global_variables_initializer()
open("script.pb", "wb").write(graph.as_graph_def().SerializeToString())

# What the command line has done for it, in one process: TensorFlow takes long to start.
line = ["line.pb", "--feed", "x", "--fetch", "layer/y", "--batch", "4"]
saved = ["saved", "--batch", "8"]
for name, arguments in (("inference", saved), ("sgd", saved + ["--training", "sgd"]),
                        ("momentum", saved + ["--training", "momentum"]),
                        ("adam", saved + ["--training", "adam"]),
                        ("step", line + ["--training", "momentum"])):
    os.mkdir(name)
    plan.main([*arguments, "--folder", name])
'''
ROOT = pathlib.Path(__file__).resolve().parents[3]
# kernel, scale and offset, mean and variance, dense
TRAINED = 3 * 3 * 4 * 16 + 2 * 16 + 16 * 10
PARAMETERS = TRAINED + 2 * 16


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with the models."""
    folder = tmp_path_factory.mktemp("models")
    result = interpreter.run(["-c", MODELS], cwd=folder,
                             env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def small(tool):
    """A machine of which a batch of some dozens fills the memory."""
    tool.write("small.json", json.dumps({"base": "mk2", "name": "small", "tilesPerIPU": 4}))
    return "./small.json"


def plan(tool, *arguments, code=0):
    result = tool("plan", *arguments, "--json")
    assert result.returncode == code, (result.returncode, result.stderr)
    return json.loads(result.stdout)


def test_the_whole_graph_of_a_script(tool, models):
    """What assigns to a variable is no part of what is planned."""
    for more in ([], ["--feed", "labels"]):
        for training in ([], ["--training", "momentum"]):
            answer = plan(tool, models / "script.pb", "--feed", "x", *more, "--fetch", "layer/y",
                          *training)
            assert answer["parameters"] == {"count": 3, "bytes": 12}
            assert answer["input"]["name"] == "x"


@pytest.mark.smoke
def test_a_saved_model_by_batch_size_and_layer(tool, models):
    answer = plan(tool, models / "saved", "--batch", "1,8")
    assert answer["parameters"] == {"count": PARAMETERS, "bytes": 4 * PARAMETERS}
    assert (answer["input"]["name"], answer["input"]["shape"]) == ("images", [1, 16, 16, 4])
    one, eight = answer["cases"]
    assert (one["batch"], one["items"], eight["batch"], eight["items"]) == (1, 1, 8, 8)
    assert one["memory"]["peak_bytes"] < eight["memory"]["peak_bytes"]
    assert one["cycles"]["total"] < eight["cycles"]["total"]
    text = tool.ok("plan", models / "inference/8.hlo.pb")
    assert "\n  first  " in text and "\n  last  " in text


def test_the_largest_batch_that_fits_is_found(tool, models, small):
    text = tool("plan", models / "saved", "--target", small, "--batch", "1,2,8,1024,...")
    assert text.returncode == 0, text.stderr
    assert "The largest of these batch sizes that fits small, 1 IPU: 8\n" in text.stdout
    assert " 2048 " not in text.stdout  # 1024 does not fit
    answer = plan(tool, models / "saved", "--target", small, "--batch", "32,...")
    batches = [case["batch"] for case in answer["cases"]]
    fits = [case["fits"] for case in answer["cases"]]
    assert batches == [32 * 2 ** i for i in range(len(batches))] and len(batches) > 1
    assert fits == [True] * (len(fits) - 1) + [False]


def test_a_model_with_a_batch_of_its_own_gets_another(tool, models):
    answer = plan(tool, models / "saved", "--signature", "fixed", "--batch", "8")
    assert answer["input"] == {"name": "images", "type": "f32", "shape": [8, 16, 16, 4]}
    own, = answer["cases"]
    free, = plan(tool, models / "inference/8.hlo.pb")["cases"]
    assert (own["batch"], own["items"]) == (8, 8)
    first, same = (next(layer for layer in case["layers"] if layer["name"] == "first")
                   for case in (own, free))
    assert first["cycles"] == same["cycles"] and first["flops"] == same["flops"]


def test_a_graph_with_a_batch_of_its_own_gets_another(tool, models):
    fixed = plan(tool, models / "fixed.pb", "--feed", "x", "--fetch", "layer/y", "--batch", "4,8")
    free = plan(tool, models / "line.pb", "--feed", "x", "--fetch", "layer/y", "--batch", "4,8")
    for own, other in zip(fixed["cases"], free["cases"]):
        assert own["items"] == own["batch"]
        assert (own["cycles"], own["memory"]) == (other["cycles"], other["memory"])
    said = tool("plan", models / "fixed.pb", "--feed", "x", "--fetch", "rest", "--batch", "8")
    assert said.returncode == 1
    assert "slice(...) (strided_slice) works on a part of it" in said.stderr


def test_training_needs_more_than_inference(tool, models):
    inference, sgd, momentum, adam = (
        plan(tool, models / name / "8.hlo.pb")["cases"][0]
        for name in ("inference", "sgd", "momentum", "adam"))
    peaks = [case["memory"]["peak_bytes"] for case in (inference, sgd, momentum, adam)]
    assert peaks == sorted(peaks) and len(set(peaks)) == 4
    assert sgd["cycles"]["compute"] > 1.5 * inference["cycles"]["compute"]

    def state(case):
        return sum(layer["weights_bytes"] for layer in case["layers"])

    assert state(momentum) - state(sgd) == pytest.approx(4 * TRAINED, abs=64)
    assert state(adam) - state(sgd) == pytest.approx(8 * TRAINED, abs=64)
    first, forward = (next(layer for layer in case["layers"] if layer["name"] == "first")
                      for case in (sgd, inference))
    assert first["cycles"] > 1.5 * forward["cycles"]


def test_the_command_line_plans_training(tool, models):
    answer = plan(tool, models / "saved", "--batch", "8", "--training", "sgd")
    assert answer["training"] == "sgd" and answer["parameters"]["count"] == PARAMETERS
    same, = plan(tool, models / "sgd/8.hlo.pb")["cases"]
    case, = answer["cases"]
    assert case["items"] == 8 and case["cycles"] == same["cycles"]


def test_a_training_step_computes_what_it_says(tool, models):
    """One step of momentum on a mean squared difference, by numpy."""
    tool.ok("compile", models / "step/4.hlo.pb", "-o", "step.poplar_exec")
    rng = np.random.default_rng(1)
    x, target = rng.random((4, 3), np.float32), rng.random((4, 1), np.float32)
    w, v = rng.random((3, 1), np.float32), rng.random((3, 1), np.float32)
    values = {"x": x, "target": target, "layer/w": w, "layer/w/momentum": v}
    inputs = [one for i, (name, value) in enumerate(values.items())
              for one in ("--input", f"{name}={tool.save(f'in{i}.npy', value)}")]
    tool.ok("run", "step.poplar_exec", *inputs, "--output", "out")
    difference = x @ w - target
    v = .9 * v + 2 / 4 * x.T @ difference
    np.testing.assert_allclose(tool.load("out/loss.npy"), (difference ** 2).mean(), rtol=1e-5)
    np.testing.assert_allclose(tool.load("out/layer_w_momentum.npy"), v, rtol=1e-5)
    np.testing.assert_allclose(tool.load("out/layer_w.npy"), w - .01 * v, rtol=1e-5)


def test_training_updates_in_place_and_normalises_by_the_batch(tool, models):
    text = tool.ok("print", models / "sgd/8.hlo.pb")
    # Four trained weights and two moving averages.
    assert text.splitlines()[0].count("may-alias") == 6
    assert "batch-norm-training" in text and "batch-norm-grad" in text
    assert "s32[8]" in text  # labels


def test_a_graph_with_variables(tool, models):
    model = (models / "line.pb", "--feed", "x", "--fetch", "layer/y")
    answer = plan(tool, *model, "--batch", "16")
    assert answer["parameters"] == {"count": 3, "bytes": 12}
    assert answer["cases"][0]["items"] == 16 and answer["input"]["name"] == "x"


def test_complaints(tool, models):
    saved = models / "saved"
    assert "give its shape with --shape images=DIMS" in tool.fails("plan", saved)
