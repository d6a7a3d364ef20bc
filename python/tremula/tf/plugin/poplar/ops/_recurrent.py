"""The recurrent layers of gen_popnn_ops, and their gradients, by the functions of ipu.rnn_ops.

inputs [T, B, I] (time, batch, input), states [B, U], kernel [I + U, gates * U], biases [gates, U];
gates stand in the order that ipu.rnn_ops has. `num_channels` is U. seq_len [B] and att_score [T, B]
are of the dynamic layers. `intermediates` is what the backprop operation gets again.
"""

import json

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _building, rnn_ops, rnn_ops_grad


def _prepared(kernel, gates, num_channels, *others):
    """The kernel and the others as tensors. Raises ValueError if the kernel is for another
    num_channels."""
    kernel = tf.convert_to_tensor(kernel)
    if not kernel.shape.is_compatible_with([None, gates * num_channels]):
        raise ValueError(f"num_channels is {num_channels}, which makes a kernel of the shape "
                         f"[inputs + {num_channels}, {gates * num_channels}], but it is "
                         f"{kernel.shape}.")
    return [kernel, *map(tf.convert_to_tensor, others)]


def _marks(partials_dtype, options, options_bwd):
    for text in (options, options_bwd):
        if not isinstance(json.loads(text), (dict, type(None))):
            raise ValueError(f"options must be a dict in JSON, but they are {text!r}.")
    return rnn_ops._marks(partials_dtype, None, None, json.loads(options),
                          json.loads(options_bwd))


def _activations(activation, recurrent_activation):
    return (rnn_ops._known(activation, rnn_ops._rnn.ACTIVATIONS, "activation"),
            rnn_ops._known(recurrent_activation, rnn_ops._rnn.RECURRENT_ACTIVATIONS,
                           "recurrent_activation"))


def _lstm(kind, inputs, h, c, kernel, biases, seq_len, activation, recurrent_activation,
          num_channels, is_training, partials_dtype, options, options_bwd, name):
    kernel, inputs, h, c, biases = _prepared(kernel, 4, num_channels, inputs, h, c, biases)
    lengths = None if seq_len is None else rnn_ops._lengths(seq_len)
    marks = _marks(partials_dtype, options, options_bwd)
    with tf.name_scope(name, kind):
        outputs, _, last_c, kept = rnn_ops._lstm(
            inputs, h, c, kernel, biases, lengths, *_activations(activation, recurrent_activation),
            is_training, kind, marks, keep=True)
        return outputs, last_c, kept


def popnn_lstm_layer(inputs, input_h_state, input_c_state, kernel, biases, activation,
                     recurrent_activation, num_channels, is_training, partials_dtype=tf.float32,
                     options="{}", options_bwd="{}", name=None):
    """(outputs [T, B, U], the last c [B, U], intermediates), of the type of inputs.

    inputs                        float16 or float32 [T, B, I]: time, batch, input
    input_h_state, input_c_state  [B, U]; U is num_channels
    kernel, biases                [I + U, 4 * U] and [4, U], gates in the order of ipu.rnn_ops
    activation, recurrent_activation   names, as in ipu.rnn_ops
    partials_dtype                of sums, for the cost model
    options, options_bwd          JSON: options of PopLibs for the cost model

    The intermediates are for the backprop operation. Raises ValueError for a kernel of another
    shape, and for activations and options that there are not.
    """
    return _lstm("PopnnLstmLayer", inputs, input_h_state, input_c_state, kernel, biases, None,
                 activation, recurrent_activation, num_channels, is_training, partials_dtype,
                 options, options_bwd, name)


def popnn_dynamic_lstm_layer(inputs, input_h_state, input_c_state, kernel, biases, seq_len,
                             activation, recurrent_activation, num_channels, is_training,
                             preserve_final_state=False, partials_dtype=tf.float32, options="{}",
                             options_bwd="{}", name=None):
    """As popnn_lstm_layer(), for sequences of different lengths, seq_len, int32 [B]. Without
    preserve_final_state the last c is zeros."""
    outputs, last_c, kept = _lstm(
        "PopnnDynamicLstmLayer", inputs, input_h_state, input_c_state, kernel, biases, seq_len,
        activation, recurrent_activation, num_channels, is_training, partials_dtype, options,
        options_bwd, name)
    return outputs, last_c if preserve_final_state else tf.zeros_like(last_c), kept


