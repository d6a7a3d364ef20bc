"""Optimizers as programs for Keras 2.6 use them, by the names that Keras 2.15 has other classes
for."""

import interpreter
import keras
import numpy as np
import pytest
import tensorflow as tf

from tensorflow.python import ipu

from tremula.tf.keras import old_optimizers

from ipu_tensorflow_addons.keras.optimizers import AdamIpuOptimizer, SGDIpuOptimizer

if int(keras.__version__[0]) > 2:
    pytest.skip("Keras 3's optimizers have no old ones beside them", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("seed")
OLD = keras.optimizers.legacy
OPTIONS = {"steps_per_execution": 4}


@pytest.fixture(autouse=True)
def new_program(monkeypatch):
    """Nobody has imported `keras.optimizer_v2`."""
    monkeypatch.setitem(old_optimizers._program, "is_old", False)


def data(count=32):
    x = np.random.RandomState(0).randn(count, 6).astype(np.float32)
    return x, x.sum(axis=1, keepdims=True)


def trained(optimizer, options=None, **fit):
    """The weights of a small model after an epoch."""
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(5, activation="tanh", input_shape=(6,),
                              kernel_initializer=tf.keras.initializers.Constant(0.1)),
        tf.keras.layers.Dense(1, kernel_initializer=tf.keras.initializers.Constant(0.2))])
    model.compile(optimizer, "mse", **(options or {}))
    model.fit(*data(), batch_size=4, shuffle=False, verbose=0, **fit)
    return model.get_weights()


def check(weights, expected):
    for one, other in zip(weights, expected):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_arguments_that_only_the_old_ones_take(name, strategy):
    def halve(pairs):
        return [(gradient / 2, variable) for gradient, variable in pairs]

    make, old = getattr(tf.keras.optimizers, name), getattr(OLD, name)
    with strategy.scope():
        optimizer = make(0.1, gradient_transformers=[halve], decay=0.01)
        assert type(optimizer) is old
        weights = trained(optimizer, OPTIONS)
    check(weights, trained(old(0.1, gradient_transformers=[halve], decay=0.01)))
    assert type(make(0.1)) is make and type(make(0.1, use_ema=True)) is make


def test_lr_is_the_learning_rate():
    assert tf.keras.optimizers.SGD(lr=0.25).learning_rate.numpy() == 0.25


def test_a_program_for_keras_2_6_gets_the_old_ones():
    done = interpreter.run(["-c", """
import tensorflow as tf
from tensorflow.python import ipu
assert type(tf.keras.optimizers.get("adam")) is tf.keras.optimizers.Adam
from keras.optimizer_v2 import optimizer_v2
assert isinstance(tf.keras.optimizers.SGD(0.1), optimizer_v2.OptimizerV2)
assert isinstance(tf.keras.optimizers.get("adam"), optimizer_v2.OptimizerV2)
assert type(tf.keras.optimizers.Adam(weight_decay=0.1)) is tf.keras.optimizers.Adam
"""])
    assert done.returncode == 0, done.stderr


class Plain(tf.keras.optimizers.SGD):
    """Nothing but a name."""


