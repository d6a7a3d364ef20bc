"""On which IPUs the stages of a pipeline are, as the original's tests ask for it."""

import pytest

PROGRAM = """
    import unittest
    import numpy as np
    import tensorflow.compat.v1 as tf
    from tensorflow.compiler.plugin.poplar.tests import test_utils as tu
    from tensorflow.python import ipu
    tf.disable_v2_behavior()

    def stage(name):
        def call(x):
            w = tf.get_variable(name, [4, 4], initializer=tf.ones_initializer(), use_resource=True)
            return tf.matmul(x, w)
        return call

    def optimizer(loss):
        return ipu.pipelining_ops.OptimizerFunctionOutput(
            tf.train.GradientDescentOptimizer(0.1), tf.reduce_sum(loss))

    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    mapping, expected = MAPPINGS

    def network(x):
        return ipu.pipelining_ops.pipeline(
            [stage("a"), stage("b"), lambda x: x, stage("c")], 8, inputs=[x],
            outfeed_queue=outfeed, device_mapping=mapping, optimizer_function=OPTIMIZER)

    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [4, 4])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        step = ipu.ipu_compiler.compile(network, [x])
    tu.configure_ipu_system(pipelining=True)
    test = unittest.TestCase()
    with tf.Session() as session:
        report = tu.ReportJSON(test, session, configure_device=False)
        session.run(tf.global_variables_initializer())
        report.reset()
        session.run(step, {x: np.ones([4, 4])})
        report.parse_log()
    report.assert_pipeline_stages_on_expected_ipu(expected, 1472)
    report.assert_pipeline_stages_on_expected_ipu([expected[:2], expected[1], -1, -1])
    for wrong in ([3, *expected[1:]], expected[:2]):
        try:
            report.assert_pipeline_stages_on_expected_ipu(wrong)
        except AssertionError as error:
            print(str(error).split(":")[-1].strip())
"""


@pytest.mark.parametrize("optimizer, mappings", [
    ("None", ([2, 0, 1, 3], [2, 0, 1, 3])), ("optimizer", ([2, 0, 1, 3], [2, 0, 1, 3])),
    ("None", (None, [0, 1, 3, 2])), ("optimizer", ([0, 1, 2, 3], [0, 1, 3, 2]))],
    ids=["inference", "training", "by default in inference", "by number in training"])
def test_stages(script, tmp_path, optimizer, mappings):
    done = script(PROGRAM.replace("OPTIMIZER", optimizer).replace("MAPPINGS", repr(mappings)),
                  TREMULA_RUNTIME_DIR=str(tmp_path), TF_POPLAR_FLAGS="--use_ipu_model")
    assert done.stdout.split("\n")[-3:-1] == ["Stage 0 is on other IPUs.",
                                              "There are more stages."], done.stderr[-2000:]
