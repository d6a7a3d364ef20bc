"""A worker of an IPUPipelineEstimator, whose loss is the worker's number, from 1 on."""

import worker

import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

INDEX = worker.INDEX


class _Losses(tf.train.SessionRunHook):
    """Tells the losses that the Estimator shows."""

    def __init__(self):
        self._losses = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.get_collection(tf.GraphKeys.LOSSES)[-1])

    def after_run(self, run_context, run_values):
        self._losses.append(float(run_values.results))

    def end(self, session):
        worker.tell("losses", self._losses)


def model_fn(mode):
    """Two stages on one IPU."""
    def last(x):
        return x * tf.get_variable("factor", initializer=1., use_resource=True)

    def optimize(loss):
        return ipu.pipelining_ops.OptimizerFunctionOutput(
            tf.train.GradientDescentOptimizer(0.), loss)

    return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
        mode, [lambda x: x, last], gradient_accumulation_count=4, device_mapping=[0, 0],
        optimizer_function=optimize, eval_metrics_fn=lambda x: {"loss": x})


def numbers():
    """The dataset of this worker."""
    return tf.data.Dataset.from_tensors(INDEX + 1.).repeat()


def main():
    """Trains two loops of four mini-batches."""
    tf.disable_v2_behavior()
    worker.set_tf_config(0)
    strategy = ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver())
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    estimator = ipu.ipu_pipeline_estimator.IPUPipelineEstimator(
        model_fn, model_dir=str(worker.FOLDER / f"model_{INDEX}"),
        config=ipu.ipu_run_config.RunConfig(
            ipu_run_config=ipu.ipu_run_config.IPURunConfig(
                iterations_per_loop=4, ipu_options=config), train_distribute=strategy))
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(numbers, max_steps=8, hooks=[_Losses()]),
        tf.estimator.EvalSpec(numbers, steps=4))


if __name__ == "__main__":
    main()
