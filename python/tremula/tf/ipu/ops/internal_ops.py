"""Utility operations (`tensorflow.python.ipu.ops.internal_ops`)."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _building, internal_ops_grad
from tremula.tf.runtime.base import checks


def remap(x, name=None):
    """Returns `x`, of any shape and type, marked for the cost model as a copy that is spread over
    the tiles. Raises TypeError for what cannot be made a tensor."""
    tf.logging.warning("remap is a Graphcore internal op")
    return internal_ops_grad.handed_on(x, "IpuRemap", name)


def remap_deduce(x, name=None):
    """Returns `x`, of any shape and type, marked as a copy whose place on the tiles follows from
    its use. Raises TypeError for what cannot be made a tensor."""
    return internal_ops_grad.handed_on(x, "IpuRemapDeduce", name)


def recompute(x, name=None):
    """Returns `x`, of any shape and type, marked to be computed again in the backward pass instead
    of kept for it. Raises TypeError for what cannot be made a tensor."""
    return internal_ops_grad.handed_on(x, "IpuSuggestRecompute", name)


def block_recompute(x, name=None):
    """Returns `x`, of any shape and type, marked to be kept for the backward pass instead of
    computed again. Raises TypeError for what cannot be made a tensor."""
    return internal_ops_grad.handed_on(x, "IpuBlockRecompute", name)


def fifo(x, depth, offload=False, name=None):
    """`x` as it was `depth` executions ago in this run of the program; zeros before that: a tensor
    like x, which may be of any type.

    Inside programs only, and x's shape must be known. `offload` is a mark for the cost model. No
    gradient goes through. With a depth below 1: x.

    Raises RuntimeError outside of programs, TypeError for a depth that is no int.
    """
    depth = checks.whole("depth", depth)
    x = tf.convert_to_tensor(x)
    if depth < 1:
        return x
    with tf.name_scope(name, "IpuFifo", [x]), _building.marked(fifo_offload=offload or None):
        return internal_ops_grad.fifo(x, depth, "IpuFifo")


def print_tensor(input, name=""):  # pylint: disable=redefined-builtin
    """An operation that prints `input`, of any shape and type, on the standard error, after `name`
    and a colon.

    In a compiled program it is done by the host. From the body of a loop or a branch return it, or
    make something depend on it. Raises TypeError for what cannot be made a tensor.
    """
    from tremula.tf.ipu import scopes

    def report(value):
        return tf.print(*([f"{name}:"] if name else []), value, summarize=-1)

    if _building.in_program():
        with scopes.outside_compilation_scope("print_tensor"):
            return report(tf.convert_to_tensor(input))
    with tf.device("cpu"):
        return report(tf.convert_to_tensor(input))


def get_current_iteration_counter(name=None, **kwargs):
    """How many iterations of the loop around (in a pipeline: mini-batches) are done: a scalar
    int32, 0 outside of loops. `lower_into_pipeline_stage` makes no difference.

    Raises TypeError for other keywords.
    """
    from tremula.tf.ipu import loops
    unknown = sorted(set(kwargs) - {"lower_into_pipeline_stage"})
    if unknown:
        raise TypeError("get_current_iteration_counter() got an unexpected keyword argument "
                        f"'{unknown[0]}'.")
    around = loops.current()
    with tf.name_scope(name, "ExecutionCounter"):
        return tf.constant(0) if around is None else tf.identity(around[0])
