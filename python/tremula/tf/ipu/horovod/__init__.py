"""Horovod in one process (`tensorflow.python.ipu.horovod`).

Programs that PopRun may start import this always. Tremula connects no processes: the collectives
of one process hand their tensor on, and `init` refuses where PopRun or MPI has started several.
"""

import threading

import popdist
import tensorflow.compat.v1 as tf

# How `allreduce` combines the processes' tensors.
Average = 0
Sum = 1
Adasum = 2

_LOCK = threading.Lock()
_STATE = {"ready": False}


def init(comm=None):
    """Begins. `comm`, ranks or an MPI communicator, may name this process only.

    Raises NotImplementedError where this is one of several processes.
    """
    ranks = list(comm) if isinstance(comm, (list, tuple)) else []
    if any(rank != 0 for rank in ranks):
        raise ValueError(f"hvd.init(comm={comm!r}): this is the only process, of rank 0.")
    popdist.require_one_process("hvd.init")
    with _LOCK:
        _STATE["ready"] = True


def shutdown():
    """Ends: `init` may be called again."""
    with _LOCK:
        _STATE["ready"] = False


def _require_init():
    with _LOCK:
        if not _STATE["ready"]:
            raise ValueError("Horovod has not been initialized; use hvd.init().")


def size():
    """The number of processes: 1. Raises ValueError before `init`."""
    _require_init()
    return 1


def local_size():
    """The number of processes on this machine: 1. Raises ValueError before `init`."""
    _require_init()
    return 1


def rank():
    """The number of this process: 0. Raises ValueError before `init`."""
    _require_init()
    return 0


def local_rank():
    """The number of this process on this machine: 0. Raises ValueError before `init`."""
    _require_init()
    return 0


def is_homogeneous():
    """Whether all machines run as many processes: there is one. Raises ValueError before `init`."""
    _require_init()
    return True


def mpi_threads_supported():
    """Raises ValueError: there is no MPI."""
    raise ValueError("MPI is not enabled; Please make sure it's installed and enabled.")


def _absent():
    """False: nothing connects processes here."""
    return False


mpi_enabled = mpi_built = gloo_enabled = gloo_built = _absent
nccl_built = ddl_built = mlsl_built = _absent


def allreduce(tensor, op=None):
    """`tensor`, or the tf.IndexedSlices, combined over the processes: what this one gave.

    Raises NotImplementedError for Adasum, ValueError for another `op` or before `init`.
    """
    if op == Adasum:
        raise NotImplementedError("The Adasum reduction is not implemented.")
    if op not in (None, Average, Sum):
        raise ValueError(f"hvd.allreduce: op is {op!r}; hvd.Average and hvd.Sum are known.")
    _require_init()
    if isinstance(tensor, tf.IndexedSlices):
        return tf.IndexedSlices(_handed_on(tensor.values, None, "HorovodAllreduce"),
                                _handed_on(tensor.indices, None, "HorovodAllreduce"),
                                dense_shape=tensor.dense_shape)
    return _handed_on(tensor, None, "HorovodAllreduce")


def allgather(tensor, name=None):
    """The processes' tensors one after the other (dimension 0): the only one.

    Raises ValueError before `init`, or for a scalar.
    """
    _require_init()
    tensor = tf.convert_to_tensor(tensor)
    if tensor.shape.rank == 0:
        raise ValueError("hvd.allgather: a scalar has no dimension to gather along.")
    return _handed_on(tensor, name, "HorovodAllgather")


def broadcast(tensor, root_rank, name=None):
    """The tensor of the process `root_rank`, which can only be this one, 0.

    Raises ValueError before `init`, or for another rank.
    """
    _require_init()
    if root_rank != 0:
        raise ValueError(f"hvd.broadcast: root_rank is {root_rank}; the one process has rank 0.")
    return _handed_on(tensor, name, "HorovodBroadcast")


def _handed_on(tensor, name, kind):
    """A tensor on the host, as the original's operations are."""
    with tf.device("/device:CPU:0"):
        return tf.identity(tensor, name=name or kind)
