"""What models pipelines take, and evaluate() and predict(), next to stock Keras on the CPU: several
inputs and outputs, masks, losses of layers, shared layers, nested models."""

import fitting
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

keras = tf.keras
Dense = keras.layers.Dense
PipelineStage = ipu.keras.PipelineStage

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal([32, 6]).astype(np.float32)
X2 = RANDOM.standard_normal([32, 3]).astype(np.float32)
Y = (X @ RANDOM.standard_normal([6, 2])).astype(np.float32)
Y2 = X2.sum(1, keepdims=True)
WEIGHTS = RANDOM.uniform(.5, 2, 32).astype(np.float32)
BATCH, COUNT = 2, 4


@pytest.fixture
def ipus():
    return 2


def dataset(structure, batch=BATCH):
    return tf.data.Dataset.from_tensor_slices(structure).batch(batch, drop_remainder=True)


class stage:
    """PipelineStage on an IPU, nothing on the CPU."""

    def __init__(self, number):
        self.scope = PipelineStage(number) if tf.distribute.has_strategy() else None

    def __enter__(self):
        return self.scope and self.scope.__enter__()

    def __exit__(self, *error):
        return self.scope and self.scope.__exit__(*error)


def check(strategy, make, data, loss="mse", metrics=("mae",), assign=None, momentum=.5, **options):
    """Trains make() on the IPU and on the CPU; the weights, and what evaluate() and predict() then
    give, must be equal. Returns the IPU's model. `assign` sets stages."""
    keywords = {"loss": loss, "metrics": metrics}
    keras.utils.set_random_seed(3)
    cpu = make()
    cpu.compile(keras.optimizers.legacy.SGD(.05, momentum), **keywords)
    cpu.fit(dataset(data, BATCH * COUNT), epochs=2, verbose=0)
    wanted = cpu.evaluate(dataset(data), verbose=0, return_dict=True)
    inputs = dataset((data[0],))
    predicted = cpu.predict(inputs, verbose=0)
    with strategy.scope():
        keras.utils.set_random_seed(3)
        model = make()
        if assign is not None:
            assign(model)
        model.compile(keras.optimizers.legacy.SGD(.05, momentum), steps_per_execution=16,
                      **keywords)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=COUNT,
                                     gradient_accumulation_reduction_method="mean", **options)
        model.fit(dataset(data), epochs=2, verbose=0)
        for one, other in zip(model.get_weights(), cpu.get_weights(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        found = model.evaluate(dataset(data), verbose=0, return_dict=True)
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4)
        predictions = model.predict(inputs, verbose=0)
        tf.nest.map_structure(
            lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5),
            predictions, predicted)
        return model


def test_several_inputs_and_outputs_and_weights(strategy):
    def make():
        a, b = keras.Input((6,), name="a"), keras.Input((3,), name="b")
        with stage(0):
            h = Dense(4, activation="tanh", name="h")(a)
            early = Dense(1, name="early")(h)
        with stage(1):
            both = keras.layers.Concatenate()([h, Dense(3)(b)])  # b comes past the first stage
            late = Dense(2, name="late")(both)
        return keras.Model([a, b], {"early": early, "late": late})

    model = check(strategy, make,
                  ({"a": X, "b": X2}, {"early": Y2, "late": Y},
                   {"early": WEIGHTS, "late": WEIGHTS[::-1].copy()}),
                  loss={"early": "mse", "late": "mae"}, metrics={"late": ["mse"]})
    assert model._is_pipelined()


def test_inputs_as_a_tuple_and_one_weight(strategy):
    def make():
        a, b = keras.Input((6,)), keras.Input((3,))
        with stage(0):
            h = Dense(4)(a)
        with stage(1):
            h = Dense(2)(keras.layers.Concatenate()([h, b]) * 2. + 1.)
        return keras.Model((a, b), h)

    check(strategy, make, ((X, X2), Y, WEIGHTS))


def test_masks_cross_stages(strategy):
    words = RANDOM.integers(0, 9, [32, 5])
    words[:, 3:] = 0

    def make():
        x = keras.Input((5,), dtype=tf.int32)
        with stage(0):
            h = keras.layers.Embedding(9, 4, mask_zero=True)(x)
        with stage(1):
            h = keras.layers.GlobalAveragePooling1D()(h)  # of what the mask leaves
        with stage(1):
            return keras.Model(x, Dense(2)(h))

    # Keras leaves the momentum of rows alone that no word asks for.
    check(strategy, make, (words.astype(np.int32), Y), momentum=0.)


class _Penalty(keras.layers.Layer):
    def call(self, x):
        self.add_loss(.1 * tf.reduce_mean(x ** 2))
        self.add_metric(tf.reduce_mean(x), "mean")
        return x


