"""Spreading a model over IPUs automatically (`tensorflow.python.ipu.autoshard`)."""

import contextlib

from tremula.tf.inner import marks
from tremula.tf.ipu import autoshard_cnn

automatic_sharding = autoshard_cnn.automatic_sharding


@contextlib.contextmanager
def ipu_autoshard():
    """Marks what is built: automatic_sharding() then spreads that and nothing else."""
    with marks.graph_attributes({autoshard_cnn.AUTOSHARD_ATTRIBUTE: "ON"}):
        yield
