"""Who imports a name: a program or a library; and what the program says."""

import linecache
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


def program_says(words):
    """Whether a module of the program, of which something is running, has one of these words in its
    text."""
    frame, seen = sys._getframe(1), set()
    while frame is not None:
        path, name = frame.f_code.co_filename, frame.f_globals.get("__name__", "")
        if path not in seen and name.partition(".")[0] not in _LIBRARIES:
            seen.add(path)
            text = "".join(linecache.getlines(path, frame.f_globals))
            if any(one in text for one in words):
                return True
        frame = frame.f_back
    return False