def test_losses_and_metrics_of_layers(strategy):
    def make():
        x = keras.Input((6,))
        with stage(0):
            h = _Penalty()(Dense(4, kernel_regularizer="l2", activity_regularizer="l1")(x))
        with stage(1):
            h = Dense(2, bias_regularizer="l2")(h)
        model = keras.Model(x, h)
        with stage(1):
            model.add_loss(.1 * tf.reduce_mean(h ** 2))
        return model

    check(strategy, make, (X, Y))


def test_shared_layers_and_a_device_mapping(strategy):
    def make():
        shared = Dense(6, activation="tanh")
        x = h = keras.Input((6,))
        for number in range(3):
            with stage(number):
                h = shared(h)
                h = Dense(6)(h) if number == 1 else h
        with stage(3):
            return keras.Model(x, Dense(2)(h))

    schedule = ipu.ops.pipelining_ops.PipelineSchedule.Sequential
    check(strategy, make, (X, Y), device_mapping=[0, 0, 0, 1], pipeline_schedule=schedule)
    with strategy.scope():
        model = make()
        model.compile("sgd", "mse", steps_per_execution=8)
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=8, device_mapping=[0, 1, 0, 1],
            pipeline_schedule=schedule)
        with pytest.raises(Exception, match="an input can only be used by pipeline stages on the "
                                            "same IPU"):
            model.fit(dataset((X, Y)), verbose=0)


class _Inside(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.second = Dense(4, activation="tanh"), Dense(4)

    def call(self, x):
        return self.second(self.first(x)) + x[:, :4]


def _number(model):
    """Gives the layers of a model and of those inside the stages 0, 0, 1, 1 ..., in order."""
    assignments = model.get_pipeline_stage_assignment()
    every = list(fitting.flat(assignments))
    for number, one in enumerate(every):
        one.pipeline_stage = 2 * number // len(every)
    model.set_pipeline_stage_assignment(assignments)


@pytest.mark.parametrize("inside", ["functional", "sequential", "subclass"])
def test_nested_models(strategy, inside):
    def make():
        if inside == "functional":
            x = keras.Input((6,))
            part = keras.Model(x, Dense(6)(keras.layers.Dropout(0.)(x)))
        elif inside == "sequential":
            part = keras.Sequential([Dense(5, activation="relu"), Dense(6)])
        else:
            part = _Inside()
        x = keras.Input((6,))
        return keras.Model(x, Dense(2)(part(Dense(6, activation="tanh")(x))))

    model = check(strategy, make, (X, Y), assign=_number)
    assert model._get_pipeline_maximum_pipeline_stage() == 1
    lines = []
    model.print_pipeline_stage_assignment_summary(print_fn=lines.append)
    assert any(line.startswith("Nested Model:") for line in lines)


def test_a_nested_model_in_a_sequential_one_and_in_a_subclass(strategy):
    def sequential():
        return keras.Sequential([keras.Input((6,)), Dense(6), keras.Sequential(
            [keras.Input((6,)), Dense(5, activation="relu")]), Dense(2)])

    class Outside(keras.Model):
        def __init__(self):
            super().__init__()
            self.before, self.part, self.after = Dense(6), _Inside(), Dense(2)

        def call(self, x):
            with stage(0):
                x = self.before(x)
                x = self.part(x)
            with stage(1):
                return self.after(x)

    check(strategy, sequential, (X, Y), assign=_number)
    check(strategy, Outside, (X, Y))


def test_a_subclass_with_several_inputs_and_a_training_argument(strategy):
    class Two(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = Dense(4), Dense(2)
            self.dropout = keras.layers.Dropout(0.)

        def call(self, inputs, training):
            with stage(0):
                h = self.dropout(self.first(inputs["a"]), training=training)
            with stage(1):
                return {"out": self.second(tf.concat([h, inputs["b"]], 1))}

    check(strategy, Two, ({"a": X, "b": X2}, {"out": Y}), loss={"out": "mse"},
          metrics={"out": ["mae"]})


def test_keys_of_inputs_that_are_no_strings(strategy):
    """predict() has nothing but the dict, and its keys cannot be names of arguments."""
    class Numbered(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = Dense(4), Dense(2)

        def call(self, inputs):
            with stage(0):
                h = self.first(inputs[True])
            with stage(1):
                return self.second(tf.concat([h, inputs[False]], 1))

    check(strategy, Numbered, ({True: X, False: X2}, Y))


def test_data_with_fewer_inputs_than_the_model(strategy):
    with strategy.scope():
        inputs = [keras.Input((6,)), keras.Input((3,))]
        with stage(0):
            hidden = Dense(4)(inputs[0])
        with stage(1):
            outputs = Dense(2)(keras.layers.Concatenate()([hidden, inputs[1]]))
        model = keras.Model(inputs, outputs)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=COUNT)
        model.compile("sgd", "mse", steps_per_execution=COUNT)
        with pytest.raises(ValueError, match=r"expects 2 input\(s\), but it received 1 input"):
            model.fit(dataset((X, Y)), verbose=0)
