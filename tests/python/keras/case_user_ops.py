"""User operations in C in Keras layers, next to the same networks of stock layers."""

import contextlib
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

keras = tf.keras
layers = keras.layers
PipelineStage = ipu.keras.PipelineStage
ROOT = pathlib.Path(__file__).resolve().parents[3]

SOURCE = r"""
#include <math.h>
#include <tremula/user_op.h>

TRM_USER_OP(Softsign)
TRM_USER_OP(Softsign_grad)
TRM_USER_OP(Note)
int Softsign(const trm_user_op_call *call) {
  const float *x = call->inputs[0];
  float *y = call->outputs[0];
  for (uint64_t i = 0; i < call->input_info[0].elements; ++i) y[i] = x[i] / (1 + fabsf(x[i]));
  return 0;
}
int Softsign_grad(const trm_user_op_call *call) { /* dy, y, x */
  const float *dy = call->inputs[0], *x = call->inputs[2];
  float *dx = call->outputs[0];
  for (uint64_t i = 0; i < call->input_info[0].elements; ++i) {
    const float s = 1 + fabsf(x[i]);
    dx[i] = dy[i] / (s * s);
  }
  return 0;
}
int Note(const trm_user_op_call *call) { return 0; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("c")
    (folder / "ops.c").write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-Wall", "-Werror", "-I", ROOT / "include",
                    folder / "ops.c", "-o", folder / "libops.so"], check=True)
    return str(folder / "libops.so")


class Softsign(layers.Layer):
    """The user operation `op_name` of the library. `call_op`: the function that calls it."""

    def __init__(self, library, call_op=ipu.custom_ops.precompiled_user_op):
        super().__init__()
        self.library, self.call_op = library, call_op

    def call(self, x):
        y, = self.call_op([x], self.library, op_name="Softsign", outs={
            "output_types": [x.dtype], "output_shapes": [x.shape]})
        return y


def u_net(activation, stage, batch=None):
    """Two levels; layers that `activation` makes are at the ends of the first three stages."""
    keras.utils.set_random_seed(3)

    def block(x, filters):
        return layers.Conv2D(filters, 3, padding="same", activation="relu")(x)

    inputs = keras.Input((8, 8, 2), batch)
    with stage(0):
        wide = block(inputs, 4)
        x = activation()(layers.MaxPool2D()(wide))
    with stage(1):
        x = activation()(block(block(x, 8), 8))
    with stage(2):
        x = layers.Conv2DTranspose(4, 2, strides=2)(x)
        x = activation()(layers.Concatenate()([wide, x]))
    with stage(3):
        return keras.Model(inputs, layers.Conv2D(1, 1)(block(x, 4)))


RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(32, 8, 8, 2)).astype("float32")
Y = RANDOM.normal(size=(32, 8, 8, 1)).astype("float32")


@pytest.mark.parametrize("ipus", [4])
@pytest.mark.parametrize("call_op", ["precompiled_user_op", "cpu_user_operation"])
def test_u_net_with_a_user_op_between_stages(strategy, library, call_op):
    def train(model, batch):
        model.fit(tf.data.Dataset.from_tensor_slices((X, Y)).batch(batch, drop_remainder=True),
                  epochs=2, verbose=0)
        return model.get_weights()

    stock = u_net(lambda: layers.Activation("softsign"), contextlib.nullcontext)
    stock.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
    expected = train(stock, 16)
    with strategy.scope():
        model = u_net(lambda: Softsign(library, getattr(ipu.custom_ops, call_op)), PipelineStage, 2)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=8,
                                     gradient_accumulation_reduction_method="mean",
                                     device_mapping=[0, 1, 2, 3])
        model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse", steps_per_execution=16)
        for one, other in zip(train(model, 2), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        found = model.predict(X, batch_size=2)
    np.testing.assert_allclose(found, stock.predict(X, verbose=0), rtol=1e-4, atol=1e-4)


def test_shapes_only(strategy, library):
    """Where Keras infers shapes: types and shapes, the library's errors, and a failure if run."""
    x = keras.Input((3,), batch_size=2)
    assert Softsign(library).compute_output_shape((2, 3)) == (2, 3)
    y = Softsign(library)(x)
    assert (y.shape.as_list(), y.dtype) == ([2, 3], "float32")
    with pytest.raises(tf.errors.NotFoundError, match="could not be opened: .*nowhere.so"):
        Softsign("/nowhere.so")(x)

    @tf.function
    def run(x):
        assert ipu.custom_ops.precompiled_user_op([x], library, op_name="Note") is not None
        return Softsign(library)(x)

    with pytest.raises(tf.errors.InvalidArgumentError, match="must be part of a program"):
        run(tf.zeros([2, 3]))