def _gru(kind, inputs, h, kernel, biases, seq_len, att_score, activation, recurrent_activation,
         num_channels, is_training, partials_dtype, reset_after, options, options_bwd, name):
    kernel, inputs, h, biases = _prepared(kernel, 3, num_channels, inputs, h, biases)
    lengths = None if seq_len is None else rnn_ops._lengths(seq_len)
    scores = None if att_score is None else tf.convert_to_tensor(att_score)
    marks = _marks(partials_dtype, options, options_bwd)
    with tf.name_scope(name, kind):
        outputs, _, kept = rnn_ops._gru(
            inputs, h, kernel, biases, lengths, scores,
            *_activations(activation, recurrent_activation), reset_after, is_training, kind,
            marks, keep=True)
        return outputs, kept


def popnn_gru_layer(inputs, initial_state, kernel, biases, activation, recurrent_activation,
                    num_channels, is_training, partials_dtype=tf.float32, reset_after=False,
                    options="{}", options_bwd="{}", name=None):
    """(outputs [T, B, U], intermediates), of the type of inputs.

    inputs          float16 or float32 [T, B, I]: time, batch, input
    initial_state   [B, U]; U is num_channels
    kernel, biases  [I + U, 3 * U] and [3, U] (with reset_after [3, 2, U]), gates in the order of
                    ipu.rnn_ops
    activation, recurrent_activation   names, as in ipu.rnn_ops
    partials_dtype  of sums, for the cost model
    options, options_bwd   JSON: options of PopLibs for the cost model

    The intermediates are for the backprop operation. Raises ValueError for a kernel of another
    shape, and for activations and options that there are not.
    """
    return _gru("PopnnGRULayer", inputs, initial_state, kernel, biases, None, None, activation,
                recurrent_activation, num_channels, is_training, partials_dtype, reset_after,
                options, options_bwd, name)


def popnn_dynamic_gru_layer(inputs, initial_state, kernel, biases, seq_len, activation,
                            recurrent_activation, num_channels, is_training,
                            partials_dtype=tf.float32, reset_after=False, options="{}",
                            options_bwd="{}", name=None):
    """As popnn_gru_layer(), for sequences of different lengths, seq_len, int32 [B]."""
    return _gru("PopnnDynamicGRULayer", inputs, initial_state, kernel, biases, seq_len, None,
                activation, recurrent_activation, num_channels, is_training, partials_dtype,
                reset_after, options, options_bwd, name)


def popnn_augru_layer(inputs, initial_state, kernel, biases, seq_len, att_score, activation,
                      recurrent_activation, num_channels, is_training, partials_dtype=tf.float32,
                      reset_after=False, options="{}", options_bwd="{}", name=None):
    """As popnn_gru_layer(), for sequences of different lengths, seq_len, int32 [B], and with
    attention: each step's update gate is scaled by 1 - att_score, [T, B]."""
    return _gru("PopnnAUGRULayer", inputs, initial_state, kernel, biases, seq_len, att_score,
                activation, recurrent_activation, num_channels, is_training, partials_dtype,
                reset_after, options, options_bwd, name)


# ---- Gradients ----

def _lstm_grad(kind, inputs, h, c, kernel, biases, seq_len, output, intermediates, d_output, d_c,
               activation, recurrent_activation, num_channels, is_training, name):
    if not is_training:
        raise rnn_ops_grad.refuse(kind)
    tensors = _prepared(kernel, 4, num_channels, inputs, h, c, biases, output, intermediates,
                        d_output, d_c)
    lengths = [] if seq_len is None else [rnn_ops._lengths(seq_len)]
    act, rec = _activations(activation, recurrent_activation)

    @_building.whole
    def backprop(kernel, x, h, c, biases, output, kept, d_output, d_c, *lengths):
        gates, cells = kept[:, :, :4 * num_channels], kept[:, :, 4 * num_channels:]
        return rnn_ops_grad.lstm_grad(x, h, c, kernel, biases, lengths[0] if lengths else None,
                                      output, gates, cells, d_output, tf.zeros_like(h), d_c, act,
                                      rec)

    with tf.name_scope(name, kind + "Backprop"):
        return backprop(*tensors, *lengths)


