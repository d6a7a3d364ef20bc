"""The original's operations of feeds, host embeddings, data sets: each names what is used here."""

from tremula.tf.plugin.poplar.ops import _refused


def __getattr__(name):
    _refused.attribute(__name__, name)
