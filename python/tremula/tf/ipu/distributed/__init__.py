"""Programs of several processes (`tensorflow.python.ipu.distributed`).

It has Horovod's functions, as SDK 3 has with TensorFlow 1, and the collectives that it has with
TensorFlow 2. `allreduce` is both: the type of its second argument tells which is meant.
"""

import functools
import importlib

import tensorflow as tf

from tremula.tf.ipu.distributed import host_collective_ops
from tremula.tf.ipu import horovod
from tremula.tf.ipu.horovod import (Adasum, Average, Sum, ddl_built, gloo_built, gloo_enabled, init,
                                    is_homogeneous, local_rank, local_size, mlsl_built, mpi_built,
                                    mpi_enabled, mpi_threads_supported, nccl_built, rank, shutdown,
                                    size)

__all__ = ["Adasum", "Average", "Sum", "allgather", "allreduce", "broadcast", "ddl_built",
           "gloo_built", "gloo_enabled", "host_collective_ops", "init", "is_homogeneous",
           "local_rank", "local_size", "mlsl_built", "mpi_built", "mpi_enabled",
           "mpi_threads_supported", "nccl_built", "rank", "shutdown", "size"]
_MODULES = ("ipu_horovod_strategy", "popdist_strategy")


def __getattr__(name):
    """The strategies' modules, also without an import of their own."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def _is_horovod():
    """Whether the program uses Horovod's functions: it has called init()."""
    return horovod._STATE["ready"]


def _either_name(function):
    """The tensor is called `tensor` in Horovod's functions and `value` in the collectives."""
    @functools.wraps(function)
    def call(*args, **keywords):
        if "value" in keywords:
            keywords["tensor"] = keywords.pop("value")
        return function(*args, **keywords)
    return call


@_either_name
def allreduce(tensor, op=None, *args, **keywords):
    """horovod.allreduce(tensor, op), or where `op` is a tf.distribute.ReduceOp
    host_collective_ops.allreduce(tensor, op, tensor_name): a tensor like the given one, in shape
    and type. Raises ValueError as these two do."""
    op = keywords.pop("reduce_op", op)
    if isinstance(op, (tf.distribute.ReduceOp, str)):
        return host_collective_ops.allreduce(tensor, op, *args, **keywords)
    return horovod.allreduce(tensor, op, *args, **keywords)


@_either_name
def allgather(tensor, name=None, tensor_name=None):
    """horovod.allgather(tensor, name) after init(), else host_collective_ops.allgather(tensor,
    tensor_name), which adds a dimension: a tensor of the type of `tensor`. Raises ValueError for a
    scalar after init()."""
    if _is_horovod() and tensor_name is None:
        return horovod.allgather(tensor, name)
    return host_collective_ops.allgather(tensor, tensor_name or name)


@_either_name
def broadcast(tensor, root_rank=0, name=None, tensor_name=None):
    """The tensor of the process `root_rank`, of the shape and type that `tensor` has on every
    process. Raises ValueError after init() for a rank that there is not."""
    if _is_horovod() and tensor_name is None:
        return horovod.broadcast(tensor, root_rank, name)
    return host_collective_ops.broadcast(tensor, root_rank, tensor_name or name)
