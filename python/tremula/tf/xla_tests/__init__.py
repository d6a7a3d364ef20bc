"""`tensorflow.compiler.tests`, which TensorFlow's packages leave out."""


def _on_tensorflow_import():
    """Run by the finder when a program first imports `tensorflow.compiler.tests`: the tests use the
    device without a word of `tensorflow.python.ipu`."""
    import importlib
    importlib.import_module("tensorflow.python.ipu")
