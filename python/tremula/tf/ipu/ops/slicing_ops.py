"""Slices of sequences (`tensorflow.python.ipu.ops.slicing_ops`).

Slice i takes num_elems[i] elements (along the first dimension) from src_offsets[i] on in a source
and puts them in a destination from dst_offsets[i] on. Where slices overlap, the last one counts.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import slicing_ops_grad


def sequence_slice(dst, src, num_elems, src_offsets, dst_offsets, zero_unused):
    """`dst` with the slices of `src` put in; with zero_unused the rest of it is zero.

    dst, src    float16, float32 or int32, of equal shapes but for the first dimension
    num_elems, src_offsets, dst_offsets   int32 vectors of one length, not 0

    Returns a tensor like dst; raises ValueError for shapes that do not fit.
    """
    dst, src = tf.convert_to_tensor(dst), tf.convert_to_tensor(src)
    vectors = _vectors("num_elems, src_offsets and dst_offsets", num_elems, src_offsets,
                       dst_offsets)
    _check_inner_shapes(src, dst)
    return _slice(dst, src, *vectors, zero_unused)


def sequence_slice_unpack(src, num_elems, src_offsets, total_elements):
    """The slices of `src` one behind the other, in a tensor of `total_elements`, an int; behind
    them are zeros.

    src                     float16, float32 or int32 [elements, ...]
    num_elems, src_offsets  int32 vectors of one length, not 0

    Returns [total_elements, ...] of the type of src; raises ValueError for vectors that do not fit.
    """
    src = tf.convert_to_tensor(src)
    num_elems, src_offsets = _vectors("num_elems and src_offsets", num_elems, src_offsets)
    dst = tf.zeros(tf.concat([[total_elements], tf.shape(src)[1:]], 0), src.dtype)
    dst.set_shape([total_elements, *src.shape.as_list()[1:]])
    return _slice(dst, src, num_elems, src_offsets, _starts(num_elems), True)


def sequence_slice_pack(dst, src, num_elems, dst_offsets, zero_unused):
    """The opposite of sequence_slice_unpack(): slices that lie one behind the other in `src` are
    put in `dst`.

    dst, src                float16, float32 or int32, of equal shapes but for the first dimension
    num_elems, dst_offsets  int32 vectors of one length, not 0

    Returns a tensor like dst, with zero_unused zero where no slice is; raises ValueError for shapes
    that do not fit, TypeError for two types.
    """
    dst, src = tf.convert_to_tensor(dst), tf.convert_to_tensor(src)
    num_elems, dst_offsets = _vectors("num_elems and dst_offsets", num_elems, dst_offsets)
    _check_inner_shapes(src, dst)
    return _slice(dst, src, num_elems, _starts(num_elems), dst_offsets, zero_unused)


def _slice(dst, src, num_elems, src_offsets, dst_offsets, zero_unused):
    with tf.name_scope("IpuSequenceSlice"):
        size, src_size = (one.shape.as_list()[0] for one in (dst, src))
        source = slicing_ops_grad.places(
            num_elems, src_offsets, dst_offsets, tf.shape(dst)[0] if size is None else size,
            tf.shape(src)[0] if src_size is None else src_size)
        return slicing_ops_grad.sequence_slice(dst, src, source, bool(zero_unused))


def _starts(num_elems):
    return tf.cumsum(num_elems, exclusive=True)


def _vectors(names, *values):
    values = [tf.cast(tf.convert_to_tensor(one), tf.int32) for one in values]
    shapes = [one.shape.as_list() for one in values]
    if any(one != shapes[0] or len(one) != 1 or one[0] == 0 for one in shapes):
        raise ValueError(f"{names} must have matching, nonzero shapes of rank 1.")
    return values


def _check_inner_shapes(src, dst):
    if src.shape.as_list()[1:] != dst.shape.as_list()[1:]:
        raise ValueError("src and dst inner shapes must match.")
