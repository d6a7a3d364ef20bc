"""Files that Keras has written, on the command line: compiled, run and planned."""

import json
import os
import pathlib

import interpreter
import numpy as np
import pytest

MODELS = '''
import contextlib
import io
import json
import os
import numpy as np
import tensorflow as tf
from tremula.tool import plan

keras = tf.keras
first, second = keras.Input((8, 8, 3), name="picture"), keras.Input((5,), name="words")
x = keras.layers.Conv2D(4, 3, activation="swish", name="look")(first)
x = keras.layers.BatchNormalization()(x)
x = keras.layers.Flatten()(keras.layers.Dropout(.5)(x))
x = keras.layers.Concatenate()([x, second])
model = keras.Model([first, second], keras.layers.Dense(10, "softmax", name="choice")(x))
for name in ("net.keras", "net.h5"):
    model.save(name)

for name in ("fixed.keras", "fixed.h5"):
    keras.Sequential([keras.layers.Dense(3, batch_input_shape=(4, 5), name="choice")]).save(name)

class Own(keras.Model):
    def __init__(self, **keywords):
        super().__init__(**keywords)
        self.dense = keras.layers.Dense(3)

    def call(self, inputs):
        return self.dense(inputs)

own = Own()
own.compile("sgd", "mse")
own(np.zeros((2, 4), "f4"))
own.save("own.keras")

values = {"picture": np.random.default_rng(0).random((2, 8, 8, 3)).astype("f4"),
          "words": np.ones((2, 5), "f4")}
for name, value in values.items():
    np.save(name, value)
np.save("wanted", model.predict([values["picture"], values["words"]], verbose=0))
open("broken.keras", "w").write("no archive")
os.mkdir("step")

# In one process: TensorFlow takes long to start.
said = []
for arguments in (["net.keras", "--batch", "4", "--training", "adam"], ["broken.keras"],
                  ["own.keras"], ["net.h5"]):
    with contextlib.redirect_stderr(io.StringIO()) as stream, contextlib.suppress(SystemExit):
        plan.main([*arguments, "--folder", "step"])
    said.append(stream.getvalue())
print(json.dumps([model.count_params(), *said]))
'''
ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def models(tool_in, tmp_path_factory):
    """(a Tool in a folder with the models, how many parameters net.keras has, what plans said)."""
    folder = tmp_path_factory.mktemp("models")
    result = interpreter.run(["-c", MODELS], cwd=folder,
                             env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert result.returncode == 0, result.stderr
    parameters, *said = json.loads(result.stdout.splitlines()[-1])
    return tool_in(folder), parameters, said


@pytest.mark.smoke
def test_a_model_is_compiled_and_run(models):
    tool, _, _ = models
    tool.ok("compile", "net.h5", "-o", "net.poplar_exec", "--shape", "picture=2,8,8,3", "--shape",
            "words=2,5")
    tool.ok("run", "net.poplar_exec", "--input", "picture=picture.npy", "--input",
            "words=words.npy", "--output", "out")
    np.testing.assert_allclose(tool.load("out/choice.npy"), tool.load("wanted.npy"), rtol=1e-4)


@pytest.mark.smoke
def test_a_training_step_is_planned(models):
    tool, parameters, said = models
    assert not said[0]
    plan = json.loads(tool.ok("plan", "step/4.hlo.pb", "--json"))
    assert plan["parameters"]["count"] == parameters
    names = " ".join(layer["name"] for layer in plan["cases"][0]["layers"])
    assert "/look" in names and "/choice" in names
    assert plan["input"]["name"] == "picture" and plan["cases"][0]["items"] == 4


@pytest.mark.parametrize("name", ["fixed.keras", "fixed.h5"])
def test_a_model_with_a_batch_of_its_own_gets_another(models, name):
    tool, _, _ = models
    answer = json.loads(tool.ok("plan", name, "--batch", "4,8", "--json"))
    assert [(one["batch"], one["items"]) for one in answer["cases"]] == [(4, 4), (8, 8)]
    assert answer["cases"][0]["flops"] < answer["cases"][1]["flops"]


def test_what_cannot_be_read_is_said(models):
    tool, _, (_, broken, own, shapeless) = models
    assert "Keras cannot load broken.keras" in broken
    assert "own.keras" in own
    assert "the input 'picture' has the shape [?,8,8,3]" in shapeless
    assert tool.fails("plan", "none.h5") == "cannot open none.h5: there is no such file"
    assert "--feed and --fetch are for GraphDefs" in tool.fails("compile", "net.h5", "-o", "x",
                                                                "--fetch", "y")
