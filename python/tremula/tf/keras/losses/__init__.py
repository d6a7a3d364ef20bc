"""Losses: the one that the IPU has of its own (`ipu.keras.losses`)."""

from tremula.tf.keras.layers.ctc import CTCLoss

__all__ = ["CTCLoss"]
