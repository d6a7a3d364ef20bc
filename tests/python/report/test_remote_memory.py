"""What is offloaded to remote memory takes no tile's memory but while it is used: pipelines and
gradient accumulation, optimizers with state."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu
from tensorflow.python.ipu import pipelining_ops
from tensorflow.python.ipu import test_utils as tu

SIZE = 512  # weights that are large beside the vertices and temporaries of their products
WEIGHT = 4 * SIZE * SIZE  # bytes


def dense(x, name):
    with tf.variable_scope(name, use_resource=True):
        return tf.matmul(x, tf.get_variable("w", [SIZE, SIZE], initializer=tf.ones_initializer()))


def accumulating(infeed, outfeed, **options):
    def body(x):
        loss = tf.reduce_mean(dense(dense(dense(x, "a"), "c"), "b") ** 2)
        optimizer = ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2(
            tf.train.AdamOptimizer(0.1), 4, **options)
        return outfeed.enqueue(loss), optimizer.minimize(loss)
    return ipu.loops.repeat(4, body, [], infeed)


def pipelined(infeed, outfeed, **options):
    def optimizer(loss):
        return pipelining_ops.OptimizerFunctionOutput(tf.train.AdamOptimizer(0.1), loss)

    def last(x):
        return tf.reduce_mean(dense(x, "b") ** 2)

    return pipelining_ops.pipeline(
        [lambda x: dense(dense(x, "a"), "c"), last], 4, infeed_queue=infeed, outfeed_queue=outfeed,
        optimizer_function=optimizer, **options)


@pytest.fixture
def measured(on_ipu, session, devices):
    """measured(program, options): (bytes always live, bytes at each tile's peak, a trained
    weight, reads of remote memory)."""
    del devices  # which configures one IPU again at the end

    def run(program, num_ipus, settings=None, **options):
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = num_ipus
        config._profiling.profiling = True
        for name, value in (settings or {}).items():
            setattr(config.optimizations, name, value)
        config.configure_ipu_system()
        with tf.Graph().as_default(), session() as sess:
            infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
                tf.data.Dataset.from_tensors(np.ones([4, SIZE], "f")).repeat())
            outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
            trained = on_ipu(lambda: program(infeed, outfeed, **options))
            report = tu.ReportJSON(None, sess, configure_device=False)
            sess.run([tf.global_variables_initializer(), infeed.initializer])
            report.reset()
            sess.run(trained)
            report.parse_log()
            weight = sess.run(tf.global_variables()[0])
        reads = [name for name in report.get_program_names_of_type("StreamCopyMid")
                 if "RemoteBufferRead" in name]
        return (report.get_always_live_memory(), report.get_total_tile_memory(), weight,
                len(reads))
    yield run
    ipu.config.reset_ipu_configuration()


@pytest.mark.parametrize("program, num_ipus", [(accumulating, 1), (pipelined, 2)])
def test_what_only_the_update_uses(measured, program, num_ipus):
    kept, peak, weight, none = measured(program, num_ipus, offload_weight_update_variables=False)
    moved, lower_peak, same, some = measured(program, num_ipus,
                                             offload_weight_update_variables=True)
    # Of three weights two moments each; their copies need vertices and descriptors of their own.
    assert kept - moved == pytest.approx(6 * WEIGHT, rel=0.2)
    assert peak - lower_peak > WEIGHT and none == 0 < some
    np.testing.assert_array_equal(weight, same)


def test_where_nothing_is_said(measured):
    offloaded = measured(accumulating, 1, offload_weight_update_variables=True)[0]
    assert measured(accumulating, 1)[0] == offloaded  # there is remote memory
    few = {"minimum_remote_tensor_size": WEIGHT + 1}
    assert measured(accumulating, 1, few)[0] - offloaded == pytest.approx(6 * WEIGHT, rel=0.2)


def test_weights_and_sums_and_activations_of_a_pipeline(measured):
    states = {"offload_weight_update_variables": True}
    always, _, weight, reads = measured(pipelined, 2, **states)
    no_weights, _, _, _ = measured(pipelined, 2, **states, offload_weights=True)
    assert always - no_weights == pytest.approx(3 * WEIGHT, rel=0.3)
    _, _, same, more = measured(pipelined, 2, **states, offload_activations=True,
                                offload_gradient_accumulation_buffers=True)
    assert more >= reads > 0
    np.testing.assert_array_equal(weight, same)


@pytest.mark.parametrize("program, num_ipus", [(accumulating, 2), (pipelined, 4)])
def test_state_that_two_replicas_share_out(measured, program, num_ipus):
    _, peak, weight, reads = measured(program, num_ipus)
    _, lower_peak, same, parts = measured(program, num_ipus,
                                               replicated_optimizer_state_sharding=True)
    # An update has half of two moments on the tiles; a pipeline's tiles are fuller elsewhere.
    assert peak - lower_peak > WEIGHT / 8 and reads == parts > 0
    np.testing.assert_array_equal(weight, same)
