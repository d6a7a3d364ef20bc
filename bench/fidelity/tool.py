"""Shared by the scripts of this folder: the tool `tremula`, its plans of networks, and the tables
in documents."""

import json
import os
import shutil
import subprocess
import sys


def find_tremula():
    """The tool in TREMULA_BIN_DIR, in the release build, or in PATH: the first one found."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = [os.environ.get("TREMULA_BIN_DIR"), os.path.join(root, "build", "release", "bin")]
    for folder in filter(None, folders):
        path = os.path.join(folder, "tremula")
        if os.path.exists(path):
            return path
    return shutil.which("tremula") or sys.exit("there is no tremula: build it (make demo)")


def plan(model, target, proportion, recompute, code=True):
    """The case of a network: a dict as `tremula plan --json` prints it. model: the arguments that
    name it. Partial sums are halves; `code`: whether compiled code counts."""
    options = json.dumps({"partialsType": "half", "availableMemoryProportion": str(proportion)})
    command = [find_tremula(), "plan", *model, "--json", "--target", target,
               "--option", f"convolution_options={options}",
               "--option", f"matmul_options={options}",
               "--option", f"compile_ipu_code={'true' if code else 'false'}",
               "--option", f"recompute={'true' if recompute else 'false'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={"TREMULA_PYTHON": sys.executable, **os.environ})
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)["cases"][0]


def replace_between(path, marks, text):
    """Puts a text between two marks of a document."""
    with open(path, encoding="utf-8") as file:
        document = file.read()
    begin, end = document.index(marks[0]) + len(marks[0]), document.index(marks[1])
    with open(path, "w", encoding="utf-8") as file:
        file.write(document[:begin] + text + document[end:])
