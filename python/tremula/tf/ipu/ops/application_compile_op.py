"""Compiling to a file (`tensorflow.python.ipu.ops.application_compile_op`)."""

import tempfile

import tensorflow.compat.v1 as tf

from tremula.tf.inner import bridge, eager, errors, handles
from tremula.tf.ipu import ipu_compiler, scopes
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.device import plugin
from tremula.tf.runtime.launching import applications
from tremula.tf.runtime.lowering import lowering, staging
from tremula.tf.runtime.tracing import tracing

_DEVICE = "/device:IPU:0"


def experimental_application_compile_op(func, inputs=None, output_path=None,
                                        freeze_variables=False, name=None):
    """An operation that compiles func(*inputs) into a file for embedded_runtime_start; in eager
    mode that is done at once.

    func              as for ipu_compiler.compile; it may loop over an infeed queue and enqueue into
                      an outfeed queue, which are then what a call gives and gets
    inputs            tensors: what the program takes when it starts
    output_path       the file; None: a temporary one
    freeze_variables  whether the values that variables have when it is compiled go into the file;
                      else they are inputs, after the others, in the order of their names
    name              of the operation

    It is compiled with the compiler's default options, for one replica. Returns the path, a string
    tensor. Raises InvalidArgumentError for what an IPU cannot do and for shapes that are not known.
    """
    plugin.load()
    checks.function("func", func)
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        raise TypeError(f"inputs must be a list of tensors, but it is {inputs!r}.")
    inputs = checks.tensors("inputs", inputs or [])
    output_path = checks.path("output_path", output_path, optional=True)
    freeze_variables = checks.boolean("freeze_variables", freeze_variables)
    checks.text("name", name, optional=True)
    runs_now = tf.executing_eagerly()
    graph = tf.Graph() if runs_now else tf.get_default_graph()
    trace = _trace(func, inputs, graph)
    source = staging.stage(trace.graph, trace.placeholders, trace.variables, trace.outputs,
                           trace.device, trace.state)
    try:
        module = lowering.lower(source).module
    except bridge.LoweringError as error:
        raise errors.error_class(errors.INVALID_ARGUMENT)(None, None, str(error)) from None
    taken = [*trace.arguments, *trace.handles]
    names = [f"XLA_Args/{_name(one)}" if _name(one) else f"input_{i}"
             for i, one in enumerate(taken)]
    first = len(trace.arguments)

    def write(path, *values):
        path = path.decode() or tempfile.mkstemp(suffix=".poplar_exec")[1]
        applications.write(path, module, names, {first + i: one for i, one in enumerate(values)})
        return path.encode()

    def build():
        values = [handles.apply_read(handle, tf.dtypes.as_dtype(variable.dtype))
                  for handle, variable in zip(trace.handles, source.variables)
                  ] if freeze_variables else []
        path = tf.constant(output_path or "")
        if runs_now:
            return tf.constant(write(path.numpy(), *[one.numpy() for one in values]))
        result = tf.numpy_function(write, [path, *values], tf.string, name=name)
        result.set_shape([])
        return result

    with tf.device("/device:CPU:0"):
        return build()


def _trace(func, inputs, graph):
    """The Trace of func(*inputs), its variables in the order of their names."""
    with graph.as_default(), scopes.ipu_scope(_DEVICE):
        trace = tracing.Trace("application", _DEVICE)
        returned = trace.run(func, inputs)
        with trace.graph.as_default(), tf.device(None):
            tensors, _ = ipu_compiler._outputs(returned, trace.effects)
        trace.finish(tensors)
    order = sorted(range(len(trace.handles)), key=lambda i: _name(trace.handles[i]))
    trace.handles = [trace.handles[i] for i in order]
    trace.variables = [trace.variables[i] for i in order]
    return trace


def _name(tensor):
    """A tensor's name in its graph; nothing in eager mode."""
    return "" if eager.is_eager(tensor) else tensor.name.partition(":")[0]
