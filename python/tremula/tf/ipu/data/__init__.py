"""Datasets for the IPU (`tensorflow.python.ipu.data`)."""

from tremula.tf.ipu.data import ops  # noqa: F401  (`ipu.data.ops` needs no import of its own)
