"""Files of a model with stages between {IPU, CPU} x {.venv, .venv-2.21}: what stock Keras loads of
a stock model, Tremula's loads of its own, with the same predictions, options and stages."""

import itertools
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
OLD, NEW = (ROOT / name / "bin/python" for name in (".venv", ".venv-2.21"))
FORMS = {"keras": "model.keras", "h5": "model.h5", "saved_model": "model",
         "weights_h5": "weights.h5", "checkpoint": "checkpoint"}
MODELS = ("keras", "h5", "saved_model")
STAGES, STEPS = [0, 1], 4


def main(action, device, *folders):
    """`save` or `load` on a device; prints the results as JSON."""
    import contextlib

    import numpy as np
    import tensorflow as tf
    keras, scope = tf.keras, contextlib.nullcontext()
    if device == "ipu":
        import tremula._finder  # noqa: F401  where Tremula is not installed
        import fitting
        scope = fitting.scope(2)
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)

    def make():
        inputs = keras.Input((4,))
        hidden = keras.layers.Dense(3, activation="tanh", kernel_initializer="ones")(inputs)
        model = keras.Model(inputs, keras.layers.Dense(2, bias_initializer="ones")(hidden))
        model.compile("sgd", "mse", steps_per_execution=2)
        return model

    def save(model, folder):
        if device == "ipu":
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=STEPS)
            stages = model.get_pipeline_stage_assignment()
            for one, stage in zip(stages, STAGES):
                one.pipeline_stage = stage
            model.set_pipeline_stage_assignment(stages)
        for form in MODELS:
            model.save(os.path.join(folder, FORMS[form]))
        model.save_weights(os.path.join(folder, FORMS["weights_h5"]))
        model.save_weights(os.path.join(folder, FORMS["checkpoint"]))

    def load(folder, form):
        path = os.path.join(folder, FORMS[form])
        if form in MODELS:
            return keras.models.load_model(path)
        model = make()
        model.load_weights(path)
        return model

    def told(model):
        found = {"predictions": np.asarray(model(x)).tolist(),
                 "is_extended": hasattr(model, "get_pipeline_stage_assignment")}
        if found["is_extended"]:
            found["stages"] = [one.pipeline_stage for one in model.get_pipeline_stage_assignment()]
            found["steps"] = model._pipelining_gradient_accumulation_steps_per_replica
        return found

    results = {}
    with scope:
        if action == "save":
            model = make()
            save(model, folders[0])
            results = told(model)
        for folder, form in itertools.product(folders if action == "load" else (), FORMS):
            try:
                results[f"{folder} {form}"] = told(load(folder, form))
            except Exception as error:  # noqa: BLE001
                results[f"{folder} {form}"] = {"error": f"{type(error).__name__}: {error}"[:500]}
    print(json.dumps(results))


def run(python, action, device, *folders):
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
    environment.pop("TF_USE_LEGACY_KERAS", None)  # TensorFlow 2.15 has no other Keras
    if python == NEW:
        environment["TF_USE_LEGACY_KERAS"] = "1"
    done = subprocess.run([python, __file__, action, device, *map(str, folders)], text=True,
                          capture_output=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def check(found, device, saved_on, wanted):
    import numpy as np
    np.testing.assert_allclose(found["predictions"], wanted["predictions"], rtol=1e-5)
    assert found["is_extended"] == (device == "ipu")
    if device == "ipu":
        known = saved_on == "ipu"
        assert found["stages"] == (STAGES if known else [None] * len(STAGES))
        assert found["steps"] == (STEPS if known else None)


def test_files_go_between_versions_and_devices(tmp_path):
    import pytest
    for python in (OLD, NEW):
        if not python.exists():
            pytest.skip(f"{python.relative_to(ROOT)} is absent: scripts/test.sh makes both")
    places = list(itertools.product((OLD, NEW), ("ipu", "cpu")))
    folders, wanted = {}, {}
    for number, place in enumerate(places):
        folders[place] = tmp_path / str(number)
        folders[place].mkdir()
        wanted[place] = run(place[0], "save", place[1], folders[place])
    loaded = {place: run(place[0], "load", place[1], *folders.values()) for place in places}
    count = 0
    for (version, device), (saved_in, saved_on), form in itertools.product(places, places, FORMS):
        stock = loaded[version, "cpu"][f"{folders[saved_in, 'cpu']} {form}"]
        found = loaded[version, device][f"{folders[saved_in, saved_on]} {form}"]
        if "error" in stock:  # Keras itself cannot
            assert version != saved_in and form in MODELS
            continue
        assert "error" not in found, (version, device, saved_in, saved_on, form, found)
        is_model = form in MODELS
        check(found, device, saved_on if is_model else "cpu", wanted[saved_in, saved_on])
        count += 1
    assert count >= 4 * (4 * len(FORMS) - len(MODELS) * 2)


if __name__ == "__main__":
    main(*sys.argv[1:])
