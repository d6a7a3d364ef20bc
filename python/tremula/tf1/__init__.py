"""Runs TensorFlow 1 scripts on TensorFlow 2: `python -m tremula.tf1 script.py [arguments]`.

A script gets `tensorflow.compat.v1`, without the behaviour of TensorFlow 2, as `tensorflow`, and
what that lacks: `tf.contrib` (in part), `tf.python`, the module `tensorflow_core`, dimensions that
are floats, and the names that NumPy, Python and other packages have dropped.
"""
