"""Order on the IPU (`tensorflow.python.ipu.control_flow_ops`)."""

import tensorflow.compat.v1 as tf

from tremula.tf.inner import graphs


def barrier(tensors, insert_barrier_for_gradients=False, name=None):
    """The tensors, each of which has its value only when all of them have.

    `tensors` is a structure of tensors of any shape and type, which is what is returned. With
    `insert_barrier_for_gradients` that holds for their gradients too. Raises TypeError for what
    cannot be made a tensor.
    """
    flat = [tf.convert_to_tensor(one) for one in tf.nest.flatten(tensors)]

    @tf.custom_gradient
    def pass_barrier(*values):
        def gradients(*upstream):
            return _barrier(upstream, None) if insert_barrier_for_gradients else list(upstream)
        return _barrier(values, name), gradients

    results = pass_barrier(*flat)
    if tf.is_tensor(results):
        results = [results]
    return tf.nest.pack_sequence_as(tensors, list(results))


def _barrier(values, name):
    operation = graphs.apply_op("XlaOptimizationBarrier", input=list(values), name=name)
    for result, value in zip(operation.outputs, values):
        result.set_shape(value.shape)
    return list(operation.outputs)
