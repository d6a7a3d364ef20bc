"""TensorFlow's log, by the module in which tests of programs look for it.

Messages of the original that are warnings go through warn(): its tests look for them there, and for
TensorFlow's own in warning().
"""


def module():
    """tensorflow.python.platform.tf_logging."""
    from tensorflow.python.platform import tf_logging
    return tf_logging
