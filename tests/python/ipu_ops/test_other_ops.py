"""Serialized products, segments, images, slices, histograms: against numpy and TensorFlow."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.ipu.ops import image_ops, math_ops, slicing_ops, statistics_ops


# ---- math_ops ----

@pytest.mark.parametrize("where", ["ipu", "cpu"])
@pytest.mark.parametrize("dimension", ["a_columns", "a_rows_b_columns", "b_rows"])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_serialized_matmul(run, random, where, dimension, transpose_a, transpose_b):
    a = random(2, 4, 8) if not transpose_a else random(2, 8, 4)
    b = random(8, 12) if not transpose_b else random(12, 8)
    d = random(2, 4, 12)

    def gradients(function):
        def both(a, b, d):
            y = function(a, b)
            return [y, *tf.gradients(y, [a, b], d)]
        return both

    mine = run(gradients(lambda a, b: math_ops.serialized_matmul(
        a, b, 2, dimension, transpose_a, transpose_b)), a, b, d, where=where)
    want = run(gradients(lambda a, b: tf.matmul(a, b, transpose_a, transpose_b)), a, b, d,
               where="cpu")
    for one, other in zip(mine, want):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_serialized_matmul_is_in_parts():
    a = tf.ones([4, 8])
    y = math_ops.serialized_matmul(a, tf.ones([8, 12]), 4, "b_rows", name="parts")
    tf.gradients(y, a)
    products = [one for one in tf.get_default_graph().get_operations() if "MatMul" in one.type]
    assert len(products) == 12 and products[0].outputs[0].shape == [4, 3]


@pytest.mark.parametrize("arguments, text", [
    ((0, "a_columns"), "serialization_factor has to be at least 1, but was 0."),
    ((2, "banana"), "Invalid serialization_dimension=banana, expected one of: 'a_columns', "
     "'a_rows_b_columns', 'b_rows'."),
    ((3, "a_columns"), r"Expected 'serialization_factor' \(3\) to divide the columns dimension of "
     r"'a' \(4\)."),
    ((3, "a_rows_b_columns"), r"Expected 'serialization_factor' \(3\) to divide the rows dimension "
     r"of 'a' \(8\)."),
    ((5, "b_rows"), r"Expected 'serialization_factor' \(5\) to divide the rows dimension of 'b' "
     r"\(12\)."),
])
def test_serialized_matmul_refusals(arguments, text):
    with pytest.raises(ValueError, match=text):
        math_ops.serialized_matmul(tf.ones([4, 8]), tf.ones([8, 12]), *arguments)


def test_serialized_matmul_shape_refusals():
    with pytest.raises(ValueError, match="Expected tensor 'b' to have a minimum rank of 2"):
        math_ops.serialized_matmul(tf.ones([4, 8]), tf.ones([8]), 2, "b_rows")
    with pytest.raises(ValueError, match=r"number of columns in 'a' \(8\) to match the number of "
                       r"rows in 'b' \(6\)"):
        math_ops.serialized_matmul(tf.ones([4, 8]), tf.ones([6, 4]), 2, "a_rows_b_columns")


@pytest.mark.parametrize("where", ["ipu", "cpu"])
def test_segment_sum(run, random, where):
    data, ids = random(6, 3), np.array([0, 0, 2, 2, 2, 4], np.int32)

    def mine(data, ids):
        sums = math_ops.segment_sum(data, ids, 4)
        return sums, tf.gradients(sums, data, tf.constant(np.arange(12.).reshape(4, 3),
                                                          tf.float32))[0]

    sums, gradient = run(mine, data, ids, where=where)
    want = np.zeros((5, 3), np.float32)
    np.add.at(want, ids, data)
    np.testing.assert_allclose(sums, want[:4], rtol=1e-6)
    np.testing.assert_array_equal(gradient, np.vstack([np.arange(12.).reshape(4, 3),
                                                       np.zeros((1, 3))])[ids])


@pytest.mark.parametrize("data, ids, number, words", [
    (np.zeros([]), np.arange(20), 20, "Shape () must have rank at least 1"),
    (np.arange(20), np.zeros((10, 2), np.int32), 20, "Shape (10, 2) must have rank 1"),
    (np.arange(20), np.arange(20), -123, "num_segments must be greater than 0; got -123"),
    (np.arange(20), np.arange(20), 0, "num_segments must be greater than 0; got 0"),
    (np.arange(20), np.arange(10), 10,
     "segment_ids (shape (10,)) must have same length as axis 0 of data (shape (20,))"),
    ((1, None, 4), np.arange(20), 20, "Shape of data must be fully defined"),
    (np.arange(20), (None,), 20, "Shape of segment_ids must be fully defined")])
def test_segment_sum_of_what_does_not_fit(data, ids, number, words):
    with tf.Graph().as_default():
        data, ids = (tf.placeholder(tf.int32, one) if isinstance(one, tuple) else one
                     for one in (data, ids))
        with pytest.raises(ValueError, match=re.escape(words)):
            math_ops.segment_sum(data, ids, number)


# ---- image_ops ----

@pytest.mark.parametrize("dtype, channels", [(np.uint8, 3), (np.float16, 3), (np.float32, 3),
                                             (np.float32, 4)])
def test_normalise_image(run, random, dtype, channels):
    image = (np.abs(random(2, 3, 4, channels)) * 60).astype(dtype)
    offsets, scales = [.1, .2, .3], np.array([2., 3., .5], np.float32)
    got, = run(lambda image: image_ops.normalise_image(image, offsets, tf.constant(scales), 1 / 255,
                                                       "name"), image)
    assert got.shape == (2, 3, 4, 4)
    assert got.dtype == (np.float16 if dtype == np.uint8 else dtype)
    want = (image[..., :3].astype(np.float64) / 255 - offsets) * scales
    np.testing.assert_allclose(got[..., :3], want, rtol=2e-3, atol=2e-3)
    np.testing.assert_array_equal(got[..., 3], image[..., 3] if channels == 4 else 0)


def test_normalise_image_refusals():
    with pytest.raises(TypeError, match="must be either float16, float32 or uint8."):
        image_ops.normalise_image(tf.zeros([1, 2, 2, 3], tf.int32), [0] * 3, [1] * 3)
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="The image has 2 channels, expected 3"):
        image_ops.normalise_image(tf.zeros([1, 2, 2, 2]), [0] * 3, [1] * 3)
    for sizes in ((2, 3), (3, 4)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be the same size as the "
                           "number of image channels 3, but was"):
            image_ops.normalise_image(tf.zeros([1, 2, 2, 3]), *map(tf.zeros, sizes))


# ---- slicing_ops ----

def plain_slice(dst, src, num_elems, src_offsets, dst_offsets, zero_unused):
    result = np.zeros_like(dst) if zero_unused else dst.copy()
    for count, source, place in zip(num_elems, src_offsets, dst_offsets):
        result[place:place + count] = src[source:source + count]
    return result


@pytest.mark.parametrize("where", ["ipu", "cpu"])
@pytest.mark.parametrize("zero_unused", [False, True])
@pytest.mark.parametrize("num_elems, src_offsets, dst_offsets", [
    ([2, 2], [2, 1], [0, 4]), ([3, 1, 2], [0, 0, 4], [1, 0, 6]), ([0, 6], [1, 0], [0, 2])])
def test_sequence_slice(run, random, where, zero_unused, num_elems, src_offsets, dst_offsets):
    dst, src, d = random(8, 3), random(6, 3), random(8, 3)

    def mine(dst, src, d):
        result = slicing_ops.sequence_slice(dst, src, num_elems, src_offsets, dst_offsets,
                                            zero_unused)
        return [result, *tf.gradients(result, [dst, src], d)]

    result, d_dst, d_src = run(mine, dst, src, d, where=where)
    vectors = num_elems, src_offsets, dst_offsets
    np.testing.assert_array_equal(result, plain_slice(dst, src, *vectors, zero_unused))
    untouched = plain_slice(np.ones_like(dst), np.zeros_like(src), *vectors, zero_unused)
    np.testing.assert_array_equal(d_dst, d * untouched)
    want = np.zeros_like(src)
    for count, source, place in zip(*vectors):
        want[source:source + count] += d[place:place + count]
    np.testing.assert_allclose(d_src, want, rtol=1e-6)


def test_unpack_and_pack(run, random):
    src = random(6, 2, 3)
    unpacked, packed, whole = run(lambda src: (lambda unpacked: [
        unpacked, slicing_ops.sequence_slice_pack(tf.zeros([6, 2, 3]), unpacked, [2, 2], [2, 0],
                                                  False),
        slicing_ops.sequence_slice_unpack(src, tf.constant([1, 1]), [5, 0], 3)])(
            slicing_ops.sequence_slice_unpack(src, [2, 2], [2, 1], 4)), src)
    np.testing.assert_array_equal(unpacked, src[[2, 3, 1, 2]])
    np.testing.assert_array_equal(packed[:4], src[[1, 2, 2, 3]])
    np.testing.assert_array_equal(whole, np.stack([src[5], src[0], 0 * src[0]]))


def test_sequence_slice_refusals():
    x = tf.zeros([4, 2])
    with pytest.raises(ValueError, match="num_elems, src_offsets and dst_offsets must have "
                       "matching, nonzero shapes of rank 1."):
        slicing_ops.sequence_slice(x, x, [1, 2], [1], [1, 2], False)
    with pytest.raises(ValueError, match="num_elems and src_offsets must have matching, nonzero"):
        slicing_ops.sequence_slice_unpack(x, tf.zeros([0], tf.int32), tf.zeros([0], tf.int32), 2)
    with pytest.raises(ValueError, match="num_elems and dst_offsets must have matching, nonzero"):
        slicing_ops.sequence_slice_pack(x, x, [1], [1, 2], False)
    with pytest.raises(ValueError, match="src and dst inner shapes must match."):
        slicing_ops.sequence_slice(x, tf.zeros([4, 3]), [1], [1], [1], False)


# ---- statistics_ops ----

@pytest.mark.parametrize("where", ["ipu", "cpu"])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_histogram(run, random, where, absolute, dtype):
    values = np.append(random(200, dtype=dtype), dtype(.5))
    levels = np.array([-1, 0, .5, 2], dtype)

    def mine(values, levels):
        hist = statistics_ops.histogram(values, levels, absolute)
        return hist, statistics_ops.histogram_update(hist, values, levels), \
            statistics_ops.histogram_normalize(hist)

    hist, updated, normalized = run(mine, values, levels, where=where)
    ends = [-np.inf, *levels.astype(np.float64), np.inf]
    taken = np.abs(values) if absolute else values
    want = [((taken >= low) & (taken < high)).sum() for low, high in zip(ends, ends[1:])]
    np.testing.assert_array_equal(hist, want)
    np.testing.assert_array_equal(updated - hist, [
        ((values >= low) & (values < high)).sum() for low, high in zip(ends, ends[1:])])
    np.testing.assert_allclose(normalized, np.array(want) / 201, rtol=1e-6)


def test_fixed_width_bins(run, random):
    values = random(50)
    bins, = run(lambda values: statistics_ops.fixed_width_bins(values, 5), values)
    np.testing.assert_allclose(bins, np.linspace(values.min(), values.max(), 5), rtol=1e-5)


def test_histogram_refusals():
    x, levels = tf.zeros([4]), tf.zeros([2])
    with pytest.raises(ValueError, match="Only float16 and float32 types are supported for "
                       "histogram computation."):
        statistics_ops.histogram(tf.zeros([4], tf.int32), levels)
    with pytest.raises(ValueError, match="histogram expects rank-1 tensor inputs."):
        statistics_ops.histogram(tf.zeros([4, 4]), levels)
    with pytest.raises(ValueError, match="hist must be of float32 type"):
        statistics_ops.histogram_update(tf.zeros([3], tf.int32), x, levels)
    with pytest.raises(ValueError, match=r"For n levels, hist must have n\+1 elements."):
        statistics_ops.histogram_update(tf.zeros([2]), x, levels)
