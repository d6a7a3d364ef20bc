"""Tremula: TensorFlow programs written for Graphcore's IPU, on stock TensorFlow.

Importing this package costs next to nothing and loads no TensorFlow: the import finder
(`tremula._finder`) is loaded with it at every start of the interpreter.
"""

__version__ = "0.1.0"
