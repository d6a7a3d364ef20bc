"""The loop over epochs and their executions, with the calls of callbacks."""

import numpy as np
import tensorflow as tf

from tremula.tf.functions import hooks
from tremula.tf.inner import strategies
from tremula.tf.ipu import config, utils
from tremula.tf.keras.extensions import extensions_util, polling_thread


class Executions:
    """Runs a function of (steps, iterator, outfeed) over the steps of epochs.

    kind      "train", "test" or "predict"
    handler   the IPUDataHandler, or another object with its steps
    """

    def __init__(self, model, kind, handler, outfeed, callbacks):
        self._model, self._handler, self._outfeed = model, handler, outfeed
        self._kind, self._callbacks = kind, callbacks
        self._counter = getattr(model, f"_{kind}_counter")
        self._epoch = 0
        self._steps = handler.steps_of_an_execution
        self._replicas = model._get_replication_factor()
        self._begin = getattr(callbacks, f"on_{kind}_batch_begin")
        self._end = getattr(callbacks, f"on_{kind}_batch_end")
        self._again = None  # the Call of the last execution
        # Without a callback for steps, only the last execution's results are read.
        self._is_watched = kind == "predict" or getattr(
            callbacks, f"_should_call_{kind}_batch_hooks", True)
        # A device with synthetic data, or that only compiles, sends nothing.
        self._sends = not config.only_compiles() and not utils.use_synthetic_data_for(
            utils.SyntheticDataCategory.Outfeed)

    def epochs(self, iterators, function, asynchronous=False, logs_of=lambda _, results: results):
        """Runs epochs. Returns what logs_of() has given for the last one, or None without one.

        iterators     gives (epoch, iterator)
        function      function() gives the function of an epoch
        asynchronous  whether a thread calls the callbacks of steps
        logs_of       logs_of(epoch, results) gives the logs of an epoch's end, from the results of
                      the last step (of predict: the list of all outputs), or None without a step
        """
        logs = None
        for self._epoch, iterator in iterators:
            of_epoch = function()
            self._begin_epoch(self._epoch)
            logs = logs_of(self._epoch, self._run(of_epoch, iterator, asynchronous))
            self._end_epoch(self._epoch, logs)
            if self._kind == "train" and self._model.stop_training:
                break
        return logs

    def _begin_epoch(self, epoch):
        if self._kind != "predict":
            self._model.reset_metrics()
        if self._kind == "train":
            self._callbacks.on_epoch_begin(epoch)

    def _end_epoch(self, epoch, logs):
        if self._kind == "train":
            self._callbacks.on_epoch_end(epoch, logs)

    def _run(self, function, iterator, asynchronous):
        self._again = None
        if asynchronous and self._sends:
            return self._run_asynchronously(function, iterator)
        result = None
        for step in self._handler.steps():
            self._begin(step)
            self._execute(function, step, iterator)
            result, logs = self._results(result, step + self._steps)
            self._end(step + self._steps - 1, logs)
            if self._stops():
                break
        return result

    def _results(self, before, done):
        """(the result of an epoch so far, the logs of an execution's last step). `before` is the
        result without this execution, `done` the number of the steps that are done."""
        if self._kind == "predict":
            outputs = tf.nest.map_structure(self._merge, self._read_all())
            return [*(before or []), outputs], {"outputs": outputs}
        if self._is_watched or self._is_last(done):
            logs = tf.nest.map_structure(self._last, self._read_all())
            return logs, logs
        return None, None

    def _is_last(self, done):
        return done >= self._handler.inferred_steps

    def _run_asynchronously(self, function, iterator):
        kind, end = polling_thread.PollingThread, self._end
        if self._kind == "predict":
            kind = polling_thread.PollingThreadPredict

            def end(step, outputs):
                self._end(step, {"outputs": outputs})

        thread = kind(self._read, self._handler.inferred_steps, self._replicas, self._begin, end)
        thread.start()
        done = 0
        try:
            for step in self._handler.steps():
                self._execute(function, step, iterator)
                done = step + self._steps
                if self._stops() or thread.failed():
                    break
            thread.end_after(done)
            return thread.get_result()
        finally:
            thread.cancel()

    def _execute(self, function, step, iterator):
        # TensorFlow's profiler knows steps by this name and number, as in stock Keras.
        with tf.profiler.experimental.Trace(self._kind, epoch_num=self._epoch, step_num=step, _r=1):
            self._launch(function, step, iterator)

    def _launch(self, function, step, iterator):
        strategy = strategies.strategy()
        if self._again is not None and self._again.is_current():
            with tf.device(strategy._ipu_device):
                self._again.make()
        else:
            with hooks.noted_calls() as calls:
                strategy.run(function, args=self._arguments(iterator))
            self._again = calls[0] if len(calls) == 1 else None
        tf.raw_ops.AssignVariableOp(
            resource=self._counter.handle, value=tf.constant(step + self._steps, tf.int64))

    def _arguments(self, iterator):
        return tf.constant(self._steps), iterator, self._outfeed

    def _stops(self):
        return self._kind == "train" and self._model.stop_training

    # ---- Results ----

    def _read(self):
        """The outfeed's elements, as a structure of arrays [steps(, replicas), ...]; None: none."""
        found = self._outfeed.read()
        return found if found is None else self._unpack(found)

    def _read_all(self):
        if self._sends:
            return self._read()
        lead = (self._steps, self._replicas) if self._replicas > 1 else (self._steps,)
        return self._unpack(self._outfeed.zeros(lead))

    def _unpack(self, found):
        """The results in an element of the outfeed. A pipeline enqueues a list with them."""
        return found[0] if self._model._is_pipelined() else found

    def _merge(self, one):
        return extensions_util.merge_into_batch_dimension(one, self._replicas)

    def _last(self, one):
        return one[(-1, -1) if self._replicas > 1 else -1]


def joined(parts):
    """The outputs of predict, from the outputs of its executions."""
    return tf.nest.map_structure(
        lambda *one: one[0] if len(one) == 1 else np.concatenate(one), *parts)
