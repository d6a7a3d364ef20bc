"""Which TensorFlow there is, and which Keras it uses."""

import importlib.util
import os


def tensorflow_version():
    """Such as "2.15.1"."""
    from tensorflow.python.framework import versions
    return versions.VERSION


def graph_versions():
    """The VersionDef of graphs that this TensorFlow makes."""
    from tensorflow.core.framework import versions_pb2
    from tensorflow.python.framework import versions
    return versions_pb2.VersionDef(producer=versions.GRAPH_DEF_VERSION)


def has_legacy_keras():
    """Whether `tf_keras`, Keras 2 for a TensorFlow that comes with Keras 3, is installed."""
    return importlib.util.find_spec("tf_keras") is not None


def prefer_legacy_keras():
    """Makes a TensorFlow that is imported later use Keras 2, where tf_keras is installed.

    TensorFlow 2.16 and later come with Keras 3, which has no TensorFlow 1 layers.
    """
    if has_legacy_keras():
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")


def keras_package():
    """The name of the package that `tf.keras` is made of."""
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
    return "tf_keras" if legacy and has_legacy_keras() else "keras"
