"""Options of Keras pipelines, what they log and what they refuse."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

keras = tf.keras
Dense = keras.layers.Dense
PipelineStage = ipu.keras.PipelineStage
pipelining = ipu.ops.pipelining_ops

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal([32, 6]).astype(np.float32)
Y = (X @ RANDOM.standard_normal([6, 2])).astype(np.float32)
DATA = tf.data.Dataset.from_tensor_slices((X, Y)).batch(2, drop_remainder=True)
COUNT = 4


@pytest.fixture
def ipus():
    return 2


@pytest.fixture
def scope(strategy):
    with strategy.scope():
        yield strategy


def model_of(middle=None, cls=keras.Model, optimizer=None, steps=16, last=None, **keywords):
    keras.utils.set_random_seed(3)
    x = keras.Input((6,))
    with PipelineStage(0):
        h = Dense(4, activation="tanh")(x)
        h = middle(h) if middle else h
    with PipelineStage(1):
        y = (last or Dense(2))(h)
    model = cls(x, y)
    model.compile(optimizer or keras.optimizers.legacy.SGD(.05), "mse",
                  steps_per_execution=steps, **keywords)
    return model


def options(model, **keywords):
    model.set_pipelining_options(**{
        "gradient_accumulation_steps_per_replica": COUNT,
        "gradient_accumulation_reduction_method": "mean", **keywords})
    return model


def trained(**keywords):
    model = options(model_of(), **keywords)
    model.fit(DATA, verbose=0)
    return model.get_weights()


def test_options_of_memory_and_plans_change_nothing(scope):
    plain = pipelining.PipelineStageOptions({"availableMemoryProportion": "0.3"})
    wanted = trained()
    for keywords in (
            {"recomputation_mode": pipelining.RecomputationMode.RecomputeThenBackpropagate,
             "pipeline_schedule": pipelining.PipelineSchedule.Sequential},
            {"offload_weight_update_variables": True, "offload_activations": True,
             "offload_gradient_accumulation_buffers": True, "offload_weights": True,
             "replicated_optimizer_state_sharding": True, "replicated_weight_sharding": True,
             "forward_propagation_stages_poplar_options": [plain, plain],
             "backward_propagation_stages_poplar_options": [plain, plain],
             "weight_update_poplar_options": plain, "gradient_accumulation_dtype": tf.float32,
             "name": "mine"}):
        for one, other in zip(trained(**keywords), wanted):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    model = options(model_of(), weight_update_poplar_options=plain,
                    gradient_accumulation_dtype=tf.float32)
    assert model.evaluate(DATA, verbose=0) > 0  # options of training are none of evaluate()
    with pytest.raises(TypeError, match="recomputation_mode is not a member"):
        trained(recomputation_mode="auto")
    with pytest.raises(ValueError, match="Each stage must be mapped to an IPU"):
        trained(device_mapping=[0, 1, 1])


def test_steps_are_those_of_schedules_and_updates(scope):
    model = options(model_of(steps=2))
    with pytest.raises(RuntimeError, match="The pipelined model has been configured to use "
                                           "gradient accumulation for training, however the "
                                           r"current `steps_per_execution` value \(set to 2\)"):
        model.fit(DATA, verbose=0)
    model = model_of()
    with pytest.raises(ValueError, match="The model which you are attempting to train is "
                                         "pipelined, however `gradient_accumulation_steps_per_"
                                         "replica` has not been set"):
        model.fit(DATA, verbose=0)
    with pytest.raises(Exception, match="iterations of the pipeline must be a multiple of 2, but "
                                        "it is 1"):
        model_of(steps=1).predict(DATA.map(lambda x, y: x), verbose=0)


class _Logs(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))

    on_test_batch_end = on_train_batch_end


def test_an_accumulated_outfeed_gives_one_result_a_weight_update(scope):
    each, few = _Logs(), _Logs()
    model = options(model_of())
    model.set_asynchronous_callbacks(True)
    model.fit(DATA, verbose=0, callbacks=[each])
    assert len(each.losses) == 16
    model = options(model_of(), accumulate_outfeed=True)
    model.set_asynchronous_callbacks(True)  # of no effect
    history = model.fit(DATA, verbose=0, callbacks=[few])
    np.testing.assert_allclose(few.losses, each.losses[-1:], rtol=1e-5)
    assert history.history["loss"] == few.losses
    each, few = _Logs(), _Logs()
    model.evaluate(DATA, verbose=0, callbacks=[few])
    model.set_pipelining_options(accumulate_outfeed=False)
    model.evaluate(DATA, verbose=0, callbacks=[each])
    assert len(each.losses) == 16
    np.testing.assert_allclose(few.losses, each.losses[-1:], rtol=1e-5)


def test_the_types_of_accumulated_results_go_by_their_places(scope):
    names = []

    def dtype(output):
        names.append(output.name)
        return tf.float16 if output.name == "PipelineStage:1" else output.dtype

    model = options(model_of(), accumulate_outfeed=True, accumulate_outfeed_dtype=dtype)
    model.compile("sgd", "mse", metrics=["mae"], steps_per_execution=16)
    history = model.fit(DATA, verbose=0).history
    assert names == ["PipelineStage:1", "PipelineStage:2"]  # 0 is what the optimizer gets
    loss, other = history["loss"][0], history["mae"][0]
    assert loss == float(np.float16(loss)) and other != float(np.float16(other))


def test_functions_are_used_again_until_something_changes(scope):
    model = options(model_of())
    model.fit(DATA, verbose=0)
    first = model._ipu_train_function
    model.fit(DATA, verbose=0)
    assert model._ipu_train_function is first
    model.set_pipeline_stage_assignment(model.get_pipeline_stage_assignment())
    assert model._ipu_train_function is None
    model.reset_pipeline_stage_assignment()
    model.fit(DATA, verbose=0)  # no pipeline, on two replicas
    assert model._get_replication_factor() == 2


def test_validation_of_a_pipeline(scope):
    model = options(model_of(steps=8))
    history = model.fit(DATA, epochs=2, validation_data=DATA.take(8), verbose=0).history
    assert len(history["val_loss"]) == 2
    np.testing.assert_allclose(history["val_loss"][-1], model.evaluate(DATA.take(8), verbose=0),
                               rtol=1e-5)


# ---- Optimizers ----

@pytest.mark.parametrize("legacy", [True, False])
def test_mixed_precision_scales_losses(scope, legacy):
    def make():
        kind = keras.optimizers.legacy.SGD if legacy else keras.optimizers.SGD
        return kind(.05, clipnorm=.5)

    wanted = options(model_of(optimizer=make()))
    wanted.fit(DATA, verbose=0)
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = options(model_of(optimizer=make()))
        assert hasattr(model.optimizer, "get_scaled_loss")
        scale = float(model.optimizer.loss_scale)
        before = model.get_weights()
        model.fit(DATA, verbose=0)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert scale == float(model.optimizer.loss_scale) and int(model.optimizer.iterations) == 4
    for one, other, start in zip(model.get_weights(), wanted.get_weights(), before):
        assert one.dtype == np.float32 and not np.array_equal(one, start)
        np.testing.assert_allclose(one, other, rtol=2e-2, atol=1e-2)


# ---- Captured gradients ----

class _Capturing(keras.optimizers.legacy.SGD):
    """Keeps the sum of the captured gradients."""

    def apply_gradients(self, grads_and_vars, name=None, experimental_aggregate_gradients=True, *,
                        captured_grads=None):
        self.found.assign(tf.reduce_sum(captured_grads["last"][0], 0))
        return super().apply_gradients(grads_and_vars, name, experimental_aggregate_gradients)


def test_captured_gradients_reach_the_optimizer(scope):
    def found(**keywords):
        optimizer = _Capturing(0.)
        optimizer.found = tf.Variable(tf.zeros([2]), trainable=False)
        layer = ipu.keras.layers.CaptureUpstreamGradients(Dense(2), tag="last")
        model = options(model_of(optimizer=optimizer, last=layer), **keywords)
        model.fit(DATA, verbose=0)
        return model, optimizer.found.numpy()

    model, raw = found()
    errors = model.predict(DATA.map(lambda x, y: x), verbose=0) - Y  # mse: 2 * error / 4 elements
    np.testing.assert_allclose(raw, errors[-2:].sum(0) / 2, rtol=1e-4)
    _, summed = found(gradient_accumulation_for_captured_grads=True)
    np.testing.assert_allclose(summed, errors[-2 * COUNT:].sum(0) / 2 / COUNT, rtol=1e-4)
    plain = keras.optimizers.legacy.SGD(.01)  # takes none
    layer = ipu.keras.layers.CaptureUpstreamGradients(Dense(2), tag="last")
    options(model_of(optimizer=plain, last=layer)).fit(DATA, verbose=0)


def test_a_pipeline_of_ones_own_hands_out_captured_gradients(scope):
    weight = tf.Variable(2.)
    losses, captured = (ipu.ipu_outfeed_queue.IPUOutfeedQueue() for _ in range(2))

    @tf.function(jit_compile=True)
    def train(x, losses, captured):
        def first(x):
            return ipu.ops.grad_util_ops.capture_upstream_gradients(x * weight, tag="h")

        def optimize(loss):
            return pipelining.OptimizerFunctionOutput(
                tf.compat.v1.train.GradientDescentOptimizer(0.), loss,
                compute_gradients_kwargs={"var_list": [weight]},
                gradient_capture_context=context, captured_gradient_outfeed=captured)

        with ipu.eager.backprop.GradientCaptureContext() as context:
            pipelining.pipeline([first, lambda h: tf.reduce_sum(h * 3.)], COUNT, repeat_count=2,
                                inputs=[x], outfeed_queue=losses, optimizer_function=optimize,
                                outfeed_loss=True)

    scope.run(train, args=(tf.ones([2]), losses, captured))
    np.testing.assert_array_equal(losses.dequeue(), [12.] * 8)
    found = captured.dequeue()["h"][0]
    np.testing.assert_array_equal(found, [[12., 12.]] * 2)  # COUNT times 3


# ---- Log and refusals ----

def test_batch_normalization_is_warned_of(scope, caplog):
    with caplog.at_level("WARNING", "tensorflow"):
        options(model_of(keras.layers.BatchNormalization())).fit(DATA, verbose=0, epochs=2)
        options(model_of(keras.layers.BatchNormalization(momentum=0.))).fit(DATA, verbose=0)
    found = [one.getMessage() for one in caplog.records if "moving statistics" in one.getMessage()]
    assert found == [
        "The moving statistics for keras.BatchNormalization layers in pipelined models are not "
        "properly updated when training. This means that during evaluation or inference, these "
        "batch normalization layers will not necessarily normalize their input data in a way that "
        "is consistent with the distribution of the data they saw when training."]


def test_warnings_are_where_programs_look_for_them(scope):
    from tensorflow.python.platform import tf_logging
    with mock.patch.object(tf_logging, "warn") as warn:
        options(model_of(keras.layers.BatchNormalization())).fit(DATA, verbose=0)
    assert "moving statistics" in warn.call_args[0][0]


def test_overridden_methods_are_refused(scope):
    def refused(name, call, error=RuntimeError):
        def own(self, *arguments, **keywords):
            return getattr(keras.Model, name)(self, *arguments, **keywords)

        model = options(model_of(cls=type("Own", (keras.Model,), {name: own})))
        assert model._is_pipelined()
        with pytest.raises(error) as raised:
            call(model)
        return str(raised.value).replace(model.name, "NAME")

    def fit(model):
        model.fit(DATA, verbose=0)

    def evaluate(model):
        model.evaluate(DATA, verbose=0)

    def predict(model):
        model.predict(DATA.map(lambda x, y: x), verbose=0)

    text = ("The function `{}` for the model NAME has been overridden. This is not supported for "
            "pipelined Keras {}models.")
    assert refused("call", fit) == text.format("call", "Functional ")
    assert refused("test_step", evaluate) == text.format("test_step", "")
    assert refused("predict_step", predict) == text.format("predict_step", "")
    assert refused("compute_metrics", fit) == text.format("compute_metrics", "")
    assert refused("train_step", fit).startswith(
        "The function `train_step` for the model NAME has been overridden. This is not supported "
        "when using Keras within an IPUStrategy.")


def test_stages_that_do_not_fit_any_more(scope):
    x = keras.Input((6,))
    with PipelineStage(0):
        h = Dense(2)(x)
    with PipelineStage(3):
        model = options(keras.Model(x, Dense(2)(h)), device_mapping=[0, 1, 1, 1])
    model.compile("sgd", "mse", steps_per_execution=16)
    with pytest.raises(RuntimeError, match="All stages in a pipeline must have at lease one layer "
                                           "assigned to them. The highest stage with an "
                                           "assignment is stage 3, however the preceeding stages "
                                           r"\[1, 2\] had no assignments."):
        model.fit(DATA, verbose=0)
    model = keras.Sequential([Dense(2), Dense(2)])
    model.set_pipeline_stage_assignment([0, 1])
    model.add(Dense(2))
    options(model).compile("sgd", "mse", steps_per_execution=16)
    with pytest.raises(ValueError, match=r"`pipeline_stage_assignment` \(2\) does not match the "
                                         r"number of layers in the graph \(3\)"):
        model.fit(DATA, verbose=0)


class _ForTensors(keras.layers.Layer):
    """A layer that Keras cannot call with symbolic tensors."""

    def compute_mask(self, inputs, mask=None):
        raise ValueError("not today")


def test_a_sequential_model_that_is_no_graph(scope):
    model = keras.Sequential([Dense(2), _ForTensors()], name="net")
    model.set_pipeline_stage_assignment([0, 1])
    options(model).compile("sgd", "mse", steps_per_execution=16)
    with pytest.raises(RuntimeError) as error:
        model.fit(DATA, verbose=0)
    assert str(error.value) == (
        "The Sequential model net cannot be represented as a graph network, this could be "
        "because:\n * A layer in your model failed to evaluate.\n * The layer is dynamic and "
        "therefore not graph compatible.")


def test_functions_of_several_lengths_are_no_retraces(scope):
    from tremula.tf.keras.extensions import pipeline_functions
    with mock.patch.object(tf.get_logger(), "warning") as warning:
        for count in range(2, 8):  # TensorFlow warns at the fifth
            function = pipeline_functions._function(lambda *_, count=count: tf.constant(count))
            with mock.patch.object(pipeline_functions.feed_arguments, "infeed"):
                scope.run(function, args=(tf.constant(1), iter(DATA), tf.constant(0)))
    assert "retracing" not in str(warning.mock_calls)
