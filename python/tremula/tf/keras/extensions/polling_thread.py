"""Calls callbacks for each step while the program runs: a thread that reads the outfeed."""

import threading
import time

import tensorflow as tf

from tremula.tf.keras.extensions import extensions_util

_LONGEST_WAIT = 0.001  # seconds
_READS_A_STEP = 1.9


class PollingThread(threading.Thread):
    """Reads an outfeed until all steps have come. For each step, and for each replica in turn,
    calls batch_begin_fn(step) and batch_end_fn(step, results).

    read  takes the outfeed's elements: a structure of arrays [steps(, replicas), ...], or None
    """

    def __init__(self, read, num_steps, replication_factor, batch_begin_fn,
                 batch_end_fn):
        super().__init__(name="tremula-callbacks", daemon=True)
        self._read, self._num_steps, self._replicas = read, num_steps, replication_factor
        self._begin, self._end = batch_begin_fn, batch_end_fn
        self._cancelled = threading.Event()
        self._first_data, self._wait = None, _LONGEST_WAIT
        self._result, self._error = None, None

    def run(self):
        """Called by start()."""
        try:
            step = 0
            while step < self._num_steps and not self._cancelled.is_set():
                results = self._read()
                if results is None:
                    self._cancelled.wait(self._wait)
                    continue
                before, step = step, self._take(step, results)
                self._adapt_wait(step - before)
        except BaseException as error:  # pylint: disable=broad-except
            self._error = error

    def _take(self, step, results):
        """Calls callbacks. Returns the number of the step after these."""
        flat = tf.nest.flatten(results)
        for i in range(len(flat[0])):
            for replica in range(self._replicas):
                if self._cancelled.is_set():
                    return step
                index = (i, replica) if self._replicas > 1 else i
                self._begin(step)
                found = tf.nest.pack_sequence_as(results, [one[index] for one in flat])
                self._end(step, found)
                self._keep(found)
            step += 1
        return step

    def _keep(self, found):
        self._result = found

    def _adapt_wait(self, count):
        """Waits for about half a step, once the time of a step is known."""
        if self._first_data is None:
            self._first_data = time.monotonic()
        elif self._wait == _LONGEST_WAIT:
            taken = time.monotonic() - self._first_data
            self._wait = min(_LONGEST_WAIT, taken / (count * _READS_A_STEP))

    def failed(self):
        """Whether a callback has raised an exception."""
        return self._error is not None

    def end_after(self, num_steps):
        """Sets the number of all steps."""
        self._num_steps = num_steps

    def cancel(self):
        """Ends the thread at once."""
        self._cancelled.set()
        self.join()

    def cancelled(self):
        """Whether cancel() was called."""
        return self._cancelled.is_set()

    def get_result(self):
        """The results of the last step, after the end of the thread. Raises the exception of a
        callback."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._result


class PollingThreadPredict(PollingThread):
    """The same. The result is a list of the outputs of all steps, in parts."""

    def _take(self, step, results):
        merged = tf.nest.map_structure(
            lambda one: extensions_util.merge_into_batch_dimension(one, self._replicas), results)
        self._result = [*(self._result or []), merged]
        return super()._take(step, results)

    def _keep(self, found):
        pass
