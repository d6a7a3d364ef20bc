"""Programs of SDK 2.1 that read datasets eagerly in the scope of an IPUStrategy.

Tremula knows such a program by names in its text, as `experimental_run_v2` here.
"""

import numpy as np
import pytest
import tensorflow as tf


def numbers(count=4):
    return tf.data.Dataset.range(count).map(lambda x: tf.cast(x, tf.float32))


@pytest.fixture
def scope(strategy):
    with strategy.scope():
        yield strategy


def test_a_loop_over_a_dataset(scope, events):
    weight = tf.Variable([0., 0.])

    @tf.function(jit_compile=True)
    def step(x, y):
        weight.assign_add(x * y * [1., 1.])
        return tf.reduce_sum(weight)

    dataset = tf.data.Dataset.zip((numbers(), numbers()))
    events()
    for _ in range(2):  # from the beginning each time
        for (x, y), i in zip(dataset, range(3)):
            assert x.device.endswith("CPU:0") and float(x) == i
            loss = scope.experimental_run_v2(step, args=[x, y])
    assert float(loss) == 2 * 2 * (1 + 4)
    assert events().count("EXECUTE") == 6


def test_the_end_of_the_data(scope):
    assert [float(one) for one in numbers()] == [0, 1, 2, 3]
    iterator = iter(numbers(1))
    assert float(iterator.get_next()) == 0
    with pytest.raises(tf.errors.OutOfRangeError):
        iterator.get_next()
    assert list(iterator) == []
    assert [float(one) for one in numbers().as_numpy_iterator()] == [0, 1, 2, 3]


def test_elements_that_cannot_be_fed(scope):
    assert [int(one) for one in tf.data.Dataset.range(3)] == [0, 1, 2]  # int64
    assert [one.shape[0] for one in numbers().batch(3)] == [3, 1]
    rows = tf.data.Dataset.from_tensors({"a": tf.ragged.constant([[1.], [2., 3.]])})
    element, = rows
    np.testing.assert_array_equal(element["a"].values, [1, 2, 3])


def test_the_iterator_feeds_functions_too(scope, events):
    @tf.function(jit_compile=True)
    def step(iterator):
        return next(iterator) * 2.

    iterator = iter(numbers())
    assert float(next(iterator)) == 0
    events()
    assert float(scope.experimental_run_v2(step, args=(iterator,))) == 2
    assert events().count("EXECUTE") == 1


def test_a_loop_in_a_module_that_the_program_calls(scope):
    helper = {"__name__": "helper"}
    exec("def first(dataset):\n  return next(iter(dataset))\n", helper)  # noqa: S102
    assert float(helper["first"](numbers())) == 0
