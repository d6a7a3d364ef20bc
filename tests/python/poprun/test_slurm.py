"""Programs that Slurm's srun has started, by its variables: with PMIx, which tells MPI of the
others, and without."""

import os
import subprocess
import sys

PROGRAM = ("import numpy, popdist; from tremula import group; popdist.init(); "
           "print(group.place().launcher, popdist.getNumInstances(), "
           "*group.all_gather('ranks', numpy.int32([popdist.getInstanceIndex()])))")
# srun sets these; of Open MPI's launcher, which stands in for it, only PMIx's variables stay.
TASK = """
export SLURM_PROCID=$OMPI_COMM_WORLD_RANK SLURM_LOCALID=$OMPI_COMM_WORLD_LOCAL_RANK
export SLURM_STEP_NUM_TASKS=$OMPI_COMM_WORLD_SIZE
for name in $(env | sed -n 's/^\\(OMPI_[A-Z_]*\\)=.*/\\1/p') OPAL_PREFIX PMIX_PREFIX; do
  unset $name
done
export PMIX_SECURITY_MODE=munge,native
exec "$0" -c "$1"
"""


def test_with_pmix(open_mpi, python_environment):
    done = subprocess.run(
        [open_mpi, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2", "sh",
         "-c", TASK, sys.executable, PROGRAM], env={**os.environ, **python_environment},
        capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0 and done.stdout == "Slurm 2 0 1\n" * 2, done.stderr
    # "munge" is a part of PMIx that Slurm offers and PyPI's Open MPI lacks.
    assert "Sorry" not in done.stderr and "munge" not in done.stderr


def test_without_pmix(open_mpi, python_environment):
    """The refusal says how to start it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **python_environment,
                                              "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2",
                                              "SLURM_LOCALID": "0"},
        capture_output=True, text=True, timeout=600, check=False)
    assert "Slurm started 2 processes" in done.stderr, done.stderr
    assert "start the program with `srun --mpi=pmix`" in done.stderr
