"""What the cases have in common: who this worker is, its data and model, what it tells the test."""

import json
import os
import pathlib
import sys

INDEX = int(sys.argv[1])
CLUSTERS = json.loads(sys.argv[2])
FOLDER = pathlib.Path(sys.argv[3])
WORKERS = len(CLUSTERS[0])
BATCH, STEPS, RATE = 4, 20, 0.05

import tremula._finder  # noqa: E402,F401  (serves tensorflow.python.ipu)
from tremula.tf.inner import versions  # noqa: E402

versions.prefer_legacy_keras()

import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

_results = {}


def set_tf_config(number):
    """Names the cluster of that number by the environment."""
    os.environ["TF_CONFIG"] = json.dumps({
        "cluster": {"worker": CLUSTERS[number]}, "task": {"type": "worker", "index": INDEX}})


def simple_resolver(number):
    """Names it by a resolver."""
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": CLUSTERS[number]}), task_type="worker", task_id=INDEX,
        rpc_layer="grpc")


def tell(name, value):
    """Puts a result where the test finds it."""
    if isinstance(value, (list, tuple)):
        value = [np.asarray(one).tolist() for one in value]
    _results[name] = value
    (FOLDER / f"results_{INDEX}.json").write_text(json.dumps(_results))


def refused(function):
    """The kind of an exception and its message."""
    try:
        function()
    except Exception as error:  # pylint: disable=broad-except
        return f"{type(error).__name__}: {getattr(error, 'message', None) or error}"
    return "no error"


# ---- A small CNN ----

def data():
    """The batches of all workers, one after the other, in each step."""
    random = np.random.RandomState(5)
    return (random.randn(STEPS, WORKERS * BATCH, 8, 8, 1).astype(np.float32),
            random.randint(0, 3, (STEPS, WORKERS * BATCH)).astype(np.int32))


def share(batch, index=INDEX):
    """A worker's part of a batch."""
    return batch[index * BATCH:(index + 1) * BATCH]


def initial_values(offset=0):
    """The variables' initial values; workers offer different ones."""
    random = np.random.RandomState(11 + offset)
    return {"filter": .3 * random.randn(3, 3, 1, 4).astype(np.float32),
            "weights": .3 * random.randn(64, 3).astype(np.float32),
            "bias": np.zeros(3, np.float32)}


def losses(images, labels, variables):
    """The loss of each example."""
    features = tf.nn.relu(tf.nn.conv2d(images, variables["filter"], 1, "SAME"))
    features = tf.reshape(tf.nn.max_pool2d(features, 2, 2, "SAME"), [-1, 64])
    logits = features @ variables["weights"] + variables["bias"]
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def graph_variables():
    """The variables of a TensorFlow 1 model."""
    return {name: tf.get_variable(name, initializer=value)
            for name, value in initial_values(INDEX).items()}


def reference(momentum=0.9):
    """The variables after training with the whole batches, by stock TensorFlow's operations on
    this worker's CPU: [filter, weights, bias]."""
    with tf.Graph().as_default():
        images = tf.placeholder(tf.float32, [WORKERS * BATCH, 8, 8, 1])
        labels = tf.placeholder(tf.int32, [WORKERS * BATCH])
        variables = {name: tf.Variable(value, use_resource=True)
                     for name, value in initial_values().items()}
        train = tf.train.MomentumOptimizer(RATE, momentum).minimize(
            tf.reduce_mean(losses(images, labels, variables)))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for batch, classes in zip(*data()):
                session.run(train, {images: batch, labels: classes})
            return session.run(list(variables.values()))
