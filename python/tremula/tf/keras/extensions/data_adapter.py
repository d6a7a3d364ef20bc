"""The data of fit, evaluate and predict as a dataset for an infeed, and the steps of an epoch."""

import collections.abc
import math
import types

import numpy as np
import tensorflow as tf

from tremula.tf.inner import datasets, logs
from tremula.tf.inner import keras as inner
from tremula.tf.keras.extensions import messages

_stock = inner.module("engine.data_adapter")
_arrays_seen = {"x": 0, "y": 0}


class IPUDataHandler(_stock.DataHandler):
    """Keras' DataHandler, whose elements have known shapes and whose steps are those of one
    replica. With the `replication_factor` None the number of steps is not known before
    set_replication_factor()."""

    def __init__(self, x, y=None, sample_weight=None, batch_size=None, steps_per_epoch=None,
                 initial_epoch=0, epochs=1, shuffle=False, class_weight=None, max_queue_size=10,
                 workers=1, use_multiprocessing=False, model=None, steps_per_execution=None,
                 replication_factor=1):
        _warn_of_arrays(x=x, y=y)
        self._refuse_generators(x, y)
        self._replication_factor = None
        super().__init__(
            x, y, sample_weight, batch_size=batch_size, steps_per_epoch=steps_per_epoch,
            initial_epoch=initial_epoch, epochs=epochs, shuffle=shuffle,
            class_weight=class_weight, max_queue_size=max_queue_size, workers=workers,
            use_multiprocessing=use_multiprocessing, model=model,
            steps_per_execution=steps_per_execution)
        if replication_factor is not None:
            self.set_replication_factor(replication_factor)

    @staticmethod
    def _refuse_generators(x, y):
        if not issubclass(_stock.select_data_adapter(x, y), _stock.GeneratorDataAdapter):
            return
        hint = messages.USE_DATASET
        if isinstance(x, collections.abc.Iterator) and not isinstance(x, types.GeneratorType):
            hint = messages.WRAP_ITERATOR + hint
        raise ValueError(messages.GENERATOR.format(type(x).__name__, hint))

    def _configure_dataset_and_inferred_steps(self, strategy, x, steps_per_epoch, class_weight,
                                              distribute):
        """Called by the constructor of Keras."""
        del strategy, x, distribute
        self._steps_per_execution_value = self._steps_per_execution.numpy().item()
        given = dataset = self._adapter.get_dataset()
        if class_weight:
            dataset = dataset.map(_stock._make_class_weight_map_fn(class_weight))
        if self._adapter.has_partial_batch():
            raise ValueError(messages.PARTIAL_BATCH.format(self._adapter.batch_size()))
        self._dataset, self._steps_per_epoch = narrowed(dataset, given), steps_per_epoch
        self._inferred_steps = None

    # ---- Steps ----

    def set_replication_factor(self, value):
        """Sets the number of replicas. Raises ValueError if the data are too few for these, are no
        whole number of executions, or have unknown shapes or an unknown number."""
        self._replication_factor = value
        self._inferred_steps = self._infer_steps(self._steps_per_epoch, self._dataset)
        self._validate_dataset(self._dataset)
        self._validate_data_handler()

    def _check_factor(self, function):
        if self._replication_factor is None:
            raise RuntimeError(messages.NO_FACTOR.format(function))

    def _infer_steps(self, steps, dataset):
        self._check_factor("_infer_steps")
        steps = super()._infer_steps(steps, dataset)
        if steps is None:
            raise ValueError(messages.NO_SIZE)
        rest = steps % self._replication_factor
        size = int(tf.data.experimental.cardinality(dataset))
        if rest and size >= 0:
            logs.module().warn(messages.DROPPED.format(
                size, self._replication_factor, rest, "es" if rest > 1 else ""))
        return steps // self._replication_factor

    def _validate_dataset(self, dataset):
        self._check_factor("_validate_dataset")
        size = int(tf.data.experimental.cardinality(dataset))
        if size == tf.data.experimental.UNKNOWN_CARDINALITY:
            logs.module().info(messages.UNKNOWN_SIZE)
        elif size != tf.data.experimental.INFINITE_CARDINALITY:
            epochs = (1 if self._adapter.should_recreate_iterator()
                      else self._epochs - self._initial_epoch)
            wanted = epochs * self._inferred_steps
            if wanted > size:
                raise ValueError(messages.NOT_ENOUGH.format(wanted, size))
        for one in tf.nest.flatten(dataset.element_spec):
            if not one.shape.is_fully_defined():
                raise ValueError(messages.SHAPE.format(one.shape))

    def _validate_data_handler(self):
        self._check_factor("_validate_data_handler")
        super()._validate_data_handler()
        wanted, steps = self._steps_per_execution_value, self._inferred_steps
        replica = messages.TO_REPLICA if self._replication_factor > 1 else ""
        if steps == 0:
            # TypeError if it is unknown, as for an empty array.
            size = self._adapter.get_size() or len(self._dataset)
            each = math.ceil(size / self._replication_factor)
            raise ValueError(messages.TOO_FEW_ITEMS.format(
                size, self._replication_factor, each, each * self._replication_factor))
        if wanted > steps:
            logs.module().warn(messages.FEWER_STEPS.format(wanted, replica, steps, steps))
        elif steps % wanted:
            raise ValueError(messages.NO_DIVISOR.format(wanted, steps, replica))

    @property
    def steps_per_execution_value(self):
        """The steps of an execution that the model was compiled with."""
        return self._steps_per_execution_value

    @property
    def steps_of_an_execution(self):
        """The same, at most those of an epoch."""
        return min(self._steps_per_execution_value, self._inferred_steps)

    @property
    def step_increment(self):
        """Steps from the first of an execution to its last."""
        return self.steps_of_an_execution - 1

    @property
    def element_spec(self):
        """The type of the dataset's elements."""
        return self._dataset.element_spec

    @property
    def batch_size(self):
        """The number of samples in a batch; None: unknown."""
        size = self._adapter.batch_size()
        if size is None:
            first = tf.nest.flatten(self.element_spec)[:1]
            size = first[0].shape[0] if first and first[0].shape.rank else None
        return size

    def enumerate_epochs_with_reuse(self, manager, mode, infeed_kwargs):
        """Yields (epoch, iterator). `manager` has the iterator of each mode."""
        self._check_factor("enumerate_epochs_with_reuse")
        with self._truncate_execution_to_epoch():
            iterator = None
            for epoch in range(self._initial_epoch, self._epochs):
                if iterator is None or self._adapter.should_recreate_iterator():
                    iterator = manager.get_infeed(mode, self._dataset, infeed_kwargs)
                yield epoch, iterator
                self._adapter.on_epoch_end()

    def steps(self):
        """The first steps of an epoch's executions."""
        first, self._initial_step = self._initial_step, 0
        yield from range(first, self._inferred_steps, self.steps_of_an_execution)


def _warn_of_arrays(**given):
    calls = {"x": "`fit()`, `predict()` and `evaluate()`", "y": "`fit()` and `evaluate()`"}
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            _arrays_seen[name] += 1
            if _arrays_seen[name] == 2:
                logs.module().warn(messages.NUMPY.format(name, calls[name]))


def narrowed(dataset, given):
    """`dataset` with float32 in the place of float64, which Keras' layers would convert too. It
    prefetches if `given`, the dataset that it was made from, does."""
    dataset = _without_float64(dataset)
    depth = datasets.prefetched(given)
    return dataset if dataset is given or depth is None else dataset.prefetch(int(depth))


def _without_float64(dataset):
    spec = dataset.element_spec
    if not inner.module("engine.base_layer_utils").v2_dtype_behavior_enabled() or all(
            getattr(one, "dtype", None) != tf.float64 for one in tf.nest.flatten(spec)):
        return dataset

    def narrow(*element):
        found = tf.nest.map_structure(
            lambda one: tf.cast(one, tf.float32) if one.dtype == tf.float64 else one, element)
        return found if isinstance(spec, tuple) else found[0]

    return dataset.map(narrow)
