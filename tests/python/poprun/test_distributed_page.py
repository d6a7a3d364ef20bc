"""The programs of docs/distributed.md print what the page says."""

import pathlib
import re
import shlex
import shutil
import subprocess
import textwrap

import interpreter

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/distributed.md").read_text()


def shown():
    """The page's pairs of a command and what it prints."""
    for block in re.findall(r"(?:^    .*\n)+", PAGE, re.M):
        first, *rest = textwrap.dedent(block).replace("\\\n", "").splitlines()
        if first.startswith("$ "):
            yield first[2:], rest


def test_every_command(mpi_poprun, python_environment):
    hello = re.search(r"^    # hello.py\n((?:^    .*\n)+)", PAGE, re.M)[1]
    (mpi_poprun.folder / "hello.py").write_text(textwrap.dedent(hello))
    shutil.copytree(ROOT / "examples", mpi_poprun.folder / "examples")
    commands = {"python": [interpreter.stand_in()], "poprun": mpi_poprun.command,
                "mpirun": [mpi_poprun.environment["TREMULA_MPIRUN"], "--allow-run-as-root"]}
    tried = 0
    for command, lines in shown():
        if not lines:
            continue
        words = [word for one in shlex.split(command) for word in commands.get(one, [one])]
        run = subprocess.run(
            words, cwd=mpi_poprun.folder, env={**mpi_poprun.environment, **python_environment},
            capture_output=True, text=True, timeout=600, check=False)
        assert run.returncode == 0, run.stderr
        assert sorted(run.stdout.splitlines()) == sorted(lines), command
        tried += 1
    assert tried == 5
