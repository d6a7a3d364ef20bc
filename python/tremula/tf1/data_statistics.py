"""The statistics of pipelines that tf.data.experimental had in TensorFlow 1.

Today's TensorFlow has nothing that measures them. Programs that ask for them run, a warning says
that there are none, and their summaries are empty.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.inner import patches


class StatsAggregator:
    """Where statistics would meet."""

    def get_summary(self):
        """A string tensor, the serialised Summary of what was measured: an empty one."""
        return tf.constant(tf.Summary().SerializeToString(), name="stats_aggregator_summary")


class StatsOptions:
    """What `tf.data.Options().experimental_stats` takes."""

    aggregator = None
    prefix = ""
    counter_prefix = ""
    latency_all_edges = None


def latency_stats(tag):
    """A function for Dataset.apply(), which leaves the dataset as it is."""
    return _unmeasured(f"latency_stats({tag!r})")


def bytes_produced_stats(tag):
    """A function for Dataset.apply(), which leaves the dataset as it is."""
    return _unmeasured(f"bytes_produced_stats({tag!r})")


def set_stats_aggregator(stats_aggregator, prefix="", counter_prefix=""):
    """A function for Dataset.apply(), which leaves the dataset as it is."""
    del stats_aggregator, prefix, counter_prefix
    return _unmeasured("set_stats_aggregator")


def restore():
    """Gives TensorFlow these names again."""
    patches.restore_data_statistics(
        {one.__name__: one for one in (StatsAggregator, StatsOptions, latency_stats,
                                       bytes_produced_stats, set_stats_aggregator)},
        property(_options, _set_options))


def _unmeasured(what):
    tf.logging.log_first_n(tf.logging.WARN, "%s: this TensorFlow has no statistics of pipelines; "
                           "nothing is measured.", 1, what)
    return lambda dataset: dataset


def _options(options):
    if "_tremula_stats" not in options.__dict__:
        _set_options(options, StatsOptions())
    return options.__dict__["_tremula_stats"]


def _set_options(options, value):
    options.__dict__["_tremula_stats"] = value
