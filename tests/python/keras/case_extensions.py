"""Extensions of classes of Keras that a strategy has, by instance and by class method."""

import numpy as np
import pytest
from tensorflow import keras

from tremula.tf.inner import keras as inner


@pytest.fixture
def base_layer(strategy):
    """The module of Keras' layers, which shows what extensions are made of."""
    del strategy
    return inner.module("engine.base_layer")


def test_a_class_method_hands_over_in_the_scope_only(strategy, base_layer):
    class Scale(keras.layers.Layer):
        """Multiplies by three."""

        @classmethod
        @base_layer.extension_delegate
        def scaled(cls, value, **keywords):
            """Three times a value."""
            del keywords
            return value * 3

    class Twice(Scale):
        """The same twice."""

        @classmethod
        def scaled(cls, value, **keywords):
            return super().scaled(value, **keywords) + cls.__base__.scaled(value)

    class Negated(base_layer.KerasExtension):
        """What a strategy has of Scale."""

        @classmethod
        def _scaled_supported(cls, value, **keywords):
            del keywords
            return value != 0

        @classmethod
        def _scaled_delegate(cls, value, **keywords):
            del keywords
            assert cls is Scale
            return -cls.scaled(value, __extension_delegate=False)

    strategy._register_keras_extension(Scale, base_layer.KerasExtension, Negated)
    assert (Scale.scaled(2), Twice.scaled(2)) == (6, 12)
    with strategy.scope():
        assert (Scale.scaled(2), Scale.scaled(0)) == (-6, 0)
        assert Twice.scaled(2) == 0  # Twice itself is not extended
    strategy._delete_keras_extension(Scale, base_layer.KerasExtension)
    with strategy.scope():
        assert Scale.scaled(2) == 6


@pytest.mark.parametrize("make", [
    lambda: keras.Sequential([keras.layers.Dense(1)]),
    lambda: keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])])
def test_numbers_are_rows_of_one(strategy, make):
    """Keras 2.6 gave data of one dimension a second one."""
    with strategy.scope():
        model = make()
        model.compile("sgd", "mse")
        model.fit([1., 2.], [3., 4.], batch_size=1, verbose=0)
        assert model.predict([1., 2.], batch_size=1).shape == (2, 1)
        assert np.isfinite(model.evaluate([1., 2.], [3., 4.], batch_size=1, verbose=0))


def test_schedules_by_the_name_of_keras_2_6():
    if inner.package() != "keras":
        pytest.skip("`keras` is Keras 3 here")
    import keras as by_its_name
    module = by_its_name.optimizer_v2.learning_rate_schedule
    assert module.ExponentialDecay is keras.optimizers.schedules.ExponentialDecay
