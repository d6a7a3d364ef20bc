"""Moving data: slices, pads, transposes, gathers and scatters, and their gradients."""

import numpy as np
import pytest
import tensorflow as tf
from case_values import anything, fixed, indices, normal
from differential import ALL, FLOATS, NUMBERS, Case, check_all, differential, gradients
from tensorflow.compiler.tf2xla.python import xla

XLA_OP = {"tf": "an op that only XLA has"}
X = [anything(4, 5, 6)]

SHAPES = [
    Case("reshape", lambda x: (tf.reshape(x, [20, 6]), tf.reshape(x, [-1]), x[:, None]), X, ALL),
    Case("transpose", lambda x: (tf.transpose(x), tf.transpose(x, [1, 0, 2]),
                                 tf.transpose(x, [0, 2, 1]), tf.transpose(x, [2, 0, 1])), X, ALL),
    Case("transpose_large", lambda x: tf.transpose(x, [0, 2, 1]), [anything(3, 65, 130)],
         ("float32", "float16", "int8", "int64")),
    Case("transpose_4d", lambda x: (tf.transpose(x, [0, 3, 1, 2]), tf.transpose(x, [0, 2, 3, 1])),
         [anything(2, 5, 7, 3)], ALL),
    Case("transpose_6d", lambda x: tf.transpose(x, [5, 2, 0, 4, 1, 3]), [anything(2, 3, 2, 3, 2, 3)],
         FLOATS),
    Case("broadcast_to", lambda x: tf.broadcast_to(x[:, :, None], [3, 4, 5, 2]), [anything(4, 5)],
         ALL),
    Case("tile", lambda x: (tf.tile(x, [2, 1, 3]), tf.tile(x, [1, 2, 1])), X, ALL),
    Case("repeat", lambda x: tf.repeat(x, 3, 1), X, FLOATS),
    Case("concat", lambda x, y: (tf.concat([x, y, x], 0), tf.concat([x, y], 1),
                                 tf.concat([y, x], -1)), X * 2, ALL),
    Case("stack", lambda x, y: (tf.stack([x, y]), tf.stack([x, y, x], 2)), X * 2, ALL),
    Case("unstack", lambda x: (tf.unstack(x), tf.unstack(x, axis=2)), X, ALL),
    Case("split", lambda x: (tf.split(x, 2), tf.split(x, [1, 2, 3], 2)), X, ALL),
    Case("squeeze", lambda x: tf.squeeze(x, [0, 2]), [anything(1, 5, 1)], ALL),
    Case("pad", lambda x: (tf.pad(x, [[1, 2], [0, 3], [2, 0]]),
                           tf.pad(x, [[0, 1], [1, 1], [0, 0]], constant_values=1)), X, NUMBERS),
    Case("mirror_pad", lambda x: (tf.pad(x, [[1, 2], [2, 1], [0, 3]], "REFLECT"),
                                  tf.pad(x, [[1, 2], [2, 1], [0, 3]], "SYMMETRIC")), X, NUMBERS),
    Case("reverse", lambda x: (tf.reverse(x, [1]), tf.reverse(x, [0, 2])), X, ALL),
    Case("reverse_sequence", lambda x: tf.reverse_sequence(x, [1, 5, 2, 3], 1, 0), X, ALL),
    Case("roll", lambda x: (tf.roll(x, 2, 1), tf.roll(x, [-1, 3], [0, 2])), X, FLOATS + ("int32",)),
    Case("strided_slice", lambda x: (x[1:3], x[:, ::2], x[::-1, 1], x[..., -1], x[2:, 1:-1, 5:0:-2]),
         X, ALL),
    Case("slice", lambda x: tf.slice(x, [1, 0, 2], [2, 4, -1]), X, ALL),
    Case("space_to_depth", lambda x: (tf.nn.space_to_depth(x, 2)), [anything(2, 4, 6, 3)],
         FLOATS + ("int32",)),
    Case("depth_to_space", lambda x: tf.nn.depth_to_space(x, 2), [anything(2, 4, 6, 8)],
         FLOATS + ("int32",)),
    Case("space_to_batch", lambda x: tf.batch_to_space(
        tf.space_to_batch(x, [2, 2], [[0, 0], [1, 1]]) * 2, [2, 2], [[0, 0], [1, 1]]),
         [anything(1, 4, 4, 3)], FLOATS),
    Case("band_part", lambda x: (tf.linalg.band_part(x, 1, 0), tf.linalg.band_part(x, -1, 2)), X,
         FLOATS + ("int32",)),
    Case("diagonals", lambda x: (tf.linalg.diag(x), tf.linalg.diag_part(x)), [normal(5, 5)],
         FLOATS),
    Case("trace", tf.linalg.trace, [normal(4, 5, 5)], FLOATS, "sum"),
    Case("meshgrid", lambda x, y: tf.meshgrid(x, y), [anything(4), anything(5)],
         FLOATS + ("int32",)),
    Case("zero_size", lambda x, y: (tf.concat([x, y], 0), tf.pad(x, [[1, 1], [0, 0]]),
                                    tf.transpose(x), y[2:2]), [normal(0, 3), normal(4, 3)], NUMBERS),
    Case("zeros_and_ones", lambda x: (tf.zeros_like(x), tf.ones_like(x), tf.fill([2, 3], x[0, 0, 0])),
         X, NUMBERS),
    Case("range", lambda x: (tf.range(7), tf.range(2, 17, 4), tf.range(1., 0., -.25),
                             tf.eye(3, 4), tf.linspace(0., 1., 7)), X, ("float32",), "formula"),
    Case("shape_of", lambda x: (tf.shape(x), tf.size(x), tf.rank(x)), X, ("float32",)),
    Case("gradients", gradients(lambda x: (
        tf.pad(x, [[1, 2], [0, 3], [2, 0]]), tf.pad(x, [[1, 2], [2, 1], [0, 3]], "REFLECT"),
        tf.tile(x, [2, 1, 3]), tf.concat([x, x], 1), tf.stack([x, x]), tf.split(x, 2)[1],
        x[1:3, ::2, ::-1], tf.reverse(x, [1]), tf.roll(x, 2, 1), tf.transpose(x, [2, 0, 1]),
        tf.broadcast_to(x, [3, 4, 5, 6]), tf.slice(x, [1, 0, 2], [2, 4, -1]))), [normal(4, 5, 6)],
         FLOATS, "chain"),
    Case("resize_nearest", lambda x: tf.image.resize(x, [6, 8], "nearest"), [anything(1, 3, 4, 2)],
         ("float32",)),
    Case("resize_bilinear", gradients(lambda x: tf.image.resize(x, [6, 8], "bilinear")),
         [normal(1, 3, 4, 2)], ("float32",), "chain"),
]

