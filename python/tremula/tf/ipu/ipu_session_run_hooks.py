"""Hooks for sessions that run IPU programs (`tensorflow.python.ipu.ipu_session_run_hooks`)."""

import numpy as np
import tensorflow.compat.v1 as tf

from tremula.tf.inner import logs
from tremula.tf.ipu import ipu_outfeed_queue
from tremula.tf.runtime.base import checks


class IPULoggingTensorHook(tf.train.SessionRunHook):
    """Logs tensors of a compiled program, which an outfeed brings to the host."""

    LoggingMode = ipu_outfeed_queue.IPUOutfeedMode

    def __init__(self, every_n_iter=None, every_n_secs=None, at_end=False, formatter=None,
                 logging_mode=LoggingMode.LAST, feed_name="logging_hook", replication_factor=1):
        """
        every_n_iter, every_n_secs  how often, in runs or in seconds: one of them
        at_end                      also, or only, when the session ends
        formatter                   a function of a dict {name: array} that gives the text
        logging_mode                what to log of several values since the last time: all of
                                    them, or the last

        Raises ValueError if it is not said when to log, or said twice.
        """
        del replication_factor
        if every_n_iter is not None and every_n_secs is not None:
            raise ValueError("Cannot provide both every_n_iter and every_n_secs")
        if every_n_iter is None and every_n_secs is None and not at_end:
            raise ValueError("Either every_n_iter, every_n_secs or at_end should be provided")
        every_n_iter = checks.whole("every_n_iter", every_n_iter, least=1, optional=True)
        checks.number("every_n_secs", every_n_secs, least=0, optional=True)
        checks.function("formatter", formatter, optional=True)
        self._timer = None
        if every_n_iter is not None or every_n_secs is not None:
            self._timer = tf.train.SecondOrStepTimer(every_secs=every_n_secs,
                                                     every_steps=every_n_iter)
        self._at_end, self._formatter = at_end, formatter
        self._outfeed = ipu_outfeed_queue.IPUOutfeedQueue(feed_name, outfeed_mode=logging_mode)
        self._dequeue = self._deleter = None
        self._runs = 0

    def log(self, tensors):
        """The operation that takes `tensors` (a dict of them by name, a list, or one), of any shape
        and type, out of the program: return it from the loop's body, or make what is run depend on
        it.

        Raises RuntimeError the second time, TypeError for what are no tensors.
        """
        if self._outfeed.enqueued:
            raise RuntimeError(
                "Cannot use this hook object's log function more than once: log all tensors in "
                "one call, as a list or a dict, or create another hook.")
        if not isinstance(tensors, dict):
            tensors = tensors if isinstance(tensors, (list, tuple)) else [tensors]
            for one in tensors:
                if not tf.is_tensor(one):
                    raise TypeError(f"Expected `tf.Tensor`, got {type(one)}")
            tensors = {one.name: one for one in tensors}
        return self._outfeed.enqueue(tensors)

    def begin(self):
        """Raises RuntimeError if nothing is logged."""
        if not self._outfeed.enqueued:
            raise RuntimeError("This logging hook's outfeed was not enqueued. Did you forget to "
                               "call the log function?")
        with tf.device("/device:CPU:0"):
            self._dequeue, self._deleter = self._outfeed.dequeue(), self._outfeed.deleter
        self._runs = 0

    def after_run(self, run_context, run_values):
        """Logs if it is time."""
        del run_values
        if self._timer is not None and self._timer.should_trigger_for_step(self._runs):
            self._log(run_context.session.run(self._dequeue))
        self._runs += 1

    def end(self, session):
        """Logs what is left, if that was asked for, and drops the rest."""
        if self._at_end:
            self._log(session.run(self._dequeue))
        session.run(self._deleter)
        if self._timer is not None:
            self._timer.reset()

    def _log(self, values):
        seconds = None
        if self._timer is not None:
            seconds, _ = self._timer.update_last_triggered_step(self._runs)
        with np.printoptions(suppress=True):
            text = self._formatter(values) if self._formatter else ", ".join(
                f"{name} = {value}" for name, value in values.items())
        if seconds is not None and self._formatter is None:
            text += f" ({seconds:.3f} sec)"
        logs.module().info("%s", text)
