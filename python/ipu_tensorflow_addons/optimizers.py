"""Optimizers: in the original, too, there are none here. Keras's are in `keras.optimizers`."""
