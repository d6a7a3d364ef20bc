"""A worker of an Estimator: TensorFlow 1 programs that TensorFlow's estimator gives a server."""

import os

import worker

import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

INDEX, WORKERS = worker.INDEX, worker.WORKERS
FOLDER = worker.FOLDER / f"model_{INDEX}"


def input_fn(params, input_context):
    """This worker's part of each batch."""
    worker.tell("input context", [input_context.num_input_pipelines,
                                  input_context.input_pipeline_id, params["batch_size"]])
    images, labels = worker.data()
    number = input_context.input_pipeline_id
    mine = slice(number * worker.BATCH, (number + 1) * worker.BATCH)
    dataset = tf.data.Dataset.from_tensor_slices((images[:, mine], labels[:, mine]))
    step = 0 if not list(FOLDER.parent.glob("model_0/checkpoint")) else worker.STEPS // 2
    return dataset.skip(step)


def model_fn(features, labels, mode, params):
    """The CNN. The loss is divided by this worker's batch; params["on_host"] says where the
    optimizer works."""
    variables = worker.graph_variables()
    loss = tf.reduce_mean(worker.losses(features, labels, variables))
    optimizer = tf.train.MomentumOptimizer(worker.RATE, 0.9)
    spec = ipu.ipu_estimator.IPUEstimatorSpec
    if not params["on_host"]:
        return spec(mode, loss=loss, train_op=optimizer.minimize(loss))
    gradients, targets = zip(*optimizer.compute_gradients(loss))

    def update(*gradients):
        return optimizer.apply_gradients(zip(gradients, targets))

    return spec(mode, loss=loss, train_op=tf.group(*gradients),
                host_call=(update, list(gradients)))


class _Variables(tf.train.SessionRunHook):
    """Tells the variables at the end, and the losses that the Estimator shows."""

    def __init__(self):
        self._losses = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.get_collection(tf.GraphKeys.LOSSES)[-1])

    def after_run(self, run_context, run_values):
        self._losses.append(run_values.results)

    def end(self, session):
        worker.tell("variables", session.run(
            [one for one in tf.trainable_variables()]))
        worker.tell("losses", self._losses)


def train(on_host, steps, **options):
    """Trains until so many steps are done."""
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategy(
        cluster, variables_on_host=on_host)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    estimator = ipu.ipu_estimator.IPUEstimator(
        model_fn, model_dir=str(FOLDER), params={"on_host": on_host},
        train_batch_size=worker.BATCH * WORKERS, config=ipu.ipu_run_config.RunConfig(
            ipu_run_config=ipu.ipu_run_config.IPURunConfig(ipu_options=config, **options),
            train_distribute=strategy, save_checkpoints_steps=5, tf_random_seed=1))
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(input_fn, max_steps=steps, hooks=[_Variables()]),
        tf.estimator.EvalSpec(input_fn))
    return estimator


def main():
    """Half of the training with the variables on the host, from there on the IPU."""
    tf.disable_v2_behavior()
    worker.set_tf_config(0)
    worker.tell("loop", worker.refused(lambda: train(False, 4, iterations_per_loop=2)))
    train(True, worker.STEPS // 2)
    estimator = train(False, worker.STEPS)
    worker.tell("files", sorted({one.split(".")[0] for one in os.listdir(FOLDER)})
                if FOLDER.exists() else [])
    if INDEX == 0:
        worker.tell("saved", [estimator.get_variable_value(one)
                              for one in ("filter", "weights", "bias")])
        worker.tell("step", int(estimator.get_variable_value("global_step")))
        worker.tell("reference", worker.reference())

    def odd_batch():
        ipu.ipu_estimator.IPUEstimator(
            model_fn, params={}, train_batch_size=5, config=estimator.config)

    worker.tell("batch", worker.refused(odd_batch))


if __name__ == "__main__":
    main()
