"""Optimizers in the style of tensorflow_addons: a class beside Keras' adds weight decay, and has a
minimize() of its own, which theirs inherit."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

import fitting
from tensorflow.python import ipu

legacy = keras.optimizers.legacy
RNG = np.random.default_rng(2)
IMAGES = RNG.standard_normal((48, 8, 8, 3)).astype("float32")
CLASSES = RNG.integers(0, 4, 48).astype("int32")


class Decay:
    """Decoupled weight decay, for a class that has an optimizer of Keras as its next base."""

    def __init__(self, weight_decay, **keywords):
        super().__init__(**keywords)
        self._set_hyper("weight_decay", weight_decay)
        self._decayed = None

    def minimize(self, loss, var_list, grad_loss=None, name=None, decay_var_list=None, tape=None):
        self._decayed = decay_var_list and {one.ref() for one in decay_var_list}
        return super().minimize(loss, var_list=var_list, grad_loss=grad_loss, name=name, tape=tape)

    def apply_gradients(self, grads_and_vars, name=None, decay_var_list=None, **keywords):
        self._decayed = decay_var_list and {one.ref() for one in decay_var_list}
        return super().apply_gradients(grads_and_vars, name=name, **keywords)

    def _prepare_local(self, var_device, var_dtype, apply_state):
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[var_device, var_dtype]["decay"] = self._get_hyper("weight_decay", var_dtype)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        place = var.device, var.dtype.base_dtype
        factor = (apply_state or {}).get(place) or self._fallback_apply_state(*place)
        decays = not self._decayed or var.ref() in self._decayed
        shrunk = var.assign_sub(factor["decay"] * var) if decays else tf.no_op()
        with tf.control_dependencies([shrunk]):
            return super()._resource_apply_dense(grad, var, apply_state=apply_state)

    def get_config(self):
        return {**super().get_config(),
                "weight_decay": self._serialize_hyperparameter("weight_decay")}


class SGDW(Decay, legacy.SGD):
    """Inherits minimize()."""


class AdamW(Decay, legacy.Adam):
    """Inherits minimize()."""


class Further(SGDW):
    """Inherits it from a class that does so."""


class Named(SGDW):
    """Has the minimize() of its base as its own."""
    minimize = legacy.SGD.minimize


class Own(SGDW):
    """Overrides it."""

    def minimize(self, *arguments, **keywords):
        return super().minimize(*arguments, **keywords)


MAKE = {SGDW: lambda kind=SGDW: kind(.002, learning_rate=.05, momentum=.9),
        AdamW: lambda: AdamW(.002, learning_rate=.01),
        Further: lambda: MAKE[SGDW](Further), Named: lambda: MAKE[SGDW](Named)}


@functools.cache
def stock_of(kind):
    made = fitting.compiled(optimizer=MAKE[kind](), steps=1)
    made.fit(fitting.data(32), epochs=2, verbose=0)
    return made


@pytest.mark.parametrize("by_variable", [False, True])
@pytest.mark.parametrize("kind", MAKE)
def test_accumulated(kind, by_variable):
    """Means of 4 batches of 8 are means of 32; weights shrink in each update, not each batch."""
    stock = stock_of(kind)
    with fitting.scope():
        made = fitting.compiled(optimizer=MAKE[kind]())
        made.set_gradient_accumulation_options(
            4, "mean", use_v2_gradient_accumulation_optimizer=by_variable)
        made.fit(fitting.data(8), epochs=2, verbose=0)
    fitting.same_weights(made, stock)
    assert int(made.optimizer.iterations) == 4


@pytest.mark.parametrize("wrap", [lambda one: one, keras.mixed_precision.LossScaleOptimizer])
def test_a_class_with_a_minimize_of_its_own(wrap):
    with fitting.scope():
        made = fitting.compiled(optimizer=wrap(MAKE[SGDW](Own)))
        made.fit(fitting.data(), verbose=0)
        made.set_gradient_accumulation_options(2)
        with pytest.raises(ValueError, match="must not override OptimizerV2.minimize.$"):
            made.fit(fitting.data(), verbose=0)


# ---- A pipelined convolutional network ----

def network(stages=False):
    def unit(x, filters, strides=1):
        x = layers.Conv2D(filters, 3, strides, padding="same", use_bias=False)(x)
        x = layers.LayerNormalization(center=False)(x)
        return layers.ReLU()(x)

    def stage(number):
        return ipu.keras.PipelineStage(number) if stages else tf.name_scope("stock")

    keras.utils.set_random_seed(3)
    inputs = keras.Input((8, 8, 3))
    with stage(0):
        x = unit(inputs, 4)
    with stage(1):
        x = layers.Add()([x, unit(x, 4)])
        x = unit(x, 8, 2)
    with stage(2):
        x = layers.GlobalAveragePooling2D()(x)
        return keras.Model(inputs, layers.Dense(4)(x))


def trained(model, optimizer, batch, steps):
    """The losses of two epochs, and the weights."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"], steps_per_execution=steps)
    data = tf.data.Dataset.from_tensor_slices((IMAGES, CLASSES)).batch(batch, drop_remainder=True)
    return model.fit(data, epochs=2, verbose=0).history["loss"], model.get_weights()


@functools.cache
def trained_stock(kind):
    return trained(network(), MAKE[kind](), 24, 1)


@pytest.mark.parametrize("schedule", ["Grouped", "Interleaved"])
@pytest.mark.parametrize("kind", [SGDW, AdamW])
def test_a_pipelined_network(kind, schedule):
    wanted = trained_stock(kind)
    with fitting.scope(4):
        model = network(stages=True)
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=6, device_mapping=[0, 1, 2],
            gradient_accumulation_reduction_method="mean",
            pipeline_schedule=ipu.pipelining_ops.PipelineSchedule[schedule])
        found = trained(model, MAKE[kind](), 4, 12)
    for one, other in zip(found[1], wanted[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4)
