"""The table of messages: a test looks for each of them."""

import ast
import functools
import pathlib
import re

import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tremula.tf.keras.extensions import messages

keras = tf.keras
Dense = keras.layers.Dense
ROOM = pathlib.Path(__file__).parent
PLACES = re.compile(r"\{[^}]*\}|%[ds]")
PATTERNS = re.compile(r"\.[*+]\??|\\d[*+]?|\|")
MESSAGES = [(name, text) for name, text in vars(messages).items()
            if name.isupper() and isinstance(text, str)]
HERE = ("NO_IPU", "UNASSIGNED_INSIDE")  # the tests below


def plain(text):
    """A text without what regular expressions escape, with single spaces."""
    return " ".join(re.sub(r"\\(.)", r"\1", text).split()).strip(" .`")


@functools.cache
def looked_for():
    """The texts of the other cases, by the parts between what patterns leave open."""
    cases = sorted(set(ROOM.glob("case_*.py")) - {pathlib.Path(__file__)})
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in cases]
    found = [node.value for tree in trees for node in ast.walk(tree)
             if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [plain(part) for text in found for part in PATTERNS.split(text)]


@pytest.mark.parametrize("text", [
    pytest.param(text, id=name) for name, text in MESSAGES if name not in HERE])
def test_a_case_looks_for_it(text):
    """Three words of it that follow each other, at least: cases may leave out the rest."""
    parts = [plain(part) for part in PLACES.split(text)]
    assert any(part in said if len(part) < len(said) else said in part
               for part in parts if len(part.split()) > 2
               for said in looked_for() if len(said.split()) > 2), text


def test_a_device_that_has_no_ipu(strategy, monkeypatch):
    with strategy.scope():
        model = keras.Sequential([Dense(1, input_shape=(2,))])
        monkeypatch.setattr(type(strategy.extended), "non_slot_devices",
                            lambda self, variables: "/device:CPU:0")
        with pytest.raises(ValueError, match="Sequential can only be used on an IPU device."):
            model.predict(tf.ones([2, 2]), batch_size=1)


def test_a_layer_beside_a_nested_model_has_no_stage(strategy):
    with strategy.scope():
        inside = keras.Sequential([Dense(1, name="in", input_shape=(2,))])
        model = keras.Sequential([inside, Dense(1, name="out")])
        assignments = model.get_pipeline_stage_assignment()
        assignments[0].pipeline_stage_assignments[0].pipeline_stage = 0
        with pytest.raises(ValueError, match="Layer out has not been assigned a pipeline stage in "
                                             "`pipeline_stage_assignment`."):
            model.set_pipeline_stage_assignment(assignments)
        assert isinstance(assignments[0], ipu.keras.SequentialNestedModelPipelineStageAssignment)
