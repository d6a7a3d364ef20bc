"""The IPU API over virtual IPUs that no other program has, for the process of a test.

The libraries come from TREMULA_LIBRARY_DIR, by default the release build. TensorFlow is the one of
the interpreter that runs pytest.
"""

import atexit
import os
import shutil
import sys
import tempfile

import built


def prepare():
    """Sets up the process, before TensorFlow is imported."""
    os.environ["TREMULA_LIBRARY_DIR"] = built.variables()["TREMULA_LIBRARY_DIR"]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("PYTHONUNBUFFERED", "1")  # for programs that fork, or end by os._exit()
    # Locks of our own: tests must not wait for other programs' IPUs.
    os.environ["TREMULA_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="tremula-test-")
    atexit.register(shutil.rmtree, os.environ["TREMULA_RUNTIME_DIR"], ignore_errors=True)
    if str(built.ROOT / "python") not in sys.path:
        sys.path.insert(0, str(built.ROOT / "python"))
    from tremula.tf.inner import versions
    versions.prefer_legacy_keras()


def load():
    """The same, and returns tensorflow.python.ipu."""
    prepare()
    import tremula._finder  # noqa: F401  (serves tensorflow.python.ipu)
    from tensorflow.python import ipu
    return ipu
