"""Moving pieces of tensors between replicas (`tensorflow.python.ipu.all_to_all_op`).

Call them in a program that several replicas run. The replicas exchange in groups of
`replication_factor` that follow one another: with 2 of 4 replicas, 0 with 1 and 2 with 3.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _collectives, all_to_all_op_grad


def all_to_all(x, split_dimension, concat_dimension, replication_factor, name=None):
    """Sends a piece of `x` to each replica of the group: a tensor of the pieces that have come.

    x                    a tensor of any type, of a shape that is known
    split_dimension      along which x is cut into `replication_factor` equal pieces; replica i of
                         the group gets piece i
    concat_dimension     along which the pieces that a replica gets are put together, in the order
                         of the replicas that sent them
    replication_factor   the number of replicas, or of those in a group

    With 2 replicas, x of [4, 3], and 0 and 1 as dimensions the result is [2, 6]. Raises ValueError
    for a dimension that x does not have, and for one that cannot be cut evenly.
    """
    x = _collectives.tensor(x, "all_to_all")
    count = _collectives.replicas(replication_factor, "replication_factor")
    split, concat = (_dimension(x, one) for one in (split_dimension, concat_dimension))
    if x.shape.as_list()[split] % count:
        raise ValueError(f"Dimension {split} of {x.name}, of the shape {x.shape}, cannot be split "
                         f"evenly over {count} replicas.")
    return all_to_all_op_grad.all_to_all(x, split, concat, count, name or "IpuAllToAll")


def all_gather(x, replication_factor, name=None):
    """`x` of all replicas of the group: a tensor of the shape [replication_factor, *x.shape], the
    same on all.

    x                    a tensor of any type, or a list of tensors, for which a list is returned
    replication_factor   the number of replicas, or of those in a group

    Raises ValueError for shapes that are not known, and for what is no number of replicas.
    """
    count = _collectives.replicas(replication_factor, "replication_factor")
    results = [all_to_all_op_grad.all_gather(_collectives.tensor(one, "all_gather"), count,
                                             name or "IpuAllGather")
               for one in tf.nest.flatten(x)]
    return results if isinstance(x, (list, tuple)) else results[0]


def _dimension(x, dimension):
    rank = x.shape.rank
    if not 0 <= dimension < rank:
        raise ValueError(f"{x.name}, of the shape {x.shape}, has no dimension {dimension}.")
    return int(dimension)
