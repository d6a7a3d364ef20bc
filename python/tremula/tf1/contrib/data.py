"""`tf.contrib.data`: what is `tf.data.experimental` today."""

import tensorflow.compat.v1 as tf

from tremula.tf1 import missing

__path__ = []  # the original had files below


def __getattr__(name):
    value = None if name.startswith("__") else getattr(tf.data.experimental, name, None)
    if value is None:
        raise missing.attribute("data", name)
    return value


def map_and_batch(map_func, batch_size, num_parallel_batches=None, drop_remainder=False,
                  num_parallel_calls=None):
    """A function for Dataset.apply(): map() then batch()."""
    if num_parallel_batches is not None:
        if num_parallel_calls is not None:
            raise ValueError("Only one of num_parallel_batches and num_parallel_calls can be set.")
        num_parallel_calls = batch_size * num_parallel_batches
    return lambda dataset: dataset.map(map_func, num_parallel_calls).batch(
        batch_size, drop_remainder=drop_remainder)


def batch_and_drop_remainder(batch_size):
    """A function for Dataset.apply(): batch() without a smaller last batch."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def shuffle_and_repeat(buffer_size, count=None, seed=None):
    """A function for Dataset.apply(): shuffle() then repeat()."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def unbatch():
    """A function for Dataset.apply(): unbatch()."""
    return lambda dataset: dataset.unbatch()
