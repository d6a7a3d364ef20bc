"""CTCLoss, by the module that it was in at first."""

from tremula.tf.keras.layers.ctc import CTCLoss

__all__ = ["CTCLoss"]
