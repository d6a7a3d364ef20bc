"""A training in several instances has the bits of the same replicas in one process, also where the
gradients are combined into one message. One instance compiles for all, with a cache and without."""

import os
import pathlib
import subprocess

import interpreter
import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).parent / "training.py"


def start(folder, name, *launcher, kind, flags=""):
    """training.py; its results go to <name>-<instance>.npz."""
    environment = {**os.environ, "TREMULA_RUNTIME_DIR": str(folder / "run"), "OMP_NUM_THREADS": "2",
                   "POPLAR_LOG_LEVEL": "INFO", "TF_POPLAR_FLAGS": flags}
    return subprocess.Popen(
        [*launcher, interpreter.stand_in(), SCRIPT, folder / f"{name}-%d.npz", kind],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("instances, kind, sums", [
    (2, "combined", 4),  # 3 of the norm, whose gradient has one, and all gradients
    pytest.param(4, "several", 10, marks=pytest.mark.long)])
def test_same_bits(tmp_path, open_mpi, instances, kind, sums):
    (tmp_path / "run").mkdir()
    launcher = (open_mpi, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                "-np", str(instances))
    cache = f"--executable_cache_path={tmp_path / 'cache'}" if instances == 4 else ""
    for job in (start(tmp_path, "one", kind="one"),
                start(tmp_path, "several", *launcher, kind=kind, flags=cache)):
        output, _ = job.communicate(timeout=600)
        assert job.returncode == 0, output
        assert output.count("compiling the module program:") == 1, output
    others = "loaded the executable" if cache else "which another instance compiled"
    assert output.count(others) == instances - 1, output
    # To each other instance: begin and end of three runs, and two for each sum of fifteen steps.
    messages = (3 * 2 + 15 * 2 * sums) * (instances - 1)
    assert output.count(f"{messages} messages") == instances, output
    one = np.load(tmp_path / "one-0.npz")
    assert len(one.files) > 12 and np.ptp(one["losses"]) > 0.1
    here = 4 // instances
    for index in range(instances):
        got = np.load(tmp_path / f"several-{index}.npz")
        for name in one.files:
            wanted = one[name]
            if name == "losses":
                wanted = wanted[:, index * here:(index + 1) * here]
            assert got[name].tobytes() == wanted.tobytes(), (index, name)
