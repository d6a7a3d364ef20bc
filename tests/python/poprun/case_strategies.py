"""An instance that trains under the strategies of several processes, with four replicas in all.
Argument: the folder for the results, of which each instance writes `<instances>_<index>.json`."""

import json
import pathlib
import sys

import numpy as np
import popdist
import popdist.tensorflow
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.distributed import host_collective_ops, popdist_strategy
from tensorflow.python.ipu.horovod import ipu_horovod_strategy, ipu_multi_replica_strategy

v1 = tf.compat.v1
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
STEPS, BATCH = 8, 8  # of all replicas together
COUNT, INDEX = popdist.getNumInstances(), popdist.getInstanceIndex()
REPLICAS, LOCAL = popdist.getNumTotalReplicas(), popdist.getNumLocalReplicas()
_random = np.random.RandomState(1)
FEATURES = _random.randn(STEPS * BATCH, 4).astype(np.float32)
TARGETS = FEATURES @ np.float32([[1], [-2], [3], [-4]])


def own_rows(parts, first, count):
    """The rows of this instance, in the order in which its replicas take them."""
    each = BATCH // parts
    return [step * BATCH + (first + replica) * each + row for step in range(STEPS)
            for replica in range(count) for row in range(each)]


def own_dataset():
    rows = own_rows(REPLICAS, popdist.getReplicaIndexOffset(), LOCAL)
    return tf.data.Dataset.from_tensor_slices((FEATURES[rows], TARGETS[rows])).batch(
        BATCH // REPLICAS, drop_remainder=True)


def configure(distributed):
    config = ipu.config.IPUConfig()
    if distributed:
        popdist.tensorflow.set_ipu_config(config)
    else:
        config.auto_select_ipus = 1
    config.configure_ipu_system()


def train_session():
    """TensorFlow 1: a loop over an infeed; instances begin with different values."""
    with tf.Graph().as_default(), v1.Session() as session:
        strategy = ipu_multi_replica_strategy.IPUMultiReplicaStrategy()
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(own_dataset())
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        optimizer = v1.train.MomentumOptimizer(0.05, 0.9)

        def step(total, x, y):
            weights = v1.get_variable("w", use_resource=True, initializer=np.random.RandomState(
                INDEX).randn(4, 1).astype(np.float32))
            loss = tf.nn.compute_average_loss(
                tf.reduce_sum((x @ weights - y) ** 2, axis=1), global_batch_size=BATCH)
            with tf.control_dependencies([optimizer.minimize(loss)]):
                loss = tf.identity(loss)
            of_all = tf.distribute.get_replica_context().merge_call(
                lambda one, value: one.reduce(SUM, value, axis=None), args=(loss,))
            return total + of_all, outfeed.enqueue(loss)

        def run():
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                return ipu.ipu_compiler.compile(
                    lambda: ipu.loops.repeat(STEPS, step, [0.0], infeed))[0]

        with strategy.scope():
            total = strategy.experimental_run_v2(run)
            on_host = strategy.reduce(SUM, tf.constant(INDEX + 1), axis=None)
        assert strategy.num_replicas_in_sync == COUNT
        dequeued = outfeed.dequeue()
        session.run([v1.global_variables_initializer(), infeed.initializer])
        total = session.run(total)
        assert session.run(on_host) == sum(range(COUNT + 1))
        losses = session.run(dequeued).reshape(STEPS, LOCAL)
        weights = session.run(v1.trainable_variables()[0])
        saver, path = v1.train.Saver(), str(pathlib.Path(sys.argv[1]) / f"saved-{COUNT}-{INDEX}")
        saver.save(session, path)
        session.run(v1.global_variables_initializer())
        assert session.run(v1.trainable_variables()[0]).tolist() != weights.tolist()
        saver.restore(session, path)
        assert session.run(v1.trainable_variables()[0]).tolist() == weights.tolist()
        return {"total": float(total), "weights": weights.tolist(), "losses": losses.tolist()}


def fit():
    """Keras."""
    strategy = popdist_strategy.PopDistStrategy()
    assert strategy.num_replicas_in_sync == REPLICAS and strategy.supports_loss_scaling
    with strategy.scope():
        model = tf.keras.Sequential([
            tf.keras.layers.Dense(5, "relu", input_shape=(4,), kernel_initializer=tf.keras
                                  .initializers.GlorotUniform(seed=INDEX)),
            tf.keras.layers.Dense(1, kernel_initializer=tf.keras.initializers.GlorotUniform(
                seed=7))])
        model.compile(tf.keras.optimizers.SGD(0.01, momentum=0.9), "mse", metrics=["mae"],
                      steps_per_execution=STEPS)
        # The results of all replicas, as several instances give them.
        model.set_replication_options(replicated_metric_reduction_method="MEAN")
        history = model.fit(own_dataset(), epochs=2, verbose=0).history
        evaluated = model.evaluate(own_dataset(), verbose=0)
        model.set_replication_options(replicated_metric_reduction_method="NONE")
        predicted = model.predict(own_dataset(), verbose=0)
        assert predicted.shape == (len(own_rows(REPLICAS, 0, LOCAL)), 1)
    return {"history": history, "evaluated": evaluated,
            "weights": [one.tolist() for one in model.get_weights()]}


def fit_pipeline():
    """Keras, in two stages on one IPU; the losses of all replicas. Its checkpoint is read again."""
    strategy = popdist_strategy.PopDistStrategy()
    with strategy.scope():
        inputs = tf.keras.Input(4)
        layers = [tf.keras.layers.Dense(units, kernel_initializer=tf.keras.initializers
                                        .GlorotUniform(seed=units)) for units in (5, 1)]
        with ipu.keras.PipelineStage(0):
            hidden = layers[0](inputs)
        with ipu.keras.PipelineStage(1):
            outputs = layers[1](hidden)
        model = tf.keras.Model(inputs, outputs)
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=4, device_mapping=[0, 0],
            gradient_accumulation_reduction_method="mean",
            pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Sequential)
        model.set_replication_options(replicated_metric_reduction_method="MEAN")
        model.compile(tf.keras.optimizers.SGD(0.001, momentum=0.9), "mse", ["mae"],
                      steps_per_execution=STEPS)
        history = model.fit(own_dataset(), epochs=2, verbose=0).history
        weights = [one.tolist() for one in model.get_weights()]
        evaluated = model.evaluate(own_dataset(), verbose=0)
        path = str(pathlib.Path(sys.argv[1]) / f"weights-{COUNT}.h5")
        popdist.execute_on_instances({0}, model.save_weights, path)
        host_collective_ops.allreduce(tf.constant(0), SUM)  # it is written
        model.set_weights([0 * one for one in model.get_weights()])
        model.load_weights(path)
        assert [one.tolist() for one in model.get_weights()] == weights
        assert model.evaluate(own_dataset(), verbose=0) == evaluated
    return {"history": history, "weights": weights, "evaluated": evaluated}


