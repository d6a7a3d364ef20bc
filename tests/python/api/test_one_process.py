"""PopDist and Horovod in one process, which programs import however they are started."""

import interpreter
import numpy as np
import pytest
import tensorflow.compat.v1 as tf


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No variable of PopRun or MPI; Horovod is not initialised."""
    import os
    from tensorflow.python.ipu import horovod as hvd
    for name in list(os.environ):
        if name.startswith(("POPDIST_", "OMPI_COMM_WORLD_", "PMI_", "TREMULA_DEVICE")):
            monkeypatch.delenv(name)
    hvd.shutdown()
    yield
    hvd.shutdown()


def test_a_process_that_nobody_has_started():
    import popdist
    assert not popdist.isPopdistEnvSet()
    assert (popdist.getNumTotalReplicas(), popdist.getNumLocalReplicas(),
            popdist.getNumInstances(), popdist.getNumIpusPerReplica()) == (1, 1, 1, 1)
    assert (popdist.getInstanceIndex(), popdist.getReplicaIndexOffset()) == (0, 0)
    popdist.init()


def test_variables_of_one_process(monkeypatch):
    import popdist
    import popdist.tensorflow
    from tensorflow.python import ipu
    for name, value in (("NUM_TOTAL_REPLICAS", 2), ("NUM_LOCAL_REPLICAS", 2),
                        ("NUM_IPUS_PER_REPLICA", 4)):
        monkeypatch.setenv(f"POPDIST_{name}", str(value))
    assert popdist.isPopdistEnvSet() and popdist.getNumTotalReplicas() == 2
    assert popdist.checkNumIpusPerReplica(4) is True
    assert popdist.checkNumIpusPerReplica(3) is False
    config = ipu.config.IPUConfig()
    assert popdist.tensorflow.set_ipu_config(config, 4, configure_device=False) is config
    assert not config.auto_select_ipus
    assert popdist.tensorflow.set_ipu_config(config, 4).auto_select_ipus == 8
    with pytest.raises(ValueError, match="3 IPUs for a replica, poprun was told 4"):
        popdist.tensorflow.set_ipu_config(config, ipus_per_replica=3)
    with pytest.raises(ValueError, match="poprun was told 4"):
        popdist.getDeviceId(3)
    monkeypatch.setenv("POPDIST_NUM_LOCAL_REPLICAS", "two")
    with pytest.raises(ValueError, match="POPDIST_NUM_LOCAL_REPLICAS is 'two'"):
        popdist.getNumLocalReplicas()


def test_device_ids(monkeypatch):
    """Of poprun, or the first that fit."""
    import popdist
    import popdist.tensorflow
    from tensorflow.python import ipu
    monkeypatch.setenv("TREMULA_INVENTORY", "mk2-16")
    assert popdist.getDeviceId() == 0
    assert popdist.getDeviceId(4) == 24
    with pytest.raises(RuntimeError, match="no one id stands for 3 IPUs"):
        popdist.getDeviceId(ipusPerReplica=3)
    monkeypatch.setenv("TREMULA_DEVICE_ID", "17")
    assert popdist.getDeviceId() == 17
    assert popdist.tensorflow.set_ipu_config(ipu.config.IPUConfig()).select_ipus == 17
    monkeypatch.setenv("TREMULA_DEVICE_ID", "0,1,2")
    config = popdist.tensorflow.set_ipu_config(ipu.config.IPUConfig(), 3)
    assert config.auto_select_ipus == 3
    monkeypatch.setenv("TREMULA_DEVICE_ID", "offline")
    with pytest.raises(RuntimeError, match="--offline-mode"):
        popdist.getDeviceId()


def test_variables_of_several_processes(monkeypatch):
    import popdist
    import popdist.tensorflow
    from tensorflow.python import ipu
    for name, value in (("NUM_TOTAL_REPLICAS", 4), ("NUM_LOCAL_REPLICAS", 2),
                        ("REPLICA_INDEX_OFFSET", 2), ("LOCAL_INSTANCE_INDEX", 1)):
        monkeypatch.setenv(f"POPDIST_{name}", str(value))
    assert (popdist.getNumInstances(), popdist.getInstanceIndex()) == (2, 1)
    assert popdist.getLocalInstanceIndex() == 1
    config = popdist.tensorflow.set_ipu_config(ipu.config.IPUConfig())
    distribution = config.experimental.multi_replica_distribution
    assert (distribution.process_count, distribution.process_index) == (2, 1)
    with pytest.raises(RuntimeError, match="instance 1 of 2, and MPI rank 0 of 1"):
        popdist.init()
    monkeypatch.setenv("POPDIST_UNIFORM_REPLICAS_PER_INSTANCE", "0")
    with pytest.raises(RuntimeError, match="different numbers of replicas"):
        popdist.getNumInstances()


def test_other_frameworks():
    with pytest.raises(ImportError, match="popdist.poptorch is not a part of Tremula"):
        import popdist.poptorch  # noqa: F401


def test_what_horovod_says_of_one_process():
    from tensorflow.python.ipu import horovod as hvd
    for ask in (hvd.size, hvd.rank, hvd.local_size, hvd.local_rank, hvd.is_homogeneous,
                lambda: hvd.broadcast(1.0, 0)):
        with pytest.raises(ValueError, match="has not been initialized; use hvd.init"):
            ask()
    hvd.init()
    assert (hvd.size(), hvd.local_size(), hvd.rank(), hvd.local_rank()) == (1, 1, 0, 0)
    assert not hvd.mpi_built() and not hvd.gloo_enabled()
    with pytest.raises(ValueError, match="MPI is not enabled"):
        hvd.mpi_threads_supported()
    with pytest.raises(ValueError, match="rank 0 of 1, which does not take part"):
        hvd.init([1])


def test_collectives_hand_on_what_they_are_given():
    """Also where the program asks for the IPU around them, as with a variable there."""
    from tensorflow.python import ipu
    from tensorflow.python.ipu import horovod as hvd
    hvd.init()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with tf.Graph().as_default(), tf.Session() as session:
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            variable = tf.get_variable("w", initializer=x, use_resource=True)
            sent = hvd.broadcast(variable, root_rank=0, name="sent")
        assert sent.op.name == "sent" and "CPU" in sent.device
        update = variable.assign(hvd.allreduce(sent * 2))
        slices = hvd.allreduce(tf.IndexedSlices(tf.constant([[5.0]]), tf.constant([1])), hvd.Sum)
        means = [hvd.allreduce(tf.IndexedSlices(tf.constant([value]), tf.constant([1])))
                 for value in (5, 5.0)]
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(update), 2 * x)
        assert session.run(slices.indices).tolist() == [1]
        assert session.run([one.values for one in means]) == [[5], [5.0]]
        assert session.run(hvd.allgather([3, 4])).tolist() == [3, 4]
        assert session.run(hvd.broadcast(7, root_rank=0)) == 7
        with pytest.raises(NotImplementedError, match="Adasum"):
            hvd.allreduce(x, op=hvd.Adasum)
        with pytest.raises(ValueError, match="root_rank is 1"):
            hvd.broadcast(x, root_rank=1)
        with pytest.raises(ValueError, match="op is 9"):
            hvd.allreduce(x, op=9)
        with pytest.raises(ValueError, match="scalar"):
            hvd.allgather(1.0)


def test_strategies_of_one_process():
    from tensorflow.python import ipu
    from tensorflow.python.ipu.distributed.popdist_strategy import PopDistStrategy
    from tensorflow.python.ipu.horovod import ipu_multi_replica_strategy
    from tensorflow.python.ipu.horovod.ipu_horovod_strategy import IPUHorovodStrategyV1
    config = ipu.config.IPUConfig()
    strategy = PopDistStrategy(add_ipu_cross_replica_reductions=False)
    assert strategy.update_ipu_config(config) is config
    assert config.experimental.multi_replica_distribution.process_count == 1
    for one in (strategy, ipu_multi_replica_strategy.IPUMultiReplicaStrategy(),
                IPUHorovodStrategyV1()):
        assert one.num_replicas_in_sync == 1
        with tf.Graph().as_default(), tf.Session() as session, one.scope():
            variable = tf.get_variable("w", initializer=[3.0], use_resource=True)
            assert "IPU" in variable.device
            total = one.reduce(tf.distribute.ReduceOp.SUM, tf.constant(2.0), axis=None)
            session.run(tf.global_variables_initializer())
            assert session.run([variable, total]) == [[3.0], 2.0]


def test_what_a_strategy_reduces_in_a_graph():
    """As the original: it leaves a value alone if told so, and has no mean of integers."""
    from tensorflow.python import ipu
    strategy = ipu.distributed.popdist_strategy.PopDistStrategy()
    alone = ipu.distributed.popdist_strategy.PopDistStrategy(
        add_ipu_cross_replica_reductions=False)
    with tf.Graph().as_default(), tf.device("/device:IPU:0"):
        x = tf.placeholder(tf.int32, [2])
        with strategy.scope():
            assert strategy.reduce(tf.distribute.ReduceOp.SUM, x, axis=None).dtype == tf.int32
            with pytest.raises(TypeError, match="int32 not in list of allowed values"):
                strategy.reduce(tf.distribute.ReduceOp.MEAN, x, axis=None)
        with alone.scope():
            same = alone.run(lambda x: tf.distribute.get_replica_context().all_reduce(
                tf.distribute.ReduceOp.SUM, x), [x])
            assert same.op.type == "IdentityN"


MODULES = """
from tensorflow.python import ipu
for package, names in ((ipu.distributed, ("ipu_horovod_strategy", "popdist_strategy")),
                       (ipu.horovod, ("basics", "gen_horovod_ops", "ipu_horovod_strategy",
                                      "ipu_multi_replica_strategy", "popdist_strategy"))):
    for name in names:
        assert getattr(package, name).__name__.endswith("." + name)
        assert not hasattr(package, "frob")
