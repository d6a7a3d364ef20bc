"""Operations on tensors and replicas (`gen_popops_ops`), by the functions of ipu.ops."""

# The original's names of arguments.  pylint: disable=redefined-builtin

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import (all_to_all_op, cross_replica_ops, embedding_ops, image_ops,
                                reduce_scatter_op, slicing_ops, statistics_ops,
                                within_replica_ops)
from tremula.tf.plugin.poplar.ops import _refused


def __getattr__(name):
    _refused.attribute(__name__, name)


def ipu_all_gather(inputs, replication_factor, name=None):
    """See ipu.all_to_all_op.all_gather()."""
    return all_to_all_op.all_gather(inputs, replication_factor, name)


def ipu_all_to_all(input, split_dimension, concat_dimension, number_of_replicas, name=None):
    """See ipu.all_to_all_op.all_to_all()."""
    return all_to_all_op.all_to_all(input, split_dimension, concat_dimension, number_of_replicas,
                                    name)


def ipu_cross_replica_sum(input, replica_group_size=0, name=None):
    """See ipu.cross_replica_ops.cross_replica_sum()."""
    return cross_replica_ops.cross_replica_sum(input, replica_group_size or None, name)


def ipu_cross_replica_mean(input, replica_group_size=0, name=None):
    """See ipu.cross_replica_ops.cross_replica_mean()."""
    return cross_replica_ops.cross_replica_mean(input, replica_group_size or None, name)


def ipu_reduce_scatter(inputs, op, replication_factor, name=None):
    """The list that ipu.reduce_scatter_op.reduce_scatter() gives of the list `inputs`. See
    ipu.reduce_scatter_op.reduce_scatter()."""
    inputs = list(inputs)
    result = reduce_scatter_op.reduce_scatter(inputs, replication_factor, op, name)
    return result if isinstance(result, (list, tuple)) else [result]


def ipu_histogram(input, levels, absolute_of_input, name=None):
    """See ipu.statistics_ops.histogram()."""
    with tf.name_scope(name, "IpuHistogram"):
        return statistics_ops.histogram(input, levels, absolute_of_input)


def ipu_histogram_update(hist, input, levels, absolute_of_input, name=None):
    """See ipu.statistics_ops.histogram_update()."""
    with tf.name_scope(name, "IpuHistogramUpdate"):
        return statistics_ops.histogram_update(hist, input, levels, absolute_of_input)


def ipu_multi_slice(input, indices, indices_are_sorted=False, name=None):
    """The rows `indices` of `input`. See ipu.embedding_ops.embedding_lookup()."""
    return embedding_ops.embedding_lookup(input, indices, indices_are_sorted=indices_are_sorted,
                                          name=name)


def ipu_multi_update(input, indices, updates, indices_are_sorted=False, name=None):
    """`input` [rows, ...] of any type with the rows `indices`, int32 or int64 of any shape,
    replaced by `updates`, which have a row for each of them: a tensor like input. Raises TypeError
    for other types of indices, ValueError for shapes that do not fit."""
    del indices_are_sorted
    return tf.tensor_scatter_nd_update(input, tf.reshape(indices, [-1, 1]), _rows(updates, input),
                                       name=name)


def ipu_multi_update_add(input, indices, updates, scale, indices_are_sorted=False, name=None):
    """`input` with `scale`, a number, times `updates` added to the rows `indices`. As
    ipu_multi_update()."""
    del indices_are_sorted
    return tf.tensor_scatter_nd_add(input, tf.reshape(indices, [-1, 1]),
                                    scale * _rows(updates, input), name=name)


def _rows(updates, like):
    """Updates in one dimension of rows as those of `like`."""
    return tf.reshape(updates, [-1, *tf.convert_to_tensor(like).shape.as_list()[1:]])


def normalise_image(image, channel_offsets, channel_scales, scale, name=None):
    """See ipu.image_ops.normalise_image()."""
    return image_ops.normalise_image(image, channel_offsets, channel_scales, scale, name)


def ipu_sequence_slice(dst, src, num_elems, src_offsets, dst_offsets, zero_unused=False,
                       name=None):
    """See ipu.slicing_ops.sequence_slice()."""
    with tf.name_scope(name, "IpuSequenceSlice"):
        return slicing_ops.sequence_slice(dst, src, num_elems, src_offsets, dst_offsets,
                                          zero_unused)


def ipu_sequence_slice_unpack(src, num_elems, src_offsets, dst_offsets, total_elements, name=None):
    """The slices of `src` in zeros of `total_elements` rows. See ipu.slicing_ops.sequence_slice().
    """
    with tf.name_scope(name, "IpuSequenceSliceUnpack"):
        src = tf.convert_to_tensor(src)
        shape = [total_elements, *src.shape.as_list()[1:]]
        return slicing_ops.sequence_slice(tf.zeros(shape, src.dtype), src, num_elems, src_offsets,
                                          dst_offsets, True)


def ipu_all_gather_within_replica(inputs, name=None):
    """See ipu.within_replica_ops.all_gather()."""
    with tf.name_scope(name, "IpuAllGatherWithinReplica"):
        return within_replica_ops.all_gather(inputs)


def ipu_all_reduce_within_replica(inputs, collective_op, name=None):
    """See ipu.within_replica_ops.all_reduce()."""
    with tf.name_scope(name, "IpuAllReduceWithinReplica"):
        return within_replica_ops.all_reduce(inputs, collective_op)


def ipu_reduce_scatter_within_replica(inputs, collective_op, name=None):
    """See ipu.within_replica_ops.reduce_scatter()."""
    with tf.name_scope(name, "IpuReduceScatterWithinReplica"):
        return within_replica_ops.reduce_scatter(inputs, collective_op)
