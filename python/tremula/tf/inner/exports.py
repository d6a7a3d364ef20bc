"""The names under which TensorFlow shows its ops, and the ops that every device has."""

import pkgutil
import importlib

from tensorflow.python.framework import kernels
import tensorflow.python.ops as ops_package


def generated_functions():
    """Yields (public name, function) of every exported function that is made of an op."""
    for module in pkgutil.iter_modules(ops_package.__path__):
        if not module.name.startswith("gen_"):
            continue
        loaded = importlib.import_module(f"tensorflow.python.ops.{module.name}")
        for name, value in vars(loaded).items():
            public = [*getattr(value, "_tf_api_names", ()), *getattr(value, "_tf_api_names_v1", ())]
            for one in public if callable(value) else ():
                yield one, name


def ops_for_every_device():
    """The ops that have a kernel of the device type DEFAULT."""
    return {kernel.op for kernel in kernels.get_all_registered_kernels().kernel
            if kernel.device_type == "DEFAULT"}
