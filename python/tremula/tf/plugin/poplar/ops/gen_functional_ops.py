"""The original's operations of functions and pipelines: most name what does their work here."""

from tremula.tf.ipu.ops import pipelining_ops
from tremula.tf.plugin.poplar.ops import _refused


def __getattr__(name):
    _refused.attribute(__name__, name)


def recomputation_checkpoint(inputs, name=None):
    """See ipu.pipelining_ops.recomputation_checkpoint()."""
    return pipelining_ops.recomputation_checkpoint(inputs, name)
