"""Datasets for the IPU (`tensorflow.python.ipu.data.ops`)."""

from tremula.tf.ipu.data.ops import dataset_ops  # noqa: F401  (shown without an import of its own)
