"""`tf.contrib.metrics`: its streaming metrics are those of `tf.compat.v1.metrics`."""

import tensorflow.compat.v1 as tf

from tremula.tf1 import missing

__path__ = []  # the original had files below

_PREFIX = "streaming_"
# Those of tf.metrics that take predictions before labels here, as tf.contrib did.
_TWO = ("accuracy", "auc", "false_negatives", "false_positives", "mean_absolute_error", "mean_iou",
        "mean_squared_error", "precision", "recall", "root_mean_squared_error", "true_negatives",
        "true_positives")


def __getattr__(name):
    metric = name[len(_PREFIX):] if name.startswith(_PREFIX) else None
    if metric in _TWO:
        function = getattr(tf.metrics, metric)
        return lambda predictions, labels, *args, **kwargs: function(
            labels, predictions, *args, **kwargs)
    if metric in ("mean", "mean_tensor", "percentage_less"):
        return getattr(tf.metrics, {"percentage_less": "percentage_below"}.get(metric, metric))
    raise missing.attribute("metrics", name)


def accuracy(predictions, labels, weights=None, name=None):
    """The share of equal elements of two tensors of one shape and type, a float32 scalar; weighted
    by `weights`, if there are any. Raises ValueError for two types."""
    if predictions.dtype != labels.dtype:
        raise ValueError(f"predictions are {predictions.dtype.name}, but labels are "
                         f"{labels.dtype.name}.")
    with tf.name_scope(name, "accuracy", [predictions, labels]):
        right = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(right)
        weights = tf.cast(weights, tf.float32) * tf.ones_like(right)
        return tf.div_no_nan(tf.reduce_sum(right * weights), tf.reduce_sum(weights))
