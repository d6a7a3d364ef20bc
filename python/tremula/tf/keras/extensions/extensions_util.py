"""The number of replicas; elements and results of queues."""

import numpy as np
import tensorflow as tf

from tremula.tf.ipu import devices
from tremula.tf.keras.extensions import messages


def num_replicas(device_ordinal, num_ipus):
    """How many replicas of `num_ipus` IPUs, rounded up to a power of two, a device has in this
    process. Raises ValueError if it has too few IPUs."""
    ipus = devices.num_ipus(device_ordinal) // devices.num_processes()
    wanted = 1 << (num_ipus - 1).bit_length()
    if wanted > ipus:
        raise ValueError(messages.TOO_FEW_IPUS.format(ipus, wanted))
    return ipus // wanted


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
