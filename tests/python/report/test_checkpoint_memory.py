"""Recomputation checkpoints of a pipeline's stage: less memory at once, and no other number."""

import pva
import pytest

from profiled_programs import largest

PROGRAM = """
    import numpy as np
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.allow_recompute = {allow}
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    Mode = ipu.pipelining_ops.RecomputationMode

    def first(x, y):
        for layer in range(10):
            x = tf.layers.conv2d(x, 4, 3, padding="same", activation=tf.nn.relu, name="c%d" % layer,
                                 kernel_initializer=tf.initializers.glorot_uniform(layer))
            if layer in {checkpoints}:
                x = ipu.pipelining_ops.recomputation_checkpoint(x)
        return x, y

    def second(x, y):
        return tf.reduce_mean((tf.layers.dense(tf.layers.flatten(x), 1, name="last",
            kernel_initializer=tf.initializers.glorot_uniform(7)) - y) ** 2)

    def optimizer(loss):
        return ipu.pipelining_ops.OptimizerFunctionOutput(
            tf.train.GradientDescentOptimizer(0.01), loss)

    images = np.random.RandomState(0).uniform(-1, 1, [4, 1, 64, 64, 3]).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((images, np.ones([4, 1, 1], np.float32))).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(lambda: ipu.pipelining_ops.pipeline(
            [first, second], 4, infeed_queue=infeed, outfeed_queue=outfeed,
            pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Grouped,
            recomputation_mode=Mode.{mode}, optimizer_function=optimizer))
    losses = outfeed.dequeue()
    with tf.Session() as session:
        session.run(infeed.initializer)
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run(result)
            print("losses", np.ravel(session.run(losses)).tolist())
"""


@pytest.fixture(scope="module")
def trained(profiled):
    """trained(layers before checkpoints, ...): the losses as printed, and the bytes that are not
    always live at the fullest step of the backward pass."""
    done = {}

    def train(checkpoints, allow=True, mode="RecomputeAndBackpropagateInterleaved"):
        key = (checkpoints, allow, mode)
        if key not in done:
            folder, run = profiled(PROGRAM.format(checkpoints=checkpoints, allow=allow, mode=mode))
            report = pva.openReport(str(largest(folder)))
            done[key] = (
                [line for line in run.stdout.splitlines() if line.startswith("losses")],
                max(step.notAlwaysLiveMemory.bytes
                    for step in report.compilation.livenessProgramSteps
                    if step.program.name.startswith("gradients/")))
        return done[key]
    return train


def test_a_checkpoint_lowers_the_peak(trained):
    """After the fifth of ten layers: the last gradient needs nine layers, then four, and three
    mini-batches of the checkpoint."""
    losses, without = trained(())
    kept_losses, kept = trained((4,))
    assert losses and losses == kept_losses
    layer = 64 * 64 * 4 * 4
    assert abs(without - kept - 2 * layer) < layer // 2


@pytest.mark.parametrize("allow, mode", [(True, "RecomputeThenBackpropagate"),
                                         (False, "RecomputeAndBackpropagateInterleaved")])
def test_where_it_is_no_checkpoint(trained, allow, mode):
    assert trained((4,), allow, mode)[1] == trained((), allow, mode)[1]
