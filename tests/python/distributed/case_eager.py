"""A worker of TensorFlow 2 programs: custom loops."""

import os
import time

import worker

import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.distribute import values

INDEX, WORKERS = worker.INDEX, worker.WORKERS


def train(name, strategy, compiled):
    """Trains the CNN, whole steps on the IPU. The loss is divided by the batch of all workers."""
    with strategy.scope():
        variables = {name: tf.Variable(value)
                     for name, value in worker.initial_values(INDEX).items()}
        optimizer = tf.keras.optimizers.SGD(worker.RATE, momentum=.9)

        @tf.function(jit_compile=compiled)
        def step(images, labels):
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(worker.losses(images, labels, variables))
            pairs = list(variables.values())
            optimizer.apply_gradients(zip(tape.gradient(loss, pairs), pairs))
            return loss

        losses = []
        for batch, classes in zip(*worker.data()):
            loss = strategy.run(step, args=[
                tf.constant(worker.share(batch)), tf.constant(worker.share(classes))])
            losses.append(strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None).numpy())
    worker.tell(f"{name} losses", losses)
    worker.tell(f"{name} variables", [one.numpy() for one in variables.values()])
    worker.tell(f"{name} devices", sorted({one.device for one in variables.values()}))
    worker.tell(f"{name} programs", len(_executions()))


def train_split(strategy):
    """The same with variables on the host, where the optimizer works, and a distributed dataset."""
    images, labels = worker.data()
    with strategy.scope():
        variables = {name: tf.Variable(value)
                     for name, value in worker.initial_values(INDEX).items()}
        optimizer = tf.keras.optimizers.SGD(worker.RATE, momentum=.9)

        @tf.function(jit_compile=True)
        def gradients(images, labels):
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(worker.losses(images, labels, variables))
            return tape.gradient(loss, list(variables.values()))

        def update(gradients):
            with tf.device("cpu"):
                optimizer.apply_gradients(zip(gradients, list(variables.values())))

        def dataset(context):
            mine = slice(context.input_pipeline_id * worker.BATCH,
                         (context.input_pipeline_id + 1) * worker.BATCH)
            return tf.data.Dataset.from_tensor_slices((images[:, mine], labels[:, mine]))

        for one in strategy.distribute_datasets_from_function(dataset):
            strategy.run(update, args=[strategy.run(gradients, args=one)])
    worker.tell("host variables", [one.numpy() for one in variables.values()])
    worker.tell("host devices", sorted({one.device for one in variables.values()}))


def per_replica(strategy):
    """Arguments that have a value on every replica, and where run() places what is done there."""
    devices = []
    with strategy.scope():
        scale = tf.Variable(2.)

    def step(pair, y):
        result = pair["x"] * y * scale
        # What a function that run() is given traces has no device of its own yet.
        devices.extend(tf.distribute.get_replica_context().devices)
        if result.device:  # the graph of a tf.function that run() is given says none
            devices.append(result.device)
        return result

    @tf.function
    def around(pair, y):
        return strategy.run(step, args=[pair], kwargs={"y": y})

    pair = {"x": values.PerReplica([tf.constant(INDEX + 1.)])}
    y = values.PerReplica([tf.constant(3.)])
    results = [strategy.run(one, args=[pair], kwargs={"y": y}) for one in (
        step, tf.function(step), tf.function(step, jit_compile=True))]
    worker.tell("per replica", [*results, around(pair, y)])
    worker.tell("per replica devices", sorted(set(devices)))


def _executions():
    from tensorflow.compiler.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
    from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
    with tf.device("/device:CPU:0"):
        found = gen_ipu_ops.ipu_event_trace().numpy()
    return [one for one in ipu.utils.extract_all_types_from_event_trace(found)
            if one == IpuTraceEvent.EXECUTE]


def lose_a_worker(strategy):
    """The last worker ends in the middle of training."""
    @tf.function(jit_compile=True)
    def total(x):
        return tf.distribute.get_replica_context().all_reduce("sum", x)

    worker.tell("sum", strategy.run(total, args=[tf.constant(INDEX + 1.)]).numpy().item())
    if INDEX == WORKERS - 1:
        os.kill(os.getpid(), 9)
    began = time.monotonic()
    worker.tell("lost", worker.refused(lambda: strategy.run(total, args=[tf.constant(1.)])))
    worker.tell("seconds", time.monotonic() - began)


def main():
    """Runs all of them."""
    worker.set_tf_config(0)
    create = ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategy
    strategy = create(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    on_host = create(worker.simple_resolver(0), variables_on_host=True)
    on_host.extended._collective_keys = strategy.extended._collective_keys
    on_host.extended._cross_device_ops = strategy.extended._cross_device_ops
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config._profiling.enable_ipu_events = True
    config.configure_ipu_system()
    _executions()
    train("compiled", strategy, True)
    train("placed", strategy, None)
    train_split(on_host)
    per_replica(strategy)
    if INDEX == 0:
        worker.tell("reference", worker.reference())
    lose_a_worker(strategy)


if __name__ == "__main__":
    main()
