"""The library from Python, without TensorFlow."""

import pathlib
import sys

PYTHON = pathlib.Path(__file__).resolve().parents[3] / "python"
if str(PYTHON) not in sys.path:
    sys.path.insert(0, str(PYTHON))
