"""Outlined functions and barriers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

pytestmark = pytest.mark.smoke


def compute(function, *values):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        results = ipu.ipu_compiler.compile(function, list(values))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(results)


def test_an_outlined_function_and_its_gradient():
    def program(x):
        @ipu.outlined_function
        def layer(value):
            with tf.variable_scope("layer", use_resource=True, reuse=tf.AUTO_REUSE):
                weight = tf.get_variable("w", initializer=3.0)
            return value * value * weight

        y = layer(layer(x))
        return y, tf.gradients(y, x)[0]

    y, gradient = compute(program, tf.constant(2.0))
    assert y == 432.0 and gradient == 864.0


def test_calls_of_an_outlined_function_are_operations():
    """Each call, and the gradient of each, is a Function with a graph of its own."""
    seen = []

    @ipu.outlined_function(unique_sharding=True, keep_input_layouts=False)
    def layer(x, rows):
        table = tf.gather(x, rows)
        return {"squares": tf.square(table), "sum": tf.reduce_sum(table)}

    def program(x, rows):
        first = layer(x, rows)
        second = layer(first["squares"], rows)
        gradient, = tf.gradients([second["squares"], second["sum"]], x)
        seen.extend(tf.get_default_graph().get_operations())
        return second["sum"], tf.convert_to_tensor(gradient)

    total, gradient = compute(program, tf.constant([1.0, 2.0]), tf.constant([1, 1]))
    assert total == 8.0 and gradient.tolist() == [0.0, 4 * 2.0 ** 3 * 2 + 2 * 2.0 * 2]
    calls = [one for one in seen if one.type == "Function"]
    assert len(calls) == 4 and not any(one.type == "Square" for one in seen)
    assert all(one.get_attr("unique_sharding") for one in calls)
    assert not any(one.get_attr("keep_input_layouts") for one in calls)
    graph = calls[0].graph
    inside = [{one.type for one in graph._get_function(
        call.get_attr("to_apply").name).graph.get_operations()} for call in calls]
    assert "Square" in inside[0] and "Square" in inside[1] and "GatherV2" in inside[0]


def test_what_an_outlined_function_takes_is_no_constant():
    seen = []

    @ipu.outlined_function
    def shaped(x, size):
        seen.append(tf.get_static_value(size))
        return tf.reshape(x, [size, 2])

    with pytest.raises(tf.errors.InvalidArgumentError, match="must be a compile-time constant"):
        compute(lambda x: shaped(x, 3), tf.ones([6]))
    assert seen == [None]

    @ipu.outlined_function
    def scaled(x, by):
        return x * by

    def program(x):
        by = tf.constant(3.0)
        y = scaled(x, by)
        return [y, *tf.gradients(y, [x, by])]

    assert compute(program, tf.constant(2.0)) == [6.0, 3.0, 2.0]


def test_structures_and_options():
    @ipu.functional_ops.outlined_function(unique_sharding=True, name="pair")
    def pair(a, b):
        return {"sum": a + b, "rest": [a - b]}

    def program(a):
        result = pair(a, 1.0)
        return result["sum"], result["rest"][0]

    assert compute(program, tf.constant(5.0)) == [6.0, 4.0]


def test_barrier():
    def with_gradient(x):
        a, b = ipu.control_flow_ops.barrier((x * 2.0, x + 1.0), True)
        return a * b, tf.gradients(a * b, x)[0]

    np.testing.assert_allclose(compute(with_gradient, tf.constant(3.0)), [24.0, 14.0])
