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
@pytest.mark.parametrize("name, checkpoints, variables", [
    ("distributed_cnn.py", ("instance_0", "instance_1"), 14),  # with averages of the norm, momentum
    ("distributed_loop.py", (), 0),
    ("distributed_bert.py", ("bert",), 68)])
def test_example(mpi_poprun, python_environment, name, checkpoints, variables):
    alone, = outputs(mpi_poprun, python_environment, name, 1)
    wanted = read_checkpoint(mpi_poprun.folder / checkpoints[0]) if checkpoints else {}
    assert len(wanted) == variables
    for one in outputs(mpi_poprun, python_environment, name, 2):
        assert one == alone
    for path in checkpoints:
        assert read_checkpoint(mpi_poprun.folder / path) == wanted
