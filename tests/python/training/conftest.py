"""Training through tremula.core, next to stock TensorFlow.

The library comes from TREMULA_LIBRARY_DIR, an installed package, or the release build.
"""

import os
import pathlib
import sys

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = pathlib.Path(__file__).resolve().parents[3]
for folder in (ROOT / "python", ROOT / "tests/python/ops"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture(autouse=True)
def tensorflow_2():
    """Every test in eager mode."""
    import eager
    with eager.tensorflow_2():
        yield
