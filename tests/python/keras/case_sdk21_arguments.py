"""What the model classes of SDK 2.1 refuse, in the original's words, and steps' arithmetic."""

import functools
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

from tremula.tf.keras.models import steps

Dense = keras.layers.Dense
TRAIN, TEST, PREDICT = steps.TRAIN, steps.TEST, steps.PREDICT
X, Y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")


def says(error, text):
    return pytest.raises(error, match="^" + re.escape(text) + "$")


@pytest.fixture
def scope(strategy):
    with strategy.scope():
        yield strategy


def batches(size=2):
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(size, drop_remainder=True)


def sequential(**options):
    made = ipu.keras.Sequential([Dense(1)], **options)
    made.compile("sgd", "mse")
    return made


def functional(layer=None, **options):
    inputs = keras.Input((3,))
    made = ipu.keras.Model(inputs, (layer or Dense(1))(inputs), **options)
    made.compile("sgd", "mse")
    return made


# ---- Construction ----

@pytest.mark.parametrize("make, text", [
    (lambda: ipu.keras.Sequential(), "IPU Sequential requires a list of Layers."),
    (lambda: ipu.keras.Sequential((Dense(1),)), "IPU Sequential requires a list of Layers."),
    (lambda: ipu.keras.Sequential([Dense(1), 2]),
     "An IPU Sequential's list of Layers may only contain Keras Layers."),
    (lambda: ipu.keras.Model(), "Model was not provided with 'inputs' and 'outputs'"),
    (lambda: ipu.keras.Model(keras.Input((1,))),
     "Model was not provided with 'inputs' and 'outputs'"),
    (lambda: ipu.keras.PipelineSequential([], 2),
     "An IPU pipeline must take a non-empty list of stages, where each stage is a list of Keras "
     "Layers."),
    (lambda: ipu.keras.PipelineSequential([Dense(1)], 2),
     "An IPU pipeline may only contain lists of stages, where each stage is a list of Keras "
     "Layers."),
    (lambda: ipu.keras.PipelineSequential([[1]], 2),
     "Each list in the `stages` list must contain only Keras Layers.")])
def test_what_cannot_be_constructed(scope, make, text):
    with says(ValueError, text):
        make()


def test_other_arguments_of_functional_models(scope):
    inputs = keras.Input((3,))
    outputs = Dense(1)(inputs)
    with pytest.raises(TypeError, match="Functional models may only specify `name` and `trainable` "
                       "keyword arguments during initialization. Got an unexpected argument:"):
        ipu.keras.Model(inputs, outputs, colour=3)
    made = ipu.keras.Model(outputs=[outputs], inputs=[inputs], name="mine", trainable=False)
    assert made.name == "mine" and not made.trainable_weights and made.built
    assert isinstance(made, keras.Model) and type(made).__name__ == "IPUModel"
    with pytest.raises(TypeError, match="gradient_accumulation_count"):
        ipu.keras.PipelineModel(inputs, outputs)


def test_stages(scope):
    inputs = keras.Input((3,))
    first, last = Dense(2, name="first"), Dense(1, name="last")

    def made(*stages):
        x = inputs
        for layer, stage in zip((first, last), stages):
            with ipu.keras.PipelineStage(stage):
                x = layer(x)
        return ipu.keras.PipelineModel(inputs, x, gradient_accumulation_count=4)

    assert made(0, 1).shard_count == 2 and made(0, 1).stages == [0, 1]
    with says(ValueError, "Pipeline stages in the graph need to be strictly increasing, found "
              "pipeline stages 0, 2, however the following pipeline stages are missing 1."):
        made(0, 2)
    with says(ValueError, "Layer last in pipeline stage 0 has a dependency from a pipeline stage "
              "which has not yet executed. Layers can only use outputs from current or previous "
              "pipeline stages."):
        made(1, 0)
    outputs = last(first(inputs))
    with pytest.raises(ValueError) as error:
        ipu.keras.PipelineModel(inputs, outputs, gradient_accumulation_count=4)
    assert str(error.value) == (
        f"All layers of a pipelined model must have an associated pipeline stage.\nHowever, {first}"
        " has not been assigned to one.\nPipeline stages can be assigned when a layer is "
        "constructed, or each time a layer is called.\nDifferent pipeline stages can assigned to "
        "each call.")
    with ipu.keras.PipelineStage(0):
        own = Dense(2)
    with ipu.keras.PipelineStage(1):
        outputs = last(own(inputs))  # the call's stage goes before the layer's
    with pytest.raises(ValueError, match="pipeline stages 1, however .* are missing 0"):
        ipu.keras.PipelineModel(inputs, outputs, gradient_accumulation_count=4)


