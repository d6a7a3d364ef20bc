"""Models, data and scopes of the cases that fit."""

import collections
import contextlib
import logging

import numpy as np
import tensorflow as tf

from tensorflow.python import ipu

X = np.random.default_rng(0).standard_normal((64, 4)).astype("float32")
Y = X.sum(1, keepdims=True)
keras = tf.keras
layers = keras.layers


def configure(ipus=1):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config._profiling.enable_ipu_events = True
    config.configure_ipu_system()


def scope(ipus=1, **options):
    """The scope of a strategy over a device of so many IPUs."""
    configure(ipus)
    return ipu.ipu_strategy.IPUStrategy(**options).scope()


def events():
    """What the device has done since the last call, counted."""
    from tensorflow.compiler.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
    from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
    with tf.device("/device:CPU:0"):
        found = gen_ipu_ops.ipu_event_trace().numpy()
    names = {getattr(IpuTraceEvent, name): name for name in (
        "COMPILE_BEGIN", "COMPILE_END", "LOAD_ENGINE", "HOST_TO_DEVICE_TRANSFER",
        "DEVICE_TO_HOST_TRANSFER", "EXECUTE")}
    return collections.Counter(
        names[one] for one in ipu.utils.extract_all_types_from_event_trace(found))


class Subclass(keras.Model):
    """The network of model() as a class."""

    def __init__(self):
        super().__init__()
        self.first = layers.Dense(8, activation="relu")
        self.second = layers.Dense(1)

    def call(self, inputs, training=None):
        hidden = self.first(inputs)
        if tf.reduce_sum(hidden) > 1e9:  # AutoGraph's
            hidden = hidden * 0.
        return self.second(hidden)


def model(kind="functional"):
    """The same network, in three ways of saying so."""
    keras.utils.set_random_seed(1)
    if kind == "subclass":
        return Subclass()
    if kind == "sequential":
        return keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(1)])
    inputs = keras.Input((4,))
    return keras.Model(inputs, layers.Dense(1)(layers.Dense(8, activation="relu")(inputs)))


def compiled(kind="functional", optimizer="sgd", steps=4, **options):
    made = model(kind)
    made.compile(optimizer, options.pop("loss", "mse"), steps_per_execution=steps, **options)
    return made


def data(batch=8, x=X, y=Y):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=True)


def same_weights(found, expected, rtol=1e-5, atol=1e-6):
    found = [one.numpy() for one in found.weights]
    expected = [one.numpy() for one in expected.weights]
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


class Calls(keras.callbacks.Callback):
    """Counts the calls of a callback's methods, and keeps their steps and logs."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def count(self, name):
        return sum(one[0] == name for one in self.calls)


def _noting(name):
    def note(self, step=None, logs=None):
        self.calls.append((name, step, logs))
    return note


for _mode in ("train", "test", "predict"):
    for _name in (f"{_mode}_batch_begin", f"{_mode}_batch_end"):
        setattr(Calls, f"on_{_name}", _noting(_name))
for _name in ("epoch_begin", "epoch_end"):
    setattr(Calls, f"on_{_name}", _noting(_name))


@contextlib.contextmanager
def logged():
    """A list of what TensorFlow logs meanwhile."""
    lines = []

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    logger, handler = tf.get_logger(), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel("INFO")
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def flat(assignments):
    """The stages of layers, those in nested models included."""
    for one in assignments:
        if one.is_nested_model:
            yield from flat(one.pipeline_stage_assignments)
        else:
            yield one


def written_graph(folder):
    """The names of the nodes in the graph that a TensorBoard callback has written."""
    from tensorflow.core.util import event_pb2
    events = [event_pb2.Event.FromString(record) for file in folder.rglob("events*")
              for record in tf.compat.v1.io.tf_record_iterator(str(file))]
    (graph,) = [event.graph_def for event in events if event.graph_def]
    return [node.name for node in tf.compat.v1.GraphDef.FromString(graph).node]
