"""Whether fit of pipelines equals stock Keras: the combinations that case_pipelines.py leaves out.
"""

import pytest

import case_pipelines
from case_pipelines import KINDS, OTHERS, Schedule, stock, strategy_of  # noqa: F401

CASES = [(kind, replicas, schedule, name) for kind in KINDS for replicas in (1, 2)
         for schedule in Schedule for name in ("sgd", *OTHERS)
         if name not in case_pipelines.quick(kind, replicas, schedule)]


@pytest.mark.parametrize("kind, replicas, schedule, name", CASES)
def test_pipelines(strategy_of, stock, kind, replicas, schedule, name):  # noqa: F811
    case_pipelines.check_training(strategy_of, stock, kind, replicas, schedule, name)
