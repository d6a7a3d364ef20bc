"""Checkpoints that one form of training writes and another reads."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

X = np.float32([[1, 2, 3], [-1, 0, 1]])
Y = np.float32([[1], [-1]])
FORMS = ("plain", "loop", "accumulated", "pipeline", "tensorflow")


def layer(x, name, units):
    with tf.variable_scope(name, use_resource=True):
        return tf.matmul(x, tf.get_variable("w", [int(x.shape[-1]), units],
                                            initializer=tf.constant_initializer(.1)))


def loss_of(x, y):
    return tf.reduce_mean(tf.square(layer(layer(x, "one", 4), "two", 1) - y))


def optimizer():
    return tf.train.MomentumOptimizer(.01, .9)


def build(form):
    """(an operation that trains two steps on the same batch, what must run before)."""
    if form == "tensorflow":
        first = optimizer().minimize(loss_of(X, Y), name="first")
        return first, 2, tf.no_op()
    if form == "plain":
        def step():
            return optimizer().minimize(loss_of(tf.constant(X), tf.constant(Y)))
        return compiled(step), 2, tf.no_op()
    repeated = 1 if form in ("loop",) else 2
    dataset = tf.data.Dataset.from_tensors((X, Y)).repeat()
    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    if form == "pipeline":
        out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def program():
            return ipu.pipelining_ops.pipeline(
                [lambda x, y: (layer(x, "one", 4), y),
                 lambda x, y: tf.reduce_mean(tf.square(layer(x, "two", 1) - y))],
                gradient_accumulation_count=4, repeat_count=2, infeed_queue=feed,
                outfeed_queue=out, device_mapping=[0, 0],
                optimizer_function=lambda loss: ipu.pipelining_ops.OptimizerFunctionOutput(
                    optimizer(), loss),
                reduction_method=ipu.gradient_accumulation.GradientAccumulationReductionMethod.MEAN)
        return compiled(program), 1, feed.initializer
    if form == "accumulated":
        def body(x, y):
            return ipu.optimizers.GradientAccumulationOptimizerV2(
                optimizer(), 2, reduction_method="mean").minimize(loss_of(x, y))
    else:
        def body(x, y):
            return optimizer().minimize(loss_of(x, y))
    return (compiled(lambda: ipu.loops.repeat(2 * repeated, body, [], feed)), 1, feed.initializer)


def compiled(function):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return ipu.ipu_compiler.compile(function, [])


def train(form, session, restore=None, save=None):
    """The values of all variables after two steps; from or to a checkpoint."""
    with tf.Graph().as_default(), session() as run:
        with tf.variable_scope("", use_resource=True):
            operation, runs, before = build(form)
        ipu.utils.move_variable_initialization_to_cpu()
        saver = tf.train.Saver()
        run.run(tf.global_variables_initializer())
        run.run(before)
        if restore:
            saver.restore(run, restore)
        for _ in range(runs):
            run.run(operation)
        if save:
            saver.save(run, save, write_meta_graph=False)
        return {one.op.name: run.run(one) for one in tf.global_variables()}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_reads_every_other(form, session, tmp_path):
    """Two steps in one form and two in each other one, equal to four steps of TensorFlow."""
    path = str(tmp_path / form)
    train(form, session, save=path)
    wanted = train("tensorflow", session, save=str(tmp_path / "two"))
    shapes = dict(tf.train.list_variables(str(tmp_path / "two")))
    assert dict(tf.train.list_variables(path)) == shapes
    wanted = train("tensorflow", session, restore=str(tmp_path / "two"))
    for other in FORMS:
        got = train(other, session, restore=path)
        assert got.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
