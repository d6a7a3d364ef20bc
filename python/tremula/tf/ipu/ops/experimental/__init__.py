"""Experimental operations (`tensorflow.python.ipu.ops.experimental`)."""
