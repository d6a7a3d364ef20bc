"""The TensorFlow side of Tremula. `ipu` is what programs know as `tensorflow.python.ipu`."""
