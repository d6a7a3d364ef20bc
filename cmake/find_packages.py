"""Prints where the Python environment that builds has oneDNN and TensorFlow's headers.

Two lines: oneDNN's prefix (with include/ and lib/), and TensorFlow's include folder; a line is
empty when the package is not there. Neither package is imported, which would take seconds.

pip builds in an environment of its own unless told otherwise: it has what pyproject.toml requires,
oneDNN among it. TensorFlow is in the environment that pip installs into, which a Python that
ignores PYTHONPATH shows.
"""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys


def onednn() -> str:
    try:
        package = importlib.metadata.distribution("onednn-devel-cpu-gomp")
    except importlib.metadata.PackageNotFoundError:
        return sys.prefix  # a distribution's or a user's own, under the same prefix
    for file in package.files or []:
        if file.parts[-4:] == ("include", "oneapi", "dnnl", "dnnl.h"):
            return os.path.abspath(os.path.join(package.locate_file(file), *[os.pardir] * 4))
    return sys.prefix


def tensorflow() -> str:
    spec = importlib.util.find_spec("tensorflow")
    if spec is not None and spec.submodule_search_locations:
        return os.path.join(spec.submodule_search_locations[0], "include")
    if "PYTHONPATH" not in os.environ:
        return ""
    outside = subprocess.run([sys.executable, "-E", __file__], capture_output=True, text=True)
    return (outside.stdout.splitlines() + ["", ""])[1]


# The second process ignores PYTHONPATH, but finds it in its environment.
if sys.flags.ignore_environment:
    os.environ.pop("PYTHONPATH", None)
print(onednn())
print(tensorflow())
