"""Datasets of mini-batches, from the arguments of fit, evaluate and predict."""

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.keras.extensions import data_adapter, messages


def of_input(x, y, batch_size):
    """(dataset, number of its elements if x is arrays, else None). A last mini-batch that is not
    full is left out, float64 becomes float32.

    Raises ValueError for arrays without a batch size and for what Keras cannot read.
    """
    if isinstance(x, tf.data.Dataset) and y is None:
        return data_adapter.narrowed(x, x), None
    adapters = inner.module("engine.data_adapter")
    kind = adapters.select_data_adapter(x, y)
    own_batches = (adapters.DatasetAdapter, adapters.GeneratorDataAdapter,
                   adapters.KerasSequenceAdapter)
    if not batch_size and not issubclass(kind, own_batches):
        raise ValueError(messages.ARRAYS_WITHOUT_SIZE)
    adapter = kind(x, y, batch_size=batch_size)
    made = dataset = adapter.get_dataset()
    size = adapter.get_size() if not issubclass(kind, own_batches) else None
    if adapter.has_partial_batch():
        dataset = dataset.unbatch().batch(batch_size, drop_remainder=True)
        size = size - 1 if size is not None else None
    return data_adapter.narrowed(dataset, made), size


def nothing_like(dataset):
    """A dataset without elements, of the types and shapes of another, which it does not keep."""
    spec = dataset.element_spec
    return tf.data.Dataset.range(0).map(lambda _: tf.nest.map_structure(
        lambda one: tf.zeros(one.shape, one.dtype), spec))
