"""How fast a dataset gives elements (`tensorflow.python.ipu.dataset_benchmark`)."""

import json
import sys

import tensorflow.compat.v1 as tf

from tremula.tf.inner import datasets, functions
from tremula.tf.ipu import ipu_infeed_queue
from tremula.tf.runtime.base import checks


def dataset_benchmark(dataset, number_of_epochs, elements_per_epochs, print_stats=True,
                      apply_debug_options=True, do_memcpy=True, apply_options=None):
    """A string tensor of shape [1] that, when it is run, and at once in eager mode, reads the
    dataset and gives JSON:

        {"epochs": [{"elements_processed": ..., "total_bytes_processed": ..., "time_elapsed":
        (seconds), "elements_per_second": ..., "bandwidth": (GB/s)}, ...]}

    The dataset is repeated if it has fewer elements. `do_memcpy` copies each, as a transfer would;
    `print_stats` writes the numbers to the standard error too.

    Raises TypeError for what is no dataset and ValueError for numbers below 1. Running it raises
    InvalidArgumentError for a tensor without elements.
    """
    del apply_debug_options, apply_options
    number_of_epochs = _checked("number_of_epochs", number_of_epochs)
    elements_per_epochs = _checked("elements_per_epochs", elements_per_epochs)
    if not isinstance(dataset, datasets.dataset_class()):
        raise TypeError("Expected `dataset` argument to be of type `tf.data.Dataset`, but got "
                        f"{dataset} instead.")
    arguments = dataset, number_of_epochs, elements_per_epochs, print_stats, do_memcpy
    with tf.device("/device:CPU:0"):
        if tf.executing_eagerly():
            return functions.without_retracing_warning(
                tf.function(lambda: _benchmark(*arguments), autograph=False))()
        return _benchmark(*arguments)


def _checked(name, number):
    if checks.whole(name, number) < 1:
        raise ValueError(f"Expected `{name}` to be at least 1.")
    return int(number)


def infeed_benchmark(infeed_queue, number_of_epochs, elements_per_epochs, print_stats=True,
                     do_memcpy=True):
    """dataset_benchmark() of an IPUInfeedQueue's dataset. Raises TypeError for anything else."""
    if not isinstance(infeed_queue, ipu_infeed_queue.IPUInfeedQueue):
        raise TypeError("Expected `infeed_queue` argument to be of type "
                        "`ipu.ipu_infeed_queue.IPUInfeedQueue`, but got "
                        f"{infeed_queue} instead.")
    return dataset_benchmark(infeed_queue._dataset, number_of_epochs, elements_per_epochs,
                             print_stats, do_memcpy=do_memcpy)


def _benchmark(dataset, number_of_epochs, elements_per_epochs, print_stats, do_memcpy):
    """The tensor of JSON, in a graph."""
    iterator, made = datasets.iterator(dataset.repeat())
    with tf.control_dependencies(made):
        start = tf.timestamp()

    def element(count, total):
        values = [tf.convert_to_tensor(one) for one in tf.nest.flatten(iterator.get_next())]
        if do_memcpy:
            values = [tf.raw_ops.DeepCopy(x=one) if one.dtype != tf.string else one
                      for one in values]
        with tf.control_dependencies(values):
            return count + 1, total + tf.add_n([_bytes(one) for one in values])

    def epoch(number, times, sizes):
        with tf.control_dependencies([number]):
            begin = tf.timestamp()
        with tf.control_dependencies([begin]):
            count, total = tf.while_loop(
                lambda count, total: count < elements_per_epochs, element,
                [tf.constant(0), tf.constant(0, tf.int64)], parallel_iterations=1)
        with tf.control_dependencies([count, total]):
            seconds = tf.timestamp() - begin
        return number + 1, times.write(number, seconds), sizes.write(number, total)

    with tf.control_dependencies([start, *_refuse_empty(dataset)]):
        first = tf.constant(0) + 0
    _, times, sizes = tf.while_loop(
        lambda number, *_: number < number_of_epochs, epoch,
        [first, tf.TensorArray(tf.float64, number_of_epochs),
         tf.TensorArray(tf.int64, number_of_epochs)], parallel_iterations=1)

    def report(times, sizes):
        text = json.dumps({"epochs": [
            _numbers(elements_per_epochs, int(size), max(float(seconds), 1e-9))
            for seconds, size in zip(times, sizes)]})
        if print_stats:
            print(text, file=sys.stderr)
        return [text.encode()]

    result = tf.numpy_function(report, [times.stack(), sizes.stack()], tf.string)
    return tf.reshape(result, [1])


def _numbers(elements, size, seconds):
    return {"elements_processed": elements, "total_bytes_processed": size,
            "time_elapsed": seconds, "elements_per_second": elements / seconds,
            "bandwidth": size / seconds / 1e9}


def _bytes(value):
    return tf.size(value, out_type=tf.int64) * (1 if value.dtype == tf.string
                                                else value.dtype.size)


def _refuse_empty(dataset):
    """Operations that fail if an element has a tensor without elements."""
    shapes = tf.nest.flatten(tf.data.get_output_shapes(dataset))
    if any(0 in (shape.as_list() if shape.rank is not None else []) for shape in shapes):
        return [tf.Assert(False, ["Detected a tensor in the dataset with a dimension of size 0. "
                                  "Please remove it from the dataset."])]
    return []
