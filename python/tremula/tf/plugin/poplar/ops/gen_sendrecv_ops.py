"""Tensors that a program sends to the host while it runs (`gen_sendrecv_ops`).

A tensor goes through a queue of TensorFlow's, on the CPU, which the program's part on the host
fills. The four names of a tensor (its own, both devices and the incarnation) are the queue's.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu import scopes


def ipu_send_to_host(tensor, tensor_name, send_device, send_device_incarnation, recv_device,
                     name=None):
    """In a compiled program, the operation that sends `tensor`, of any shape and type, to an
    ipu_recv_at_host() with the same names, as often as it runs; every replica sends its own.

    Raises ValueError outside of a program. A run fails with InvalidArgumentError where other
    tensors of the same names have another type.
    """
    tensor = tf.convert_to_tensor(tensor)
    with scopes.outside_compilation_scope(name or "IpuSendToHost"):
        queue = _queue(tensor.dtype, tensor_name, send_device, send_device_incarnation, recv_device)
        return tf.raw_ops.QueueEnqueueV2(handle=queue, components=[tensor])


def ipu_recv_at_host(T, tensor_name, send_device, send_device_incarnation, recv_device,
                     device_ordinal=0, name=None):
    """A tensor of the type `T`, on the CPU: the oldest that has been sent and not been received. It
    waits for one. `device_ordinal` makes no difference.

    A run fails with InvalidArgumentError where other tensors of the same names have another type.
    """
    del device_ordinal
    with tf.device("/device:CPU:0"), tf.name_scope(name, "IpuRecvAtHost"):
        queue = _queue(T, tensor_name, send_device, send_device_incarnation, recv_device)
        return tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[T])[0]


def _queue(dtype, *names):
    """The handle of the session's queue for tensors of these names."""
    return tf.raw_ops.FIFOQueueV2(component_types=[tf.as_dtype(dtype).base_dtype],
                                  shared_name=";".join(map(str, names)))
