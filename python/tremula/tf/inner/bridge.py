"""TensorFlow's own bridge from graphs to HLO."""

import warnings

from tremula.tf.inner import eager


class LoweringError(Exception):
    """A graph that cannot be lowered. `said` is the message of TensorFlow's bridge."""

    def __init__(self, message, said=""):
        super().__init__(message)
        self.said = said or message


def wants_constant(error):
    """Whether a LoweringError says that some value must be known when lowering."""
    return "must be a compile-time constant" in error.said


def lower_something():
    """Lowers a trivial function: TensorFlow registers its kernels for lowering at the first
    time."""
    import tensorflow as tf
    with eager.eagerly_on_cpu():
        function = tf.function(lambda x: x + x, jit_compile=True, autograph=False)
        hlo(function.get_concrete_function(tf.TensorSpec([], tf.float32)))


def hlo(concrete_function):
    """The serialised HloModuleProto of a concrete function that is to be compiled. Call it
    eager.eagerly_on_cpu()."""
    from tensorflow.python.eager.polymorphic_function import compiler_ir
    lower = compiler_ir.from_concrete_function(concrete_function)
    try:
        # Without a device TensorFlow takes the preferred one, which is ours.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 2.21 says that the argument is deprecated
            return lower(stage="hlo_serialized", device_name="/device:CPU:0")
    except ValueError as error:
        raise LoweringError(str(error)) from None
