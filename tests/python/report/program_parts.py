"""What the programs of named_programs.py and sized_programs.py are made of, and how they are run.

A program is a function that builds a graph and returns (what to fetch, what to feed). It is run
after the variables' initialisers, in a session of its own.
"""

import enum
import operator

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


def trained_calls(function):
    """Training of the difference of two calls of function(x, weights, offset), all 64 x 64."""
    def network(a, b, c, labels):
        with tf.variable_scope("vs", use_resource=True):
            weights = [variable(name, [64, 64]) for name in ("w0", "w1")]
        a = function(a, weights[0], b)
        a = a - function(a, weights[1], c)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            logits=a, labels=labels))
        return a, descent(loss, 0.001)
    return compiled(network, feed(64, 64), feed(64, 64), feed(64, 64), feed(64, dtype=tf.int32))


def trained_in_loop(network, batch=2, steps=5, width=16):
    """A hundred steps of Adam on the squared error of network(elements of an infeed)."""
    data = tf.data.Dataset.from_tensors((tf.zeros([batch, steps, width]),
                                         tf.zeros([batch, width]))).repeat()
    feeds = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
    tf.add_to_collection("before", feeds.initializer)

    def body(x, labels):
        loss = tf.reduce_mean(tf.losses.mean_squared_error(labels, network(x)))
        return tf.train.AdamOptimizer(learning_rate=0.01, epsilon=1e-3).minimize(loss)
    result = compiled(lambda: ipu.loops.repeat(100, body, [], feeds))
    ipu.utils.move_variable_initialization_to_cpu()
    return result


# ---- running them ----

def run(function, tiles=0, code=False, ipus=1, initialize=False, execution=False, options=None):
    """Runs a program in a session of its own, in the default graph; returns its profile, or that of
    the program that initialises its variables. `tiles`: of the IPU that is planned for, 0: all;
    `code`: count it in memory; `options`: more of the configuration, by name, with names for what
    is an enumeration."""
    import pva
    from tensorflow.python.ipu import test_utils
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.ipu_model.tiles_per_ipu = tiles
    config.ipu_model.compile_ipu_code = code
    for name, value in (options or {}).items():
        group, _, last = name.rpartition(".")
        old = operator.attrgetter(name)(config)
        setattr(operator.attrgetter(group)(config), last,
                type(old)[value] if isinstance(old, enum.Enum) and isinstance(value, str)
                else value)
    helper = test_utils.ReportHelper()
    helper.set_autoreport_options(config, output_execution_profile=execution)
    config.configure_ipu_system()
    with tf.Session() as session:
        fetch, values = function()
        session.run(tf.get_collection("before"))
        session.run(tf.global_variables_initializer())
        if not initialize:
            helper.clear_reports()
            session.run(fetch, values)
    return pva.openReport(helper.find_report())