def test_a_model_in_the_place_of_a_stage(scope):
    with pytest.raises(TypeError, match="write `with ipu.keras.PipelineStage"):
        with ipu.keras.PipelineModel(0):
            pass
    inputs = keras.Input((3,))
    with ipu.keras.PipelineStage(0):
        hidden = Dense(1)(inputs)
    made = ipu.keras.PipelineModel(inputs, hidden, gradient_accumulation_count=1)
    with pytest.raises(TypeError, match="PipelineModel is a model and not the scope of a stage"):
        with made:
            pass


def test_older_names(scope, caplog):
    made = ipu.keras.Sequential([Dense(1)], accumulation_count=3, accumulation_dtype=tf.float16)
    assert made.gradient_accumulation_count == 3 and made.gradient_accumulation_dtype == tf.float16
    assert ("From IPUSequential: Argument 'accumulation_count' is deprecated, use "
            "'gradient_accumulation_count' instead.") in caplog.text
    with says(ValueError, "Arguments accumulation_count and gradient_accumulation_count cannot be "
              "used together."):
        functional(accumulation_count=3, gradient_accumulation_count=2)
    stages = [[Dense(2)], [Dense(1)], [Dense(1)]]
    old = ipu.keras.pipeline.SequentialPipelineModel(stages, gradient_accumulation_count=6)
    assert "The name SequentialPipelineModel is deprecated. Please use PipelineSequential" in (
        caplog.text)
    older = ipu.keras.PipelinedModel(stages, pipeline_depth=6, device_mapping=[0, 1, 0])
    for one, shards in ((old, 4), (older, 2)):
        assert isinstance(one, ipu.keras.PipelineSequential) and one.shard_count == shards
        assert one.gradient_accumulation_count == 6 and one.stages == stages
    assert ipu.keras.Model is ipu.keras.model.IPUModel
    assert ipu.keras.PipelineStage is ipu.keras.pipeline.PipelineStage


# ---- Calls, saving, compiling ----

def test_what_models_do_not_do(scope):
    inputs = keras.Input((3,))
    with ipu.keras.PipelineStage(0):
        hidden = Dense(1)(inputs)
    with ipu.keras.PipelineStage(1):
        outputs = Dense(1)(hidden)
    models = {
        "IPUModel": functional(), "IPUSequential": sequential(),
        "PipelineModel": ipu.keras.PipelineModel(inputs, outputs, gradient_accumulation_count=4),
        "PipelineSequential": ipu.keras.PipelineSequential([[Dense(1)], [Dense(1)]], 4)}
    for name, made in models.items():
        text = (f"{name} can only be called through the `fit`, `evaluate` or `predict` "
                "interfaces.")
        with says(ValueError, text):
            made(X)
        with pytest.raises(ValueError, match=re.escape(text)):  # a loop of one's own
            scope.run(tf.function(functools.partial(made, tf.ones((2, 3))), jit_compile=True))
        with says(NotImplementedError, "IPU Keras models do not support the `save` interface."):
            made.save("anywhere")
    assert [len(one.weights) for one in models.values()] == [2, 0, 4, 0]
    models["IPUSequential"].build((None, 3))
    models["PipelineSequential"].build((None, 3))
    assert [len(one.weights) for one in models.values()] == [2, 2, 4, 4]


def test_compile(scope):
    made = functional()
    from tremula.tf.inner import keras as inner
    with says(ValueError, "Optimizer must be a native TensorFlow or Keras V2 optimizer found in "
              "tensorflow.keras.optimizer_v2."):
        made.compile(inner.module("optimizers.optimizer_v1").SGD())
    with says(ValueError, "loss_weights can only be specified as a list."):
        made.compile("sgd", "mse", loss_weights={"dense": 1.0})
    with says(NotImplementedError, "IPU Keras models do not support these parameters to compile(): "
              "weighted_metrics, run_eagerly"):
        made.compile("sgd", "mse", run_eagerly=None, weighted_metrics=[])
    with pytest.raises(ValueError, match="`steps_per_run` of fit"):
        made.compile("sgd", "mse", steps_per_execution=4)
    fresh = ipu.keras.Sequential([Dense(1)])
    with pytest.raises(RuntimeError, match="You must compile your model before training/testing"):
        fresh.fit(batches(), verbose=0)
    assert fresh.predict(batches().map(lambda x, y: x)).shape == (8, 1)


