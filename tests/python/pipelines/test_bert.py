"""Pretraining and fine-tuning of a small BERT, as the original's applications do them, give what
plain TensorFlow gives."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import small_bert as bert
from tensorflow.python import ipu
from tensorflow.python.ipu import pipelining_ops

UPDATES, MINI_BATCHES = 2, 4


def group_norm(x, name):
    with tf.variable_scope(name):
        x = ipu.normalization_ops.group_norm(
            x, groups=1, center=False, scale=False, epsilon=1e-3, training=True)
        return x * bert.variable("gamma", [bert.HIDDEN]) + bert.variable("beta", [bert.HIDDEN])


def on_ipu():
    return bert.Bert(group_norm, ipu.nn_ops.gelu, ipu.embedding_ops.embedding_lookup)


@pytest.fixture
def trained(devices):
    """trained(program, arrays, num_ipus): (variables, losses) of a program of an infeed and an
    outfeed."""
    def run(program, arrays, num_ipus):
        devices(num_ipus)
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
            tf.data.Dataset.from_tensor_slices(tuple(arrays)).repeat())
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            compiled = ipu.ipu_compiler.compile(lambda: program(infeed, outfeed))
        ipu.utils.move_variable_initialization_to_cpu()
        losses = outfeed.dequeue()
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), infeed.initializer])
            session.run(compiled)
            values = session.run({one.op.name: one for one in tf.global_variables()})
            return values, np.ravel(session.run(losses))
    return run


def check(found, wanted):
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-4)
    moments = [name for name in wanted[0] if name.endswith("adam_m")]
    assert len(moments) > 20 and set(wanted[0]) == set(found[0])
    for name, value in wanted[0].items():
        np.testing.assert_allclose(found[0][name], value, rtol=5e-3, atol=2e-4, err_msg=name)


def test_pretraining(trained):
    """A pipeline, tied embeddings on the first IPU, LAMB, what only the update uses offloaded."""
    ids, places, words, _ = bert.data(UPDATES * MINI_BATCHES)
    net = on_ipu()

    def optimizer(loss):
        return pipelining_ops.OptimizerFunctionOutput(bert.AdamWeightDecay(0.05, True), loss)

    def program(infeed, outfeed):
        return pipelining_ops.pipeline(
            [lambda ids, places, words: (net.embed(ids), places, words),
             lambda x, places, words: (net.layer(x, 0), places, words),
             lambda x, places, words: (net.layer(x, 1), places, words),
             net.masked_words],
            MINI_BATCHES, repeat_count=UPDATES, infeed_queue=infeed, outfeed_queue=outfeed,
            optimizer_function=optimizer, device_mapping=[0, 1, 2, 0],
            pipeline_schedule=pipelining_ops.PipelineSchedule.Sequential,
            offload_weight_update_variables=True, offload_activations=True,
            offload_gradient_accumulation_buffers=True)

    found = trained(program, (ids, places, words), 4)
    plain = bert.Bert()
    check(found, bert.train_plainly(
        lambda *given: plain.masked_words(plain.layer(plain.layer(plain.embed(given[0]), 0), 1),
                                          *given[1:]),
        bert.AdamWeightDecay(0.05, True), (ids, places, words), MINI_BATCHES))


def test_fine_tuning(trained):
    """One IPU, a gradient accumulation optimizer around Adam, offloaded state."""
    ids, _, _, classes = bert.data(UPDATES * MINI_BATCHES)
    net = on_ipu()

    def program(infeed, outfeed):
        def body(ids, classes):
            loss = net.classify(net.layer(net.embed(ids), 0), classes)
            optimizer = ipu.optimizers.GradientAccumulationOptimizerV2(
                bert.AdamWeightDecay(0.01), MINI_BATCHES, offload_weight_update_variables=True)
            return outfeed.enqueue(loss), optimizer.minimize(loss)
        return ipu.loops.repeat(UPDATES * MINI_BATCHES, body, [], infeed)

    found = trained(program, (ids, classes), 1)
    plain = bert.Bert()
    check(found, bert.train_plainly(
        lambda ids, classes: plain.classify(plain.layer(plain.embed(ids), 0), classes),
        bert.AdamWeightDecay(0.01), (ids, classes), MINI_BATCHES))
