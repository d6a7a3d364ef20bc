"""The loop over epochs: executions of a program, callbacks and results."""

import numpy as np
import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.ipu import config, utils
from tremula.tf.keras.models import steps


def callback_list(model, callbacks, mode, verbose, epochs, plan):
    """Keras' list of callbacks, for training with a History and a progress bar."""
    kinds = inner.public("callbacks")
    if isinstance(callbacks, kinds.CallbackList):
        return callbacks
    callbacks = tf.nest.flatten(callbacks) if callbacks else []
    is_training = mode == steps.TRAIN
    if verbose and is_training and not any(
            isinstance(one, kinds.ProgbarLogger) for one in callbacks):
        callbacks.append(_progress_bar(kinds.ProgbarLogger))
    return kinds.CallbackList(callbacks, add_history=is_training, add_progbar=False, model=model,
                              verbose=verbose, epochs=epochs, steps=plan.steps)


def _progress_bar(base):
    class ProgressBar(base):
        """A progress bar that counts steps. Keras knows executions only."""

        def on_train_batch_end(self, batch, logs=None):
            """Shows the steps that are done: `batch` is the first one of the execution."""
            super().on_train_batch_end(batch + (logs or {}).get("num_steps", 1) - 1, {})

    return ProgressBar(count_mode="steps")


# TensorFlow's profiler knows steps by this name, as in stock Keras.
_TRACED = {steps.TRAIN: "train", steps.TEST: "test", steps.PREDICT: "predict"}


def run(model, mode, program, strategy, dataset, callbacks, plan, epochs, initial_epoch,
        accumulated):
    """Runs the epochs of a plan. Returns the results of the last one: [loss, metrics...], or the
    outputs of all mini-batches.

    accumulated  whether the outfeed has one element a step instead of one a mini-batch
    """
    results = []
    model.stop_training = False
    if mode == steps.TRAIN:
        model.train_tf_function = program.function  # whose graph Keras' TensorBoard writes
    program.start(dataset)
    try:
        callbacks.on_train_begin()
        for epoch in range(initial_epoch, epochs):
            if model.stop_training:
                break
            logs = {}
            callbacks.on_epoch_begin(epoch, logs)
            model.reset_metrics()
            if plan.restarts and epoch != initial_epoch:
                program.start(dataset)
            for execution in range(plan.executions):
                batch = execution * plan.steps_per_run
                of_batch = {"batch": batch, "size": 1, "num_steps": plan.steps_per_run}
                callbacks.on_train_batch_begin(batch, of_batch)
                with tf.profiler.experimental.Trace(_TRACED[mode], epoch_num=epoch, step_num=batch,
                                                    _r=1):
                    program.run(strategy)
                callbacks.on_train_batch_end(batch, of_batch)
            columns = _outfed(program, model, plan, accumulated)
            if program.names:
                results = _aggregated(columns, plan.mini_batches)
                logs.update(zip(program.names, results))
            else:
                results = [_concatenated(one) for one in columns]
                logs["outputs"] = results
            callbacks.on_epoch_end(epoch, logs)
        callbacks.on_train_end()
    finally:
        program.stop()
    return results


def _outfed(program, model, plan, accumulated):
    """The elements of an epoch's outfeed, an array for each result: the mini-batches of all
    replicas one after the other."""
    is_synthetic = utils.use_synthetic_data_for(utils.SyntheticDataCategory.Outfeed)
    if is_synthetic or config.only_compiles():
        count = plan.mini_batches
        if accumulated:
            count //= model.gradient_accumulation_count
        return [np.full((count, *shape), np.nan if is_synthetic else 0, np.float32)
                for shape in program.outfeed._shapes]
    arrays = [one.numpy() for one in tf.nest.flatten(program.outfeed.dequeue())]
    if model.replication_factor > 1:
        arrays = [one.reshape(-1, *one.shape[2:]) for one in arrays]
    return arrays


def _aggregated(columns, mini_batches):
    """The mean loss of all mini-batches, and of metrics the last values."""
    return [np.sum(columns[0], dtype=np.float64) / mini_batches, *(one[-1] for one in columns[1:])]


def _concatenated(batches):
    return batches.reshape(-1, *batches.shape[2:]) if batches.ndim > 1 else batches
