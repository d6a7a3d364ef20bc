"""Neural network operations (`tensorflow.python.ipu.ops.nn_ops`)."""

import functools
import json

import tensorflow.compat.v1 as tf

from tremula.tf.inner import errors, layers
from tremula.tf.ipu.ops import _building, _ctc, _generations, nn_ops_grad
from tremula.tf.runtime.tracing import tracing

_MULTI_CONV_OPTIONS = ("planType", "perConvReservedTiles", "cycleBackOff")


@_generations.older_order(
    ("x", "name"), lambda arguments: len(arguments) > 1 and isinstance(arguments[1], str))
def gelu(x, approximate=True, name=None):
    """The Gaussian error linear unit of float16 or float32 `x`, by tanh or (approximate=False) by
    erf: a tensor like x. Raises TypeError for other types."""
    return (nn_ops_grad.gelu if approximate else nn_ops_grad.gelu_erf)(x, name)


def swish(x, name=None):
    """x * sigmoid(x) of float16 or float32 `x`: a tensor like x. Raises TypeError for other types.
    """
    return nn_ops_grad.swish(x, name)


def hard_sigmoid(x, name=None):
    """0.2 x + 0.5, kept between 0 and 1, of float16 or float32 `x`: a tensor like x. Raises
    TypeError for other types."""
    return nn_ops_grad.hard_sigmoid(x, name)


def softmax(x, stable=False, name=None):
    """The softmax over the last dimension of `x`, float16 or float32: a tensor like x.

    It is the stable one whatever `stable` says, which is only a mark for the cost model: large
    numbers that make the IPU's plain one overflow do not here.

    Raises TypeError for integers, ValueError for a scalar.
    """
    kind = "IpuStableSoftmax" if stable else "IpuSoftmax"
    with tf.name_scope(name, kind, [x]), _building.marked(softmax=kind):
        return tf.nn.softmax(tf.convert_to_tensor(x))


def multi_conv(func=None, options=None):
    """Marks the convolutions in `func` as ones that the IPU does at the same time; a decorator,
    with or without arguments.

    `func` takes tensors by position; `options` are options of PopLibs, {text: text}. Both are a
    mark on the operations for the cost model and change no number.

    Raises TypeError, when func is called, for options that are no dict, FailedPreconditionError
    for convolutions of which one needs another. A program with an option that PopLibs does not
    know fails with InternalError.
    """
    def decorate(inner):
        @functools.wraps(inner)
        def call(*arguments):
            chosen = options if options else {}
            if not isinstance(chosen, dict):
                raise TypeError("Expected the multi_conv `options` to be a `dict`, but got "
                                f"{chosen} instead.")
            for key in sorted(chosen.keys() - set(_MULTI_CONV_OPTIONS), key=str):
                tracing.refuse(f"[Poplar][Build graph] invalid_option: Unrecognised option '{key}'"
                               f". A multi_conv has {', '.join(_MULTI_CONV_OPTIONS)}.",
                               errors.INTERNAL)
            arguments = tf.nest.map_structure(tf.convert_to_tensor, arguments)
            graph = None if tf.executing_eagerly() else tf.get_default_graph()
            first = len(graph.get_operations()) if graph is not None else 0
            with tf.name_scope("multi_conv") as scope, _building.marked(
                    multi_conv=(scope or "multi_conv").rstrip("/"),
                    multi_conv_options=json.dumps(chosen) if chosen else None):
                result = inner(*arguments)
                if _building.in_program():
                    result = nn_ops_grad.multi_conv(result, chosen)
            if graph is not None:
                _check_independent(graph.get_operations()[first:])
            return result
        return call

    return decorate if func is None else decorate(func)


_CONVOLUTIONS = frozenset((
    "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv3D", "Conv3DBackpropInputV2",
    "Conv3DBackpropFilterV2", "DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
    "DepthwiseConv2dNativeBackpropFilter"))