class Doubled(Plain):
    """Overrides what only the old classes call."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.sizes = []

    def _create_slots(self, var_list):
        self.sizes.append(len(var_list))
        super()._create_slots(var_list)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        return super()._resource_apply_dense(2 * grad, var, apply_state)


class Own(tf.keras.optimizers.Optimizer):
    """Momentum, written for the old base."""

    def __init__(self, rate, name="Own", **keywords):
        super().__init__(name, **keywords)
        self._set_hyper("learning_rate", rate)

    def _create_slots(self, var_list):
        for var in var_list:
            self.add_slot(var, "kept")

    def _resource_apply_dense(self, grad, var, apply_state=None):
        kept = self.get_slot(var, "kept")
        change = kept.assign(0.9 * kept - self._get_hyper("learning_rate", var.dtype) * grad)
        return var.assign_add(change)

    def get_config(self):
        return {**super().get_config(),
                "rate": self._serialize_hyperparameter("learning_rate")}


def test_all_are_optimizers():
    from tensorflow.keras.optimizers import Optimizer
    for base in (Optimizer, tf.keras.optimizers.Optimizer, tf.optimizers.Optimizer):
        for one in (tf.keras.optimizers.SGD(0.1), tf.keras.optimizers.SGD(0.1, decay=0.5),
                    AdamIpuOptimizer(0.1), Own(0.1), Newer(0.1)):
            assert isinstance(one, base) and issubclass(type(one), base)
        assert not isinstance("sgd", base) and not issubclass(dict, base)
    assert not isinstance(OLD.SGD(0.1), Newer)


class Newer(tf.keras.optimizers.SGD):
    """Written for the new base."""

    def _create_slots(self):
        raise AssertionError("nobody calls this")

    def update_step(self, gradient, variable):
        variable.assign_sub(0.2 * gradient)


def test_subclasses_with_methods_of_the_old_ones(strategy):
    with strategy.scope():
        doubled, own = Doubled(0.1), Own(0.05)
        weights, others = trained(doubled, OPTIONS), trained(own, OPTIONS)
    assert set(doubled.sizes) == {4} and isinstance(doubled, Plain)
    assert isinstance(own, OLD.Optimizer)
    check(weights, trained(OLD.SGD(0.2)))
    check(others, trained(OLD.SGD(0.05, momentum=0.9)))


class Decaying(Plain):
    """Tells that it is written for the old classes by an argument alone."""

    def __init__(self, learning_rate, decay=0.5, **keywords):
        self.rates = [learning_rate]
        super().__init__(learning_rate, decay=decay, **keywords)


def test_a_subclass_that_hands_an_old_argument_to_its_base(strategy):
    with strategy.scope():
        optimizer = Decaying(0.1)
        weights = trained(optimizer, OPTIONS)
    assert isinstance(optimizer, OLD.SGD) and optimizer.rates == [0.1]
    again = Decaying.from_config(optimizer.get_config())
    for one in weights, trained(again):
        check(one, trained(OLD.SGD(0.1, decay=0.5)))


def test_subclasses_for_the_new_ones_stay(strategy):
    assert issubclass(Newer, tf.keras.optimizers.Optimizer)
    with strategy.scope():
        weights = trained(Newer(0.1), OPTIONS)
    check(weights, trained(OLD.SGD(0.2)))


@pytest.mark.parametrize("inner", [
    lambda: AdamIpuOptimizer(0.01), lambda: tf.keras.optimizers.Adam(0.01)])
def test_a_subclass_of_loss_scaling(inner, strategy):
    class Fixed(tf.keras.mixed_precision.LossScaleOptimizer):
        def __init__(self, optimizer, scale):
            super().__init__(optimizer, dynamic=False, initial_scale=scale)
            self.inner_optimizer.gradient_transformers.insert(0, lambda pairs: [
                (gradient / scale, variable) for gradient, variable in pairs])

        def get_unscaled_gradients(self, grads):
            return grads

    with strategy.scope():
        weights = trained(Fixed(inner(), 64.0), OPTIONS)
    check(weights, trained(OLD.Adam(0.01)))


@pytest.mark.parametrize("make", [
    lambda rate: AdamIpuOptimizer(rate), lambda rate: SGDIpuOptimizer(rate, momentum=0.9)])
def test_a_schedule_that_feeds_out_its_rates(make, strategy):
    class FedOut(tf.keras.optimizers.schedules.LearningRateSchedule):
        def __init__(self, queue):
            self.queue = queue

        def __call__(self, step):
            rate = 0.5 / (1.0 + tf.cast(step, tf.float32))
            self.queue.enqueue({"rate": rate})
            return rate

    with strategy.scope():
        queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        trained(make(FedOut(queue)), OPTIONS)
        np.testing.assert_allclose(queue.dequeue()["rate"], 0.5 / np.arange(1, 9), rtol=1e-6)


def test_half_variables_change_by_half_steps():
    start, gradient, rate = np.float16(3.0), np.float16(0.7), np.float16(0.3)
    variable = tf.Variable([start])
    AdamIpuOptimizer(0.3, epsilon=1e-3, debiasing=False).apply_gradients(
        [(tf.constant([gradient]), variable)])
    wide = np.float32(gradient)
    step = np.float32(rate) * (np.float32(0.1) * wide) / (
        np.sqrt(np.float32(0.001) * wide * wide) + np.float32(1e-3))
    assert variable.numpy()[0] == start - np.float16(step)


class Watched(tf.compat.v1.train.Optimizer):
    """An optimizer of TensorFlow 1 that has its say on gradients before they are added up."""

    def __init__(self, queue):
        super().__init__(False, "Watched")
        self._inner, self._queue = tf.compat.v1.train.GradientDescentOptimizer(0.05), queue

    def compute_gradients(self, loss, var_list=None, **keywords):
        pairs = self._inner.compute_gradients(loss, var_list=var_list, **keywords)
        self._queue.enqueue([gradient for gradient, _ in pairs])
        return [(3 * gradient, variable) for gradient, variable in pairs]

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return self._inner.apply_gradients(grads_and_vars, global_step, name)


@pytest.mark.parametrize("accumulated", [1, 2])
def test_gradients_are_what_an_optimizer_of_tensorflow_1_computes(accumulated, strategy):
    with strategy.scope():
        queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        model = tf.keras.Sequential([tf.keras.layers.Dense(
            1, input_shape=(6,), kernel_initializer=tf.keras.initializers.Constant(0.1))])
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=accumulated)
        model.compile(Watched(queue), "mse", steps_per_execution=4)
        model.fit(*data(), batch_size=4, shuffle=False, verbose=0)
        assert [one.shape[0] for one in queue.dequeue()] == [8, 8]
        weights = model.get_weights()
    plain = tf.keras.Sequential([tf.keras.layers.Dense(
        1, input_shape=(6,), kernel_initializer=tf.keras.initializers.Constant(0.1))])
    plain.compile(OLD.SGD(0.15 * accumulated), "mse")
    plain.fit(*data(), batch_size=4 * accumulated, shuffle=False, verbose=0)
    check(weights, plain.get_weights())
