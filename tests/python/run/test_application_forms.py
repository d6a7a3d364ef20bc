"""What applications written for the IPU do around their training that small programs do not."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.compiler.plugin.poplar.ops import gen_poputil_ops
from tensorflow.python import ipu


def compiled(computation):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return ipu.ipu_compiler.compile(computation, [])


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_with_half_parameters(training):
    """Statistics come out in the parameters' type; gradients reach parameters in it, too."""
    random = np.random.RandomState(5)
    values = {"x": random.normal(3, 2, (4, 3, 3, 2)), "scale": [1.5, -0.5], "offset": [0.25, 1],
              "mean": [2.75, 3.5], "variance": [4, 2.5]}
    values = {name: np.asarray(value, np.float16) for name, value in values.items()}

    def normalise():
        x, scale, offset = (tf.constant(values[name]) for name in ("x", "scale", "offset"))
        given = {} if training else {"mean": tf.constant(values["mean"]),
                                     "variance": tf.constant(values["variance"])}
        y, mean, variance = tf.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3,
                                                   is_training=training, **given)
        assert {one.dtype for one in (y, mean, variance)} == {tf.float16}
        weights = tf.constant(np.arange(y.shape.num_elements()).reshape(y.shape) / 32, tf.float16)
        slopes = tf.gradients(tf.reduce_sum(y * weights), [scale, offset])
        assert {one.dtype for one in slopes} == {tf.float16}
        return y, mean, variance, *slopes

    wide = {name: value.astype(np.float64) for name, value in values.items()}
    mean, variance = ((wide["x"].mean((0, 1, 2)), wide["x"].var((0, 1, 2))) if training
                      else (wide["mean"], wide["variance"]))
    unit = (wide["x"] - mean) / np.sqrt(variance + 1e-3)
    weights = np.arange(unit.size).reshape(unit.shape) / 32
    with tf.Graph().as_default(), tf.Session() as session:
        y, out_mean, out_variance, scale, offset = session.run(compiled(normalise))
    np.testing.assert_allclose(y, unit * wide["scale"] + wide["offset"], rtol=5e-3, atol=5e-3)
    np.testing.assert_allclose(out_mean, mean, rtol=2e-3)
    if not training:
        np.testing.assert_array_equal(out_variance, values["variance"])
    np.testing.assert_allclose(scale, (weights * unit).sum((0, 1, 2)), rtol=1e-2, atol=0.1)
    np.testing.assert_allclose(offset, weights.sum((0, 1, 2)), rtol=5e-3)


@pytest.mark.parametrize("layer", ["tf.layers", "keras"])
@pytest.mark.parametrize("fused", [True, False])
def test_batch_norm_layers_of_half_numbers(layer, fused):
    """Variables and gradients are of the layer's type. (In TensorFlow's own they are float32.)"""
    values = np.random.RandomState(5).normal(3, 2, (4, 3, 3, 2)).astype(np.float16)

    def step(x):
        if layer == "keras":
            norm = tf.keras.layers.BatchNormalization(dtype="float16", fused=fused, momentum=0.5)
            y = norm(x, training=True)
            updates = [] if norm.updates is None else list(norm.updates)
        else:
            y = tf.layers.batch_normalization(x, training=True, fused=fused, momentum=0.5)
            updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        weights = tf.constant(np.arange(72).reshape(4, 3, 3, 2) / 32, tf.float16)
        loss = tf.reduce_sum(y * weights)
        trained = [one for one in tf.global_variables() if one.trainable]
        slopes = tf.gradients(loss, trained)
        assert {one.dtype for one in [y, *slopes]} == {tf.float16} and len(slopes) == 2
        return (y, *slopes, *updates)

    wide = values.astype(np.float64)
    mean, variance = wide.mean((0, 1, 2)), wide.var((0, 1, 2))
    unit = (wide - mean) / np.sqrt(variance + 1e-3)
    weights = np.arange(72).reshape(4, 3, 3, 2) / 32
    with tf.Graph().as_default(), tf.Session() as session:
        results = compiled(lambda: step(tf.constant(values)))
        variables = tf.global_variables()
        assert {one.dtype.base_dtype for one in variables} == {tf.float16} and len(variables) == 4
        session.run(tf.global_variables_initializer())
        y, scale, offset = session.run(results)[:3]
        moved = {one.op.name.rpartition("/")[2]: session.run(one) for one in variables}
    np.testing.assert_allclose(y, unit, rtol=5e-3, atol=5e-3)
    np.testing.assert_allclose(scale, (weights * unit).sum((0, 1, 2)), rtol=1e-2, atol=0.1)
    np.testing.assert_allclose(offset, weights.sum((0, 1, 2)), rtol=5e-3)
    np.testing.assert_allclose(moved["moving_mean"], mean / 2, rtol=5e-3)
    sample = variance * (36 / 35 if fused else 1)  # fused: Bessel's correction
    np.testing.assert_allclose(moved["moving_variance"], (1 + sample) / 2, rtol=5e-3)