def _check_independent(operations):
    """Refuses a convolution that needs another one of `operations`, which are in order."""
    made_of = {}
    for operation in operations:
        needs = next((made_of[one.op] for one in operation.inputs if one.op in made_of), None)
        if operation.type in _CONVOLUTIONS:
            if needs is not None:
                raise tf.errors.FailedPreconditionError(operation.node_def, operation, (
                    "A MultiConvolution operation requires all convolutions to be independent of "
                    f"each other, but {operation.name} needs {needs.name}."))
            needs = operation
        if needs is not None:
            made_of[operation] = needs


# ---- Losses from sampled classes ----

def sampled_softmax_loss(weights, biases, labels, inputs, num_sampled, num_classes, num_true=1,
                         sampled_values=None, name="sampled_softmax_loss", seed=None):
    """tf.nn.sampled_softmax_loss without taking out accidental hits: float32 losses [batch].

    weights         float32 [classes, dim]
    biases          float32 [classes]
    labels          int64 [batch, num_true]
    inputs          float32 [batch, dim]
    sampled_values  as tf.random.log_uniform_candidate_sampler() gives them, which draws them where
                    they are not given

    The other arguments are as in tf.nn.sampled_softmax_loss. Raises TypeError for other types,
    ValueError for shapes that do not fit.
    """
    return tf.nn.sampled_softmax_loss(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true,
        _sampled(sampled_values, labels, num_true, num_sampled, num_classes, seed),
        remove_accidental_hits=False, name=name, seed=seed)


def nce_loss(weights, biases, labels, inputs, num_sampled, num_classes, num_true=1,
             sampled_values=None, name="nce_loss"):
    """tf.nn.nce_loss: float32 losses [batch]. The arguments, their shapes and types, and the errors
    are those of sampled_softmax_loss(): TypeError and ValueError."""
    return tf.nn.nce_loss(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true,
        _sampled(sampled_values, labels, num_true, num_sampled, num_classes, None), name=name)


def _compute_sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true=1,
                            sampled_values=None, subtract_log_q=True, name=None, seed=None):
    """(logits, labels), each [batch, num_true + num_sampled], that the losses above are made of:
    TensorFlow's function of that name, without taking out accidental hits."""
    return layers.compute_sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, num_true,
        _sampled(sampled_values, labels, num_true, num_sampled, num_classes, seed),
        subtract_log_q=subtract_log_q, remove_accidental_hits=False, name=name, seed=seed)


def _sampled(given, labels, num_true, num_sampled, num_classes, seed):
    if given is not None:
        return given
    return tf.random.log_uniform_candidate_sampler(
        tf.cast(labels, tf.int64), num_true, num_sampled, True, num_classes, seed=seed)


# ---- CTC ----

def ctc_loss_with_log_probs(labels, data, label_length, data_length, blank_index, out_dtype=None,
                            name=None):
    """The CTC loss of each sample.

    labels        int32 [batch, most labels]
    data          log probabilities, float16 or float32 [time, batch, classes]
    label_length  int32 [batch]: how many labels count
    data_length   int32 [batch]: how many time steps count
    blank_index   the class of the blank
    out_dtype     of the loss, by default that of data

    It is computed in float32. Returns [batch]. Raises ValueError for a float16 loss of float32
    data, and for shapes that are not known.
    """
    return _ctc_loss(labels, data, label_length, data_length, blank_index, out_dtype, name, False)


def ctc_loss_v2(labels, logits, label_length, logit_length, blank_index, out_dtype=None,
                name=None):
    """The CTC loss of each sample from logits, whose softmax over the classes is taken first:
    [batch].

    logits        float16 or float32 [time, batch, classes]
    logit_length  int32 [batch]: how many time steps count

    The other arguments, their types and errors are those of ctc_loss_with_log_probs(): ValueError
    for a float16 loss of float32 logits, and for shapes that are not known.
    """
    return _ctc_loss(labels, logits, label_length, logit_length, blank_index, out_dtype, name,
                     True)


def ctc_loss(labels, data, label_length, data_length, blank_index, out_dtype=None, name=None):
    """Older name of ctc_loss_with_log_probs(), with the same shapes, types and errors (ValueError).
    """
    return ctc_loss_with_log_probs(labels, data, label_length, data_length, blank_index,
                                   out_dtype, name)


