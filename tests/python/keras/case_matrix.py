"""Whether fit equals stock Keras: the combinations of models, forms and optimizers that
case_pipelines.py and case_sdk21.py leave out. A pipeline always works on several mini-batches."""

import pytest

import case_pipelines
import case_sdk21
from case_pipelines import KINDS, OTHERS, Schedule, stock, strategy_of  # noqa: F401
from case_sdk21 import expected  # noqa: F401

PIPELINES = [(kind, replicas, schedule, name) for kind in KINDS for replicas in (1, 2)
             for schedule in Schedule for name in ("sgd", *OTHERS)
             if name not in case_pipelines.quick(kind, replicas, schedule)]
MODELS = (case_sdk21.sequential, case_sdk21.model, case_sdk21.pipeline_sequential,
          case_sdk21.pipeline_model)
SDK21 = [case for make in MODELS for form in case_sdk21.FORMS for name in case_sdk21.OPTIMIZERS
         if (case := (make, form, name)) not in case_sdk21.CASES
         and not (make.__name__.startswith("pipeline") and case_sdk21.FORMS[form][0] == 1)]


@pytest.mark.parametrize("kind, replicas, schedule, name", PIPELINES)
def test_pipelines(strategy_of, stock, kind, replicas, schedule, name):  # noqa: F811
    case_pipelines.check_training(strategy_of, stock, kind, replicas, schedule, name)


@pytest.mark.parametrize("make, form, name", SDK21)
def test_models_of_sdk_2_1(expected, make, form, name):  # noqa: F811
    case_sdk21.check_training(expected, make, form, name)
