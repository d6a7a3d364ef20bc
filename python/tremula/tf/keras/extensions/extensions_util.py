"""Elements and results of queues."""

import numpy as np
import tensorflow as tf


def merge_into_batch_dimension(results, replication_factor):
    """An array [steps(, replicas), batch, ...] as [steps * replicas * batch, ...]."""
    lost = 2 if replication_factor > 1 else 1
    results = np.asarray(results)
    shape = results.shape
    return results.reshape((int(np.prod(shape[:lost + 1])), *shape[lost + 1:]))


def with_two_dimensions(value):
    """A tensor [n], or its TensorSpec, as [n, 1], because Keras 2.6 did so with an element's parts.
    Tensors of more dimensions and other objects stay."""
    if isinstance(value, tf.TensorSpec):
        return tf.TensorSpec([*value.shape, 1], value.dtype) if value.shape.rank == 1 else value
    return tf.expand_dims(value, -1) if tf.is_tensor(value) and value.shape.rank == 1 else value
