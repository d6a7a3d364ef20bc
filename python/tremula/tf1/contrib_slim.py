"""tf_slim, the package that tf.contrib.layers, .slim and arg_scope became."""

import importlib


def package(wanted):
    """The package tf_slim. Raises ImportError that names `wanted` where it is not installed."""
    try:
        return importlib.import_module("tf_slim")
    except ModuleNotFoundError as error:
        if error.name != "tf_slim":
            raise
        raise ImportError(f"{wanted} is served by the package tf_slim, which is not installed: "
                          "pip install tf_slim", name="tf_slim") from None


def attribute(module, name, wanted):
    """`name` of the module `module` ("", "layers") of tf_slim, or None if it has none."""
    package(wanted)
    return getattr(importlib.import_module(f"tf_slim.{module}" if module else "tf_slim"), name,
                   None)
