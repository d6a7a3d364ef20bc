"""The part for TensorFlow 1: the same layers."""

import sys

from ipu_tensorflow_addons import layers, optimizers

sys.modules[f"{__name__}.layers"] = layers
sys.modules[f"{__name__}.layers.rnn_ops"] = layers.rnn_ops
sys.modules[f"{__name__}.layers.rnn_ops_grad"] = layers.rnn_ops_grad
sys.modules[f"{__name__}.optimizers"] = optimizers
