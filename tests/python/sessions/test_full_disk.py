"""A disk that is full: what a program writes beside its work costs a warning, a checkpoint that
cannot be written is the caller's error, and the session goes on to work."""

import os
import resource

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu


@pytest.fixture
def full_disk():
    """full_disk(size): from then on no file gets more bytes; full_disk(): as many as it wants."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size=before[0]):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    yield limit
    limit()


def test_everything_beside_the_work(script, tmp_path):
    """Dumps, a schedule, tensor maps, reports of events, profiles, executables, lowered graphs."""
    places = {name: tmp_path / name for name in ("dumps", "maps", "reports", "profiles", "cache")}
    done = script(f"""
        import os, resource
        import tensorflow.compat.v1 as tf
        from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
        from tensorflow.python import ipu
        tf.disable_v2_behavior()
        os.chdir({str(tmp_path)!r})
        config = ipu.utils.create_ipu_config(profiling=True, profile_execution=True,
            report_directory={str(places['reports'])!r})
        config = ipu.utils.auto_select_ipus(config, 1)
        ipu.utils.configure_ipu_system(config)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            x = tf.placeholder(tf.float32, [4, 40])
            y, = ipu.ipu_compiler.compile(lambda x: tf.matmul(x, tf.ones([40, 4])), [x])
        with tf.device("cpu"):
            events = gen_ipu_ops.ipu_event_trace()
        with tf.Session() as session:
            ones = {{x: [[1.] * 40] * 4}}
            print(session.run(y, ones)[0, 0], session.run(y, ones)[3, 3])
            session.run(events)
    """, TREMULA_RUNTIME_DIR=str(tmp_path / "locks"), POPLAR_LOG_LEVEL="WARN",
                  XLA_FLAGS=f"--xla_dump_to={places['dumps']} --xla_dump_hlo_as_text "
                            "--xla_dump_hlo_as_dot --xla_dump_hlo_as_proto",
                  TF_POPLAR_FLAGS=f"--tensor_map_file_path={places['maps']} --dump_schedule_as_dot "
                                  f"--executable_cache_path={places['cache']}",
                  POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true","autoReport.directory":"%s"}'
                                        % places["profiles"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == ["40.0", "40.0"], done.stdout
    left = [path for path in tmp_path.rglob("*") if path.is_file() and "locks" not in path.parts]
    assert not left, left
    for words in ("dumps/module_0000", "tensor_map.json: ", "cannot write", "report directory",
                  "No profile of", "The executable cache could not write"):
        assert words in done.stderr, (words, done.stderr)
    assert "File too large" in done.stderr and done.stderr.count("No profile of") == 1


def test_saver(on_ipu, session, full_disk, tmp_path):
    def step():
        with tf.variable_scope("net", use_resource=True):
            w = tf.get_variable("w", [50, 50], initializer=tf.ones_initializer())
        return tf.train.GradientDescentOptimizer(.5).minimize(tf.reduce_sum(w))
    train, path = on_ipu(step), str(tmp_path / "model.ckpt")
    w, saver = tf.global_variables()[0], tf.train.Saver()
    with session() as s:
        s.run(tf.global_variables_initializer())
        s.run(train)
        whole = saver.save(s, path, global_step=1)
        s.run(train)
        full_disk(1000)
        for _ in range(2):
            with pytest.raises((tf.errors.OpError, OSError)) as failure:
                saver.save(s, path, global_step=2)
            assert "File too large" in str(failure.value)
            s.run(train)
        assert s.run(w)[0, 0] == -1
        full_disk()
        later = saver.save(s, path, global_step=3)
        saver.restore(s, whole)
        assert s.run(w)[0, 0] == .5
        saver.restore(s, later)
        s.run(train)
        assert s.run(w)[0, 0] == -1.5


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="this TensorFlow has no estimators")
def test_estimators(full_disk, tmp_path):
    def data():
        return tf.data.Dataset.from_tensors((np.ones([4, 2], np.float32),) * 2).repeat()

    def model(features, labels, mode):
        w = tf.get_variable("w", [2, 600], initializer=tf.ones_initializer(), use_resource=True)
        loss = tf.reduce_mean(tf.matmul(features, w)) + tf.reduce_mean(labels)
        train = tf.train.GradientDescentOptimizer(.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    def estimator():
        return ipu.ipu_estimator.IPUEstimator(model, config=ipu.ipu_run_config.RunConfig(
            ipu_run_config=ipu.ipu_run_config.IPURunConfig(iterations_per_loop=2, num_shards=1),
            model_dir=str(tmp_path), save_checkpoints_steps=2, save_summary_steps=1000))

    estimator().train(data, steps=2)
    full_disk(1000)
    with pytest.raises((tf.errors.OpError, OSError)) as failure:
        estimator().train(data, steps=4)
    assert "File too large" in str(failure.value)
    full_disk()
    again = estimator()
    again.train(data, steps=2)
    assert again.get_variable_value("global_step") == 4
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".tremula")]
