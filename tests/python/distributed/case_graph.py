"""A worker of TensorFlow 1 programs: sessions of one server."""

import os
import time

import worker

import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.distribute import cross_device_utils, values

INDEX, WORKERS = worker.INDEX, worker.WORKERS
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


class Cluster:
    """The strategies, which share a server and its collectives' numbers."""

    def __init__(self):
        worker.set_tf_config(0)
        self.resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        strategies = ipu.ipu_multi_worker_strategy
        self.on_ipu = strategies.IPUMultiWorkerStrategy(self.resolver)
        self.on_host = strategies.IPUMultiWorkerStrategyV1(
            worker.simple_resolver(0), variables_on_host=True)
        keys = cross_device_utils.CollectiveKeys(
            group_key_start=10, op_instance_key_start=100, variable_instance_key_start=10000)
        for one in (self.on_ipu, self.on_host):
            one.extended._collective_keys = keys
        self.on_host.extended._cross_device_ops = self.on_ipu.extended._cross_device_ops
        self.config = self.on_ipu.update_config_proto(tf.ConfigProto())
        self.server = tf.distribute.Server(
            self.resolver.cluster_spec(), job_name=self.resolver.task_type,
            task_index=self.resolver.task_id, protocol="grpc", config=self.config)

    def session(self):
        """A session of the server."""
        return tf.Session(self.server.target, config=self.config)


def train(cluster, name, strategy, compiled, on_host):
    """Trains the CNN. The loss is divided by the batch of all workers."""
    with tf.Graph().as_default(), strategy.scope():
        images = tf.placeholder(tf.float32, [worker.BATCH, 8, 8, 1])
        labels = tf.placeholder(tf.int32, [worker.BATCH])
        optimizer = tf.train.MomentumOptimizer(worker.RATE, 0.9)

        def gradients(images, labels):
            variables = worker.graph_variables()
            per_example = worker.losses(images, labels, variables)
            loss = tf.nn.compute_average_loss(per_example)
            return loss, optimizer.compute_gradients(loss)

        def update(images, labels):
            loss, pairs = gradients(images, labels)
            if on_host:
                return [loss, *(gradient for gradient, _ in pairs)]
            with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
                return [tf.identity(loss)]

        def step(images, labels):
            if compiled:
                with ipu.scopes.ipu_scope("/device:IPU:0"):
                    loss, *rest = ipu.ipu_compiler.compile(update, [images, labels])
            else:
                loss, *rest = update(images, labels)
            if not on_host:
                return loss
            with tf.device("cpu"), tf.control_dependencies([optimizer.apply_gradients(
                    zip(rest, tf.trainable_variables()))]):
                return tf.identity(loss)

        loss = strategy.experimental_run_v2(step, args=[images, labels])
        total = strategy.reduce(SUM, loss, axis=None)
        slots = [optimizer.get_slot(one, "momentum") for one in tf.trainable_variables()]
        worker.tell(f"{name} devices", {
            "loss": loss.device, "total": total.device,
            "variables": sorted({one.device for one in tf.trainable_variables()}),
            "slots": sorted({one.device for one in slots})})
        shown, metadata = [], tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        with cluster.session() as session:
            session.run(tf.global_variables_initializer())
            for batch, classes in zip(*worker.data()):
                shown.append(session.run(total, {
                    images: worker.share(batch), labels: worker.share(classes)}, options, metadata))
            worker.tell(f"{name} traced", [
                one.device for one in metadata.step_stats.dev_stats for node in one.node_stats
                if "CollectiveReduce" in node.node_name])
            worker.tell(f"{name} losses", shown)
            worker.tell(f"{name} variables", session.run(tf.trainable_variables()))


def reduce(cluster):
    """reduce() of what ops on the IPU give, variables' initial values, and kinds of variables."""
    strategy = cluster.on_ipu
    with tf.Graph().as_default(), strategy.scope():
        x = tf.placeholder(tf.float32, [])
        square = strategy.run(lambda x: x * x, args=[x])
        first = tf.get_variable("first", initializer=INDEX + 1.0)
        metric = tf.get_variable(
            "metric", initializer=0.0, synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM)
        written = tf.get_variable("written", initializer=1.0,
                                  aggregation=tf.VariableAggregation.MEAN)
        add = strategy.run(lambda: metric.assign_add(INDEX + 1.0, read_value=False))
        write = strategy.run(lambda: written.assign(INDEX + 3.0))
        with cluster.session() as session:
            worker.tell("square", session.run(
                [strategy.reduce(SUM, square, axis=None), strategy.reduce(MEAN, square, axis=None)],
                {x: INDEX + 1}))
            session.run(tf.global_variables_initializer())
            session.run(add)
            session.run(write)
            worker.tell("initial", session.run(first).item())
            worker.tell("on read", session.run(strategy.extended.read_var(metric)).item())
            worker.tell("on write", session.run(written.read_value()).item())
            path = str(worker.FOLDER / f"checkpoint_{INDEX}" / "model")
            saver = tf.train.Saver([metric, written])
            saved = saver.save(session, path)
            session.run(add)
            saver.restore(session, saved)
            worker.tell("restored", session.run(strategy.extended.read_var(metric)).item())
        kinds = ipu.ipu_multi_worker_strategy
        worker.tell("kinds", [isinstance(first, kinds.IPUMirroredVariable),
                              isinstance(metric, kinds.IPUSyncOnReadVariable)])
        worker.tell("initial value", [
            first.values[0].initial_value.device,
            [one.decode() for one in first.values[0].initial_value.op.get_attr("_class")]])


