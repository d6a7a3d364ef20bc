"""The operations of the networks in JAX, PyTorch and TensorFlow."""

import functools


def jax_backend():
    import jax
    import jax.numpy as jnp
    from jax import lax

    class Jax:
        """Images are NHWC."""
        relu, tanh, transpose, reshape = jax.nn.relu, jnp.tanh, jnp.transpose, jnp.reshape
        matmul, softmax, sort, square = jnp.matmul, jax.nn.softmax, jnp.sort, jnp.square
        sum, max, mean, cumsum = jnp.sum, jnp.max, jnp.mean, jnp.cumsum
        gelu = staticmethod(functools.partial(jax.nn.gelu, approximate=False))

        @staticmethod
        def image(x):
            return x

        @staticmethod
        def conv(x, kernel, stride, groups=1):
            return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME",
                                            dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                            feature_group_count=groups)

        @staticmethod
        def scale_channels(x, gain, offset):
            return x * gain + offset

        @staticmethod
        def batch_norm(x, gain, offset):
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            return (x - mean) * (lax.rsqrt(variance + 1e-5) * gain) + offset

        @staticmethod
        def max_pool(x, size, stride):
            return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1),
                                     (1, stride, stride, 1), "SAME")

        @staticmethod
        def mean_of_image(x):
            return x.mean((1, 2))

        @staticmethod
        def layer_norm(x, gain, offset):
            mean = x.mean(-1, keepdims=True)
            variance = ((x - mean) ** 2).mean(-1, keepdims=True)
            return (x - mean) * lax.rsqrt(variance + 1e-5) * gain + offset

        @staticmethod
        def take(table, indices):
            return table[indices]

        @staticmethod
        def cross_entropy(x, labels):
            chances = jax.nn.log_softmax(x)
            return -jnp.take_along_axis(chances, labels[:, None], 1).mean()

        @staticmethod
        def lstm(xs, w, u):
            def cell(state, x):
                h, c = state
                i, f, g, o = jnp.split(x @ w + h @ u, 4, axis=-1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None
            zero = jnp.zeros(xs.shape[1:])
            return lax.scan(cell, (zero, zero), xs)[0][0]

    return Jax


def torch_backend():
    import torch
    from torch.nn import functional

    def same(x, size, stride):
        """As "SAME" of the others pads: more at the end."""
        pads = []
        for length in (x.shape[3], x.shape[2]):
            whole = max(0, (-(-length // stride) - 1) * stride + size - length)
            pads += [whole // 2, whole - whole // 2]
        return pads

    class Torch:
        """Images are NCHW, with the channels last in memory."""
        relu, tanh, matmul = functional.relu, torch.tanh, torch.matmul
        square, reshape = torch.square, torch.reshape
        gelu, attention = functional.gelu, functional.scaled_dot_product_attention

        @staticmethod
        def image(x):
            return x.permute(0, 3, 1, 2)

        @staticmethod
        def transpose(x, order):
            return x.permute(*order).contiguous()

        @staticmethod
        def softmax(x):
            return functional.softmax(x, -1)

        @staticmethod
        def sort(x):
            return torch.sort(x)[0]

        @staticmethod
        def sum(x, axis):
            return x.sum(axis)

        @staticmethod
        def max(x, axis):
            return x.amax(axis)

        @staticmethod
        def mean(x, axis):
            return x.mean(axis)

        @staticmethod
        def cumsum(x, axis):
            return torch.cumsum(x, axis)

        @staticmethod
        def conv(x, kernel, stride, groups=1):
            pads = same(x, kernel.shape[2], stride)
            if pads[0] == pads[1] and pads[2] == pads[3]:
                return functional.conv2d(x, kernel, None, stride, (pads[2], pads[0]), 1, groups)
            return functional.conv2d(functional.pad(x, pads), kernel, None, stride, 0, 1, groups)

        @staticmethod
        def scale_channels(x, gain, offset):
            return x * gain[:, None, None] + offset[:, None, None]

        @staticmethod
        def batch_norm(x, gain, offset):
            return functional.batch_norm(x, None, None, gain, offset, True)

        @staticmethod
        def max_pool(x, size, stride):
            pads = same(x, size, stride)
            return functional.max_pool2d(functional.pad(x, pads, value=float("-inf")), size, stride)

        @staticmethod
        def mean_of_image(x):
            return x.mean((2, 3))

        @staticmethod
        def layer_norm(x, gain, offset):
            return functional.layer_norm(x, gain.shape, gain, offset)

        @staticmethod
        def take(table, indices):
            return functional.embedding(indices, table)

        @staticmethod
        def cross_entropy(x, labels):
            return functional.cross_entropy(x, labels.long())

        @staticmethod
        def lstm(xs, w, u):
            size = xs.shape[2]
            zero = xs.new_zeros(1, xs.shape[1], size)
            none = xs.new_zeros(4 * size)
            return torch._VF.lstm(xs, (zero, zero), [w.t(), u.t(), none, none], True, 1, 0.0, False,
                                  False, False)[1][0]

    return Torch


def tensorflow_backend():
    import tensorflow as tf

    class TensorFlow:
        """Images are NHWC."""
        relu, tanh, matmul, transpose = tf.nn.relu, tf.tanh, tf.matmul, tf.transpose
        reshape, softmax, sort, square = tf.reshape, tf.nn.softmax, tf.sort, tf.square
        sum, max, mean, cumsum = tf.reduce_sum, tf.reduce_max, tf.reduce_mean, tf.cumsum
        gelu, take = tf.nn.gelu, tf.gather

        @staticmethod
        def image(x):
            return x

        @staticmethod
        def conv(x, kernel, stride, groups=1):
            return tf.nn.conv2d(x, kernel, stride, "SAME")  # the kernel's shape tells the groups

        @staticmethod
        def scale_channels(x, gain, offset):
            return x * gain + offset

        @staticmethod
        def batch_norm(x, gain, offset):
            return tf.compat.v1.nn.fused_batch_norm(x, gain, offset, epsilon=1e-5)[0]

        @staticmethod
        def max_pool(x, size, stride):
            return tf.nn.max_pool2d(x, size, stride, "SAME")

        @staticmethod
        def mean_of_image(x):
            return tf.reduce_mean(x, (1, 2))

        @staticmethod
        def layer_norm(x, gain, offset):
            mean, variance = tf.nn.moments(x, -1, keepdims=True)
            return (x - mean) * tf.math.rsqrt(variance + 1e-5) * gain + offset

        @staticmethod
        def cross_entropy(x, labels):
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x))

        @staticmethod
        def lstm(xs, w, u):
            def cell(i, h, c):
                parts = tf.split(tf.matmul(xs[i], w) + tf.matmul(h, u), 4, -1)
                c = tf.sigmoid(parts[1]) * c + tf.sigmoid(parts[0]) * tf.tanh(parts[2])
                return i + 1, tf.sigmoid(parts[3]) * tf.tanh(c), c
            zero, steps = tf.zeros(xs.shape[1:]), xs.shape[0]
            return tf.while_loop(lambda i, h, c: i < steps, cell, (0, zero, zero),
                                 maximum_iterations=steps)[1]

    return TensorFlow
