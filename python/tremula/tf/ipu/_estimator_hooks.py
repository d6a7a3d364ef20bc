"""What an IPU estimator does around a session's runs: datasets, the global step, the end."""

import tensorflow.compat.v1 as tf

_HOST_DEVICE = "/device:CPU:0"


class InitializerHook(tf.train.SessionRunHook):
    """Starts the dataset when the session is there."""

    def __init__(self, infeed):
        self._infeed = infeed

    def begin(self):
        self._initializer = self._infeed.initializer

    def after_create_session(self, session, coord):
        session.run(self._initializer)


class GlobalStepHook(tf.train.SessionRunHook):
    """Counts the global step, on the CPU, and stops after enough steps."""

    def __init__(self, iterations_per_loop, steps, max_steps):
        self._per_loop, self._steps, self._last = iterations_per_loop, steps, max_steps

    def begin(self):
        self._global_step = tf.train.get_global_step()
        with tf.device(_HOST_DEVICE):
            self._increment = self._global_step.assign_add(self._per_loop, read_value=True)

    def after_create_session(self, session, coord):
        if self._steps is not None:
            self._last = session.run(self._global_step) + self._steps

    def after_run(self, run_context, run_values):
        step = run_context.session.run(self._increment)
        if self._last is not None and step >= self._last:
            run_context.request_stop()


class PassingGlobalStepHook(GlobalStepHook):
    """Counts the global step during an evaluation, whose result is of the step before it."""

    def begin(self):
        super().begin()
        self._before = tf.placeholder(self._global_step.dtype, [])
        self._restore = self._global_step.assign(self._before)

    def after_create_session(self, session, coord):
        super().after_create_session(session, coord)
        self._first = session.run(self._global_step)

    def end(self, session):
        session.run(self._restore, {self._before: self._first})


class StopHook(tf.train.SessionRunHook):
    """Stops after so many runs."""

    def __init__(self, runs):
        self._runs = runs

    def begin(self):
        self._done = 0

    def after_run(self, run_context, run_values):
        self._done += 1
        if self._done >= self._runs:
            run_context.request_stop()

    def end(self, session):
        if self._done < self._runs:
            tf.logging.warning(
                "The dataset ended in run %d of %d: the metrics are of what there was. A run takes "
                "iterations_per_loop elements for each replica.", self._done + 1, self._runs)
