"""What an Estimator does under an IPUMultiWorkerStrategy.

TensorFlow's Estimator builds the model once on each worker. The model's dataset becomes the infeed
of the worker's program, so the Estimator gets the dataset where other strategies give an iterator.

Task 0 alone restores and writes checkpoints. The other workers write theirs to a folder that is
deleted, because all workers together read synchronised variables. When a session has been restored
or initialised, task 0 sends all variables to the others.
"""

import collections
import shutil
import tempfile

import tensorflow.compat.v1 as tf

from tremula.tf.ipu import ipu_multi_worker_strategy
from tremula.tf.ipu.distributed.ipu_horovod_strategy import IPUHorovodStrategy
from tremula.tf.ipu.distributed.popdist_strategy import PopDistStrategy

_NO_STRATEGY = (
    "IPU estimators do not train under a {}. In a program of several instances leave out "
    "train_distribute, give popdist.getNumLocalReplicas() as num_replicas, and use a "
    "CrossReplicaOptimizer, which sums over the replicas of all instances; or use an "
    "IPUMultiWorkerStrategy.")
_STEPS = 1000  # between checkpoints, where an interval of time was asked for

_Source = collections.namedtuple("_Source", ["get_next"])


def workers_of(strategy):
    """How many workers train with a strategy, or with None."""
    return strategy.num_replicas_in_sync if _is_ours(strategy) else 1


def _is_ours(strategy):
    return isinstance(strategy, ipu_multi_worker_strategy.IPUMultiWorkerStrategy)


class WorkerTraining:
    """The part of an IPU estimator that a strategy changes; its base is TensorFlow's Estimator."""

    _shows_mean_of_workers = True

    def _get_iterator_from_input_fn(self, input_fn, mode, distribution=None):
        if not _is_ours(distribution):
            return super()._get_iterator_from_input_fn(input_fn, mode, distribution)
        dataset = self._call_input_fn(input_fn, mode, distribution.extended._make_input_context())
        return _Source(lambda: self._checked_dataset(dataset)), [_SendHook(distribution)]

    def _actual_train_model_distributed(self, strategy, input_fn, hooks, saving_listeners):
        if isinstance(strategy, (PopDistStrategy, IPUHorovodStrategy)):
            raise ValueError(_NO_STRATEGY.format(type(strategy).__name__))
        train = super()._actual_train_model_distributed
        if not _is_ours(strategy) or strategy.num_replicas_in_sync == 1:
            return train(strategy, input_fn, hooks, saving_listeners)
        self._save_by_steps()
        with strategy.extended.without_broadcasts():
            if strategy.extended.should_checkpoint:
                return train(strategy, input_fn, hooks, saving_listeners)
            own, self._model_dir = self._model_dir, tempfile.mkdtemp(prefix="tremula-worker-")
            try:
                return train(strategy, input_fn, [*hooks, *self._saving()], None)
            finally:
                shutil.rmtree(self._model_dir, ignore_errors=True)
                self._model_dir = own

    def _save_by_steps(self):
        """Clocks of workers differ, and saving is something that they do together."""
        config = self._config
        if config.save_checkpoints_secs:
            tf.logging.warning(
                "Workers save together, which save_checkpoints_secs cannot ensure. Checkpoints are "
                "written every %d steps; save_checkpoints_steps sets another number.", _STEPS)
            config._save_checkpoints_secs, config._save_checkpoints_steps = None, _STEPS

    def _saving(self):
        steps = self._config.save_checkpoints_steps
        return [tf.train.CheckpointSaverHook(self._model_dir, save_steps=steps)] if steps else []

    def _call_model_fn(self, features, labels, mode, config):
        strategy = tf.distribute.get_strategy()
        if not _is_ours(strategy):
            return super()._call_model_fn(features, labels, mode, config)
        graph = tf.get_default_graph()
        with tf.device(None), tf.device(strategy.extended.host_device):
            spec = super()._call_model_fn(features, labels, mode, config)
        # The loss that is shown is the mean of the workers', whatever the optimizer made of it in
        # the program, or their sum, as the original's pipelines have it.
        graph._is_loss_scaled_by_optimizer = self._shows_mean_of_workers
        graph._last_loss_reduction = None
        return spec


class _SendHook(tf.train.SessionRunHook):
    """Gives all workers the variables of task 0 when the session is there."""

    def __init__(self, strategy):
        self._strategy = strategy

    def begin(self):
        extended = self._strategy.extended
        self._send = tf.group(*[extended.send(one) for one in tf.global_variables()])

    def after_create_session(self, session, coord):
        session.run(self._send)
