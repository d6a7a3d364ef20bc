"""Matrix products and convolutions, and their gradients."""

import numpy as np
import pytest
import tensorflow as tf
from case_values import anything, floats, normal
from differential import FLOATS, Case, check_all, differential, gradients

SHARED = "TensorFlow's CPU kernels have no gradients of groups or dilations"

MATMUL = [
    Case("matmul", tf.matmul, [normal(5, 7), normal(7, 6)], FLOATS + ("int32", "int64"), "dot"),
    Case("matmul_transposed", lambda a, b: (tf.matmul(a, b, transpose_a=True),
                                            tf.matmul(b, a, transpose_b=True, transpose_a=True)),
         [normal(7, 7), normal(7, 7)], FLOATS + ("int32",), "dot"),
    Case("matmul_transposed_b", lambda a, b: tf.matmul(a, b, transpose_b=True),
         [normal(33, 65), normal(17, 65)], FLOATS, "dot"),
    Case("matmul_large", tf.matmul, [normal(96, 260), normal(260, 130)], FLOATS, "dot"),
    Case("matmul_batched", tf.matmul, [normal(3, 2, 5, 7), normal(3, 2, 7, 4)],
         FLOATS + ("int32",), "dot"),
    Case("matmul_broadcast", tf.matmul, [normal(3, 1, 5, 7), normal(2, 7, 4)], FLOATS, "dot"),
    Case("matmul_vector", tf.linalg.matvec, [normal(50, 70), normal(70)], FLOATS, "dot"),
    Case("matmul_one_row", tf.matmul, [normal(1, 300), normal(300, 70)], FLOATS, "dot"),
    Case("matmul_one_column", tf.matmul, [normal(70, 300), normal(300, 1)], FLOATS, "dot"),
    Case("matmul_outer", tf.matmul, [normal(70, 1), normal(1, 30)], FLOATS, "dot"),
    Case("matmul_zero_size", lambda a, b: (tf.matmul(a, b), tf.matmul(b, a)),
         [normal(0, 3), normal(3, 0)], FLOATS),
    Case("matmul_overflows", tf.matmul, [anything(5, 7), anything(7, 6)], ("int32", "int64")),
    Case("matmul_infinite", lambda a, b: tf.matmul(tf.where(a > 1.2, np.inf, a), b),
         [floats(5, 7), floats(7, 6)], ("float32",), "dot"),
    Case("matmul_gradients", gradients(tf.matmul), [normal(5, 7), normal(7, 6)], FLOATS, "dot"),
    Case("matmul_batched_gradients", gradients(tf.matmul), [normal(2, 5, 7), normal(2, 7, 6)],
         FLOATS, "dot"),
    Case("tensordot", lambda a, b: tf.tensordot(a, b, [[2, 0], [0, 1]]),
         [normal(3, 4, 5), normal(5, 3, 6)], FLOATS, "dot"),
] + [
    Case(f"einsum_{form}", lambda a, b, form=form: tf.einsum(form, a, b), [normal(*a), normal(*b)],
         FLOATS, "dot")
    for form, a, b in [
        ("ij,jk->ik", (4, 5), (5, 6)), ("bij,bjk->bik", (3, 4, 5), (3, 5, 6)),
        ("bij,bkj->bik", (3, 4, 5), (3, 6, 5)), ("bqhd,bkhd->bhqk", (2, 5, 3, 4), (2, 6, 3, 4)),
        ("bhqk,bkhd->bqhd", (2, 3, 5, 6), (2, 6, 3, 4)), ("abc,cde->abde", (2, 3, 4), (4, 5, 6)),
        ("ij,kj->ki", (4, 5), (6, 5)), ("i,j->ij", (4,), (5,)), ("ij,ij->i", (4, 5), (4, 5)),
        ("ii,ij->j", (4, 4), (4, 5)), ("bi,bi->", (3, 5), (3, 5)),
    ]
] + [
    Case("einsum_gradients", gradients(lambda a, b: tf.einsum("bqhd,bkhd->bhqk", a, b)),
         [normal(2, 5, 3, 4), normal(2, 6, 3, 4)], FLOATS, "dot"),
    Case("einsum_three", lambda a, b, c: tf.einsum("ij,jk,kl->il", a, b, c),
         [normal(3, 4), normal(4, 5), normal(5, 6)], FLOATS, "chain"),
]


def _conv2d(**options):
    return lambda x, w: tf.nn.conv2d(x, w, **options)


def _both(name, function, x, w, **options):
    """The convolution, and with its gradients."""
    return [Case(name, function, [normal(*x), normal(*w)], bound="dot", **options),
            Case(name + "_gradients", gradients(function), [normal(*x), normal(*w)], bound="dot",
                 **options)]