def test_arguments_of_fit_evaluate_and_predict(scope):
    made = sequential()
    for method in ("fit", "evaluate", "predict"):
        with says(ValueError, f"Do not specify `batch_size` in IPUSequential.{method}(). Use the "
                  "Dataset.batch() method to apply batching at the input dataset level."):
            getattr(made, method)(batches(), batch_size=2)
        with says(NotImplementedError, "IPU Keras models do not support these parameters to "
                  f"{method}(): validation_data, workers"):
            getattr(made, method)(batches(), workers=1, validation_data=None)
    with says(ValueError, "fit requires a dataset with a structure containing 2 element(s), but "
              "got 1 element(s) instead."):
        made.fit(batches().map(lambda x, y: x))
    with says(ValueError, "predict requires a dataset with a structure containing 1 element(s), "
              "but got 2 element(s) instead."):
        made.predict(batches())
    with says(ValueError,
              "`batch_size` or `steps` is required for `Tensor` or `NumPy` input data."):
        made.fit(X, Y)
    with pytest.raises(ValueError, match="drop_remainder=True"):
        made.fit(tf.data.Dataset.from_tensor_slices((X, Y)).batch(2))
    made.fit(batches(), verbose=0, colour="blue")
    assert made.args == {"colour": "blue"}


def test_devices(scope):
    made = ipu.keras.PipelineSequential([[Dense(1)], [Dense(1)], [Dense(1)]], 6)
    made.compile("sgd", "mse")
    with says(ValueError, "Current device has 1 IPUs attached, however the current model requires "
              "a multiple of 4 IPUs."):
        made.fit(batches())


def test_outside_of_a_strategy():
    with says(ValueError, "IPUModel can only be used on an IPU device."):
        functional().fit(batches())


def test_losses_that_there_are_not(scope):
    with says(ValueError, "Custom layer losses are not supported."):
        functional(Dense(1, kernel_regularizer="l2")).fit(batches(), verbose=0)
    made = functional()
    made.compile("sgd")
    with says(ValueError, "The model cannot be compiled because it has no loss to optimize."):
        made.fit(batches(), verbose=0)
    made = ipu.keras.Sequential([keras.layers.Flatten()])
    made.compile("sgd", "mse")
    with says(ValueError, "Sequential must have at least one trainable parameter."):
        made.evaluate(batches(), verbose=0)
    with says(ValueError, "Model must have at least one trainable parameter."):
        functional(keras.layers.Flatten()).fit(batches(), verbose=0)
    made = ipu.keras.PipelineSequential([[keras.layers.Flatten()], [keras.layers.Flatten()]], 4,
                                        device_mapping=[0, 0])
    made.compile("sgd", "mse")
    with says(ValueError, "Model must have at least one trainable parameter."):
        made.fit(batches(), verbose=0)
    assert made.evaluate(batches(), verbose=0) == [0.0]
    made = functional()
    made.optimizer = 3
    with says(ValueError, "Only Keras optimizer_v2.Optimizer and TensorFlow native "
              "training.Optimizer subclasses are supported."):
        made.fit(batches(), verbose=0)


# ---- Steps ----

def plan(mode=TRAIN, cardinality=-2, size=None, steps_given=None, per_run=None, count=1,
         replicas=1):
    return steps.plan("M", mode, cardinality, size, steps_given, per_run, count, replicas,
                      lambda batches: cardinality if batches is None else batches)


@pytest.mark.parametrize("options, expected", [
    # mini-batches, steps and steps per run of a replica, executions, restarts
    (dict(cardinality=24), (24, 24, 24, 1, True)),
    (dict(cardinality=24, count=2, replicas=3), (24, 4, 4, 1, True)),
    (dict(cardinality=24, count=2, replicas=2, per_run=3), (24, 6, 3, 2, True)),
    (dict(cardinality=24, steps_given=6, count=2, replicas=2), (12, 3, 3, 1, True)),
    (dict(cardinality=-1, steps_given=6, per_run=3, replicas=2), (6, 3, 3, 1, False)),
    (dict(cardinality=-2, steps_given=4, per_run=2), (4, 4, 2, 2, True)),
    (dict(size=25, count=2, replicas=3), (24, 4, 4, 1, True)),
    (dict(size=25, count=2, replicas=2, per_run=2), (24, 6, 2, 3, True)),
    (dict(size=25, steps_given=10, count=2, per_run=5), (20, 10, 5, 2, True))])
