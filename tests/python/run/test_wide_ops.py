"""Ops of float16 that TensorFlow's bridge lowers wrongly (wide_ops.py)."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tremula.tf.inner import bridge
from tremula.tf.runtime.lowering import lowering, staging
from tremula.tf.runtime.nodes import wide_ops
from tremula.tf.runtime.tracing import tracing

IMAGE = np.random.default_rng(0).uniform(-2, 2, (2, 8, 8, 3)).astype(np.float16)


def normalised(x):
    return tf.nn.local_response_normalization(x, 2, 1., .1, .5)


def resized(x):
    return tf.image.resize_bilinear(x, [7, 9])


def resized_to_nearest(x):
    return tf.image.resize_nearest_neighbor(x, [13, 11]) + 0  # indices are float32's


def with_gradient(function, dtype):
    def compute(x):
        y = function(x)
        if function in (resized_to_nearest, nearest_in_branch):  # the bridge has no gradient
            return [y]
        gradient, = tf.gradients(tf.square(y), [x])
        assert gradient.dtype == dtype
        return [y, gradient]
    return compute


def in_branch(function):
    return lambda x: tf.cond(tf.reduce_any(x > 0), lambda: function(x), lambda: function(x) * 0)


nearest_in_branch = in_branch(resized_to_nearest)
WAYS = {"compiled": lambda f, x: ipu.ipu_compiler.compile(f, [x]), "placed": lambda f, x: f(x)}


@pytest.mark.parametrize("function, way", [
    (normalised, "compiled"), (resized, "compiled"), (in_branch(normalised), "compiled"),
    (in_branch(resized), "compiled"),
    (normalised, "placed"), (resized, "placed"), (resized_to_nearest, "placed"),
    (resized_to_nearest, "compiled"), (nearest_in_branch, "compiled")])
def test_halves_and_gradients(function, way):
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float16, IMAGE.shape)
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            found = WAYS[way](with_gradient(function, tf.float16), x)
        wide = tf.placeholder(tf.float32, IMAGE.shape)
        expected = with_gradient(function, tf.float32)(wide)
        found, expected = session.run([found, expected], {x: IMAGE, wide: IMAGE})
    for got, want in zip(found, expected):
        np.testing.assert_allclose(got.astype(np.float32), want, rtol=4e-3, atol=1e-2)


def test_a_result_of_another_type_is_refused(monkeypatch):
    """Its bytes were written over those of a smaller tensor."""
    monkeypatch.setattr(wide_ops, "_OPS", {})
    with tf.Graph().as_default(), ipu.scopes.ipu_scope("/device:IPU:0"):
        trace = tracing.Trace("cluster", "/device:IPU:0")
        x = tf.cast(tf.get_variable("x", IMAGE.shape, use_resource=True), tf.float16)
        trace.finish(trace.run(lambda: tf.gradients(resized(x), [x]), []))
        source = staging.stage(trace.graph, trace.placeholders, trace.variables, trace.outputs,
                               "/device:IPU:0")
    with pytest.raises(bridge.LoweringError, match="float32 of a result that is float16"):
        lowering.lower(source)