ROWS = indices(3, 4, high=7)
INDEXED = [
    Case("gather", lambda x, i: tf.gather(x, i), [anything(7, 5), ROWS], ALL),
    Case("gather_columns", lambda x, i: tf.gather(x, i, axis=1), [anything(4, 7, 3), ROWS], ALL),
    Case("gather_scalar", lambda x, i: tf.gather(x, i), [anything(7, 5), indices(high=7)], NUMBERS),
    Case("gather_batch", lambda x, i: tf.gather(x, i, batch_dims=1), [anything(3, 7, 2), ROWS],
         NUMBERS),
    Case("gather_long_index", lambda x, i: tf.gather(x, tf.cast(i, tf.int64)),
         [anything(7, 5), ROWS], FLOATS),
    Case("gather_outside", lambda x: tf.gather(x, np.array([-1, 7, 3, 100], np.int32)),
         [normal(7, 5)], FLOATS, but={"tf": "TensorFlow refuses, XLA clamps"}),
    Case("gather_nd", lambda x, i: (tf.gather_nd(x, i[:, :2]), tf.gather_nd(x, i),
                                    tf.gather_nd(x, i[:, :1])),
         [anything(4, 5, 4), indices(6, 3, high=4)], ALL),
    Case("scatter_nd", lambda i, u: tf.scatter_nd(i, u, [8, 3]), [indices(5, 1, high=8),
                                                                  normal(5, 3)],
         FLOATS + ("int32",), "sum"),
    Case("scatter_nd_points", lambda i, u: tf.scatter_nd(i, u, [4, 4]), [indices(9, 2, high=4),
                                                                         normal(9)],
         FLOATS + ("int32",), "sum"),
    Case("scatter_update", tf.tensor_scatter_nd_update,
         [anything(8, 3), fixed([[1], [7], [0]], "int32"), anything(3, 3)], NUMBERS),
    Case("scatter_add", tf.tensor_scatter_nd_add, [normal(8, 3), indices(5, 1, high=8),
                                                   normal(5, 3)], FLOATS + ("int32",), "sum"),
    Case("scatter_sub", tf.tensor_scatter_nd_sub, [normal(8, 3), indices(5, 1, high=8),
                                                   normal(5, 3)], FLOATS + ("int32",), "sum"),
    Case("scatter_max", lambda x, i, u: (tf.tensor_scatter_nd_max(x, i, u),
                                         tf.tensor_scatter_nd_min(x, i, u)),
         [normal(8, 3), indices(5, 1, high=8), normal(5, 3)], FLOATS + ("int32",)),
    Case("scatter_outside", lambda u: tf.scatter_nd(np.array([[1], [9], [-1]], np.int32), u, [5, 3]),
         [normal(3, 3)], FLOATS, but={"tf": "TensorFlow refuses, XLA leaves out"}),
    Case("segment_sum", lambda x, i: tf.math.unsorted_segment_sum(x, i, 5),
         [normal(9, 3), indices(9, high=5, low=-1)], FLOATS + ("int32",), "sum"),
    Case("segment_max", lambda x, i: (tf.math.unsorted_segment_max(x, i, 4),
                                      tf.math.unsorted_segment_min(x, i, 4)),
         [normal(12, 3), fixed([0, 1, 2, 3] * 3, "int32")], FLOATS + ("int32",)),
    Case("segment_gradient", gradients(lambda x, i: tf.math.unsorted_segment_sum(x, i, 5), 0),
         [normal(9, 3), indices(9, high=5)], FLOATS, "sum"),
    Case("gather_gradients", gradients(lambda x, i: tf.gather(x, i, axis=1), 0),
         [normal(4, 7, 3), ROWS], FLOATS, "sum"),
    Case("gather_nd_gradients", gradients(tf.gather_nd, 0), [normal(4, 5, 4), indices(9, 2, high=4)],
         FLOATS, "sum"),
    Case("scatter_gradients", gradients(lambda x, u, i: tf.tensor_scatter_nd_add(x, i, u), 0, 1),
         [normal(8, 3), normal(5, 3), indices(5, 1, high=8)], FLOATS, "sum"),
    Case("one_hot", lambda i: (tf.one_hot(i, 7), tf.one_hot(i, 7, axis=0, dtype=tf.int32),
                               tf.one_hot(i, 7, 2., -1.)), [indices(3, 4, high=9, low=-1)],
         ("int32",)),
    Case("one_hot_halves", lambda i: tf.one_hot(i, 5, dtype=tf.float16), [indices(9, high=5)],
         ("int32",)),
    Case("dynamic_slice", lambda x, i: xla.dynamic_slice(x, i, [3, 2]),
         [anything(9, 5), indices(2, high=4)], ALL, but=XLA_OP),
    Case("dynamic_slice_clamps", lambda x, i: xla.dynamic_slice(x, i, [3, 2]),
         [anything(9, 5), fixed([8, -3], "int32")], NUMBERS, but=XLA_OP),
    Case("dynamic_update_slice", lambda x, u, i: xla.dynamic_update_slice(x, u, i),
         [anything(9, 5), anything(3, 2), indices(2, high=4)], ALL, but=XLA_OP),
    Case("dynamic_update_clamps", lambda x, u, i: (xla.dynamic_update_slice(x, u, i), x),
         [anything(9, 5), anything(3, 2), fixed([7, -3], "int32")], NUMBERS, but=XLA_OP),
    Case("update_row", lambda x, i, u: tf.tensor_scatter_nd_update(x, tf.reshape(i, [1, 1]), u),
         [anything(9, 5), indices(high=9), anything(1, 5)], NUMBERS),
    Case("searchsorted", lambda x, v: tf.searchsorted(tf.sort(x), v), [normal(3, 9), normal(3, 4)],
         ("float32", "int32")),
    Case("boolean_sum", lambda x: tf.reduce_sum(tf.where(x > 0, x, tf.zeros_like(x)), 1),
         [normal(9, 5)], FLOATS, "sum"),
]

test_shapes = differential(SHAPES)
test_indexed = differential(INDEXED)


@pytest.mark.smoke
def test_smoke():
    """A few of each table, on the newest TensorFlow."""
    check_all(SHAPES[::4] + INDEXED[::4])