def ctc_loss_with_logits(labels, logits, label_length, logit_length, blank_index, out_dtype=None,
                         name=None):
    """Older name of ctc_loss_v2(), with the same shapes, types and errors (ValueError)."""
    return ctc_loss_v2(labels, logits, label_length, logit_length, blank_index, out_dtype, name)


def _ctc_loss(labels, data, label_length, data_length, blank_index, out_dtype, name, are_logits):
    data = tf.convert_to_tensor(data)
    out_dtype = data.dtype if out_dtype is None else tf.as_dtype(out_dtype)
    if data.dtype == tf.float32 and out_dtype == tf.float16:
        raise ValueError("out_dtype cannot be float16 when dtype of "
                         f"{'logits' if are_logits else 'data'} is float32.")
    labels = tf.convert_to_tensor(labels)
    _check_ctc_shapes(data, labels)
    @_building.whole
    def loss(labels, data, label_length, data_length):
        wide = tf.cast(data, tf.float32)
        log_probs = tf.nn.log_softmax(wide) if are_logits else wide
        return tf.cast(_ctc.loss(log_probs, labels, label_length, data_length,
                                 blank_index % int(data.shape[2])), out_dtype)

    with tf.name_scope(name, "PopnnCTCLossWithLogits" if are_logits
                       else "PopnnCTCLossWithLogProbs", [labels, data]), _building.one_op():
        return loss(labels, data, label_length, data_length)


def _check_ctc_shapes(data, labels=None):
    if data.shape.rank != 3 or not data.shape.is_fully_defined():
        raise ValueError("CTC takes data of a known shape [time, batch, classes], but the shape "
                         f"is {data.shape}.")
    if labels is not None and (labels.shape.rank != 2 or not labels.shape.is_fully_defined()):
        raise ValueError("CTC takes labels of a known shape [batch, most labels], but the shape "
                         f"is {labels.shape}.")


def ctc_beam_search_decoder(logits, logits_lengths, beam_width=100, top_paths=1, blank_index=-1,
                            name=None):
    """The most probable label sequences.

    logits          float16 or float32 [time, batch, classes]
    logits_lengths  int32 [batch]
    beam_width, top_paths   sequences that are kept on the way, and in the end

    Returns (log probabilities [batch, top_paths] of logits' type, as tf.nn.ctc_beam_search_decoder
    gives them, int32 lengths [batch, top_paths], int32 labels [batch, top_paths, time]); beyond a
    sequence's length its labels are the blank. Raises ValueError for shapes that are not known, and
    for more paths than beams.
    """
    return _beam_search(logits, tf.nn.log_softmax, logits_lengths, beam_width, top_paths,
                        blank_index, name, "PopnnCTCBeamSearchWithLogits")


def ctc_beam_search_decoder_with_log_probs(log_probs, input_lengths, beam_width=100, top_paths=1,
                                           blank_index=-1, name=None):
    """ctc_beam_search_decoder() from log probabilities, float16 or float32 [time, batch, classes].

    `input_lengths` is int32 [batch]. Results and errors are the same: ValueError for shapes that
    are not known, and for more paths than beams.
    """
    return _beam_search(log_probs, tf.identity, input_lengths, beam_width, top_paths, blank_index,
                        name, "PopnnCTCBeamSearchWithLogProbs")


def _beam_search(data, to_log_probs, lengths, beam_width, top_paths, blank_index, name, kind):
    data = tf.convert_to_tensor(data)
    _check_ctc_shapes(data)
    if not 1 <= top_paths <= beam_width:
        raise ValueError(f"top_paths must be from 1 to beam_width ({beam_width}), but it is "
                         f"{top_paths}.")
    @_building.whole
    def search(data, lengths):
        scores, counts, labels = _ctc.beam_search(
            to_log_probs(tf.cast(data, tf.float32)), lengths, beam_width, top_paths, blank_index)
        return tf.cast(scores, data.dtype), counts, labels

    with tf.name_scope(name, kind, [data]), _building.one_op():
        return search(data, lengths)
