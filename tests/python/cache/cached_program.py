"""A program in a process of its own, over an executable cache, and what its log says."""

import os
import re
import subprocess

import built
import interpreter


# Feeds, a loop, random numbers, gradients, a while loop, and a shape that is known late.
PROGRAM = '''
import sys
exec(sys.argv[1])
import tremula._finder
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

dataset = tf.data.Dataset.from_tensors((tf.ones([4, 3]), tf.zeros([4], tf.int32))).repeat()
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

def step(x, y):
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
        hidden = tf.layers.dense(x + 0.0 * tf.random.uniform([4, 3], seed=3), 5, tf.nn.relu,
                                 kernel_initializer=tf.constant_initializer(0.1))
        logits = tf.layers.dense(hidden, 2, kernel_initializer=tf.constant_initializer(0.2))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    with tf.control_dependencies([train]):
        return outfeed.enqueue(loss)

def double(x):
    return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2.0), [0, x])[1]

late = tf.placeholder(tf.float32, [None])
with ipu.scopes.ipu_scope("/device:IPU:0"):
    training = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(3, step, [], infeed))
    doubled, = ipu.ipu_compiler.compile(double, [late])
losses = outfeed.dequeue()
ipu.utils.move_variable_initialization_to_cpu()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(infeed.initializer)
    for _ in range(3):
        session.run(training)
    print([round(float(loss), 5) for loss in session.run(losses)])
    for size in (2, 3, 2):
        print(session.run(doubled, {late: [1.0] * size}).tolist())
'''
RESULT = "[8.0, 8.0]\n[8.0, 8.0, 8.0]\n[8.0, 8.0]\n"
NUM_PROGRAMS = 3


class Log:
    """What a program's log says of lowering and compiling."""

    def __init__(self, text):
        self.text = text
        self.lowered = text.count("lowered a graph in")
        self.compiled = text.count(": compiling the module")
        self.loaded = text.count("loaded the executable")
        self.warnings = [line for line in text.splitlines() if "executable cache" in line
                         or "of the executable cache" in line]


class Run:
    """A program that is running, over a cache."""

    def __init__(self, folder, runtime, first="", **variables):
        environment = {
            **os.environ, **built.variables(), "TREMULA_RUNTIME_DIR": str(runtime),
            "POPLAR_LOG_LEVEL": "INFO", "TF_CPP_MIN_LOG_LEVEL": "2",
            "TF_POPLAR_FLAGS": f"--executable_cache_path={folder}", **variables}
        self.process = interpreter.Popen(["-c", PROGRAM, first], text=True, env=environment,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self):
        """The Log of a run that must succeed with the right results."""
        out, err = self.process.communicate(timeout=600)
        assert self.process.returncode == 0, err
        losses, rest = out.split("\n", 1)
        assert rest == RESULT and re.fullmatch(r"\[(0\.\d+, ){8}0\.\d+\]", losses), out
        return Log(err)
