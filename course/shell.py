"""Commands, for the notebooks of the course, as one would type them in a shell."""

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

FOLDER = tempfile.TemporaryDirectory(prefix="course")
HERE = pathlib.Path(FOLDER.name)  # where the commands run


def environment(**more):
    """That of this process; the commands of this Python's environment are found."""
    folders = [os.path.dirname(sys.executable)]
    if "TREMULA_LIBRARY_DIR" in os.environ:  # of a build that is not installed
        folders.insert(0, str(pathlib.Path(os.environ["TREMULA_LIBRARY_DIR"]).parent / "bin"))
    path = os.pathsep.join([*folders, os.environ["PATH"]])
    return {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, "TREMULA_PYTHON": sys.executable,
            "PATH": path, **more}


def run(command, fails=False, **variables):
    """Runs a line as bash does, in the folder HERE; prints and returns what it printed."""
    done = subprocess.run(["bash", "-c", command], cwd=HERE, env=environment(**variables),
                          capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    text = done.stdout.replace(str(HERE) + "/", "")
    print(text, end="")
    return text


def write(name, text):
    (HERE / name).write_text(text, encoding="utf-8")


def python():
    """This Python, for a command."""
    return shlex.quote(sys.executable)
