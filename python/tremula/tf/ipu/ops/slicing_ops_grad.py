"""Sequence slices and their gradients.

Which element of the source a place of the destination gets is computed once, as indices; values and
gradients are then gathered and scattered by them.
"""

import tensorflow.compat.v1 as tf


def places(num_elems, src_offsets, dst_offsets, size, src_size):
    """For each of `size` places of the destination the element of the source that it gets, or
    src_size for none; of several slices the last one counts. All int32."""
    place = tf.range(size)[:, tf.newaxis]
    offset = place - dst_offsets[tf.newaxis]
    inside = tf.logical_and(offset >= 0, offset < num_elems[tf.newaxis])
    number = tf.range(tf.shape(num_elems)[0])[tf.newaxis]
    last = tf.reduce_max(tf.where_v2(inside, number, -1), 1)
    chosen = tf.maximum(last, 0)
    source = tf.gather(src_offsets, chosen) + tf.range(size) - tf.gather(dst_offsets, chosen)
    inside_source = tf.logical_and(source >= 0, source < src_size)
    return tf.where_v2(tf.logical_and(last >= 0, inside_source), source, src_size)


def sequence_slice(dst, src, source, zero_unused):
    """dst with the rows that `source` (from places()) names in src; others are dst's, or zero."""
    src_size = tf.shape(src)[0]

    def is_taken(like):
        return tf.reshape(source < src_size, tf.concat(
            [tf.shape(source), tf.ones([like.shape.rank - 1], tf.int32)], 0))

    @tf.custom_gradient
    def slices(dst, src):
        taken = is_taken(src)
        rows = tf.gather(src, tf.minimum(source, src_size - 1))
        result = tf.where_v2(taken, rows, tf.zeros_like(dst) if zero_unused else dst)

        def gradient(d):
            zero = tf.zeros_like(d)
            d_dst = zero if zero_unused else tf.where_v2(taken, zero, d)
            shape = tf.shape(src)
            # One row more, for what comes from nowhere.
            padded = tf.concat([shape[:1] + 1, shape[1:]], 0)
            d_src = tf.scatter_nd(source[:, tf.newaxis], tf.where_v2(taken, d, zero), padded)[:-1]
            return d_dst, d_src

        return result, gradient

    return slices(dst, src)
