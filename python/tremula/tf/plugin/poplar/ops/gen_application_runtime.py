"""The original's operations of compiled programs for other processes: each names its successor."""

from tremula.tf.plugin.poplar.ops import _refused


def __getattr__(name):
    _refused.attribute(__name__, name)
