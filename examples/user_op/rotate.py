"""An operation of one's own in C, in a program that trains with it.

    python examples/user_op/rotate.py

Builds rotate.c with the C compiler, and looks for the angle by which points were rotated.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

HERE = pathlib.Path(__file__).resolve().parent


def build(folder):
    """The path of the shared library."""
    library = os.path.join(folder, "librotate.so")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC",
                    "-I", str(HERE.parents[1] / "include"), str(HERE / "rotate.c"), "-o", library,
                    "-lm"], check=True)
    return library


def rotate(library, x, y, angle):
    outs = {"output_types": [tf.float32] * 2, "output_shapes": [x.shape] * 2}
    return ipu.custom_ops.precompiled_user_op([x, y, angle], library, outs=outs, name="rotate",
                                              op_name="Rotate")


def main():
    tf.disable_v2_behavior()
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 64), np.float32)
    angle = 0.7
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder)

        def step():
            with tf.variable_scope("model", use_resource=True):
                guess = tf.get_variable("angle", [], tf.float32, tf.zeros_initializer())
            new_x, new_y = rotate(library, tf.constant(x), tf.constant(y),
                                  tf.broadcast_to(guess, [64]))
            loss = tf.reduce_mean(
                tf.square(new_x - np.float32(x * np.cos(angle) - y * np.sin(angle)))
                + tf.square(new_y - np.float32(x * np.sin(angle) + y * np.cos(angle))))
            train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
            with tf.control_dependencies([train]):
                return tf.identity(loss), guess.read_value()

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            loss, found = ipu.ipu_compiler.compile(step)
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            values = (0.0, 0.0)
            for _ in range(30):
                values = session.run([loss, found])
        print("loss %.6f, angle %.4f of %.4f" % (*values, angle))
        return abs(values[1] - angle) < 1e-3


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
