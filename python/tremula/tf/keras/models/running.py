"""The executions of a call of fit, evaluate or predict: their callbacks and results."""

import numpy as np
import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.ipu import utils
from tremula.tf.keras.extensions import executions
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
                              verbose=verbose, epochs=epochs, steps=plan.inferred_steps)


def _progress_bar(base):
    class ProgressBar(base):
        """A progress bar that counts steps. Keras knows executions only."""

        def on_train_batch_end(self, batch, logs=None):
            """Shows the steps that are done: `batch` is the first one of the execution."""
            super().on_train_batch_end(batch + (logs or {}).get("num_steps", 1) - 1, {})

    return ProgressBar(count_mode="steps")


_KINDS = {steps.TRAIN: "train", steps.TEST: "test", steps.PREDICT: "predict"}


class _Executions(executions.Executions):
    """Each mode calls the callbacks of training, without results. The results of an epoch are read
    at its end: an array for each, the mini-batches of all replicas one after the other."""

    def __init__(self, model, mode, program, plan, callbacks, accumulated):
        super().__init__(model, _KINDS[mode], plan, program.outfeed, callbacks)
        self._num_results = plan.mini_batches // (
            model.gradient_accumulation_count if accumulated else 1)
        begin, end = callbacks.on_train_batch_begin, callbacks.on_train_batch_end
        self._begin = lambda step: begin(step, self._logs_of(step))
        self._end = lambda _, logs: end(logs["batch"], logs)

    def _logs_of(self, first):
        return {"batch": first, "size": 1, "num_steps": self._steps}

    def _begin_epoch(self, epoch):
        self._callbacks.on_epoch_begin(epoch, {})
        self._model.reset_metrics()

    def _end_epoch(self, epoch, logs):
        self._callbacks.on_epoch_end(epoch, logs)

    def _results(self, before, done):
        return self._read_all() if self._is_last(done) else None, self._logs_of(done - self._steps)

    def _read_all(self):
        if not self._sends:
            is_synthetic = utils.use_synthetic_data_for(utils.SyntheticDataCategory.Outfeed)
            return [np.full((self._num_results, *shape), np.nan if is_synthetic else 0, np.float32)
                    for shape in self._outfeed._shapes]
        arrays = tf.nest.flatten(self._outfeed.read())
        if self._replicas > 1:
            arrays = [one.reshape(-1, *one.shape[2:]) for one in arrays]
        return arrays

    def _arguments(self, iterator):
        return ()

    def _stops(self):
        return False  # before the end of an epoch


def run(model, mode, program, dataset, callbacks, plan, epochs, initial_epoch, accumulated):
    """Runs the epochs of a plan. Returns the results of the last one: [loss, metrics...], or the
    outputs of all mini-batches.

    accumulated  whether the outfeed has one element a step instead of one a mini-batch
    """
    def iterators():
        for epoch in range(initial_epoch, epochs):
            if model.stop_training:
                return
            if plan.restarts and epoch != initial_epoch:
                program.start(dataset)
            yield epoch, program.iterator

    def logs_of(_, columns):
        if program.names and columns:
            return dict(zip(program.names, _aggregated(columns, plan.mini_batches)))
        return {"outputs": [_concatenated(one) for one in columns or []]}

    model.stop_training = False
    if mode == steps.TRAIN:
        model.train_tf_function = program.function  # whose graph Keras' TensorBoard writes
    program.start(dataset)
    try:
        callbacks.on_train_begin()
        logs = _Executions(model, mode, program, plan, callbacks, accumulated).epochs(
            iterators(), lambda: program.function, logs_of=logs_of) or {}
        callbacks.on_train_end()
    finally:
        program.stop()
    return logs["outputs"] if "outputs" in logs else list(logs.values())


def _aggregated(columns, mini_batches):
    """The mean loss of all mini-batches, and of metrics the last values."""
    return [np.sum(columns[0], dtype=np.float64) / mini_batches, *(one[-1] for one in columns[1:])]


def _concatenated(batches):
    return batches.reshape(-1, *batches.shape[2:]) if batches.ndim > 1 else batches
