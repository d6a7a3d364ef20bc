"""The original's operations of parts outside compilation: each names what does its work here."""

from tremula.tf.plugin.poplar.ops import _refused


def __getattr__(name):
    _refused.attribute(__name__, name)
