"""Optimizers that wrap TensorFlow's (`tensorflow.python.ipu.optimizers`)."""