def test_plans(options, expected):
    found = plan(**options)
    assert (*found[:3], len(found.steps()), found.restarts) == expected


INFINITE = ("When using an infinitely repeating dataset, you must provide the number of steps per "
            "epoch (steps_per_epoch).")


@pytest.mark.parametrize("options, text", [
    (dict(cardinality=-1), INFINITE), (dict(mode=TEST), INFINITE),
    (dict(cardinality=5, steps_given=3, count=2),
     "Steps per epoch times gradient accumulation count (3 x 2) is greater than the number of "
     "mini-batches in the dataset (5)."),
    (dict(mode=PREDICT, size=5, steps_given=3, count=2),
     "Steps times gradient accumulation count (3 x 2) is greater than the number of mini-batches "
     "in the dataset (5)."),
    (dict(size=5, count=2, replicas=3),
     "The number of mini-batches in the dataset (5) must be at least the gradient accumulation "
     "count (2) multiplied by the replication factor (3)."),
    (dict(size=5, count=2, per_run=3),
     "The number of mini-batches in the dataset (5) must be at least the gradient accumulation "
     "count (2) multiplied by the replication factor (1) multiplied by steps_per_run (3)."),
    (dict(steps_given=5, per_run=2, replicas=2),
     "M requires the number of steps in an epoch 'steps_per_epoch' (5) to be evenly divisible by "
     "the number of steps per execution of the on-device training loop 'steps_per_run' (2) "
     "multiplied by the replication factor (2)."),
    (dict(mode=TEST, steps_given=5, per_run=2),
     "M requires the number of steps 'steps' (5) to be evenly divisible by the number of steps per "
     "execution of the on-device evaluation loop 'steps_per_run' (2) multiplied by the replication "
     "factor (1)."),
    (dict(mode=PREDICT, steps_given=5, per_run=2),
     "M requires the number of steps 'steps' (5) to be evenly divisible by the number of steps per "
     "execution of the on-device inference loop 'steps_per_run' (2) multiplied by the replication "
     "factor (1)."),
    (dict(steps_given=5, replicas=2),
     "M requires the number of steps in an epoch 'steps_per_epoch' (5) to be evenly divisible by "
     "the replication factor (2)."),
    (dict(mode=TEST, steps_given=5, replicas=2),
     "M requires the number of steps 'steps' (5) to be evenly divisible by the replication factor "
     "(2)."),
    (dict(cardinality=9, count=2, replicas=2),
     "M requires the number of mini-batches in the dataset (9) to be evenly divisible by the "
     "gradient accumulation count (2) multiplied by the replication factor (2)"),
    (dict(cardinality=12, count=2, replicas=2, per_run=2),
     "M requires the number of mini-batches in the dataset (12) to be evenly divisible by the "
     "product of 'steps_per_run' (2), the gradient accumulation count (2), and the replication "
     "factor (2).")])
def test_plans_that_do_not_fit(options, text):
    with says(ValueError, text):
        plan(**options)


@pytest.mark.parametrize("mode, per_run, product, kept, argument", [
    (TRAIN, None, "", 24, "steps per epoch (steps_per_epoch)"),
    (TEST, 4, " multiplied by steps_per_run (4)", 16, "steps")])
def test_samples_that_are_dropped(caplog, mode, per_run, product, kept, argument):
    assert plan(mode=mode, size=25, per_run=per_run, count=2, replicas=2).mini_batches == kept
    assert (" The number of mini-batches in the dataset (25) must be a multiple of the gradient "
            f"accumulation count (2) multiplied by the replication factor (2){product}. Samples "
            f"have been dropped to give a dataset of {kept} mini-batches. Adjust the size of the "
            f"supplied dataset or specify the {argument} if you do not want this to happen."
            ) in caplog.text


def test_steps_that_keras_refuses(scope):
    with pytest.raises(ValueError, match="The dataset you passed contains 4 batches, but you "
                       "passed `epochs=2` and `steps_per_epoch=4`"):
        sequential().fit(batches(), epochs=2, steps_per_epoch=4, verbose=0)
    with pytest.raises(ValueError, match="The number of steps"):
        sequential().fit(batches(), steps_per_epoch=0)