extended = ipu.distributed.ipu_horovod_strategy.IPUHorovodExtended(
    container_strategy=ipu.ipu_strategy.IPUStrategy(), cluster_resolver=None,
    ipu_device="/device:IPU:0", variables_on_host=True)
assert extended.host_device == "/device:CPU:0"
print("done")
"""


def test_modules_are_there_without_an_import_of_their_own():
    ran = interpreter.run(["-c", MODULES])
    assert ran.stdout == "done\n", ran.stderr


def test_an_estimator_refuses_the_strategy(tmp_path):
    """And says how a program of several instances uses an estimator."""
    if not hasattr(tf, "estimator"):
        pytest.skip("this TensorFlow has no estimators")
    from tensorflow.python import ipu
    from tensorflow.python.ipu.distributed import popdist_strategy
    config = ipu.ipu_run_config.RunConfig(
        ipu_run_config=ipu.ipu_run_config.IPURunConfig(),
        train_distribute=popdist_strategy.PopDistStrategy())
    estimator = ipu.ipu_estimator.IPUEstimator(lambda features, labels, mode: None, config=config,
                                               model_dir=str(tmp_path))
    with pytest.raises(ValueError, match="do not train under a PopDistStrategy"):
        estimator.train(lambda: tf.data.Dataset.from_tensors(0), steps=1)
