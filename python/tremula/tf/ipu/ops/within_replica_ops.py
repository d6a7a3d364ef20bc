"""Collectives between the IPUs of one replica (`tensorflow.python.ipu.within_replica_ops`).

Shard i of a list of tensors is on IPU i. These are TensorFlow's own operations, each put on the IPU
that it is for; so their gradients are TensorFlow's own too.
"""

import functools

import tensorflow.compat.v1 as tf

from tremula.tf.inner import marks
from tremula.tf.ipu import scopes
from tremula.tf.runtime.nodes import node_marks
from tremula.tf.runtime.tracing import tracing

_COMBINATIONS = {
    "COLLECTIVE_OP_ADD": tf.add, "COLLECTIVE_OP_MUL": tf.multiply,
    "COLLECTIVE_OP_MIN": tf.minimum, "COLLECTIVE_OP_MAX": tf.maximum,
    "COLLECTIVE_OP_LOGICAL_AND": tf.logical_and, "COLLECTIVE_OP_LOGICAL_OR": tf.logical_or,
    "COLLECTIVE_OP_LOCAL": None}


def all_reduce(input_shards, op):
    """Combines tensors by the reduction `op`; each shard gets the whole result.

    input_shards   scalars or vectors of one type, of known shapes, in the order of the shards;
                   shorter ones are filled up with zeros
    op             a text: COLLECTIVE_OP_ADD, _MUL, _MIN, _MAX, _LOGICAL_AND, _LOGICAL_OR, _LOCAL,
                   which leaves each its own

    Returns a list with a vector for each shard.

    Raises ValueError for what does not fit. A program whose shards are marked to be on other IPUs
    fails with FailedPreconditionError when it is run.
    """
    shards = _vectors(input_shards)
    return [_on_shard(i, tf.identity, _combine(shards, op, i)) for i in range(len(shards))]


def reduce_scatter(input_shards, op):
    """As all_reduce, with its types and errors (ValueError), but each shard gets a slice of the
    result, in their order.

    The slices are as even as can be: with a rest r of length / shards, the first r shards have
    one element more. The other shards fill theirs up to that size with a zero. Five elements on
    four shards are [s0, s1], [s2, 0], [s3, 0] and [s4, 0].
    """
    shards = _vectors(input_shards)
    share, longer = divmod(shards[0].shape.as_list()[0], len(shards))

    def scatter(i):
        begin, size = i * share + min(i, longer), share + (i < longer)
        combined = _combine([one[begin:begin + size] for one in shards], op, i)
        return tf.pad(combined, [[0, 1]]) if longer and i >= longer else combined

    return [_on_shard(i, scatter, i) for i in range(len(shards))]


def all_gather(input_shards, axis=0):
    """The tensors, joined along `axis`; each shard gets the whole.

    input_shards   tensors of one type and rank, in the order of the shards, of equal sizes but
                   along `axis`; scalars are joined to a vector

    Returns a list with a tensor for each shard. Raises as all_reduce does.
    """
    shards = _checked(input_shards)
    if shards[0].shape.rank == 0:
        shards, axis = [tf.reshape(one, [1]) for one in shards], 0
    _check_sizes(shards, axis)
    return [_on_shard(i, tf.concat, shards, axis) for i in range(len(shards))]


def _on_shard(i, function, *arguments):
    with scopes.ipu_shard(i):
        return function(*arguments)


def _combine(shards, op, own):
    """The shards combined, in their order; with LOCAL the one numbered `own`."""
    if op not in _COMBINATIONS:
        raise ValueError(f"There is no reduction {op!r} within a replica; there are "
                         f"{', '.join(_COMBINATIONS)}.")
    combine = _COMBINATIONS[op]
    return shards[own] if combine is None else functools.reduce(combine, shards)


def _checked(input_shards):
    shards = [tf.convert_to_tensor(one) for one in input_shards]
    if not shards:
        raise ValueError("input_shards should not be empty.")
    if len({id(one) for one in shards}) != len(shards):
        raise ValueError("input_shards should not contain any duplicate entries.")
    if len({one.dtype for one in shards}) != 1:
        raise ValueError("Expected tensors to all be of the same type.")
    if len({one.shape.rank for one in shards}) != 1:
        raise ValueError("Expected tensors to all be of the same rank.")
    for one in shards:
        if not one.shape.is_fully_defined():
            raise ValueError(f"The shape of {one.name} must be known, but it is {one.shape}.")
    _check_order(shards)
    return shards


def _check_order(shards):
    for i, one in enumerate(shards):
        sharding = marks.operation_attribute(one.op, node_marks.SHARDING)
        found = node_marks.decode_sharding(sharding) if sharding else [i]
        if found != [i]:
            tracing.refuse(
                f"The inputs must be in the order of their shards: number {i}, {one.name}, is on "
                f"IPU {', '.join(map(str, found))}.")


def _vectors(input_shards):
    """The shards as vectors of one length."""
    shards = _checked(input_shards)
    if shards[0].shape.rank > 1:
        raise ValueError("Expected tensors of rank 0 or 1, but got the shapes "
                         f"{[one.shape.as_list() for one in shards]}.")
    shards = [tf.reshape(one, [1]) if one.shape.rank == 0 else one for one in shards]
    longest = max(one.shape.as_list()[0] for one in shards)
    return [_on_shard(i, tf.pad, one, [[0, longest - one.shape.as_list()[0]]])
            if one.shape.as_list()[0] < longest else one for i, one in enumerate(shards)]


def _check_sizes(shards, axis):
    first = shards[0].shape.as_list()
    if not -len(first) <= axis < len(first):
        raise ValueError(f"The tensors have {len(first)} dimensions, so there is no axis {axis}.")
    axis %= len(first)
    for i, one in enumerate(shards):
        sizes = one.shape.as_list()
        if sizes[:axis] + sizes[axis + 1:] != first[:axis] + first[axis + 1:]:
            raise ValueError("Expecting tensor dimensions to all have the same sizes, except for "
                             f"dim {axis}, but got shapes {first} and {sizes} for tensors 0 and "
                             f"{i}")
