"""Summaries (`tensorflow.python.ipu.ops.summary_ops`)."""

import tensorflow.compat.v1 as tf

from tremula.tf.plugin.poplar.ops import gen_ipu_ops


def ipu_compile_summary(name, op_list, collections=None):
    """A summary of the events of the device (a serialised Summary, as tf.summary gives), made
    after the operations `op_list`; `name` is shown. It goes into `collections`."""
    if not isinstance(op_list, list):
        op_list = [op_list]
    metadata = tf.SummaryMetadata(
        plugin_data=tf.SummaryMetadata.PluginData(plugin_name="ipu"))
    with tf.device("cpu"), tf.control_dependencies(op_list):
        return tf.summary.tensor_summary(
            "ipu_trace", gen_ipu_ops.ipu_event_trace(), summary_metadata=metadata,
            collections=collections, display_name=name)


def get_ipu_reports():
    """The events of the device that were recorded since they were last asked for: a vector of
    serialised IpuTraceEvent."""
    return gen_ipu_ops.ipu_event_trace()
