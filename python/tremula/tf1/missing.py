"""What to say of the parts of tf.contrib that Tremula does not have."""

# Part of tf.contrib -> what to do without it.
_INSTEAD = {
    "cudnn_rnn": "Use ipu.rnn_ops.PopnnLSTM or PopnnGRU.",
    "distribute": "tf.distribute has the strategies.",
    "eager": "Eager execution is TensorFlow 2's: run the program without the runner.",
    "keras": "Use tf.keras.",
    "learn": "Use tf.estimator.",
    "lite": "Use tf.lite.",
    "lookup": "Use tf.lookup.",
    "seq2seq": "Of seq2seq there are sequence_loss and tile_batch; the package tensorflow_addons "
               "has decoders and attention as tfa.seq2seq.",
    "tensorboard": "The package tensorboard has it.",
    "tpu": "Programs for TPUs do not run here.",
    "tensorrt": "Programs for TensorRT do not run here.",
}


def message(name):
    """Why `name`, such as "tensorflow.contrib.seq2seq", cannot be had."""
    part = name.partition("contrib.")[2]
    text = f"{name} is a part of tf.contrib that Tremula does not have."
    instead = _INSTEAD.get(part.partition(".")[0])
    return f"{text} {instead}" if instead else text


def attribute(module, name):
    """The AttributeError for `name` of the part `module` of tf.contrib ("" for itself)."""
    return AttributeError(message(".".join(filter(None, ["tf.contrib", module, name]))))
