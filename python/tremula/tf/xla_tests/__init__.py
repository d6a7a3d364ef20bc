"""`tensorflow.compiler.tests`, which TensorFlow's packages leave out."""
