"""`tremula check --run`: what is found in the graphs of scripts, which train nothing meanwhile."""

import itertools
import json
import pathlib

import pytest

from tremula.check import rules
from tremula.check.running import loops

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = ROOT / "tests/data/check"
RULES = rules.load()


def findings(tool, *arguments, code=1):
    """({(line, rule)}, the answers) of a script that is run with arguments."""
    ran = tool("check", "--run", "--json", *arguments)
    assert ran.returncode == code, ran.stderr + ran.stdout
    report = json.loads(ran.stdout)
    return {(one["line"], one["rule"]) for one in report["findings"]}, report["answers"]


# ---- Keras ----

KERAS = """import sys
import numpy as np
import tensorflow as tf

size = int(sys.argv[1])
model = tf.keras.Sequential([
    tf.keras.layers.Dense(8, input_shape=(4,)),
    tf.keras.layers.Lambda(lambda x: x * tf.stop_gradient(tf.linalg.lu(x[:, None, :1])[0][:, 0])),
])
model.compile("sgd", "mse")
before = model.get_weights()[0].copy()
history = model.fit(np.ones([20, 4]), np.ones([20, 8]), batch_size=size, epochs=5)
assert len(history.history["loss"]) == 5
assert (model.get_weights()[0] == before).all()
assert model.predict(np.ones([7, 4])).shape == (7, 8)
model.save("model.h5")
assert tf.keras.models.load_model("model.h5").count_params() == 40
print("done")
open("end", "w").close()
"""


@pytest.mark.long
def test_keras(tool):
    tool.write("train.py", KERAS)
    found, answers = findings(tool, "train.py", "8")
    assert (tool.folder / "end").exists() and not (tool.folder / "model.h5").exists()
    assert found == {(8, "unsupported-op"), (12, "unknown-shape")}
    assert answers["size"].startswith("no step could be planned")
    assert answers["training or inference"].startswith("training, by train.py:12")
    lu = "tf.stop_gradient(tf.linalg.lu(x[:, None, :1])[0][:, 0])"
    assert lu in KERAS
    tool.write("train.py", KERAS.replace(lu, "x"))
    found, answers = findings(tool, "train.py", "5", code=0)
    assert found == set()
    assert answers["size"].startswith("the step of train.py:12 needs ")
    assert answers["IPUs"].startswith("1, which it fits")


RECURRENT = """import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Input((12, 4)), tf.keras.layers.%s(8)])
model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensors((np.zeros([12, 4], "float32"), np.zeros([8], "float32")))
model.fit(data.repeat(16).batch(8, drop_remainder=True))
whole = data.repeat(18).batch(8, drop_remainder=True)
part = data.repeat(18).batch(8).map(lambda x, y: x)  # tremula: ignore[drop-remainder]
assert model.predict(whole).shape == (16, 8) and model.predict(whole, steps=1).shape == (8, 8)
assert model.predict(part).shape == (18, 8)
"""


@pytest.mark.long
@pytest.mark.parametrize("layer", ["LSTM", "GRU"])
def test_recurrent_layers_become_programs(tool, layer):
    """Keras 2 asks in its own way whether a loop is for XLA and has a known end. A prediction is
    as long as its dataset."""
    tool.write("train.py", RECURRENT % layer)
    found, answers = findings(tool, "train.py")
    assert found == {(11, "unknown-shape")}
    assert answers["size"].startswith("the step of train.py:7 needs ")


# ---- Sessions ----

SESSION = """import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()

x = tf.placeholder(tf.float32, [16, 4])
w = tf.get_variable("w", [4, 4])
y = tf.cast(tf.cholesky(tf.cast(tf.matmul(x, w), tf.float64)[:4]), tf.float32)
loss = tf.reduce_mean(tf.py_func(np.sinc, [y], tf.float32)) + tf.reduce_mean(tf.matmul(x, w))
train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
tf.summary.scalar("loss", loss)
saver = tf.train.Saver()
merged = tf.summary.merge_all()
with tf.train.MonitoredTrainingSession(checkpoint_dir="logs") as session:
    step = 0
    while not session.should_stop():
        value, _, _ = session.run([loss, train, merged], {x: np.zeros([16, 4])})
        step += 1
assert value == 0.0 and step == 8
raise ValueError("the end")
"""


def test_session(tool):
    tool.write("train.py", SESSION)
    found, answers = findings(tool, "train.py")
    assert found == {(7, "float64"), (8, "host-call"), (16, "feed-without-queue"),
                     (19, "script-fails")}
    assert answers["training or inference"] == "training, by train.py:16; 1 step traced"
    assert answers["static shapes"].startswith("yes")
    assert not (tool.folder / "logs").exists()


# ---- Functions ----

STRATEGY = """import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    w = tf.Variable(tf.ones([8, 8]))
"""

