"""Operations of neural networks (`gen_popnn_ops`), by the functions of ipu.nn_ops
and ipu.rnn_ops."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import nn_ops, normalization_ops_grad
from tremula.tf.plugin.poplar.ops import _refused
from tremula.tf.plugin.poplar.ops._recurrent import (  # noqa: F401
    popnn_augru_layer, popnn_augru_layer_backprop, popnn_dynamic_gru_layer,
    popnn_dynamic_gru_layer_backprop, popnn_dynamic_lstm_layer, popnn_dynamic_lstm_layer_backprop,
    popnn_gru_layer, popnn_gru_layer_backprop, popnn_lstm_layer, popnn_lstm_layer_backprop)


def __getattr__(name):
    _refused.attribute(__name__, name)


def ipu_gelu(features, name=None):
    """See ipu.nn_ops.gelu()."""
    return nn_ops.gelu(features, name=name)


def ipu_swish(features, name=None):
    """See ipu.nn_ops.swish()."""
    return nn_ops.swish(features, name=name)


def ipu_hard_sigmoid(features, name=None):
    """See ipu.nn_ops.hard_sigmoid()."""
    return nn_ops.hard_sigmoid(features, name=name)


def ipu_softmax(features, name=None):
    """See ipu.nn_ops.softmax()."""
    return nn_ops.softmax(features, name=name)


def ipu_stable_softmax(features, name=None):
    """See ipu.nn_ops.softmax()."""
    return nn_ops.softmax(features, stable=True, name=name)


def ipu_gelu_grad(gradients, features, name=None):
    """`gradients` times the slope of gelu at `features`: a tensor like features, float16 or
    float32, whose shape and type gradients have. Raises TypeError for other types, RuntimeError in
    eager mode."""
    return _slope(nn_ops.gelu, gradients, features, name)


def ipu_swish_grad(gradients, features, name=None):
    """`gradients` times the slope of swish. As ipu_gelu_grad()."""
    return _slope(nn_ops.swish, gradients, features, name)


def ipu_hard_sigmoid_grad(gradients, features, name=None):
    """`gradients` times the slope of hard_sigmoid. As ipu_gelu_grad()."""
    return _slope(nn_ops.hard_sigmoid, gradients, features, name)


def popnn_ctc_loss_with_logits(data, labels, data_lengths, label_lengths, blank_index,
                               out_dtype=None, name=None):
    """(loss [batch], its gradient for data [time, batch, classes]), both of out_dtype. See
    ipu.nn_ops.ctc_loss_v2(). Raises RuntimeError in eager mode."""
    return _ctc_loss(nn_ops.ctc_loss_v2, data, labels, data_lengths, label_lengths, blank_index,
                     out_dtype, name)


def popnn_ctc_loss_with_log_probs(data, labels, data_lengths, label_lengths, blank_index,
                                  out_dtype=None, name=None):
    """(loss [batch], its gradient for data [time, batch, classes]), both of out_dtype. See
    ipu.nn_ops.ctc_loss_with_log_probs(). Raises RuntimeError in eager mode."""
    return _ctc_loss(nn_ops.ctc_loss_with_log_probs, data, labels, data_lengths, label_lengths,
                     blank_index, out_dtype, name)


def popnn_ctc_beam_search_with_logits(data, data_lengths, blank_index, beam_width, top_paths,
                                      name=None):
    """See ipu.nn_ops.ctc_beam_search_decoder()."""
    return nn_ops.ctc_beam_search_decoder(data, data_lengths, beam_width, top_paths, blank_index,
                                          name)


def popnn_ctc_beam_search_with_log_probs(data, data_lengths, blank_index, beam_width, top_paths,
                                         name=None):
    """See ipu.nn_ops.ctc_beam_search_decoder_with_log_probs()."""
    return nn_ops.ctc_beam_search_decoder_with_log_probs(data, data_lengths, beam_width,
                                                         top_paths, blank_index, name)


def popnn_group_norm_training(inputs, gamma, beta, data_format, epsilon, num_groups,
                              strided_channel_grouping=True, name=None):
    """(normalized inputs, mean, inverse standard deviation).

    inputs       float16 or float32 [batch, ..., channels], for the data_format "NCHW" [batch,
                 channels, ...]
    gamma, beta  [channels]

    The statistics are those of each sample's groups, [batch * num_groups] of the type of inputs.
    Raises TypeError for channels whose number is not known.
    """
    inputs = tf.convert_to_tensor(inputs)
    groups = _groups(inputs, data_format, epsilon, num_groups, strided_channel_grouping)
    with tf.name_scope(name, "PopnnGroupNormTraining", [inputs]) as scope, \
            groups.layer(scope, "training", inputs):
        output = normalization_ops_grad.group_norm(inputs, gamma, beta, groups)
        return (output, *_statistics(inputs, groups))


def popnn_group_norm_statistics(inputs, data_format, epsilon, num_groups,
                                strided_channel_grouping=True, name=None):
    """(mean, inverse standard deviation) of each sample's groups, [batch * num_groups] of the type
    of inputs. As popnn_group_norm_training()."""
    inputs = tf.convert_to_tensor(inputs)
    groups = _groups(inputs, data_format, epsilon, num_groups, strided_channel_grouping)
    with tf.name_scope(name, "PopnnGroupNormStatistics", [inputs]) as scope, \
            groups.layer(scope, "statistics", inputs):
        return _statistics(inputs, groups)


def popnn_group_norm_inference(inputs, gamma, beta, mean, inv_std_dev, data_format, epsilon,
                               num_groups, strided_channel_grouping=True, name=None):
    """`inputs`, normalized by given statistics, [batch * num_groups] each: a tensor like inputs. As
    popnn_group_norm_training()."""
    inputs = tf.convert_to_tensor(inputs)
    groups = _groups(inputs, data_format, epsilon, num_groups, strided_channel_grouping)
    with tf.name_scope(name, "PopnnGroupNormInference", [inputs]) as scope, \
            groups.layer(scope, "inference", inputs):
        cut = groups.cut(inputs)
        mean, inverse = (_per_group(one, cut, groups) for one in (mean, inv_std_dev))
        normalized = groups.whiten(cut, mean, inverse)
        return groups.paste(groups.scale(normalized, gamma, beta), inputs)


def popnn_group_norm_grad(inputs, gamma, mean, inv_std_dev, output_backprop, data_format, epsilon,
                          num_groups, strided_channel_grouping=True, name=None):
    """Gradients for (inputs, gamma, beta), of their shapes and types; output_backprop is like
    inputs. As popnn_group_norm_training()."""
    inputs = tf.convert_to_tensor(inputs)
    groups = _groups(inputs, data_format, epsilon, num_groups, strided_channel_grouping)
    with tf.name_scope(name, "PopnnGroupNormGrad", [inputs]) as scope, \
            groups.layer(scope, "grad", inputs):
        cut = groups.cut(inputs)
        return normalization_ops_grad.group_norm_grad(
            inputs, tf.convert_to_tensor(gamma), _per_group(mean, cut, groups),
            _per_group(inv_std_dev, cut, groups), tf.convert_to_tensor(output_backprop),
            groups)


def _slope(function, gradients, features, name):
    with tf.name_scope(name, "ActivationGrad", [gradients, features]):
        features = tf.convert_to_tensor(features)
        return tf.gradients(function(features), features, gradients)[0]


def _ctc_loss(function, data, labels, data_lengths, label_lengths, blank_index, out_dtype, name):
    data = tf.convert_to_tensor(data)
    loss = function(labels, data, label_lengths, data_lengths, blank_index, out_dtype, name)
    return loss, tf.cast(tf.gradients(loss, data)[0], loss.dtype)


def _groups(inputs, data_format, epsilon, num_groups, strided):
    first = data_format == "NCHW"
    channels = int(inputs.shape[1 if first else -1])
    return normalization_ops_grad.Groups(num_groups, channels, first, strided, epsilon)


def _statistics(inputs, groups):
    return tuple(tf.cast(tf.reshape(one, [-1]), inputs.dtype)
                 for one in groups.statistics(groups.cut(inputs)))


def _per_group(vector, cut, groups):
    """A vector of one value for each sample's group, so that it fits what Groups.cut() gives."""
    like = groups.group_mean(cut)
    return tf.reshape(tf.cast(vector, tf.float32), tf.shape(like))
