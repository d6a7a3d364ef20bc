"""Gradients of lookups: rows are added up where they were taken from."""

import tensorflow.compat.v1 as tf


def lookup_grad(d_rows, ids, shape):
    """The gradient for a table of the shape `shape`, of rows that were taken by `ids` [n]: d_rows
    [n, ...], those of equal ids added."""
    with tf.name_scope("IpuMultiUpdateAdd"):
        return tf.scatter_nd(ids[:, tf.newaxis], d_rows, tf.cast(shape, ids.dtype))