def accumulated(iterations, count, **options):
    """[(what the operation gave, w after a descent by it)] of a loop with gradients 1, 2, .."""
    with tf.Graph().as_default():
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def body(gradient):
            w = tf.get_variable("w", [], tf.float32, tf.zeros_initializer(), use_resource=True)
            total = gen_poputil_ops.ipu_stateful_gradient_accumulate(
                gradient, num_mini_batches=count, **options)
            with tf.control_dependencies([w.assign_sub(total)]):
                return gradient + 1, outfeed.enqueue([total, w.read_value()])

        step = compiled(lambda: ipu.loops.repeat(iterations, body, [tf.constant(1.0)]))
        dequeued = outfeed.dequeue()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(step)
            totals, ws = session.run(dequeued)
    return list(zip(totals, ws))


def test_gradients_that_are_accumulated_one_by_one():
    assert accumulated(6, 3) == [(0, 0), (0, 0), (6, -6), (0, -6), (0, -6), (15, -21)]
    assert accumulated(3, 1) == [(1, -1), (2, -3), (3, -6)]
    for verify in (True, False):
        with pytest.raises(tf.errors.FailedPreconditionError, match="loop with 3 iterations"):
            accumulated(3, 2, verify_usage=verify)


def test_a_queue_that_is_initialized_when_its_graph_is_final():
    with tf.Graph().as_default() as graph:
        dataset = tf.data.Dataset.from_tensor_slices(np.float32([1, 2, 3, 4])).repeat()
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
        total = compiled(lambda: ipu.loops.repeat(4, lambda y, x: y + x, [0.0], infeed))
        graph.finalize()
        with tf.Session() as session:
            session.run(infeed.initializer)
            assert session.run(total) == [10]
        with pytest.raises(ValueError, match="only be accessed once"):
            infeed.initializer


class WithCopies(tf.train.GradientDescentOptimizer):
    """Updates a float32 copy of each half variable, which begins as the variable does."""

    def _create_slots(self, var_list):
        for one in var_list:
            self._get_or_make_slot(one, tf.cast(one.initialized_value(), tf.float32), "wide",
                                   "wide")

    def _resource_apply_dense(self, grad, var):
        wide = self.get_slot(var, "wide")
        wide = wide.assign_sub(tf.cast(grad, tf.float32) * self._learning_rate_tensor)
        return var.assign(tf.cast(wide, var.dtype))


def test_slots_that_begin_as_their_variables_do():
    """Steps that a half weight is too coarse for add up in its copy."""
    with tf.Graph().as_default():
        def body():
            w = tf.get_variable("w", [2], tf.float16, tf.constant_initializer([1, -3]),
                                use_resource=True)
            return WithCopies(2 ** -13).minimize(tf.reduce_sum(w))

        step = compiled(lambda: ipu.loops.repeat(16, body, []))
        ipu.utils.move_variable_initialization_to_cpu()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            wide, w = (next(one for one in tf.global_variables() if one.name.startswith(name))
                       for name in ("w/wide", "w:"))
            np.testing.assert_array_equal(session.run(wide), [1, -3])
            session.run(step)
            np.testing.assert_array_equal(session.run(wide), [1 - 2 ** -9, -3 - 2 ** -9])
            np.testing.assert_array_equal(session.run(w), np.float16([1 - 2 ** -9, -3 - 2 ** -9]))


def test_a_variable_s_initialized_value_after_it_has_another():
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", initializer=2.0, use_resource=True)
        value = variable.initialized_value()
        assert session.run(value) == 2
        session.run(variable.initializer)
        session.run(variable.assign(5.0))
        assert session.run(value) == 5


def test_numbers_that_have_names_print_them():
    schedules = [str(one).split(".")[-1] for one in ipu.pipelining_ops.PipelineSchedule]
    assert schedules == ["Grouped", "Interleaved", "Sequential"]
    assert str(ipu.ops.op_util.MLType.TRAINING_FWD) == "MLType.TRAINING_FWD"
    assert ipu.pipelining_ops.PipelineSchedule.Interleaved == 1


def test_a_benchmark_takes_epochs_that_options_gave_as_floats():
    import json
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = tf.data.Dataset.from_tensors(np.zeros(4, np.float32)).repeat()
        text, = session.run(ipu.dataset_benchmark.dataset_benchmark(dataset, 2.0, 3.0,
                                                                    print_stats=False))
    epochs = json.loads(text)["epochs"]
    assert [one["elements_processed"] for one in epochs] == [3, 3]
