"""Fixtures: those of end-to-end tests, and profiles of programs run in processes of their own."""

import json
import os
import textwrap

import built
import interpreter
import pytest
from end_to_end import *  # noqa: F401,F403
from profiled_programs import FED, UNFED


@pytest.fixture(scope="session")
def profiled(tmp_path_factory):
    """profiled(text, **options): runs a program in a folder of its own with autoReport.all and
    these options; returns the folder and the completed process."""
    def run(text, options=None, check=True, **environment):
        folder = tmp_path_factory.mktemp("profile")
        wanted = {"autoReport.all": "true", **(options or {})}
        done = interpreter.run(
            ["-c", "import tremula._finder\n" + textwrap.dedent(text)], cwd=folder,
            env={**os.environ, **built.variables(), "POPLAR_ENGINE_OPTIONS": json.dumps(wanted),
                 **environment})
        assert not check or done.returncode == 0, done.stderr
        return folder, done
    return run


@pytest.fixture(scope="session")
def unfed(profiled):
    """The folder in which the program without feeds was run; its standard error is in "stderr"."""
    folder, done = profiled(UNFED, PVTI_OPTIONS='{"enable":"true"}')
    (folder / "stderr").write_text(done.stderr, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def fed(profiled):
    """The folder in which the program with feeds was run."""
    return profiled(FED)[0]
