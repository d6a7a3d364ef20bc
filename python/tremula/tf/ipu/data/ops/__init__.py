"""Datasets for the IPU (`tensorflow.python.ipu.data.ops`)."""
