"""The queues of a model. Each mode has an infeed and an outfeed for each type of elements. All
calls use the same queues, so that a function that reads them needs no new program."""

import enum
import time
import weakref

import tensorflow as tf

from tremula.tf.inner import eager
from tremula.tf.ipu import ipu_infeed_queue, ipu_outfeed_queue


class Mode(enum.Enum):
    """What a queue is for."""
    FIT = 1
    EVALUATE = 2
    PREDICT = 3


class _Manager:
    def __init__(self):
        self._queues = {}
        weakref.finalize(self, _delete_all, self._queues, self._delete_one).atexit = False

    def reset(self):
        """Deletes the queues."""
        _delete_all(self._queues, self._delete_one)


def _delete_all(queues, delete_one):
    while queues:
        delete_one(queues.popitem()[1])


def _key(mode, element_spec, options):
    return mode, repr(element_spec), repr(sorted(options.items()))


class InfeedManager(_Manager):
    """The infeeds of a model."""

    def get_infeed(self, mode, dataset, infeed_kwargs):
        """The iterator of a mode, at the beginning of a dataset."""
        key = _key(mode, dataset.element_spec, infeed_kwargs)
        if key in self._queues:
            self._queues[key].restart(dataset)
        else:
            options = {"device_ordinal": tf.distribute.get_strategy()._device_ordinal,
                       **infeed_kwargs}
            self._queues[key] = ipu_infeed_queue.IPUIterator(dataset=dataset, **options)
        return self._queues[key]

    @staticmethod
    def _delete_one(iterator):
        from tremula.tf.functions import iterators
        iterators.delete(iterator.infeed_spec.feed_id)


class OutfeedManager(_Manager):
    """The outfeeds of a model."""

    def get_outfeed(self, mode, element_spec, outfeed_kwargs):
        """The outfeed of a mode for the results of elements of a type."""
        key = _key(mode, element_spec, outfeed_kwargs)
        if key not in self._queues:
            self._queues[key] = ipu_outfeed_queue.IPUOutfeedQueue(
                device_ordinal=tf.distribute.get_strategy()._device_ordinal, **outfeed_kwargs)
        return self._queues[key]

    @staticmethod
    def _delete_one(queue):
        ipu_outfeed_queue.delete(queue._id)

    @staticmethod
    def empty(queue):
        """Drops the elements that were not read."""
        empty("IpuOutfeedDelete", feed=queue._id)


_BROKEN_OFF_SECONDS = 10  # until a run that an error ended has stopped


def empty(op, **options):
    """Empties a queue by an operation. A run that was cancelled may still use it for a moment, and
    its elements must not count for the next method."""
    until = time.monotonic() + _BROKEN_OFF_SECONDS
    while True:
        try:
            return eager.run_on_cpu(op, **options)
        except tf.errors.NotFoundError:
            return None  # no program has used it
        except tf.errors.FailedPreconditionError:
            if time.monotonic() > until:
                return None
            time.sleep(0.005)
