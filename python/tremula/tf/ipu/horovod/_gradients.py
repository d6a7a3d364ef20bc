"""Gradients of Horovod's collectives, which are collectives themselves: what each process has asks
for the sum over the processes that its tensor went to."""

import tensorflow.compat.v1 as tf

from tremula import group
from tremula.tf.ipu import _processes


def _collective(op, forward, tensor, **attributes):
    """A collective that is known by the forward one's name."""
    name = forward.get_attr("tensor_name").decode()
    return _processes.collective(op, tensor, name=f"{op}_gradient",
                                 tensor_name=f"{name}_gradient" if name else None, **attributes)


def _shaped(result, like):
    if not tf.executing_eagerly():
        result.set_shape(like.shape)
    return result


def _ranks():
    """Those that take part, in order."""
    ranks = group.participants()
    return list(range(group.place().size)) if ranks is None else ranks


@tf.RegisterGradient("HorovodAllreduce")
def _allreduce(op, gradient):
    return _shaped(_collective("HorovodAllreduce", op, gradient,
                               reduce_op=op.get_attr("reduce_op")), gradient)


@tf.RegisterGradient("HorovodAllgather")
def _allgather(op, gradient):
    total = _collective("HorovodAllreduce", op, gradient, reduce_op=group.SUM)
    rows = tf.shape(op.inputs[0])[:1]
    counts = _collective("HorovodAllgather", op, rows)
    own = _ranks().index(group.place().rank)
    first = tf.reduce_sum(counts[:own])
    return _shaped(total[first:first + rows[0]], op.inputs[0])


@tf.RegisterGradient("HorovodBroadcast")
def _broadcast(op, gradient):
    total = _shaped(_collective("HorovodAllreduce", op, gradient, reduce_op=group.SUM), gradient)
    if group.place().rank == op.get_attr("root_rank"):
        return total
    return tf.zeros_like(total)
