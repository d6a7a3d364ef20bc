"""Horovod's functions over MPI (`tensorflow.python.ipu.horovod`, and `horovod.tensorflow` where no
Horovod is installed).

A process that nobody has started with others is the only one of its group, and needs no MPI.
"""

import importlib
import threading

import numpy as np
import tensorflow.compat.v1 as tf

from tremula import group
from tremula.tf.ipu import _processes
from tremula.tf.ipu.horovod import _gradients  # noqa: F401  registers them

# How `allreduce` combines the processes' tensors.
Average = 0
Sum = 1
Adasum = 2

_LOCK = threading.Lock()
_STATE = {"ready": False, "ranks": None, "homogeneous": True}
_MODULES = ("basics", "gen_horovod_ops", "ipu_horovod_strategy", "ipu_multi_replica_strategy",
            "popdist_strategy")


def __getattr__(name):
    """The package's modules, also without an import of their own."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


# ---- The processes ----

def init(comm=None):
    """Meets the other processes. `comm`: the ranks that take part, or an MPI communicator of
    mpi4py; all by default.

    Raises ValueError where this process does not take part, RuntimeError where MPI is missing.
    """
    _processes.begin()
    ranks = _ranks(comm)
    here = group.place()
    if ranks is not None and here.rank not in ranks:
        raise ValueError(f"hvd.init(comm={comm!r}): this is rank {here.rank} of {here.size}, which "
                         "does not take part.")
    if ranks is not None and (ranks != sorted(set(ranks)) or ranks[-1] >= here.size):
        raise ValueError(f"hvd.init(comm={comm!r}): ranks in rising order below {here.size} are "
                         "expected.")
    with _LOCK:
        group.set_participants(ranks)
        local = group.all_gather("horovod local size", np.int32([here.local_size]))
        _STATE.update(ready=True, ranks=ranks or list(range(here.size)),
                      homogeneous=bool((local == local[0]).all()))


def _ranks(comm):
    if comm is None or isinstance(comm, (list, tuple)):
        return list(comm) if comm else None
    from mpi4py import MPI
    own = comm.Get_group()
    world = MPI.COMM_WORLD.Get_group()
    return list(MPI.Group.Translate_ranks(own, list(range(own.Get_size())), world))


def shutdown():
    """Ends: `init` may be called again."""
    with _LOCK:
        if _STATE["ready"]:
            group.set_participants(None)
        _STATE["ready"] = False


def _require_init():
    with _LOCK:
        if not _STATE["ready"]:
            raise ValueError("Horovod has not been initialized; use hvd.init().")
        return _STATE


def size():
    """The number of processes. Raises ValueError before `init`."""
    return len(_require_init()["ranks"])


def rank():
    """The number of this process. Raises ValueError before `init`."""
    return _require_init()["ranks"].index(group.place().rank)


def local_size():
    """The number of processes on this machine. Raises ValueError before `init`."""
    _require_init()
    return group.place().local_size


def local_rank():
    """The number of this process on this machine. Raises ValueError before `init`."""
    _require_init()
    return group.place().local_rank


def is_homogeneous():
    """Whether all machines run as many processes. Raises ValueError before `init`."""
    return _require_init()["homogeneous"]


def mpi_threads_supported():
    """Whether MPI lets several threads call it. Raises ValueError before `init`, or without MPI."""
    _require_init()
    if not mpi_enabled():
        raise ValueError("MPI is not enabled; Please make sure it's installed and enabled.")
    return group.has_threads()


def mpi_enabled():
    """Whether MPI connects processes: this one was started by a launcher of MPI."""
    return group.place().launcher != ""


mpi_built = mpi_enabled


def _absent():
    """False: nothing but MPI connects processes."""
    return False


gloo_enabled = gloo_built = nccl_built = ddl_built = mlsl_built = _absent


# ---- Collectives ----

def allreduce(tensor, op=None, prescale_factor=1.0, postscale_factor=1.0):
    """The tensors, or the tf.IndexedSlices, of all processes combined: their Average (the default)
    or Sum, in their shape and type. The factors are multiplied with the tensor before and after.

    Raises NotImplementedError for Adasum, ValueError for another `op` or before `init`.
    """
    op = Average if op is None else op
    if op == Adasum:
        raise NotImplementedError("The Adasum reduction is not implemented.")
    if op not in (Average, Sum):
        raise ValueError(f"hvd.allreduce: op is {op!r}; hvd.Average and hvd.Sum are known.")
    count = size()
    if isinstance(tensor, tf.IndexedSlices):
        values = _scaled(allgather(tensor.values), prescale_factor * postscale_factor)
        if op == Average:
            count = tf.cast(count, values.dtype)
            values = values // count if values.dtype.is_integer else values / count
        return tf.IndexedSlices(values, allgather(tensor.indices), dense_shape=tensor.dense_shape)
    tensor = tf.convert_to_tensor(tensor)
    result = _named("HorovodAllreduce", _scaled(tensor, prescale_factor), tensor, None,
                    reduce_op=group.SUM if op == Sum else group.MEAN)
    return _scaled(_shaped(result, tensor.shape), postscale_factor)


def allgather(tensor, name=None):
    """The processes' tensors, of one type, one after the other (dimension 0), in which they may
    differ.

    Raises ValueError before `init`, or for a scalar.
    """
    _require_init()
    tensor = tf.convert_to_tensor(tensor)
    if tensor.shape.rank == 0:
        raise ValueError("hvd.allgather: a scalar has no dimension to gather along.")
    result = _named("HorovodAllgather", tensor, tensor, name)
    return _shaped(result, tensor.shape if tensor.shape.rank is None
                   else [None, *tensor.shape.as_list()[1:]])


def broadcast(tensor, root_rank, name=None):
    """The tensor of the process `root_rank`, of the shape and type that `tensor` has on every
    process.

    Raises ValueError before `init`, or for a rank that there is not.
    """
    ranks = _require_init()["ranks"]
    if not 0 <= root_rank < len(ranks):
        raise ValueError(f"hvd.broadcast: root_rank is {root_rank}; ranks are 0 to "
                         f"{len(ranks) - 1}.")
    tensor = tf.convert_to_tensor(tensor)
    result = _named("HorovodBroadcast", tensor, tensor, name, root_rank=ranks[root_rank])
    return _shaped(result, tensor.shape)


def _named(op, tensor, given, name, **attributes):
    """A collective that is known by its name, or by that of the tensor that was given."""
    if name is None:
        of_tensor = _processes.name_of(given)
        name = None if of_tensor is None else f"{op}_{of_tensor}"
    return _processes.collective(op, tensor, name=name,
                                 tensor_name=name if tf.executing_eagerly() else None, **attributes)


def _shaped(tensor, shape):
    if not tf.executing_eagerly():
        tensor.set_shape(shape)
    return tensor


def _scaled(tensor, factor):
    return tensor if factor == 1.0 else tensor * tf.cast(factor, tensor.dtype)
