"""What programs know as `tensorflow.compiler.plugin`."""


def _on_tensorflow_import():
    """Run by the finder when a program first imports `tensorflow.compiler.plugin`: such a program
    need not import `tensorflow.python.ipu` to use the device."""
    import importlib
    importlib.import_module("tensorflow.python.ipu")
