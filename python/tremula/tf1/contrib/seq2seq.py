"""`tf.contrib.seq2seq`: the loss of sequences, and copies for beams. Decoders and attention are not
here."""

import tensorflow.compat.v1 as tf

from tremula.tf1 import missing

__path__ = []  # the original had files below


def __getattr__(name):
    raise missing.attribute("seq2seq", name)


def sequence_loss(logits, targets, weights, average_across_timesteps=True,
                  average_across_batch=True, sum_over_timesteps=False, sum_over_batch=False,
                  softmax_loss_function=None, name=None):
    """The weighted cross-entropy of logits [batch, time, classes] with integers, targets
    [batch, time].

    weights                       [batch, time]
    average_across_timesteps, average_across_batch   over which dimensions to divide the sum by the
                                  weights; what is not taken together stays a dimension
    sum_over_timesteps, sum_over_batch   the same, dividing by how many weights are not zero
    softmax_loss_function         (labels=, logits=) -> losses; the sparse cross-entropy by default

    Returns a scalar, [batch], [time] or [batch, time]. Raises ValueError for other shapes and for
    average and sum over one dimension.
    """
    for tensor, rank, words in ((logits, 3, "Logits must be a [batch_size x sequence_length x "
                                             "logits] tensor"),
                                (targets, 2, "Targets must be a [batch_size x sequence_length] "
                                             "tensor"),
                                (weights, 2, "Weights must be a [batch_size x sequence_length] "
                                             "tensor")):
        if len(tensor.shape) != rank:
            raise ValueError(words)
    for average, total, dimension in ((average_across_timesteps, sum_over_timesteps, "timesteps"),
                                      (average_across_batch, sum_over_batch, "batch")):
        if average and total:
            raise ValueError(f"average_across_{dimension} and sum_over_{dimension} cannot be set "
                             "to True at same time.")
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        flat = tf.reshape(logits, [-1, tf.shape(logits)[2]])
        losses = function(labels=tf.reshape(targets, [-1]), logits=flat)
        losses = tf.reshape(losses, tf.shape(logits)[:2]) * weights
        losses.set_shape(targets.shape)
        axes = [axis for axis, over in ((0, average_across_batch or sum_over_batch),
                                        (1, average_across_timesteps or sum_over_timesteps))
                if over]
        if not axes:
            return losses
        if average_across_batch or average_across_timesteps:
            count = tf.reduce_sum(weights, axes)
        else:
            count = tf.cast(tf.count_nonzero(weights, axes), losses.dtype)
        return tf.div_no_nan(tf.reduce_sum(losses, axes), count)


def tile_batch(t, multiplier, name=None):
    """Each entry of the tensors t [batch, ...], in any structure, `multiplier` times in a row:
    [batch * multiplier, ...]."""
    with tf.name_scope(name, "tile_batch", tf.nest.flatten(t) + [multiplier]):
        return tf.nest.map_structure(
            lambda one: tf.repeat(tf.convert_to_tensor(one), multiplier, axis=0), t)
