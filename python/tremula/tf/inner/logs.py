"""TensorFlow's log, by the module in which tests of programs look for it."""


def module():
    """tensorflow.python.platform.tf_logging."""
    from tensorflow.python.platform import tf_logging
    return tf_logging
