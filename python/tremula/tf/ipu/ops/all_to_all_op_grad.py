"""Exchanging pieces between replicas, with gradients."""

import tensorflow.compat.v1 as tf

from tremula import custom_calls
from tremula.tf.ipu.ops import _collectives


def all_to_all(x, split, concat, count, name):
    """The gradient is the exchange the other way round."""
    @tf.custom_gradient
    def exchange(value):
        return (_exchange(value, split, concat, count, name),
                lambda upstream: _exchange(upstream, concat, split, count, f"{name}Grad"))
    return exchange(x)


def _exchange(x, split, concat, count, name):
    shape = x.shape.as_list()
    shape[split] //= count
    shape[concat] *= count
    return _collectives.call(custom_calls.ALL_TO_ALL,
                             {"split": split, "concat": concat, "group_size": count}, x, shape,
                             name)


def all_gather(x, count, name):
    """All replicas got a replica's value, so its gradient is the sum of their gradients for it."""
    @tf.custom_gradient
    def gather(value):
        def gradient(upstream):
            shard = _collectives.call(
                custom_calls.REDUCE_SCATTER, {"op": "add", "group_size": count},
                tf.reshape(upstream, [-1]), [value.shape.num_elements()], f"{name}Grad")
            return tf.reshape(shard, value.shape)
        gathered = _collectives.call(custom_calls.ALL_GATHER, {"group_size": count}, value,
                                     [count, *value.shape.as_list()], name)
        return gathered, gradient
    return gather(x)
