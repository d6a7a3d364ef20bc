"""The recurrent layers of ipu.rnn_ops."""

import sys

from tensorflow.python import ipu  # noqa: F401  (makes the IPU known to TensorFlow)
from tremula.tf.ipu.ops import rnn_ops, rnn_ops_grad
from tremula.tf.ipu.ops.rnn_ops import (PopnnAUGRU, PopnnDynamicGRU, PopnnDynamicLSTM, PopnnGRU,
                                        PopnnLSTM)

__all__ = ["PopnnAUGRU", "PopnnDynamicGRU", "PopnnDynamicLSTM", "PopnnGRU", "PopnnLSTM", "rnn_ops"]

# `layers.rnn_ops` and `layers.rnn_ops_grad` are its files.
__path__ = []
sys.modules[f"{__name__}.rnn_ops"] = rnn_ops
sys.modules[f"{__name__}.rnn_ops_grad"] = rnn_ops_grad
