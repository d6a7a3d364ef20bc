"""The examples of several instances print in two what they print in one."""

import pathlib
import shutil
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"


def read_checkpoint(path):
    import tensorflow as tf
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name).tobytes()
            for name in reader.get_variable_to_shape_map()}


def outputs(mpi_poprun, python_environment, name, instances):
    """What each instance prints."""
    shutil.copy(EXAMPLES / name, mpi_poprun.folder)
    text = mpi_poprun.ok("--num-replicas=4", f"--num-instances={instances}", sys.executable, name,
                         **python_environment)
    lines = [line.split("<stdout>: ") for line in text.splitlines()]
    found = [[text for index, text in lines if index == f"[1,{i}]"] for i in range(instances)]
    assert len(found[0]) > 3
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", ["distributed_cnn.py", "distributed_loop.py"])
def test_example(mpi_poprun, python_environment, name):
    alone, = outputs(mpi_poprun, python_environment, name, 1)
    if name == "distributed_cnn.py":
        wanted = read_checkpoint(mpi_poprun.folder / "instance_0")
        assert len(wanted) == 14  # with moving averages of the norm, and momentum
    for one in outputs(mpi_poprun, python_environment, name, 2):
        assert one == alone
    if name == "distributed_cnn.py":
        for index in range(2):
            assert read_checkpoint(mpi_poprun.folder / f"instance_{index}") == wanted
