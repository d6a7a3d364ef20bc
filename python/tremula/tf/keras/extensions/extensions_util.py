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
    """A tensor [n], or the TensorSpec of one, as [n, 1]: so Keras 2.6 took an element's parts.
    What has more dimensions, or is no tensor, stays."""
    if isinstance(value, tf.TensorSpec):
        return tf.TensorSpec([*value.shape, 1], value.dtype) if value.shape.rank == 1 else value
    return tf.expand_dims(value, -1) if tf.is_tensor(value) and value.shape.rank == 1 else value
