"""The operations under Horovod's collectives (`horovod.gen_horovod_ops`)."""

from tremula import group
from tremula.tf.ipu import _processes, horovod


def horovod_allreduce(tensor, reduce_op, name=None):
    """The sum of the processes' tensors (`reduce_op` is horovod.Sum), or their average."""
    op = group.SUM if reduce_op == horovod.Sum else group.MEAN
    return _processes.collective("HorovodAllreduce", tensor, name=name, reduce_op=op)


def horovod_allgather(tensor, name=None):
    """The processes' tensors one after the other."""
    return _processes.collective("HorovodAllgather", tensor, name=name)


def horovod_broadcast(tensor, root_rank, name=None):
    """The tensor of the process `root_rank`."""
    return _processes.collective("HorovodBroadcast", tensor, name=name, root_rank=root_rank)