def popnn_lstm_layer_backprop(inputs, input_h_state, input_c_state, kernel, biases, output,
                              output_c_state, intermediates, output_backprop,
                              output_c_state_backprop, activation, recurrent_activation,
                              num_channels, is_training, partials_dtype=tf.float32, options="{}",
                              name=None):
    """Gradients for (inputs, h, c, kernel, biases), of their shapes and types. output,
    output_backprop [T, B, U], output_c_state, output_c_state_backprop [B, U] and intermediates are
    of the layer's results; the rest is as in popnn_lstm_layer(). Raises ValueError for a kernel of
    another shape, and where is_training is False."""
    del output_c_state, partials_dtype, options
    return _lstm_grad("PopnnLstmLayer", inputs, input_h_state, input_c_state, kernel, biases, None,
                      output, intermediates, output_backprop, output_c_state_backprop, activation,
                      recurrent_activation, num_channels, is_training, name)


def popnn_dynamic_lstm_layer_backprop(inputs, input_h_state, input_c_state, kernel, biases,
                                      seq_len, output, output_c_state, intermediates,
                                      output_backprop, output_c_state_backprop, activation,
                                      recurrent_activation, num_channels, is_training,
                                      partials_dtype=tf.float32, options="{}", name=None):
    """As popnn_lstm_layer_backprop(), for sequences of different lengths, seq_len, int32 [B]."""
    del output_c_state, partials_dtype, options
    return _lstm_grad("PopnnDynamicLstmLayer", inputs, input_h_state, input_c_state, kernel,
                      biases, seq_len, output, intermediates, output_backprop,
                      output_c_state_backprop, activation, recurrent_activation, num_channels,
                      is_training, name)


def _gru_grad(kind, inputs, h, kernel, biases, seq_len, att_score, output, intermediates, d_output,
              activation, recurrent_activation, num_channels, is_training, reset_after, name):
    if not is_training:
        raise rnn_ops_grad.refuse(kind)
    tensors = _prepared(kernel, 3, num_channels, inputs, h, biases, output, intermediates,
                        d_output)
    extra = [] if seq_len is None else [rnn_ops._lengths(seq_len)]
    extra += [] if att_score is None else [tf.convert_to_tensor(att_score)]
    act, rec = _activations(activation, recurrent_activation)

    @_building.whole
    def backprop(kernel, x, h, biases, output, gates, d_output, *extra):
        found = rnn_ops_grad.gru_grad(
            x, h, kernel, biases, extra[0] if seq_len is not None else None,
            extra[-1] if att_score is not None else None, output, gates, d_output,
            tf.zeros_like(h), act, rec, reset_after)
        return tuple(one for one in found if one is not None)

    with tf.name_scope(name, kind + "Backprop"):
        return backprop(*tensors, *extra)


def popnn_gru_layer_backprop(inputs, initial_state, kernel, biases, output, intermediates,
                             output_backprop, activation, recurrent_activation, num_channels,
                             is_training, partials_dtype=tf.float32, reset_after=False,
                             options="{}", name=None):
    """Gradients for (inputs, initial_state, kernel, biases), of their shapes and types. output and
    output_backprop [T, B, U] and intermediates are of the layer's results; the rest is as in
    popnn_gru_layer(). Raises ValueError for a kernel of another shape, and where is_training is
    False."""
    del partials_dtype, options
    return _gru_grad("PopnnGRULayer", inputs, initial_state, kernel, biases, None, None, output,
                     intermediates, output_backprop, activation, recurrent_activation,
                     num_channels, is_training, reset_after, name)


def popnn_dynamic_gru_layer_backprop(inputs, initial_state, kernel, biases, seq_len, output,
                                     intermediates, output_backprop, activation,
                                     recurrent_activation, num_channels, is_training,
                                     partials_dtype=tf.float32, reset_after=False, options="{}",
                                     name=None):
    """As popnn_gru_layer_backprop(), for sequences of different lengths, seq_len, int32 [B]."""
    del partials_dtype, options
    return _gru_grad("PopnnDynamicGRULayer", inputs, initial_state, kernel, biases, seq_len, None,
                     output, intermediates, output_backprop, activation, recurrent_activation,
                     num_channels, is_training, reset_after, name)


def popnn_augru_layer_backprop(inputs, initial_state, kernel, biases, seq_len, att_score, output,
                               intermediates, output_backprop, activation, recurrent_activation,
                               num_channels, is_training, partials_dtype=tf.float32,
                               reset_after=False, options="{}", name=None):
    """As popnn_gru_layer_backprop(), for sequences of different lengths, seq_len, int32 [B], with
    attention, att_score [T, B], and its gradient."""
    del partials_dtype, options
    return _gru_grad("PopnnAUGRULayer", inputs, initial_state, kernel, biases, seq_len, att_score,
                     output, intermediates, output_backprop, activation, recurrent_activation,
                     num_channels, is_training, reset_after, name)
