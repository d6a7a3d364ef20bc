"""Collectives among the processes of a program, as operations of TensorFlow on the CPU.

The processes may run the collectives of a step in different orders: they meet by name, and one that
waits for the others holds no thread (src/tf/collectives.c).
"""

import ctypes
import re

import tensorflow.compat.v1 as tf

from tremula import core, group
from tremula.tf.inner import eager, graphs, patches
from tremula.tf.runtime.device import plugin

OPS = ("HorovodAllreduce", "HorovodAllgather", "HorovodBroadcast", "PopdistAllReduce",
       "PopdistAllGather", "PopdistBroadcast")

patches.order_freely(OPS)


def _tell_plugin(ranks):
    ranks = ranks or ()
    plugin.check(plugin.library().trm_tf_set_participants,
                 (ctypes.c_uint32 * max(1, len(ranks)))(*ranks), len(ranks))


_loaded = []


def begin():
    """Loads the operations, and meets the other processes; once is enough.

    Raises RuntimeError where MPI is missing: the message says what to install.
    """
    plugin.load()
    if not _loaded:
        group.watch_participants(_tell_plugin)
        _loaded.append(True)
    try:
        group.join()
    except core.TremulaError as error:
        raise RuntimeError(str(error)) from error


def size():
    """The number of processes that take part in collectives."""
    ranks = group.participants()
    return group.place().size if ranks is None else len(ranks)


def collective(op, tensor, name=None, tensor_name=None, **attributes):
    """The operation `op` of OPS on a tensor. The processes' collectives meet by `tensor_name`, or
    by the name of the node. Returns a tensor of unknown shape."""
    begin()
    with tf.device("/device:CPU:0"):
        tensor = tf.identity(tensor)
        if tf.executing_eagerly():
            return eager.result_on_cpu(op, [tensor], T=tensor.dtype,
                                       tensor_name=tensor_name or op, **attributes)
        defaults = dict.fromkeys(("kind", "stacks", "reduce_op", "root_rank"))
        made = graphs.apply_op(op, name, tensor=tensor, tensor_name=tensor_name or "",
                               **{**defaults, **attributes})
        eager.record(made)
        return made.outputs[0]


def name_of(tensor):
    """The tensor's name in a form that names of operations may have; None without one."""
    try:
        name = tensor.name
    except AttributeError:  # an eager tensor or an array
        return None
    return node_name(name)


def node_name(text):
    """A text as a name that operations may have."""
    return re.sub(r"\W", "_", text)
