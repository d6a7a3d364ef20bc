"""Stochastic rounding is a mode of the hardware: a U-Net in float16 takes no memory for it."""

import json
import os
import pathlib

import interpreter
import pytest

UNET = '''
import tensorflow as tf

SHAPES = dict(down1=[3, 3, 4, 16], down2=[3, 3, 16, 32], bottom=[3, 3, 32, 64], up2=[2, 2, 32, 64],
              join2=[3, 3, 64, 32], up1=[2, 2, 16, 32], join1=[3, 3, 32, 16], last=[1, 1, 16, 4])

class Network(tf.Module):
    def __init__(self):
        self.kernels = {name: tf.Variable(
            tf.random.stateless_normal(shape, [1, 2], dtype=tf.float16), name=name)
            for name, shape in SHAPES.items()}

    def conv(self, name, x):
        return tf.nn.relu(tf.nn.conv2d(x, self.kernels[name], 1, "SAME"))

    def joined(self, name, x, beside):
        up = tf.nn.conv2d_transpose(x, self.kernels[name], tf.shape(beside), 2, "SAME")
        return tf.concat([up, beside], -1)

    @tf.function(input_signature=[tf.TensorSpec([1, 32, 32, 4], tf.float16, name="images")])
    def serve(self, images):
        first = self.conv("down1", images)
        second = self.conv("down2", tf.nn.max_pool2d(first, 2, 2, "VALID"))
        x = self.conv("bottom", tf.nn.max_pool2d(second, 2, 2, "VALID"))
        x = self.conv("join2", self.joined("up2", x, second))
        x = self.conv("join1", self.joined("up1", x, first))
        return {"mask": tf.nn.softmax(tf.nn.conv2d(x, self.kernels["last"], 1, "SAME"))}

network = Network()
tf.saved_model.save(network, "unet", signatures={"serving_default": network.serve})
'''
ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("training", [[], ["--training", "sgd"]], ids=["inference", "training"])
def test_a_unet_takes_the_same_memory(tool, tmp_path, training):
    made = interpreter.run(["-c", UNET], cwd=tmp_path,
                           env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert made.returncode == 0, made.stderr
    without, *others = (
        json.loads(tool.ok("plan", str(tmp_path / "unet"), "--json", *training, "--option",
                           f"stochastic_rounding={mode}"))["cases"][0]
        for mode in ("off", "on", "replica-identical"))
    for one in others:
        assert one["fits"]
        for key in ("worst_tile_bytes", "peak_bytes"):
            assert one["memory"][key] <= 1.02 * without["memory"][key], key
