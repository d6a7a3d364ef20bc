"""What stages, outlined functions and loop bodies get: structures that they may change, numbers,
the count of mini-batches."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from test_pipelining import run_inference
from tensorflow.python import ipu


def compute(function, *values):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        results = ipu.ipu_compiler.compile(function, list(values))
    with tf.Session() as session:
        return session.run(results)


def test_stages_change_their_dicts_and_lists():
    def first(x):
        return {"x": x, "more": [x, {"y": 2.0 * x}]}

    def second(values):
        inner = values["more"].pop()
        values["more"].append(inner.pop("y"))
        values["x"] = values.pop("x") + 1.0
        values["added"] = values["more"][1]
        return values

    def third(values):
        x = values.pop("x")
        return x, values.pop("added"), sum(values.pop("more"))

    with tf.Graph().as_default():
        x, y, total = run_inference([first, second, third], [tf.constant(3.0)],
                                    gradient_accumulation_count=3, ipus=4)
        assert (x[0], y[0], total[0]) == (4.0, 6.0, 9.0)


def test_each_of_the_stages_side_by_side_has_a_dict_of_its_own():
    with tf.Graph().as_default():
        a, b = run_inference(
            [lambda x: {"x": x}, [lambda values: values.pop("x") + 1.0,
                                  lambda values: values.pop("x") + 2.0], lambda a, b: (a, b)],
            [tf.constant(3.0)], gradient_accumulation_count=6, device_mapping=[0, [1, 2], 3],
            ipus=4)
        assert (a[0], b[0]) == (4.0, 5.0)


def test_stages_take_from_the_dicts_of_an_element():
    def first(x, named):
        return x * named.pop("scale"), named["inner"].pop()

    with tf.Graph().as_default():
        dataset = tf.data.Dataset.range(4).map(lambda i: (
            tf.cast(i, tf.float32), {"scale": 2.0, "inner": (1.0, 5.0)}))
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset.repeat())

        def to_list(x, named):
            named["inner"] = list(named["inner"])
            return first(x, named)

        x, y = run_inference([to_list, lambda x, y: (x, y)], [], infeed,
                             gradient_accumulation_count=4)
        np.testing.assert_array_equal(x, [0.0, 2.0, 4.0, 6.0])
        np.testing.assert_array_equal(y, [5.0] * 4)


def test_an_optimizer_function_takes_from_its_dict():
    """What it takes is not enqueued: it gets the very dict that the last stage returned."""
    with tf.Graph().as_default():
        def last(x):
            weight = tf.get_variable("w", initializer=2.0, use_resource=True)
            return {"loss": weight * x, "x": x}

        def optimizer_function(values):
            return ipu.pipelining_ops.OptimizerFunctionOutput(
                tf.train.GradientDescentOptimizer(0.5), values.pop("loss"))

        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def network(x):
            return ipu.pipelining_ops.pipeline(
                [lambda x: x + 1.0, last], 4, inputs=[x], outfeed_queue=outfeed,
                optimizer_function=optimizer_function)

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            step = ipu.ipu_compiler.compile(network, [tf.constant(1.0)])
        dequeued = outfeed.dequeue()
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 2
        config.configure_ipu_system()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(step)
            (values,), weight = session.run(dequeued), session.run(tf.global_variables()[0])
        assert list(values) == ["x"] and weight == 2.0 - 0.5 * 4 * 2.0


def test_a_stage_may_return_numbers():
    with tf.Graph().as_default():
        result = run_inference([lambda x: (x, 2.0, np.float32(3)), lambda x, a, b: x * a + b],
                               [tf.constant(4.0)], gradient_accumulation_count=2)
        np.testing.assert_array_equal(result, [[11.0] * 2])


def test_stages_know_which_mini_batch_it_is():
    def counted(*values):
        return [*values, ipu.internal_ops.get_current_iteration_counter()]

    with tf.Graph().as_default():
        result = run_inference([counted, counted], [tf.constant(0)], repeat_count=3,
                               gradient_accumulation_count=4)
        np.testing.assert_array_equal(result[1:], [[0, 1, 2, 3] * 3] * 2)


def test_counts_that_a_division_made():
    with tf.Graph().as_default():
        result = run_inference([lambda x: x, lambda x: x], [tf.constant(1.0)], repeat_count=8 / 2,
                               gradient_accumulation_count=4 / 2)
        assert [len(one) for one in result] == [8]
        for name, value in (("repeat_count", 2.5), ("gradient_accumulation_count", 2.5),
                            ("batch_serialization_iterations", 1.5)):
            with pytest.raises(TypeError, match=f"{name} must be an int"):
                run_inference([lambda x: x] * 2, [tf.constant(1.0)],
                              **{"gradient_accumulation_count": 2, name: value})


def test_outlined_functions_and_computations_change_their_structures():
    @ipu.outlined_function
    def total(values, named):
        values["list"].append(values.pop("x"))
        return sum(values["list"]) + named.pop("y")

    def program(given):
        mine = {"x": given["x"], "list": [given["x"]]}
        named = {"y": given.pop("x")}
        return total(mine, named=named), total(mine, named=named), len(mine["list"])

    with tf.Graph().as_default():
        given = {"x": tf.constant(2.0)}
        assert compute(program, given) == [6.0, 6.0, 1]
        assert list(given) == ["x"]


def test_a_loop_s_body_changes_the_dicts_of_its_element():
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.range(4).map(lambda i: {"x": {"y": tf.cast(i, tf.float32)}})
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)

        def body(total, x):
            return total + x.pop("y")

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            result = ipu.ipu_compiler.compile(
                lambda: ipu.loops.repeat(4, body, [0.0], infeed))
        with tf.Session() as session:
            session.run(infeed.initializer)
            assert session.run(result) == [6.0]
