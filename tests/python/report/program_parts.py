"""What the programs of named_programs.py and sized_programs.py are made of, and how they are run.

A program is a function that builds a graph and returns (what to fetch, what to feed). It is run
after the variables' initialisers, in a session of its own.
"""

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu


def feed(*shape, dtype=tf.float32):
    """A placeholder that is not on an IPU."""
    with tf.device("cpu"):
        return tf.placeholder(dtype, shape)


def ones(*placeholders):
    return {one: np.ones(one.shape.as_list(), one.dtype.as_numpy_dtype) for one in placeholders}


def on_ipu(function, *inputs):
    """Computed on the device, op by op placed."""
    with tf.device("/device:IPU:0"):
        return function(*inputs), ones(*inputs)


def compiled(function, *inputs):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return ipu.ipu_compiler.compile(function, list(inputs)), ones(*inputs)


def variable(name, shape, dtype=tf.float32, value=1.0):
    return tf.get_variable(name, shape, dtype, tf.constant_initializer(value), use_resource=True)


def convolution(x, filters=2, kernel=1, bias=False, name=None, **more):
    return tf.layers.conv2d(x, filters, kernel, use_bias=bias, name=name,
                            kernel_initializer=tf.ones_initializer(), **more)


def descent(loss, rate=0.1):
    return tf.train.GradientDescentOptimizer(rate).minimize(loss)


# ---- running them ----

def run(function, tiles=0, code=False, ipus=1):
    """Runs a program in a session of its own, in the default graph; returns its profile. `tiles`:
    of the IPU that is planned for, 0: all; `code`: count it in memory."""
    import pva
    from tensorflow.python.ipu import test_utils
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.ipu_model.tiles_per_ipu = tiles
    config.ipu_model.compile_ipu_code = code
    helper = test_utils.ReportHelper()
    helper.set_autoreport_options(config)
    config.configure_ipu_system()
    with tf.Session() as session:
        fetch, values = function()
        session.run(tf.global_variables_initializer())
        helper.clear_reports()
        session.run(fetch, values)
    return pva.openReport(helper.find_report())
