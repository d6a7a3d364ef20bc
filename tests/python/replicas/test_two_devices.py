"""Two devices in one process: one trains while the other infers with the weights handed over."""

import threading

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

STEPS = 20


def model(x, scope):
    with tf.variable_scope(scope, use_resource=True):
        w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
        return tf.matmul(x, w)


def build():
    """(infeed, a training run of STEPS steps, an input and its prediction, the hand-over)."""
    target = np.array([[1.], [-2.], [3.], [0.5]], np.float32)
    features = np.random.RandomState(1).normal(size=[64, 8, 4]).astype(np.float32)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices((features, features @ target)).repeat())

    def train(x, y):
        loss = tf.reduce_mean(tf.square(model(x, "learner") - y))
        return tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        learn = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(STEPS, train, [], infeed))
    x = tf.placeholder(tf.float32, [2, 4])
    with ipu.scopes.ipu_scope("/device:IPU:1"):
        act, = ipu.ipu_compiler.compile(lambda x: model(x, "actor"), [x])
    learner, = tf.trainable_variables("learner")
    actor, = tf.trainable_variables("actor")
    assert learner.device.endswith("IPU:0") and actor.device.endswith("IPU:1")
    return infeed, learn, x, act, actor.assign(learner), (learner, actor), target


def test_handing_weights_over(devices, session):
    devices([1, 1])
    infeed, learn, x, act, hand_over, (learner, actor), target = build()
    question = np.eye(2, 4, dtype=np.float32)
    with session() as s:
        s.run([infeed.initializer, tf.global_variables_initializer()])
        s.run(learn)
        weights = s.run(learner)
        assert np.abs(weights - target).max() < np.abs(target).max()
        assert not s.run(act, {x: question}).any()  # it has its own weights still
        s.run(hand_over)
        np.testing.assert_allclose(s.run(act, {x: question}), question @ weights, rtol=1e-6)
        s.run(learn)
        np.testing.assert_array_equal(s.run(actor), weights)
        assert not np.array_equal(s.run(learner), weights)


def test_both_at_once(devices):
    """Two threads of one session: what is inferred meanwhile is always of whole weights."""
    devices([1, 1])
    infeed, learn, x, act, hand_over, (learner, _), target = build()
    question = np.eye(2, 4, dtype=np.float32)
    answers, failures = [], []
    with tf.Session() as s:
        s.run([infeed.initializer, tf.global_variables_initializer()])
        done = threading.Event()

        def acting():
            try:
                while not done.is_set():
                    answers.append(s.run(act, {x: question}))
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

        thread = threading.Thread(target=acting)
        thread.start()
        handed_over = [np.zeros([4, 1], np.float32)]
        for _ in range(10):
            s.run(learn)
            handed_over.append(s.run(learner))
            s.run(hand_over)
        done.set()
        thread.join()
        last = s.run(act, {x: question})
    assert not failures
    np.testing.assert_allclose(last, question @ target, atol=0.05)
    for answer in answers:
        assert any(np.allclose(answer, question @ weights, rtol=1e-6) for weights in handed_over)


def test_devices_of_different_sizes(devices, session):
    """Two replicas on one device, one on the other."""
    devices([2, 1])
    factors = []
    for ordinal in range(2):
        with ipu.scopes.ipu_scope(f"/device:IPU:{ordinal}"):
            factors += ipu.ipu_compiler.compile(ipu.replication_ops.replication_factor)
    with session() as s:
        assert s.run(factors) == [2, 1]
