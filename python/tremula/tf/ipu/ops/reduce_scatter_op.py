"""Sums over replicas of which each keeps a shard (`tensorflow.python.ipu.reduce_scatter_op`)."""

import tensorflow.compat.v1 as tf

from tremula import custom_calls
from tremula.tf.ipu.ops import _collectives, _generations


@_generations.older_order(
    ("x", "replication_factor", "name"),
    lambda arguments: len(arguments) == 3 and not str(arguments[2]).startswith("COLLECTIVE_OP"))
def reduce_scatter(x, replication_factor, op="COLLECTIVE_OP_ADD", name=None):
    """Combines `x` over the replicas and gives each its shard of the result.

    x                    a tensor [elements] of a type of numbers, or a list of such, for which a
                         list
                         is returned
    replication_factor   the number of replicas, or of those in a group of consecutive ones
    op                   a text: COLLECTIVE_OP_ADD, _MUL, _MIN, _MAX, _LOGICAL_AND, _LOGICAL_OR,
                         _SQUARE_ADD, _LOCAL (nothing is combined) and _MEAN

    Replica i gets elements i * n and on, n = ceil(len(x) / replication_factor) of them; what there
    is too little at the end is zeros.

    Raises ValueError for other ranks, numbers and reductions.
    """
    op = _collectives.reduction(op)
    count = _collectives.replicas(replication_factor, "replication_factor")
    if not tf.nest.flatten(x):
        raise ValueError("reduce_scatter takes a tensor or a list of tensors, but the list is "
                         "empty.")
    results = [_scatter(one, count, op, name or "IpuReduceScatter") for one in tf.nest.flatten(x)]
    return results if len(results) > 1 else results[0]


def _scatter(x, count, op, name):
    x = _collectives.tensor(x, "reduce_scatter")
    if x.shape.rank != 1:
        raise ValueError("reduce_scatter takes tensors of rank 1, but "
                         f"{x.name} has the shape {x.shape}.")
    return _collectives.call(custom_calls.REDUCE_SCATTER, {"op": op, "group_size": count}, x,
                             [-(-x.shape.as_list()[0] // count)], name)
