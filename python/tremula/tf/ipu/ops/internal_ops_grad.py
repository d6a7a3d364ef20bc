"""Operations that hand a tensor on, and what becomes of gradients at them."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _building
from tremula.tf.runtime.tracing import program_state


def handed_on(x, kind, name):
    """x as it is, and its gradient as it is, with the mark `kind` for the cost model."""
    with tf.name_scope(name, kind), _building.marked(internal=kind):
        return tf.identity(x)


def fifo(x, depth, kind):
    """x of `depth` executions ago, zeros at first. No gradient goes through, as in the
    original."""
    shape = x.shape
    kept = program_state.State(x.dtype, [depth, *shape.as_list()], kind)
    place = program_state.State(tf.int32, [], kind + "Place")
    at, everything = place.read(), kept.read()
    oldest = tf.gather(everything, at)
    with tf.control_dependencies([at, everything]):
        put = kept.assign(tf.tensor_scatter_nd_update(
            everything, [[at]], tf.stop_gradient(x)[tf.newaxis]))
        step = place.assign((at + 1) % depth)
    with tf.control_dependencies([put, step]):
        result = tf.stop_gradient(tf.identity(oldest))
    result.set_shape(shape)
    return result
