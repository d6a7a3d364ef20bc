"""`tf.contrib.losses`: what is `tf.compat.v1.losses` today."""

import tensorflow.compat.v1 as tf

from tremula.tf1 import missing

__path__ = []  # the original had files below

_SAME = ("add_loss", "absolute_difference", "compute_weighted_loss", "cosine_distance",
         "get_losses", "get_regularization_losses", "get_total_loss", "hinge_loss", "log_loss",
         "mean_pairwise_squared_error", "mean_squared_error")


def __getattr__(name):
    if name in _SAME:
        return getattr(tf.losses, name)
    raise missing.attribute("losses", name)


def softmax_cross_entropy(logits, onehot_labels, weights=1.0, label_smoothing=0, scope=None):
    """tf.losses.softmax_cross_entropy(), with the logits first: a scalar of the type of the logits,
    float32 or float16 [batch, classes], as the labels are. Raises ValueError for other shapes."""
    return tf.losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


def sigmoid_cross_entropy(logits, multi_class_labels, weights=1.0, label_smoothing=0, scope=None):
    """tf.losses.sigmoid_cross_entropy(), with the logits first: a scalar of the type of the logits,
    float32 or float16 of any shape, as the labels are. Raises ValueError for other shapes."""
    return tf.losses.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing,
                                           scope)


def sparse_softmax_cross_entropy(logits, labels, weights=1.0, scope=None):
    """tf.losses.sparse_softmax_cross_entropy(), with the logits first: a scalar of the type of the
    logits, float32 or float16 [batch, classes]. The labels are int32 or int64 [batch]. Raises
    ValueError for other shapes."""
    return tf.losses.sparse_softmax_cross_entropy(labels, logits, weights, scope)
