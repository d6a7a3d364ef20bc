"""TensorFlow's own layers: the classes that those of tf.layers on an IPU are derived from."""


def base():
    """The module with Layer and InputSpec."""
    from tensorflow.python.layers import base as module
    return module


def rnn_cells():
    """The module with LSTMStateTuple."""
    from tensorflow.python.ops import rnn_cell
    return rnn_cell


def compute_sampled_logits(*arguments, **keywords):
    """(logits, labels) that tf.nn.nce_loss and tf.nn.sampled_softmax_loss are made of."""
    from tensorflow.python.ops import nn_impl
    return nn_impl._compute_sampled_logits(*arguments, **keywords)
