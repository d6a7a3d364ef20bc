"""Running programs from files (`tensorflow.python.ipu.ops.embedded_runtime`), which
experimental_application_compile_op writes.

The program runs in this process, on the host, with Python; TensorFlow Serving runs what
ipu.serving exports.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from tremula.tf.runtime.base import checks
from tremula.tf.runtime.host import python_calls
from tremula.tf.runtime.launching import applications


class RuntimeContext:
    """A program that has been, or will be, started. Made by embedded_runtime_start()."""

    def __init__(self, name, executable_file, executable_proto, start_output):
        self._name, self._file = name, executable_file
        self._application, self._start_output = executable_proto, start_output

    def start_output(self):
        """A tensor that has its value when the program has been started."""
        return self._start_output

    def name(self):
        """Its name."""
        return self._name

    def signature(self):
        """The program's interface: `inputs`, `streamed_inputs`, `streamed_outputs`, lists of
        objects with a name, dtype (NumPy's) and shape."""
        return self._application.signature

    def output_types(self):
        """The types of what a call gives."""
        return [tf.as_dtype(one.dtype) for one in self.signature().streamed_outputs]


def embedded_runtime_start(executable_file, inputs, name, timeout=None):
    """Starts the program of a file.

    executable_file  the path, text or a string tensor whose value is known
    inputs           list of tensors with the shapes and types of `signature().inputs`, or a dict of
                     them by the names there: "XLA_Args/" and the name of the variable or tensor
    name             of the runtime: one that runs already is used on
    timeout          is ignored: no program here waits for data to go on

    Returns a RuntimeContext. Raises FileNotFoundError, ValueError for a file of another kind, and
    Exception for inputs that do not fit.
    """
    del timeout
    path = tf.get_static_value(executable_file) if tf.is_tensor(executable_file) else (
        executable_file)
    if path is None:
        raise ValueError("The path of the executable must be known when the graph is built: run "
                         "the operation that compiles it first, and pass what it gave.")
    path = checks.path("executable_file", getattr(path, "item", lambda: path)())
    checks.text("name", name)
    application = applications.Application(path)
    wanted = application.signature.inputs
    if isinstance(inputs, dict):
        for one in wanted:
            if one.name not in inputs:
                raise Exception(  # pylint: disable=broad-exception-raised
                    f"Failed to find input tensor with name '{one.name}' in input dictionary.")
        inputs = [inputs[one.name] for one in wanted]
    if isinstance(inputs, tuple):
        inputs = list(inputs)
    if not isinstance(inputs, list):
        raise Exception(  # pylint: disable=broad-exception-raised
            "Expected the inputs to be a list.")
    inputs = _checked(inputs, wanted, "Embedded application runtime")

    def start(*values):
        applications.start(name, application, values)
        return [np.int32(0)]

    return RuntimeContext(name, path, application, _run(start, inputs, [tf.int32])[0])


def embedded_runtime_call(inputs, context):
    """The outputs for one element of the program's infeed: a list of tensors with the shapes and
    types of `context.signature().streamed_outputs`.

    `inputs` is a list of tensors with those of `streamed_inputs`. Raises TypeError for what is no
    list or no context, Exception for inputs that do not fit.
    """
    signature = _context(context).signature()
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"inputs must be a list of tensors, but it is {inputs!r}.")
    inputs = _checked(list(inputs), signature.streamed_inputs, "Embedded application call")

    def call(anchor, *values):
        del anchor
        return applications.call(context.name(), values)

    outputs = _run(call, [context.start_output(), *inputs], context.output_types())
    for one, info in zip(outputs, signature.streamed_outputs):
        one.set_shape(info.shape)
    return outputs


def embedded_runtime_stop(context):
    """Stops the program: an operation, or in eager mode at once and None."""
    _context(context)

    def stop():
        applications.stop(context.name())
        return [np.int32(0)]

    stopped, = _run(stop, [], [tf.int32])
    return None if tf.executing_eagerly() else stopped.op


def embedded_runtime_start_and_call(executable_file, startup_inputs, call_inputs, name):
    """(outputs, context), outputs a list of tensors: embedded_runtime_start() with
    `startup_inputs`, then embedded_runtime_call() with `call_inputs`. The shapes and types are
    those of the signature; raises Exception for inputs that do not fit, and what these two raise.
    """
    context = embedded_runtime_start(executable_file, startup_inputs, name)
    return embedded_runtime_call(call_inputs, context), context


def _context(context):
    if isinstance(context, RuntimeContext):
        return context
    raise TypeError("context must be what embedded_runtime_start() returned, but it is "
                    f"{context!r}.")


def _run(function, inputs, types):
    """Calls the function with arrays, on the CPU: now, or when the graph runs."""
    with tf.device("/device:CPU:0"):
        return python_calls.call(function, inputs, types)


def _sizes(tensor):
    return tensor.shape.as_list() if tensor.shape.rank is not None else "unknown"


def _checked(inputs, wanted, what):
    if len(inputs) != len(wanted):
        raise Exception(  # pylint: disable=broad-exception-raised
            f"{what} expects {len(wanted)} inputs, but {len(inputs)} were provided.")
    inputs = [tf.convert_to_tensor(one) for one in inputs]
    for i, (one, info) in enumerate(zip(inputs, wanted)):
        if not one.shape.is_compatible_with(info.shape):
            raise Exception(  # pylint: disable=broad-exception-raised
                f"Mismatched input shape at position {i} ('{info.name}'). Expected "
                f"{list(info.shape)}, but input {i} has shape {_sizes(one)}.")
        if one.dtype != tf.as_dtype(info.dtype):
            raise Exception(  # pylint: disable=broad-exception-raised
                f"Mismatched input dtype at position {i} ('{info.name}'). Expected "
                f"{tf.as_dtype(info.dtype)}, but input {i} has dtype {one.dtype.name}.")
    return inputs
