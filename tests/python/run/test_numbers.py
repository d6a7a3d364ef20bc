"""Whole networks through sessions: the numbers are those of TensorFlow's own CPU kernels."""

import networks
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu


def logits(blocks, side, dtype, weights_dtype, compiled):
    """ResNeXt's logits for one image. The weights are rounded to `weights_dtype` before they
    are used as `dtype`."""
    image = np.random.default_rng(7).random((1, side, side, 4)).astype(weights_dtype.as_numpy_dtype)
    with tf.Graph().as_default(), tf.Session() as session:
        weights = networks.Weights(dtype)
        with tf.device("cpu"):
            x = tf.placeholder(dtype, image.shape)

        def network(x):
            return networks.resnext(weights, x, blocks)

        if compiled:
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                y, = ipu.ipu_compiler.compile(network, [x])
        else:
            y = network(x)
        weights.load(session, weights_dtype)
        return session.run(y, {x: image})[0].astype(np.float64)


def distance(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def check_inference(blocks, side):
    """In float32 our logits are TensorFlow's.

    In float16 no two ways to compute are equal, so each is held against the float32 network with
    the same float16 weights and image: ours must not be further from it than TensorFlow's float16
    kernels are, with a tenth for luck. Where these sum in float32 (CPUs with AVX512-FP16), as ours
    do, either may be nearer by chance: twice what ours is off by is always allowed.
    """
    exact = logits(blocks, side, tf.float32, tf.float32, compiled=False)
    found = logits(blocks, side, tf.float32, tf.float32, compiled=True)
    assert distance(found, exact) < 1e-5
    exact = logits(blocks, side, tf.float32, tf.float16, compiled=False)
    ours = distance(logits(blocks, side, tf.float16, tf.float16, compiled=True), exact)
    theirs = distance(logits(blocks, side, tf.float16, tf.float16, compiled=False), exact)
    print(f"float16 at {side}: ours is off by {ours:.2e}, TensorFlow's by {theirs:.2e}")
    assert theirs < 2e-2, "the network is no measure"
    assert ours <= max(1.1 * theirs, 2e-3)


@pytest.mark.long
def test_resnext50():
    check_inference(networks.RESNEXT_50, 64)


@pytest.mark.long
def test_resnext101_at_full_size():
    check_inference(networks.RESNEXT_101, 224)


def losses(steps, side, compiled, factor=1.):
    """The losses of ResNet-50 in training with momentum, one batch a step; the pictures are
    multiplied by `factor`."""
    random = np.random.default_rng(5)
    centres = random.standard_normal((10, side, side, 3))
    with tf.Graph().as_default(), tf.Session() as session:
        weights = networks.Weights()
        with tf.device("cpu"):
            x = tf.placeholder(tf.float32, [4, side, side, 3])
            y = tf.placeholder(tf.int32, [4])

        def step(x, y):
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=y, logits=networks.resnet50(weights, x)))
            with tf.control_dependencies(
                    [loss, tf.train.MomentumOptimizer(.001, .9).minimize(loss)]):
                return tf.identity(loss)

        if compiled:
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                loss, = ipu.ipu_compiler.compile(step, [x, y])
        else:
            loss = step(x, y)
        weights.load(session, tf.float32)
        values = []
        for _ in range(steps):
            labels = random.integers(0, 10, 4)
            pictures = centres[labels] + random.standard_normal((4, side, side, 3))
            values.append(session.run(loss, {x: pictures * factor, y: labels}))
        return np.array(values)


def test_training_of_resnet50():
    """Training magnifies what rounding does, whoever rounds: so the bound doubles each step.
    It is three times what was measured, on whichever instruction set."""
    ours, theirs = losses(4, 64, compiled=True), losses(4, 64, compiled=False)
    assert (np.abs(ours - theirs) <= 4e-6 * 2. ** np.arange(4) * theirs.max()).all(), [ours, theirs]


@pytest.mark.long
def test_twenty_steps_of_resnet50():
    """After so many steps the measure is how far TensorFlow gets from itself if its pictures change
    in their last bits."""
    theirs = losses(20, 64, compiled=False)
    spread = np.max([np.abs(losses(20, 64, False, factor) - theirs)
                     for factor in (1 - 2e-7, 1 + 2e-7, 1 + 4e-7)], axis=0)
    allowed = 4 * np.maximum.accumulate(spread) + 1e-5
    ours = losses(20, 64, compiled=True)
    assert (np.abs(ours - theirs) <= allowed).all(), np.stack([ours, theirs, allowed])
