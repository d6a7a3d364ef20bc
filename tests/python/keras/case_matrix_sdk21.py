"""Whether fit of SDK 2.1's models equals stock Keras: the combinations that case_sdk21.py leaves
out. A pipeline always works on several mini-batches."""

import pytest

import case_sdk21
from case_sdk21 import expected  # noqa: F401

MODELS = (case_sdk21.sequential, case_sdk21.model, case_sdk21.pipeline_sequential,
          case_sdk21.pipeline_model)
CASES = [case for make in MODELS for form in case_sdk21.FORMS for name in case_sdk21.OPTIMIZERS
         if (case := (make, form, name)) not in case_sdk21.CASES
         and not (make.__name__.startswith("pipeline") and case_sdk21.FORMS[form][0] == 1)]


@pytest.mark.parametrize("make, form, name", CASES)
def test_models_of_sdk_2_1(expected, make, form, name):  # noqa: F811
    case_sdk21.check_training(expected, make, form, name)
