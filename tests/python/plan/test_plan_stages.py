"""`tremula plan` of Keras models with pipeline stages: the pipelines that fit and predict run."""

import json
import os
import pathlib

import interpreter
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Saves a model with two stages in each form, and the HLO that its fit() launches (launches.hlo.pb).
MODELS = '''
import contextlib

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu
from tremula.tf.inner import keras as inner
from tremula.tf.runtime.launching import launching

keras = inner.public()
config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()

def network():
    result = inputs = keras.Input((64,), name="words")
    with ipu.keras.PipelineStage(0):
        result = keras.layers.Dense(128, "relu", name="wide")(result)
    with ipu.keras.PipelineStage(1):
        result = keras.layers.Dense(10, "softmax", name="choice")(result)
    return keras.Model(inputs, result)

with ipu.ipu_strategy.IPUStrategy().scope():
    def deep(cuts):
        result = inputs = keras.Input((256,), name="words")
        for i, name in enumerate(("one", "two", "three", "four")):
            stage = sum(i >= cut for cut in cuts)
            with ipu.keras.PipelineStage(stage) if cuts else contextlib.nullcontext():
                result = keras.layers.Dense(512 if i < 3 else 10, "relu", name=name)(result)
        return keras.Model(inputs, result)

    for cuts in ((), (1, 2), (1, 3), (2, 3)):
        model = deep(cuts)
        if cuts:
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=2 + 2 * len(cuts))
        model.save("deep" + "".join(map(str, cuts)) + ".keras")

    model = network()
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=8)
    model.save("net.keras")
    model.save("net.h5")
    model.save("net")
    network().save("counts.keras")  # the pipeline's length is not said
    model.compile(keras.optimizers.legacy.SGD(), "sparse_categorical_crossentropy",
                  steps_per_execution=8)
    data = tf.data.Dataset.from_tensors((tf.zeros([4, 64]), tf.zeros([4], tf.int32))).repeat()
    module = launching.lowered_by(lambda: model.fit(data, steps_per_epoch=8, verbose=0))
    open("launches.hlo.pb", "wb").write(module)
'''


@pytest.fixture(scope="module")
def tool(tool_in, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stages")
    result = interpreter.run(["-c", MODELS], cwd=folder,
                             env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert result.returncode == 0, result.stderr
    return tool_in(folder)


def case(tool, *arguments):
    return json.loads(tool.ok("plan", *arguments, "--json"))["cases"][0]


def numbers(one):
    return {key: one[key] for key in ("ipus", "shards", "memory", "cycles", "items_per_second")}


@pytest.mark.parametrize("model", ["net.keras", "net.h5", "net"])
def test_training_is_the_pipeline_that_fit_runs(tool, model):
    planned = case(tool, model, "--batch", "4", "--training", "sgd")
    launched = case(tool, "launches.hlo.pb")
    assert planned["shards"] == 2 and numbers(planned) == numbers(launched)
    assert {"wide", "choice"} <= {layer["name"] for layer in planned["layers"]}


def test_inference_and_the_length_of_the_pipeline(tool):
    training = case(tool, "net.keras", "--shape", "words=4,64", "--training", "sgd")
    inference = case(tool, "net.keras", "--shape", "words=4,64")
    assert inference["shards"] == 2
    assert inference["cycles"]["total"] < training["cycles"]["total"]
    assert inference["items"] == 4 * 8
    # Two for each stage is the least that every schedule takes.
    assert case(tool, "counts.keras", "--batch", "4")["items"] == 4 * 4


def test_the_pipeline_that_a_plan_proposes_fits_when_it_is_compiled(tool):
    """Of a network on machines that it does not fit, the stages that the answer names."""
    machine = tool.write("small.json", json.dumps({"base": "mk2", "name": "small",
                                                   "tilesPerIPU": 12}))
    arguments = ["--batch", "16", "--training", "momentum", "--target", f"./{machine}", "--json"]
    result = tool("plan", "deep.keras", *arguments)
    assert result.returncode == 3, result.stderr
    answer, = json.loads(result.stdout)["cases"]
    proposed = next(one for one in answer["smallest"] if one["schedule"] and one["ipus"])
    assert (proposed["ipus"], proposed["with"], proposed["schedule"]) == (3, "", "Grouped")
    assert proposed["mini_batches"] == 6  # as the models in stages have it
    assert proposed["offload_weight_update_variables"] is False and proposed["nearest"] is None
    layers = ["one", "two", "three", "four"]
    cuts = [layers.index(cut["before"].split("/")[-1]) for cut in proposed["cuts"]]
    assert [layers[cut - 1] for cut in cuts] == [
        cut["after"].split("/")[-1] for cut in proposed["cuts"]]
    compiled = json.loads(tool.ok("plan", f"deep{''.join(map(str, cuts))}.keras", *arguments))
    case, = compiled["cases"]
    assert case["fits"]
    # What the update needs is worked out generously.
    assert case["memory"]["worst_tile_bytes"] <= 1.01 * proposed["worst_tile_bytes"]


def test_what_is_missing_is_said(tool):
    assert "the input 'words' has the shape [?,64]" in tool.fails("plan", "net.keras")
    assert "--shape names 'other'" in tool.fails("plan", "net.keras", "--batch", "4", "--shape",
                                                 "other=1")
