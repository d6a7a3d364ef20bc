"""Gradients of sums and means over replicas: one replica's value is a term of the results of all
replicas in its group, so its gradient is the same all-reduce of theirs."""

import json

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _collectives
from tremula.tf.runtime.ops import collective_shapes


@tf.RegisterGradient("XlaCustomCallV2")
def _of_custom_call(operation, *upstream):
    """Of an all-reduce. Other custom calls get their gradients where they are made."""
    operation = operation.outputs[0].op  # a tape has something else that has no name
    if not _collectives.is_all_reduce(operation):
        raise LookupError(f"The operation {operation.name} has no gradient.")
    config = json.loads(operation.get_attr("backend_config"))
    return _reduced(operation, upstream[0], config["op"], config["group_size"])


@tf.RegisterGradient(collective_shapes.STAND_IN)
def _of_stand_in(operation, upstream):
    operation = operation.outputs[0].op
    op = collective_shapes.reduction(operation.get_attr("reduce_op"))
    return _reduced(operation, upstream, op, 0), None


def _reduced(operation, upstream, op, size):
    name = operation.name.rpartition("/")[2]
    return _collectives.all_reduce(upstream, op, size, f"{name}Grad")