FUNCTION = STRATEGY + """

@tf.function(jit_compile=True)
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.matmul(x, w) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss


for number in range(1000000000):
    loss = strategy.run(step, args=[tf.ones([4, 8])])
assert loss.numpy() == 0.0 and number == 8, (loss, number)
assert w.numpy().min() == 1.0
"""


def test_function_for_an_ipu(tool):
    tool.write("train.py", FUNCTION)
    found, answers = findings(tool, "train.py", code=0)
    assert found == set()
    assert answers["size"].startswith("the step of train.py:21 needs ")
    assert answers["training or inference"] == "training, by train.py:21; 1 step traced"


@pytest.mark.parametrize("ids, message", [
    ("config.select_ipus = [18, 17]", None),
    ("config = ipu.utils.select_ipus(ipu.utils.create_ipu_config(), [0])", None),
    ("config.select_ipus = [1, 1]", "must be unique")])
def test_selected_ipus(tool, ids, message):
    """The machine that checks may have none of them free."""
    script = FUNCTION.replace("config.auto_select_ipus = 1", ids)
    if "utils" in ids:
        script = script.replace("config.configure_ipu_system()",
                                "ipu.utils.configure_ipu_system(config)")
    tool.write("train.py", script)
    said = tool("check", "--run", "train.py").stdout
    assert ("script-fails" in said) == (message is not None) and (message or "") in said



NATIVE = """import tensorflow as tf

tf.app.flags.DEFINE_integer("units", 4, "how many")


def main(_):
    x = tf.placeholder(tf.float32, [16, 4])
    y = tf.contrib.layers.fully_connected(x, tf.app.flags.FLAGS.units)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(y))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {x: [[1, 2, 3, 4]] * 16})


tf.app.run()
"""


def test_a_script_for_tensorflow_1_alone(tool):
    """It runs as `python -m tremula.tf1` would run it."""
    tool.write("train.py", NATIVE)
    found, answers = findings(tool, "train.py", "--units=8", code=0)
    assert found == set()
    assert answers["training or inference"].startswith("training, by train.py:12")
    assert answers["size"].startswith("the step of train.py:12 needs ")


PRINTING = """import tensorflow as tf

data = tf.data.Dataset.from_tensors(tf.ones([4, 8])).repeat(9)
data = data.map(lambda x: (x, tf.ones([4], tf.int64)))
w = tf.Variable(tf.ones([8, 8]))


@tf.function
def step(x, labels):
    loss = tf.reduce_mean(tf.matmul(x, w))
    tf.print("loss", loss, tf.reduce_sum(labels))
    if loss > 100.0:
        tf.print("far", loss)
    return loss


for x, labels in data:
    loss = step(
        x, labels)
"""


def test_a_step_that_prints(tool):
    """It can be planned. What reading has found is not said again of another line."""
    tool.write("train.py", PRINTING)
    found, answers = findings(tool, "train.py")
    assert found == {(4, "int64"), (18, "feed-without-queue")}
    assert answers["size"].startswith("the step of train.py:18 needs ")


@pytest.mark.long
@pytest.mark.parametrize("rule", [one for one in RULES.values() if one.needs_run],
                         ids=lambda rule: rule.id)
def test_rule(tool, rule):
    tool.write("bad.py", rule.bad)
    assert {one for _, one in findings(tool, "bad.py")[0]} == {rule.id}
    tool.write("good.py", rule.good)
    assert findings(tool, "good.py", code=0)[0] == set()


# ---- Loops ----

def test_loops_end_after_steps(tmp_path):
    (tmp_path / "a.py").write_text("for x in items:\n    seen.append(x)\n    do(x)\n"
                                   "else:\n    seen.append('else')\n")
    code, steps = loops.compiled((tmp_path / "a.py").read_bytes(), "a.py"), itertools.count()
    count = [0]

    def run(does):
        seen = []
        values = {"items": range(50), "seen": seen, "do": does,
                  "__tremula_loops__": loops.Loops(lambda: count[0])}
        exec(code, values)  # pylint: disable=exec-used
        return seen

    assert run(lambda _: None) == [*range(50), "else"]  # no step
    assert run(lambda _: count.append(next(steps)) or count.__setitem__(0, len(count))) == list(
        range(8))


# ---- Programs of many styles ----

@pytest.mark.parametrize("arguments, message", [
    (["--run"], "say which script or MODEL to check"),
    (["--run", "missing.py"], "cannot read missing.py"),
    (["x.py", "--run"], "write --run before the script"),
])
def test_usage(tool, arguments, message):
    assert tool.fails("check", *arguments, code=2).startswith(message)


