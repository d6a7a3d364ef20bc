"""Collectives among the instances of a program (`ipu.distributed.host_collective_ops`)."""

import tensorflow as tf

from tremula import group
from tremula.tf.ipu import _processes

_REDUCE_OPS = {tf.distribute.ReduceOp.SUM: group.SUM, tf.distribute.ReduceOp.MEAN: group.MEAN}


def allgather(value, tensor_name=None):
    """The instances' tensors, stacked along a new first dimension in the order of instances.

    All are of one type and shape. `tensor_name` names the collective: instances meet by it. Raises
    RuntimeError where MPI is missing.
    """
    value = tf.convert_to_tensor(value)
    result = _collective("PopdistAllGather", "PopDistAllGather", value, tensor_name)
    return _shaped(result, [_processes.size(), *value.shape] if value.shape.rank is not None
                   else None)


def allreduce(value, reduce_op, tensor_name=None):
    """The SUM or MEAN (a tf.distribute.ReduceOp) of the instances' tensors, in their shape and
    type.

    Raises ValueError for another `reduce_op`, RuntimeError where MPI is missing.
    """
    if reduce_op not in _REDUCE_OPS:
        try:
            reduce_op = tf.distribute.ReduceOp(reduce_op)
        except ValueError:
            raise ValueError(f"Unsupported reduce op: {reduce_op}") from None
    value = tf.convert_to_tensor(value)
    result = _collective("PopdistAllReduce", "PopDistAllReduce", value, tensor_name,
                         reduce_op=_REDUCE_OPS[reduce_op])
    return _shaped(result, value.shape)


def broadcast(value, root_rank=0, tensor_name=None):
    """The tensor of the instance `root_rank`, of the shape and type that `value` has on every
    instance. Raises RuntimeError where MPI is missing."""
    value = tf.convert_to_tensor(value)
    result = _collective("PopdistBroadcast", "PopDistBroadcast", value, tensor_name,
                         root_rank=root_rank)
    return _shaped(result, value.shape)


def _collective(op, stem, value, tensor_name, **attributes):
    name = None
    if tf.executing_eagerly():
        tensor_name = tensor_name or "Default"
    else:
        tensor_name = tensor_name or _processes.name_of(value)
        name = f"{stem}_{_processes.node_name(tensor_name)}"
    return _processes.collective(op, value, name=name, tensor_name=f"{stem}_{tensor_name}",
                                 **attributes)


def _shaped(tensor, shape):
    if not tf.executing_eagerly():
        tensor.set_shape(shape)
    return tensor
