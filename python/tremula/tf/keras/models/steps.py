"""The numbers of mini-batches, steps and executions of an epoch.

A step is one update of the weights: `count` mini-batches, those whose gradients are added up. The
steps of all replicas count.
"""

import collections

from tremula.tf.inner import logs
from tremula.tf.keras.extensions import messages
from tremula.tf.runtime.base import checks

TRAIN, TEST, PREDICT = "fit", "evaluate", "predict"

INFINITE = -1  # tf.data.INFINITE_CARDINALITY

_IN_AN_EPOCH = {TRAIN: "number of steps in an epoch 'steps_per_epoch'"}
_ARGUMENT = {TRAIN: "steps per epoch (steps_per_epoch)"}
_LOOP = {TRAIN: "training", TEST: "evaluation", PREDICT: "inference"}


class Plan(collections.namedtuple("Plan", [
        "mini_batches", "inferred_steps", "steps_of_an_execution", "restarts"])):
    """An epoch.

    mini_batches           of all replicas
    inferred_steps         of one replica
    steps_of_an_execution  of one replica
    restarts               whether the dataset starts again with every epoch
    """

    def steps(self):
        """The first steps of the executions."""
        return range(0, self.inferred_steps, self.steps_of_an_execution or 1)



def plan(who, mode, cardinality, size, steps, steps_per_run, count, replicas, infer):
    """The Plan of a call of a model of the class named `who`.

    cardinality  the dataset's, negative where it is infinite or unknown
    size         the number of mini-batches of data that was given as arrays, else None
    steps        the user's argument or None; so is steps_per_run
    infer        infer(mini-batches or None) gives their number by the dataset: Keras' own function

    Raises ValueError for numbers that do not fit.
    """
    steps = checks.whole("The number of steps", steps, least=1) if steps is not None else None
    if steps_per_run is not None:
        steps_per_run = checks.whole("steps_per_run", steps_per_run, least=1)
    if steps is None and size is None and cardinality < 0:
        raise ValueError(messages.NO_STEPS)
    if size is not None and steps is not None:
        _check_enough(mode, steps, count, size)
    if steps is not None:
        _check_divisible(who, mode, steps, steps_per_run, replicas)
        if size is None and cardinality >= 0:
            _check_enough(mode, steps, count, cardinality)
    if size is not None:
        steps = _derived(mode, size, steps_per_run, count, replicas) if steps is None else steps
        mini_batches = steps * count
    else:
        mini_batches = infer(None if steps is None else steps * count)
    _check_mini_batches(who, mini_batches, steps_per_run, count, replicas)
    steps = mini_batches // (count * replicas)
    return Plan(mini_batches, steps, steps_per_run or steps, cardinality != INFINITE)


def _check_enough(mode, steps, count, mini_batches):
    if steps * count > mini_batches:
        words = "Steps per epoch" if mode == TRAIN else "Steps"
        raise ValueError(messages.TOO_MANY_STEPS % (words, steps, count, mini_batches))


def _check_divisible(who, mode, steps, steps_per_run, replicas):
    words = _IN_AN_EPOCH.get(mode, "number of steps 'steps'")
    if steps_per_run is not None and steps % (steps_per_run * replicas):
        raise ValueError(messages.STEPS_BY_RUN % (who, words, steps, _LOOP[mode], steps_per_run,
                                                  replicas))
    if steps % replicas:
        raise ValueError(messages.STEPS_BY_REPLICAS % (who, words, steps, replicas))


def _derived(mode, size, steps_per_run, count, replicas):
    """The number of steps for which an array has mini-batches."""
    together = count * replicas * (steps_per_run or 1)
    per_run = messages.TIMES_STEPS_PER_RUN % steps_per_run if steps_per_run else ""
    if size < together:
        raise ValueError(messages.TOO_FEW_BATCHES % (size, count, replicas, per_run))
    steps = size // together * replicas * (steps_per_run or 1)
    if size % together:
        logs.module().warning(messages.BATCHES_DROPPED % (
            size, count, replicas, per_run, steps * count, _ARGUMENT.get(mode, "steps")))
    return steps


def _check_mini_batches(who, mini_batches, steps_per_run, count, replicas):
    if steps_per_run is None and mini_batches % (count * replicas):
        raise ValueError(messages.BATCHES_BY_COUNT % (who, mini_batches, count, replicas))
    if steps_per_run is not None and mini_batches % (count * replicas * steps_per_run):
        raise ValueError(messages.BATCHES_BY_RUN % (who, mini_batches, steps_per_run, count,
                                                    replicas))
