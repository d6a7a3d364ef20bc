"""ResNet-50 training as a user writes it, from building the graph to its first step.

    python bench/comparison/first_step.py ours|tf

prints {"imports", "graph", "initialise", "first", "step"} in seconds, as JSON; "first" is the first
step with its compilation, "step" the least of three later ones.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
BATCH = 8


def network(images, labels, optimizer=lambda own: own):
    import tensorflow.compat.v1 as tf

    def convolution(x, size, channels, stride=1):
        x = tf.layers.conv2d(x, channels, size, stride, "same", use_bias=False)
        return tf.layers.batch_normalization(x, training=True, fused=True)

    def block(x, inner, stride):
        y = tf.nn.relu(convolution(x, 1, inner))
        y = tf.nn.relu(convolution(y, 3, inner, stride))
        y = convolution(y, 1, 4 * inner)
        if x.shape != y.shape:
            x = convolution(x, 1, 4 * inner, stride)
        return tf.nn.relu(x + y)

    x = tf.nn.relu(convolution(images, 7, 64, 2))
    x = tf.layers.max_pooling2d(x, 3, 2, "same")
    for inner, count in zip([64, 128, 256, 512], [3, 4, 6, 3]):
        for i in range(count):
            x = block(x, inner, 2 if i == 0 and inner > 64 else 1)
    logits = tf.layers.dense(tf.reduce_mean(x, [1, 2]), 1000)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels,
                                                                         logits=logits))
    return loss, optimizer(tf.train.MomentumOptimizer(.01, .9)).minimize(loss)


def build(peer):
    """(feed, step, initialiser)"""
    import numpy as np
    import tensorflow.compat.v1 as tf
    with tf.device("cpu"):
        images = tf.placeholder(tf.float32, [BATCH, 224, 224, 3])
        labels = tf.placeholder(tf.int32, [BATCH])
    if peer == "ours":
        from tensorflow.python import ipu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            step = ipu.ipu_compiler.compile(network, [images, labels])
        ipu.utils.move_variable_initialization_to_cpu()
    else:
        step = network(images, labels)
    rng = np.random.default_rng(1)
    feed = {images: rng.random((BATCH, 224, 224, 3), np.float32),
            labels: rng.integers(0, 1000, BATCH)}
    return feed, step, tf.global_variables_initializer()


def main(peer):
    times = [time.perf_counter()]

    def lap():
        times.append(time.perf_counter())
        return times[-1] - times[-2]

    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    if peer == "ours":
        from tensorflow.python import ipu  # pylint: disable=unused-import
    record = {"imports": lap()}
    feed, step, initialiser = build(peer)
    record["graph"] = lap()
    with tf.Session() as session:
        session.run(initialiser)
        record["initialise"] = lap()
        session.run(step, feed)
        record["first"] = lap()
        laps = []
        for _ in range(3):
            session.run(step, feed)
            laps.append(lap())
        record["step"] = min(laps)
    print(json.dumps(record))


if __name__ == "__main__":
    main(sys.argv[1])
