"""The command: sets TensorFlow 1 up, then runs a script as `python script.py` would."""

import os
import sys
import types

_USAGE = "usage: python -m tremula.tf1 SCRIPT [ARGUMENT...]"


def main(arguments):
    """Runs the script `arguments[0]` with the other arguments, and exits as it does.

    Exits with 2 where there is no script to run.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    script = arguments[0]
    try:
        with open(script, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"python -m tremula.tf1: can't open file {script!r}: {error}", file=sys.stderr)
        sys.exit(2)
    sys.argv[:] = arguments
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    from tremula.tf1 import setup
    setup.install()
    _run(script, source)


def _run(script, source):
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=script, __builtins__=__builtins__, __cached__=None,
                           __loader__=None)
    sys.modules["__main__"] = module
    try:
        exec(compile(source, script, "exec"), module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        # Without this function's own frame, the traceback is the script's.
        traceback = error.__traceback__.tb_next
        error.__traceback__ = traceback
        sys.excepthook(type(error), error, traceback)
        sys.stdout.flush()
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)