def train_on_hosts(variables_on_host):
    """IPUHorovodStrategy in TensorFlow 1: the hosts add up the gradients of the compiled step."""
    with tf.Graph().as_default(), v1.Session() as session:
        strategy = ipu_horovod_strategy.IPUHorovodStrategy(variables_on_host=variables_on_host)
        assert strategy.num_replicas_in_sync == COUNT
        inputs = [v1.placeholder(tf.float32, [BATCH // COUNT, size]) for size in (4, 1)]
        optimizer = v1.train.MomentumOptimizer(0.05, 0.9)

        def body(x, y):
            weights = v1.get_variable("w", use_resource=True, initializer=np.random.RandomState(
                INDEX).randn(4, 1).astype(np.float32))
            loss = tf.nn.compute_average_loss(tf.reduce_sum((x @ weights - y) ** 2, axis=1))
            pairs = optimizer.compute_gradients(loss)
            if variables_on_host:
                return [loss, *(gradient for gradient, _ in pairs)]
            with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
                return [tf.identity(loss)]

        def step(x, y):
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                loss, *gradients = ipu.ipu_compiler.compile(body, [x, y])
            if not variables_on_host:
                return loss
            with tf.device("cpu"), tf.control_dependencies([optimizer.apply_gradients(
                    zip(gradients, v1.trainable_variables()))]):
                return tf.identity(loss)

        with strategy.scope():
            loss = strategy.experimental_run_v2(step, args=inputs)
            total = strategy.reduce(SUM, loss, axis=None)
        device = "CPU" if variables_on_host else "IPU"
        assert all(device in one.device for one in v1.trainable_variables())
        session.run(v1.global_variables_initializer())
        rows = np.reshape(own_rows(COUNT, INDEX, 1), [STEPS, -1])
        totals = [float(session.run(total, dict(zip(inputs, (FEATURES[one], TARGETS[one])))))
                  for one in rows]
        return {"totals": totals, "weights": session.run(v1.trainable_variables()[0]).tolist()}


def check_initial_values():
    """Of every type that a variable of the host may have."""
    strategy = ipu_horovod_strategy.IPUHorovodStrategyV1(variables_on_host=True)
    with strategy.scope():
        for dtype in (tf.float64, tf.int64, tf.bool, tf.half):
            assert tf.Variable(tf.cast(INDEX, dtype)).numpy() == 0


def loop_on_hosts():
    """IPUHorovodStrategy in TensorFlow 2: a tf.function is one program."""
    strategy = ipu_horovod_strategy.IPUHorovodStrategyV1()
    with strategy.scope():
        weights = tf.Variable(tf.random.stateless_normal([4, 1], [INDEX, 3]))
        optimizer = tf.keras.optimizers.SGD(0.05)

        @tf.function(jit_compile=True)
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(tf.reduce_sum((x @ weights - y) ** 2, axis=1))
            optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
            return loss

        totals = []
        for rows in np.reshape(own_rows(COUNT, INDEX, 1), [STEPS, -1]):
            loss = strategy.run(step, args=[FEATURES[rows], TARGETS[rows]])
            totals.append(float(strategy.reduce(SUM, loss, axis=None)))
        try:
            strategy.reduce("min", loss, axis=None)
        except ValueError:
            pass
        else:
            raise AssertionError("another reduction was not refused")
    return {"totals": totals, "weights": weights.numpy().tolist()}


def main():
    configure(distributed=True)
    results = {"session": train_session(), "fit": fit(), "pipeline": fit_pipeline()}
    configure(distributed=False)
    check_initial_values()
    results["on hosts"] = {"loop": loop_on_hosts(), "ipu": train_on_hosts(False),
                           "host": train_on_hosts(True)}
    path = pathlib.Path(sys.argv[1]) / f"{COUNT}_{INDEX}.json"
    path.write_text(json.dumps(results))


main()
