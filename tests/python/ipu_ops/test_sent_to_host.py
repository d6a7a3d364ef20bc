"""Tensors that a program sends to the host (`gen_sendrecv_ops`)."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.compiler.plugin.poplar.ops import gen_sendrecv_ops
from tensorflow.python import ipu

NAMES = {"tensor_name": "loss", "send_device": "/device:IPU:0", "send_device_incarnation": 0,
         "recv_device": "/device:CPU:0"}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.int32])
def test_a_run_receives_what_it_sends(dtype, on_ipu, session):
    x = tf.placeholder(dtype, [2])
    send = on_ipu(lambda x: gen_sendrecv_ops.ipu_send_to_host(x + 1, **NAMES), [x])
    received = gen_sendrecv_ops.ipu_recv_at_host(dtype, **NAMES)
    assert received.dtype == dtype
    with session() as sess:
        for value in ([1, 2], [5, 6]):
            np.testing.assert_array_equal(
                sess.run([send, received], {x: value})[1], np.add(value, 1))


@pytest.mark.smoke
def test_a_loop_sends_in_order(on_ipu, session):
    def body(x):
        return x * 2., gen_sendrecv_ops.ipu_send_to_host(x, **NAMES)

    run = on_ipu(lambda x: ipu.loops.repeat(3, body, [x]), [tf.constant([1.])])
    received = gen_sendrecv_ops.ipu_recv_at_host(tf.float32, **NAMES)
    other = gen_sendrecv_ops.ipu_recv_at_host(tf.float32, **dict(NAMES, tensor_name="other"))
    with session() as sess:
        assert sess.run(run)[0].tolist() == [8.]
        assert [sess.run(received).tolist() for _ in range(3)] == [[1.], [2.], [4.]]
        with pytest.raises(tf.errors.DeadlineExceededError):  # nobody sends it
            sess.run(other, options=tf.RunOptions(timeout_in_ms=1))


def test_a_program_that_fails_ends_the_wait(on_ipu, session):
    x = tf.placeholder(tf.float32, [])

    def program(x):
        with tf.control_dependencies([tf.Assert(x > 0., ["too small"])]):
            return gen_sendrecv_ops.ipu_send_to_host(tf.sqrt(x), **NAMES)

    send = on_ipu(program, [x])
    received = gen_sendrecv_ops.ipu_recv_at_host(tf.float32, **NAMES)
    with session() as sess:
        with pytest.raises(tf.errors.InternalError, match="too small"):
            sess.run([send, received], {x: -1.})
        assert sess.run([send, received], {x: 4.})[1] == 2.


def test_what_does_not_fit_is_refused(on_ipu, session):
    with pytest.raises(ValueError, match="only allowed in XLA context"):
        gen_sendrecv_ops.ipu_send_to_host(tf.zeros([]), **NAMES)
    send = on_ipu(lambda: gen_sendrecv_ops.ipu_send_to_host(tf.zeros([]), **NAMES))
    received = gen_sendrecv_ops.ipu_recv_at_host(tf.int32, **NAMES)
    with session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="component types"):
        sess.run([send, received])
