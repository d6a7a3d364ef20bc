"""The part for TensorFlow 1: the same layers."""

import sys

from ipu_tensorflow_addons import layers

sys.modules[f"{__name__}.layers"] = layers
sys.modules[f"{__name__}.layers.rnn_ops"] = layers.rnn_ops
