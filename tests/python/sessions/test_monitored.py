"""MonitoredTrainingSession, its hooks, summaries and the global step."""

import glob
import logging

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu


def test_hooks_checkpoints_and_summaries(on_ipu, tmp_path, caplog):
    def step(x):
        with tf.variable_scope("net", use_resource=True):
            w = tf.get_variable("w", initializer=[1.0, 1.0])
        loss = tf.reduce_sum(tf.square(w - x))
        return loss, tf.train.GradientDescentOptimizer(.25).minimize(loss)

    with tf.device("cpu"):
        global_step = tf.train.get_or_create_global_step()
        x = tf.placeholder(tf.float32, [2])
    loss, = on_ipu(step, [x])
    with tf.device("cpu"):
        with tf.control_dependencies([loss]):
            count = tf.assign_add(global_step, 1)
        tf.summary.scalar("loss", loss)
        merged = tf.summary.merge_all()
    ipu.utils.move_variable_initialization_to_cpu()
    folder = str(tmp_path)
    hooks = [tf.train.StopAtStepHook(last_step=7),
             tf.train.CheckpointSaverHook(folder, save_steps=3),
             tf.train.SummarySaverHook(save_steps=2, output_dir=folder, summary_op=merged),
             tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=3),
             tf.train.NanTensorHook(loss)]
    losses = []
    logger = logging.getLogger("tensorflow")
    logged = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())
    logger.addHandler(handler)
    caplog.set_level(logging.INFO, "tensorflow")
    try:
        with tf.train.MonitoredTrainingSession(
                hooks=hooks, save_checkpoint_secs=None, save_summaries_steps=0,
                save_summaries_secs=None, log_step_count_steps=None) as session:
            while not session.should_stop():
                losses.append(session.run([loss, count], {x: [3, 3]})[0])
    finally:
        logger.removeHandler(handler)
    np.testing.assert_allclose(losses, [8 * .25 ** k for k in range(7)], rtol=1e-5)
    latest = tf.train.latest_checkpoint(folder)
    assert latest.endswith("-7")
    assert tf.train.load_variable(latest, "global_step") == 7
    np.testing.assert_allclose(tf.train.load_variable(latest, "net/w"), 3 - 2 * .5 ** 7, rtol=1e-5)
    written = [(event.step, value.simple_value) for path in glob.glob(folder + "/events*")
               for event in tf.train.summary_iterator(path) for value in event.summary.value]
    assert [step for step, _ in written] == [1, 3, 5, 7]
    np.testing.assert_allclose([value for _, value in written], losses[::2], rtol=1e-5)
    assert sum("loss = " in text for text in logged) == 3


def test_a_monitored_session_goes_on_from_its_checkpoint(on_ipu, tmp_path):
    def run(last):
        with tf.Graph().as_default():
            with tf.device("cpu"):
                global_step = tf.train.get_or_create_global_step()

            def step():
                with tf.variable_scope("net", use_resource=True):
                    return tf.get_variable("n", initializer=0.0).assign_add(1.0)

            value, = on_ipu(step)
            with tf.device("cpu"), tf.control_dependencies([value]):
                count = tf.assign_add(global_step, 1)
            ipu.utils.move_variable_initialization_to_cpu()
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=str(tmp_path), save_checkpoint_steps=2,
                    hooks=[tf.train.StopAtStepHook(last_step=last)]) as session:
                while not session.should_stop():
                    got = session.run([value, count])
            return got

    assert run(3) == [3, 3]
    assert run(5) == [5, 5]


def test_a_hook_logs_by_tensorflows_log(on_ipu, monkeypatch):
    from tensorflow.python.platform import tf_logging
    hook = ipu.ipu_session_run_hooks.IPULoggingTensorHook(at_end=True)
    run = on_ipu(lambda: hook.log(tf.constant(42.0, name="answer")))
    logged = []
    monkeypatch.setattr(tf_logging, "info", lambda *arguments: logged.append(arguments))
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        session.run(run)
    assert logged[-1] == ("%s", "answer:0 = 42.0")
