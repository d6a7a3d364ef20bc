"""export_for_ipu_serving and ipu.serving.export_keras: what is exported predicts what the model
does, also in a process without our Python."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

keras = tf.keras
Dense = keras.layers.Dense
PipelineStage = ipu.keras.PipelineStage
X = np.arange(8, dtype="float32").reshape(2, 4) / 8

LOAD = """
    import json, os, sys
    import tensorflow as tf
    from tensorflow.python.framework import load_library
    load_library.load_pluggable_device_library(
        os.path.join(os.environ["TREMULA_LIBRARY_DIR"], "libtremula_tf.so"))
    for folder, feeds in json.loads(sys.argv[1]):
        function = tf.saved_model.load(folder).signatures["serving_default"]
        found = function(**{name: tf.constant(one) for name, one in feeds.items()})
        print("ran:", json.dumps({name: one.numpy().tolist() for name, one in found.items()}))
    print("ours:", any(name.startswith("tremula.tf") for name in sys.modules))
"""


@pytest.fixture
def scope(devices):
    with ipu.ipu_strategy.IPUStrategy().scope():
        yield


@pytest.fixture
def devices():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    yield
    ipu.config.reset_ipu_configuration()


class Subclass(keras.Model):
    def __init__(self):
        super().__init__()
        self.layer = Dense(3)

    def call(self, x):
        return self.layer(x)


class TwoInputs(keras.Model):
    def __init__(self):
        super().__init__()
        self.layer, self.add = Dense(3), keras.layers.Add()

    def call(self, inputs):
        with PipelineStage(0):
            x = self.layer(inputs[0])
        with PipelineStage(1):
            return self.add([x, inputs[1]])


class WithFunction(Subclass):
    @tf.function(input_signature=[tf.TensorSpec([2, 4], tf.float32, "given")])
    def call(self, x):
        return self.layer(x)


def functional():
    inputs = keras.Input((4,), name="first"), keras.Input((4,), name="second")
    sums = keras.layers.Add()([Dense(3)(one) for one in inputs])
    return keras.Model(inputs, [sums, Dense(2)(sums)])


def pipelined():
    inputs = keras.Input((4,), batch_size=2, name="x")
    with PipelineStage(0):
        x = Dense(3, activation="relu")(inputs)
    with PipelineStage(1):
        return keras.Model(inputs, Dense(2)(x))


def subclass():
    model = Subclass()
    model.build(keras.Input((4,), name="named"))
    return model


def sequential():
    return keras.Sequential([Dense(3, input_shape=(4,), batch_size=2, name="one"), Dense(2)])


def same(found, outputs):
    """What an exported function gives, a list or a dict, is `outputs`, a dict."""
    found = found if isinstance(found, dict) else dict(zip(outputs, found, strict=True))
    for name, expected in outputs.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5)


def models_and_exports():
    """All kinds of models: (model, feeds, outputs, arguments of the export)."""
    model = functional()
    model.compile(steps_per_execution=16)
    first, second = model([X, 2 * X])
    yield (model, {"first": X, "second": 2 * X}, {"sum": first, "end": second},
           dict(batch_size=2, output_names=["sum", "end"]))
    model = pipelined()
    yield model, {"x": X}, {"output_0": model(X)}, {}
    model = pipelined()
    total = tf.reduce_sum(model(np.stack([X[0]] * 2)))
    yield model, {"row": X[0]}, {"total": total}, dict(
        preprocessing_step=lambda row: tf.stack([row] * 2),
        preprocessing_step_signature=[tf.TensorSpec([4], tf.float32)],
        postprocessing_step=lambda y: {"total": tf.reduce_sum(y)},
        postprocessing_step_signature=[tf.TensorSpec([2, 2], tf.float32)])
    model = sequential()
    yield model, {"one_input": X}, {"result": model(X)}, dict(output_names="result")
    model = subclass()
    yield model, {"named": X}, {"output_0": model(X)}, dict(batch_size=2)
    model = WithFunction()
    yield model, {"given": X}, {"output_0": model(X)}, {}


def test_what_is_exported_predicts(devices, tmp_path, capfd):
    """One after the other: a process that serves takes long to start."""
    runs, served = [], []
    with ipu.ipu_strategy.IPUStrategy().scope():
        for model, feeds, outputs, arguments in models_and_exports():
            folder = str(tmp_path / f"model{len(served)}")
            export = (type(model).export_for_ipu_serving, ipu.serving.export_keras)[len(runs) % 2]
            run = export(model, folder, **arguments)
            values = [tf.constant(one) for one in feeds.values()]
            runs.append((run, values, outputs, "output_names" in arguments))
            served.append((folder, {name: one.tolist() for name, one in feeds.items()}))
            same(run(*values), outputs)
    other = ipu.ipu_strategy.IPUStrategy()
    for run, values, outputs, is_named in runs:
        with other.scope():
            found = run(*values)
            assert isinstance(found, dict if is_named else list)
            same(found, outputs)
            same(other.run(run, args=values), outputs)
    assert "no single program" not in capfd.readouterr().err
    wanted = [{name: np.asarray(one) for name, one in outputs.items()} for _, _, outputs, _ in runs]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LOAD), json.dumps(served)], text=True,
        env={**os.environ, "TREMULA_RUNTIME_DIR": str(tmp_path)}, capture_output=True,
        timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "ours: False" in done.stdout
    lines = [json.loads(line[5:]) for line in done.stdout.splitlines() if line.startswith("ran:")]
    for found, expected in zip(lines, wanted, strict=True):
        assert sorted(found) == sorted(expected)
        for name in found:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)


def test_messages(scope, tmp_path):
    with pytest.raises(RuntimeError, match=(
            "Cannot get model's input signature. Please specify the input shape using "
            r"`model.build\(\)` or invoke your model using real data.")):
        Subclass().export_for_ipu_serving(str(tmp_path / "new"))
    for model in (functional(), subclass()):
        with pytest.raises(ValueError, match=(
                "Not all dimensions of inputs can be determined. Please specify batch size in "
                "model's input layer or specify `batch_size` parameter when exporting model.")):
            model.export_for_ipu_serving(str(tmp_path / "new"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("text")
    with pytest.raises(ValueError, match="Directory is not empty. Please specify an empty"):
        sequential().export_for_ipu_serving(str(tmp_path / "full"))
    sequential().export_for_ipu_serving(str(tmp_path / "full"), purge_export_dir=True)
    assert not (tmp_path / "full" / "file").exists()
    with pytest.raises(ValueError, match="The number of output_names does not match"):
        sequential().export_for_ipu_serving(str(tmp_path / "named"), output_names=["a", "b"])


def test_a_model_of_no_strategy(tmp_path):
    with pytest.raises(ValueError, match=(
            "Provided model was not created inside an IPU strategy, so it does not contain "
            "IPU-specific functions. Please wrap its creation inside an IPU strategy.")):
        ipu.serving.export_keras(sequential(), str(tmp_path / "new"))


def test_shapes_of_tensors_and_functions_for_run(devices, tmp_path):
    strategy, size = ipu.ipu_strategy.IPUStrategy(), tf.constant(2)
    with strategy.scope():
        model = keras.Sequential([Dense(3), Dense(1)])
        model.build((size, 4))
        two = TwoInputs()
        two.build([(size, 4), (size, 3)])
        named = Subclass()
        named.build(keras.Input([4], batch_size=2, name="mine"))
        expected = model(X)
    run = ipu.serving.export_keras(model, str(tmp_path / "sequential"))
    with strategy.scope():
        found = strategy.run(run, args=(tf.constant(X),))
    assert isinstance(found, list) and len(found) == 1
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    # In no scope and in that of another strategy: the stages are still those of the model's.
    ipu.serving.export_keras(two, str(tmp_path / "two"))
    with ipu.ipu_strategy.IPUStrategy().scope():
        ipu.serving.export_keras(named, str(tmp_path / "named"))
        two.export_for_ipu_serving(str(tmp_path / "again"))
    inputs = {"input_1", "input_2"}
    for folder, names in (("two", inputs), ("again", inputs), ("named", {"mine"})):
        loaded = tf.saved_model.load(str(tmp_path / folder)).signatures["serving_default"]
        assert set(loaded.structured_input_signature[1]) == names
