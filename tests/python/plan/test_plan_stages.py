"""`tremula plan` of Keras models with pipeline stages: the pipelines that fit and predict run."""

import json
import os
import pathlib

import interpreter
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Saves a model with two stages in each form, and the HLO that its fit() launches (launches.hlo.pb);
# and another model without stages, and with the stages of each cut, with what their fit() launches.
MODELS = '''
import contextlib

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu
from tremula.tf.inner import keras as inner
from tremula.tf.runtime.launching import launching

keras = inner.public()

def strategy(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()

def launched(model, optimizer, shape, steps):
    model.compile(optimizer, "sparse_categorical_crossentropy", steps_per_execution=steps)
    data = tf.data.Dataset.from_tensors((tf.zeros(shape), tf.zeros(shape[:1], tf.int32))).repeat()
    return launching.lowered_by(lambda: model.fit(data, steps_per_epoch=steps, verbose=0))

def network():
    result = inputs = keras.Input((64,), name="words")
    with ipu.keras.PipelineStage(0):
        result = keras.layers.Dense(128, "relu", name="wide")(result)
    with ipu.keras.PipelineStage(1):
        result = keras.layers.Dense(10, "softmax", name="choice")(result)
    return keras.Model(inputs, result)

with strategy(4).scope():
    def deep(cuts):
        result = inputs = keras.Input((256,), name="words")
        for i, name in enumerate(("one", "two", "three", "four")):
            stage = sum(i >= cut for cut in cuts)
            with ipu.keras.PipelineStage(stage) if cuts else contextlib.nullcontext():
                result = keras.layers.Dense(512 if i < 3 else 10, "relu", name=name)(result)
        return keras.Model(inputs, result)

    for cuts in ((), (1, 2), (1, 3), (2, 3)):
        model = deep(cuts)
        name = "deep" + "".join(map(str, cuts))
        if cuts:
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=6,
                                         offload_weight_update_variables=False)
            open(name + ".hlo.pb", "wb").write(launched(
                model, keras.optimizers.legacy.SGD(momentum=.9), [16, 256], 6))
        model.save(name + ".keras")

with strategy(2).scope():
    model = network()
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=8)
    model.save("net.keras")
    model.save("net.h5")
    model.save("net")
    network().save("counts.keras")  # the pipeline's length is not said
    open("launches.hlo.pb", "wb").write(launched(model, keras.optimizers.legacy.SGD(), [4, 64], 8))
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
    name = "deep" + "".join(map(str, cuts))
    saved, = json.loads(tool.ok("plan", f"{name}.keras", *arguments))["cases"]
    written = case(tool, f"{name}.hlo.pb", "--target", f"./{machine}")
    # What the update needs is worked out generously. The saved model offloads state.
    for one in (saved, written):
        assert one["fits"]
        assert one["memory"]["worst_tile_bytes"] <= 1.01 * proposed["worst_tile_bytes"]
    # Keras sums losses and metrics besides.
    assert written["cycles"]["total"] == pytest.approx(6 * proposed["cycles"], rel=.05)


def test_what_is_missing_is_said(tool):
    assert "the input 'words' has the shape [?,64]" in tool.fails("plan", "net.keras")
    assert "--shape names 'other'" in tool.fails("plan", "net.keras", "--batch", "4", "--shape",
                                                 "other=1")
