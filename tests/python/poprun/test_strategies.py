"""Training under PopDistStrategy and IPUHorovodStrategy: two instances with two replicas each have
the bits of one instance with four."""

import json
import pathlib

import interpreter
import numpy as np
import pytest

CASE = pathlib.Path(__file__).with_name("case_strategies.py")


@pytest.fixture
def results(mpi_poprun, python_environment):
    """Of both instances, and of one alone. Its folder has their checkpoints."""
    folder = mpi_poprun.folder
    for count in (2, 1):
        mpi_poprun.ok("--num-replicas=4", f"--num-instances={count}",
                      interpreter.stand_in(), CASE, folder, **python_environment)
    return [json.loads((folder / f"{name}.json").read_text()) for name in ("2_0", "2_1", "1_0")]


def read_checkpoint(path):
    """The values of a checkpoint, by name, with slots."""
    import tensorflow as tf
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name).tobytes()
            for name in reader.get_variable_to_shape_map()}


def check_checkpoints(folder):
    """Each instance's has the values of the one that one process wrote."""
    wanted = read_checkpoint(folder / "saved-1-0")
    assert len(wanted) == 2  # the weights and their momentum
    for index in range(2):
        assert read_checkpoint(folder / f"saved-2-{index}") == wanted


def test_all_instances_have_the_bits_of_one(mpi_poprun, results):
    first, second, alone = results
    for key in ("total", "weights"):
        assert first["session"][key] == second["session"][key] == alone["session"][key]
    losses = np.concatenate([one["session"]["losses"] for one in (first, second)], axis=1)
    np.testing.assert_array_equal(losses, alone["session"]["losses"])
    assert first["fit"] == second["fit"] == alone["fit"]
    assert alone["fit"]["history"]["loss"][1] < alone["fit"]["history"]["loss"][0]
    assert first["pipeline"] == second["pipeline"] == alone["pipeline"]
    check_checkpoints(mpi_poprun.folder)
    assert first["on hosts"] == second["on hosts"]
    for way in ("loop", "ipu", "host"):
        for key in ("totals", "weights"):
            np.testing.assert_allclose(first["on hosts"][way][key], alone["on hosts"][way][key],
                                       rtol=1e-5)