def per_replica(cluster):
    """Arguments that have a value on every replica, and where run() places what it builds."""
    strategy, devices = cluster.on_ipu, []
    with tf.Graph().as_default(), strategy.scope():
        x = tf.placeholder(tf.float32, [])
        scale = tf.get_variable("scale", initializer=2.0)

        def step(pair, y):
            result = pair["x"] * y * scale
            devices.extend([result.device, *tf.distribute.get_replica_context().devices])
            return result

        def compiled(pair, y):
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                return ipu.ipu_compiler.compile(lambda x: step({"x": x}, y), [pair["x"]])[0]

        results = [strategy.run(one, args=[{"x": values.PerReplica([x])}],
                                kwargs={"y": values.PerReplica([tf.constant(3.0)])})
                   for one in (step, compiled)]
        with cluster.session() as session:
            session.run(tf.global_variables_initializer())
            worker.tell("per replica", session.run(results, {x: INDEX + 1}))
        worker.tell("per replica devices", sorted(set(devices)))


def properties(cluster):
    """What the strategy says, and its errors."""
    strategy, extended = cluster.on_ipu, cluster.on_ipu.extended
    worker.tell("properties", [
        strategy.num_replicas_in_sync, extended.experimental_between_graph,
        extended.experimental_should_init, extended.should_checkpoint,
        extended.should_save_summary])
    create = ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategy

    with tf.Graph().as_default(), cluster.on_host.scope():
        metric = tf.get_variable("metric", initializer=0.0,
                                 synchronization=tf.VariableSynchronization.ON_READ,
                                 aggregation=tf.VariableAggregation.SUM)
        plain = tf.get_variable("plain", initializer=0.0)
        worker.tell("on host", [metric.values[0].device, plain.values[0].device,
                                plain.values[0].value().device])

    def beside_another_device():
        with tf.Graph().as_default(), strategy.scope():
            with tf.device("cpu"):
                other = tf.Variable(1.0, use_resource=True)
        with tf.Graph().as_default(), cluster.on_host.scope():
            with cluster.on_host.extended.colocate_vars_with(other):
                pass

    def two_hosts():
        create(tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({}), num_accelerators={"GPU": 2}))

    worker.tell("colocated", worker.refused(beside_another_device))
    worker.tell("hosts", worker.refused(two_hosts))
    worker.tell("device", worker.refused(lambda: create(cluster.resolver, "/device:CPU:0")))


def lose_a_worker(cluster):
    """The last worker ends in the middle of training."""
    with tf.Graph().as_default(), cluster.on_ipu.scope():
        total = cluster.on_ipu.run(_compiled_sum, args=[tf.placeholder_with_default(1.0, [])])
        with cluster.session() as session:
            session.run(total)
            if INDEX == WORKERS - 1:
                os.kill(os.getpid(), 9)
            began = time.monotonic()
            worker.tell("lost", worker.refused(lambda: session.run(total)))
            worker.tell("seconds", time.monotonic() - began)


def _compiled_sum(x):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return ipu.ipu_compiler.compile(_sum, [x])[0]


def _sum(x):
    return tf.distribute.get_replica_context().all_reduce(SUM, x)


def main():
    """Runs all of them."""
    tf.disable_v2_behavior()
    cluster = Cluster()
    ipu_config = ipu.config.IPUConfig()
    ipu_config.auto_select_ipus = 1
    ipu_config.configure_ipu_system()
    properties(cluster)
    reduce(cluster)
    per_replica(cluster)
    train(cluster, "compiled", cluster.on_ipu, compiled=True, on_host=False)
    train(cluster, "placed", cluster.on_ipu, compiled=False, on_host=False)
    train(cluster, "host", cluster.on_host, compiled=True, on_host=True)
    if INDEX == 0:
        worker.tell("reference", worker.reference())
    lose_a_worker(cluster)


if __name__ == "__main__":
    main()
