"""TensorFlow's registries: ops, kernels, gradients and device plugins."""


def load_device_plugin(path):
    """Lets TensorFlow load a library that holds devices, kernels and ops."""
    from tensorflow.python.framework import load_library
    load_library.load_pluggable_device_library(path)


def op_definition(op):
    """The OpDef of an op, or None if there is no such op."""
    from tensorflow.python.framework import op_def_registry
    return op_def_registry.get(op)


def registered_kernels():
    """A KernelList of every kernel of the process."""
    from tensorflow.python.framework import kernels
    return kernels.get_all_registered_kernels()


def kernel_list(data=b""):
    """A KernelList, empty or from bytes."""
    from tensorflow.core.framework import kernel_def_pb2
    return kernel_def_pb2.KernelList.FromString(data)


def registered_gradient(op_type):
    """TensorFlow's function (operation, *gradients) -> gradients for an op."""
    from tensorflow.python.framework import ops
    return ops.gradient_registry.lookup(op_type)
