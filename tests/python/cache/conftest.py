"""The executable cache: programs in processes of their own, over one folder.

The libraries come from TREMULA_LIBRARY_DIR, by default the release build. What happened is read off
the log.
"""

import pytest

from cached_program import Run


@pytest.fixture
def start(tmp_path):
    """Starts the program over the cache in a folder."""
    started = []

    def run(folder, first="", **variables):
        started.append(Run(folder, tmp_path / f"locks{len(started)}", first, **variables))
        return started[-1]

    yield run
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """(folder of a cache that the program has filled, the Log of that)."""
    folder = tmp_path_factory.mktemp("filled") / "made" / "here"
    return folder, Run(folder, tmp_path_factory.mktemp("locks")).finish()