@pytest.mark.long
@pytest.mark.parametrize("script", [
    *sorted(DATA.glob("*.py")), *sorted(DATA.glob("chapter/*.py")),
    *sorted(DATA.glob("public/*.py")), DATA / "public/census/task.py", DATA / "project/train.py",
    DATA / "public/hub_like/train.py", DATA / "public/vit_project/main.py"],
    ids=lambda path: path.stem)
def test_no_script_stops_the_check(tool, script):
    ran = tool("check", "--run", script)
    assert ran.returncode in (0, 1) and ran.stderr == "", ran.stderr
    assert [line.split(":")[0] for line in ran.stdout.splitlines()[-5:]] == [
        "size", "training or inference", "static shapes", "IPUs", "next"]


# ---- Estimators and outfeeds ----

ESTIMATOR = """import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()


def input_fn():
    data = tf.data.Dataset.from_tensor_slices((np.zeros([64, 4], np.float32),
                                               np.zeros([64], np.int32)))
    return data.repeat().batch(16, drop_remainder=True)


def model_fn(features, labels, mode):
    logits = tf.layers.dense(features, 2)
    classes = tf.argmax(logits, axis=-1, output_type=tf.int32)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"class": classes, "logits": logits})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    accuracy = tf.metrics.accuracy(labels, classes)
    train_op = tf.train.AdamOptimizer().minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op,
                                      eval_metric_ops={"how right": accuracy})


config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
estimator = ipu.ipu_estimator.IPUEstimator(model_fn, config=ipu.ipu_run_config.RunConfig(
    ipu_run_config=ipu.ipu_run_config.IPURunConfig(iterations_per_loop=2, ipu_options=config)))
estimator.train(input_fn, steps=4)
assert set(estimator.evaluate(input_fn, steps=2)) >= {"loss", "how right"}
found = list(estimator.predict(lambda: input_fn().map(lambda x, _: x), num_predictions=50))
assert len(found) == 50 and found[0]["class"] == 0 and found[0]["logits"].shape == (2,)
batch = next(estimator.predict(input_fn, yield_single_examples=False))
assert batch["logits"].shape == (16, 2)
raise ValueError("the end")
"""

# A dataset with a state, which a one-shot iterator cannot take.
RANDOM_DATA = """import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()


def input_fn():
    return tf.data.Dataset.from_tensor_slices(tf.random.uniform([64, 4])).batch(16, True)


def model_fn(features, labels, mode):
    loss = tf.reduce_mean(tf.layers.dense(features, 2))
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=tf.train.AdamOptimizer().minimize(loss))


tf.estimator.Estimator(model_fn).train(input_fn, steps=4)
raise ValueError("the end")
"""

# Two programs, of which the step that is fed twice trains nothing.
TWO_PROGRAMS = """import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [16, 4])


def network(x):
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE, use_resource=True):
        return tf.reduce_mean(tf.layers.dense(x, 4) ** 2)


def train(x):
    return ipu.loops.repeat(
        5, lambda _: [network(x), tf.train.AdamOptimizer().minimize(network(x))], [0.0])


with ipu.scopes.ipu_scope("/device:IPU:0"):
    training = ipu.ipu_compiler.compile(train, [x])
    inference = ipu.ipu_compiler.compile(lambda x: network(x), [x])
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
ipu.utils.move_variable_initialization_to_cpu()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    feed = {x: np.zeros([16, 4])}
    session.run(inference, feed)
    session.run(training, feed)
    session.run(inference, feed)
raise ValueError("the end")
"""

OUTFEED = STRATEGY + """queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()


@tf.function(jit_compile=True)
def steps(x):
    for _ in tf.range(7):
        w.assign_sub(tf.matmul(w, x))
        queue.enqueue({"loss": tf.reduce_sum(w), "w": w})


for _ in range(3):
    strategy.run(steps, args=[tf.ones([8, 8])])
    got = queue.dequeue()
    assert got["loss"].shape == [7] and got["w"].shape == [7, 8, 8]
strategy.run(steps, args=[tf.ones([8, 8])])
strategy.run(steps, args=[tf.ones([8, 8])])
assert queue.dequeue()["loss"].shape == [14]
raise ValueError("the end")
"""


@pytest.mark.parametrize("program", [ESTIMATOR, RANDOM_DATA, OUTFEED, TWO_PROGRAMS],
                         ids=["estimator", "random data", "outfeed", "two programs"])
def test_programs_reach_their_end(tool, program):
    """Zeros, as many as the program would give: a script that counts them does not fail."""
    tool.write("train.py", program)
    found, _ = findings(tool, "train.py")
    assert found == {(len(program.splitlines()), "script-fails")}


@pytest.mark.long
@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")),
                         ids=lambda path: path.stem)
def test_examples_are_clean(tool, script):
    if script.stem == "jax_training":
        pytest.skip("no TensorFlow program")
    ran = tool("check", "--run", script)
    assert ran.returncode == 0 and "nothing found" in ran.stdout, ran.stdout + ran.stderr
