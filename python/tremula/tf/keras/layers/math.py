"""SerialDense, by the module that it was in at first."""

from tremula.tf.keras.layers.dense import SerialDense

__all__ = ["SerialDense"]
