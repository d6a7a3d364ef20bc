"""One of two processes: popdist, Horovod's functions and the host collectives. It prints "done"
after all checks."""

import sys

import horovod.tensorflow as stock
import numpy as np
import popdist
import tensorflow as tf
from tensorflow.python.ipu import distributed
from tensorflow.python.ipu import horovod as hvd
from tremula import group

SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
COUNT = 40


def raised(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was not raised")


def check_popdist(rank, started_by_poprun):
    assert popdist.isPopdistEnvSet() == started_by_poprun
    assert (popdist.getNumInstances(), popdist.getInstanceIndex()) == (2, rank)
    assert popdist.getNumTotalReplicas() == 2 * popdist.getNumLocalReplicas()
    assert popdist.getReplicaIndexOffset() == rank * popdist.getNumLocalReplicas()
    assert popdist.getLocalInstanceIndex() == rank and popdist.getDeviceId() == (
        16 + rank if started_by_poprun else rank)
    popdist.init()
    popdist.init()
    assert popdist.isBackendInitialized()
    np.testing.assert_array_equal(group.all_gather("numbers", np.int64([rank])), [0, 1])

    def inside(x, times):
        return times * hvd_free_gather(x)
    only = popdist.execute_on_instances({1}, inside, 7, times=2)
    assert only == (14 if rank == 1 else None), only
    assert "instances are 0 to 1" in raised(
        ValueError, lambda: popdist.execute_on_instances({2}, inside, 7, 1))


def hvd_free_gather(x):
    """An operation of TensorFlow among the instances of execute_on_instances()."""
    gathered = distributed.host_collective_ops.allgather(tf.constant(x))
    assert gathered.shape == [1]
    return int(gathered[0])


def check_horovod(rank):
    assert "use hvd.init()" in raised(ValueError, hvd.size)
    hvd.init()
    assert stock.size() == hvd.size() == hvd.local_size() == 2
    assert stock.rank() == hvd.local_rank() == rank
    assert hvd.mpi_built() and hvd.mpi_enabled() and hvd.is_homogeneous()
    assert not hvd.gloo_built() and isinstance(hvd.mpi_threads_supported(), bool)
    assert hvd.allreduce(tf.constant([1.0 + rank])).numpy() == [1.5]
    assert hvd.allgather(tf.fill([rank + 1], rank)).numpy().tolist() == [0, 1, 1]
    assert hvd.broadcast(tf.constant(rank), 1).numpy() == 1
    slices = tf.IndexedSlices(tf.constant([[4.0 + rank]]), tf.constant([rank]))
    both = hvd.allreduce(slices)
    assert both.values.numpy().tolist() == [[2.0], [2.5]]
    assert both.indices.numpy().tolist() == [0, 1]
    assert distributed.allreduce(tf.constant(1.0), op=hvd.Sum).numpy() == 2
    assert distributed.allgather(tensor=tf.constant([rank])).numpy().tolist() == [0, 1]
    assert distributed.broadcast(tensor=tf.constant(rank), root_rank=1).numpy() == 1
    hvd.shutdown()
    hvd.init([rank])  # a group of its own
    assert (hvd.size(), hvd.rank()) == (1, 0)
    assert hvd.allreduce(tf.constant(3.0 + rank)).numpy() == 3 + rank
    hvd.shutdown()
    hvd.init()


def check_session(rank):
    """Dozens of collectives in one step, which each process builds in an order of its own."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(
            inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)) as session:
        inputs = [v1.placeholder(tf.float32, [3], name=f"x{i}") for i in range(COUNT)]
        order = range(COUNT) if rank == 0 else reversed(range(COUNT))
        sums = {i: hvd.allreduce(inputs[i], op=hvd.Sum) for i in order}
        with tf.device("/device:IPU:0"):
            variable = v1.get_variable("w", initializer=tf.fill([2], rank), use_resource=True)
        sent = variable.assign(hvd.broadcast(variable, root_rank=1, name="sent"))
        session.run(v1.global_variables_initializer())
        assert sums[7].op.name == "HorovodAllreduce_x7_0" and sums[7].shape == [3]
        for _ in range(3):
            found = session.run([sums[i] for i in range(COUNT)],
                                {x: np.full(3, i + rank) for i, x in enumerate(inputs)})
            assert [one[0] for one in found] == [2 * i + 1 for i in range(COUNT)]
        assert session.run(sent).tolist() == [1, 1]


def check_gradients(rank):
    """Eagerly and in graphs. Of the gathered rows, rank 1 has the last two."""
    cases = [(lambda x: hvd.allreduce(x, op=hvd.Sum), [2.0, 2.0]),
             (hvd.allreduce, [1.0, 1.0]),
             (lambda x: hvd.allgather(x) * [[1.0], [2.0], [3.0]], [2.0] if rank == 0 else [4, 6]),
             (lambda x: hvd.broadcast(x, 1), [2.0 * rank, 2.0 * rank])]
    for call, wanted in cases:
        def gradient(x, call=call):
            with tf.GradientTape() as tape:
                tape.watch(x)
                result = call(x)
            return tape.gradient(result, x)
        x = tf.ones([len(wanted), 1])
        assert gradient(x).numpy().ravel().tolist() == wanted
        assert tf.function(gradient)(x).numpy().ravel().tolist() == wanted


def check_functions(rank):
    @tf.function
    def both(a, b):
        ops = distributed.host_collective_ops
        if rank == 0:
            total, gathered = ops.allreduce(a, SUM), ops.allgather(b)
        else:
            gathered, total = ops.allgather(b), ops.allreduce(a, SUM)
        return total, gathered, distributed.allreduce(value=a, reduce_op=MEAN, tensor_name="mean")

    total, gathered, mean = both(tf.constant(rank), tf.constant([rank]))
    assert (total.numpy(), gathered.numpy().tolist(), mean.numpy()) == (1, [[0], [1]], 0)
    for dtype in (tf.int8, tf.uint16, tf.int64, tf.half, tf.float32):
        value = tf.cast([rank + 1, 2], dtype)
        summed = distributed.host_collective_ops.allreduce(value, SUM)
        assert summed.dtype == dtype and summed.numpy().tolist() == [3, 4]
    assert bool(distributed.host_collective_ops.broadcast(tf.constant(rank == 0)))
    message = raised(tf.errors.UnknownError, lambda: distributed.host_collective_ops.allreduce(
        tf.zeros([rank + 1]), SUM))
    assert "Tensor layouts did not match on all instances" in message


def check_keras_3():
    """Its models run on one IPU: those of Keras 2 have the replicas of several instances."""
    import keras
    if keras.__version__ < "3":
        return
    import popdist.tensorflow
    from tensorflow.python import ipu
    from tensorflow.python.ipu.distributed import popdist_strategy
    popdist.tensorflow.set_ipu_config(ipu.config.IPUConfig()).configure_ipu_system()
    with popdist_strategy.PopDistStrategy().scope():
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        message = raised(ValueError, lambda: model.fit(
            tf.data.Dataset.from_tensors((tf.zeros([1, 2]), tf.zeros([1, 1])))))
    assert "A model of Keras 3 runs on one IPU" in message and "tf_keras" in message


def main():
    rank = group.place().rank
    check_popdist(rank, sys.argv[1] == "poprun")
    check_horovod(rank)
    check_session(rank)
    check_gradients(rank)
    check_functions(rank)
    check_keras_3()
    print("done")


main()
