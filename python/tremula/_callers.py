"""Who imports a name: a program or a library."""

import sys

# Those whose imports are not a program's.
_LIBRARIES = {"tensorflow", "keras", "tf_keras", "tensorflow_estimator", "tremula", "importlib",
              "inspect", "pkgutil", "runpy", "unittest"}


def asked_by_program():
    """Whether the code that imports something, or takes an attribute of a module, is a program's:
    not a library's."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        root = name.partition(".")[0]
        if root not in ("importlib", "_frozen_importlib", "_frozen_importlib_external") and (
                name not in (__name__, "tremula._finder", "tremula.tf.keras.names")):
            return root not in _LIBRARIES
        frame = frame.f_back
    return False
