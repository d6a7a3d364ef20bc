"""What the command line `tremula` does in Python: lowering TensorFlow's models, listing ops.

    lower   python -m tremula.tool.lower: a model of TensorFlow's or Keras' -> HloModuleProto
    plan    python -m tremula.tool.plan: the same for `tremula plan`, with training
    ops     python -m tremula.tool.ops: the ops of the IPU device

A failure that has been explained on stderr ends with exit code COMPLAINED, so that the command
line adds nothing.
"""

import contextlib
import os
import sys
import tempfile

COMPLAINED = 3


class Complaint(Exception):
    """A failure whose text is for the user."""


def write(path, data):
    """Writes a file. Raises Complaint."""
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise Complaint(f"cannot write {path}: {error.strerror}") from None


@contextlib.contextmanager
def complaining():
    """Ends the process with one line on stderr for a Complaint."""
    try:
        with quietly():
            yield
        sys.stdout.flush()
    except Complaint as complaint:
        print("tremula:", " ".join(str(complaint).split()), file=sys.stderr)
        sys.exit(COMPLAINED)
    except BrokenPipeError:  # `tremula ops | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(COMPLAINED)


@contextlib.contextmanager
def quietly():
    """Keeps TensorFlow's log off stderr; no level of the log silences all of it. A failure other
    than a Complaint shows the log, and so does TF_CPP_MIN_LOG_LEVEL=0."""
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        yield
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except (Complaint, BrokenPipeError):
            raise
        except BaseException:
            log.seek(0)
            os.write(stderr, log.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def need_tensorflow():
    """Raises a Complaint where there is no TensorFlow, or one that cannot be imported."""
    import importlib
    import importlib.util
    if importlib.util.find_spec("tensorflow") is None:
        raise Complaint(f"the Python {sys.executable} has no TensorFlow. Set TREMULA_PYTHON to one "
                        "that has, or install it there: pip install tensorflow-cpu==2.15.1")
    try:
        importlib.import_module("tensorflow")
    except Exception as error:
        raise Complaint(f"the Python {sys.executable} cannot import its TensorFlow: {error}. Mend "
                        "it, or set TREMULA_PYTHON to another Python") from error