CONVOLUTION = sum([
    _both("same", _conv2d(strides=1, padding="SAME"), (2, 9, 7, 3), (3, 3, 3, 5)),
    _both("valid", _conv2d(strides=1, padding="VALID"), (2, 9, 7, 4), (3, 2, 4, 8)),
    _both("strided", _conv2d(strides=2, padding="SAME"), (2, 9, 8, 3), (3, 3, 3, 5)),
    _both("strides_differ", _conv2d(strides=[1, 2, 3, 1], padding="VALID"), (1, 9, 11, 2),
          (3, 3, 2, 4)),
    _both("explicit", _conv2d(strides=2, padding=[[0, 0], [2, 1], [0, 3], [0, 0]]), (2, 9, 7, 3),
          (3, 3, 3, 4)),
    _both("one_by_one", _conv2d(strides=1, padding="VALID"), (2, 5, 5, 16), (1, 1, 16, 32)),
    _both("one_by_one_strided", _conv2d(strides=2, padding="SAME"), (2, 7, 7, 16), (1, 1, 16, 8)),
    _both("stem", _conv2d(strides=2, padding="SAME"), (1, 32, 32, 3), (7, 7, 3, 16)),
    _both("wide", _conv2d(strides=1, padding="SAME"), (1, 8, 8, 64), (3, 3, 64, 64)),
    _both("whole_image", _conv2d(strides=1, padding="VALID"), (3, 4, 4, 5), (4, 4, 5, 7)),
    _both("larger_than_image", _conv2d(strides=1, padding="SAME"), (1, 2, 2, 3), (5, 5, 3, 2)),
    _both("dilated", _conv2d(strides=1, padding="SAME", dilations=2), (1, 9, 7, 3), (3, 3, 3, 4),
          but={"tf": SHARED}),
    _both("dilated_valid", _conv2d(strides=1, padding="VALID", dilations=[1, 2, 1, 1]),
          (1, 9, 7, 3), (3, 3, 3, 4), but={"tf": SHARED}),
    _both("conv1d", lambda x, w: tf.nn.conv1d(x, w, 2, "SAME"), (2, 11, 3), (3, 3, 5)),
    _both("depthwise", lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"),
          (2, 7, 6, 8), (3, 3, 8, 1)),
    _both("depthwise_multiplied", lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "VALID"),
          (2, 8, 7, 4), (3, 3, 4, 3)),
    _both("conv3d", lambda x, w: tf.nn.conv3d(x, w, [1, 2, 1, 2, 1], "SAME"), (1, 5, 6, 4, 2),
          (3, 2, 3, 2, 3)),
    _both("transposed", lambda x, w: tf.nn.conv2d_transpose(x, w, [2, 9, 7, 3], 2, "SAME"),
          (2, 5, 4, 4), (3, 3, 3, 4)),
    _both("grouped", _conv2d(strides=1, padding="SAME"), (2, 6, 5, 8), (3, 3, 2, 12),
          but={"tf": SHARED}),
    _both("grouped_thin", _conv2d(strides=1, padding="SAME"), (1, 7, 7, 32), (3, 3, 4, 32),
          but={"tf": SHARED}),
    _both("grouped_strided", _conv2d(strides=2, padding="SAME"), (2, 7, 7, 16), (3, 3, 4, 8),
          but={"tf": SHARED}),
], []) + [
    Case("dilated_forward", _conv2d(strides=1, padding="SAME", dilations=[1, 2, 3, 1]),
         [normal(2, 9, 9, 3), normal(3, 3, 3, 4)], FLOATS, "dot"),
    Case("grouped_forward", _conv2d(strides=1, padding="VALID"), [normal(2, 6, 5, 8),
                                                                  normal(3, 3, 2, 12)],
         ("float32",), "dot"),
    Case("channels_first", lambda x, w: tf.nn.conv2d(x, w, 1, "SAME", data_format="NCHW"),
         [normal(2, 3, 9, 7), normal(3, 3, 3, 5)], FLOATS, "dot",
         but={"tf": "TensorFlow's CPU kernels want NHWC"}),
    Case("zero_batch", _conv2d(strides=1, padding="SAME"), [normal(0, 9, 7, 3), normal(3, 3, 3, 5)],
         FLOATS, "dot",
         but={"tf": "TensorFlow's kernel gives an empty result of a wrong shape"}),
    Case("integer", _conv2d(strides=1, padding="SAME"), [normal(1, 5, 5, 2), normal(3, 3, 2, 4)],
         ("int32",)),
    Case("bias_add", tf.nn.bias_add, [normal(2, 3, 4, 5), normal(5)], FLOATS + ("int32",)),
    Case("bias_add_gradients", gradients(tf.nn.bias_add), [normal(2, 3, 4, 5), normal(5)], FLOATS,
         "sum"),
    Case("conv_bias_relu", lambda x, w, b: tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME") + b),
         [normal(2, 9, 7, 3), normal(3, 3, 3, 5), normal(5)], FLOATS, "dot"),
]

test_matmul = differential(MATMUL)
test_convolution = differential(CONVOLUTION, batch=8)


@pytest.mark.smoke
def test_smoke():
    """A few of each table, on the newest TensorFlow."""
    check_all(MATMUL[::4] + CONVOLUTION[::9])
