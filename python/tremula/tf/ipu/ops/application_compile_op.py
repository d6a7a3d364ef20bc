"""Compiling to a file (`tensorflow.python.ipu.ops.application_compile_op`)."""

import tempfile

import tensorflow.compat.v1 as tf

from tremula.tf.inner import bridge, eager, errors, graphs, handles
from tremula.tf.ipu import config, ipu_compiler
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.device import plugin, settings
from tremula.tf.runtime.host import outside, python_calls
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
    inputs            tensors: what the program takes when it starts. The values of constants go
                      into the file, as do those of constants that the function captures; in eager
                      mode all tensors are constants
    output_path       the file; None: a temporary one
    freeze_variables  whether the values that variables have when it is compiled go into the file;
                      else they are inputs, after the others, in the order in which they are made
    name              of the operation; None: "application_compile"

    The variables that `func` makes are the CPU's, and the operation must be placed there. It is
    compiled with the configuration of the system in force, for one replica. Returns the path, a
    string tensor. The operation fails with InvalidArgumentError for what an IPU cannot do, for
    parts that run on the host, also for tf.print, and for shapes that are not known.
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
    module = _module_of(trace)
    taken = [*trace.arguments, *trace.handles]
    names = [f"XLA_Args/{_name(one)}" if _name(one) else f"input_{i}"
             for i, one in enumerate(taken)]
    constants = {i: value for i, value in enumerate(map(_constant, trace.arguments))
                 if value is not None}
    first = len(trace.arguments)

    def write(path, *values):
        path = path.decode() or tempfile.mkstemp(suffix=".poplar_exec")[1]
        frozen = {first + i: one for i, one in enumerate(values)}
        applications.write(path, module(), names, {**constants, **frozen}, _options())
        return [path.encode()]

    with tf.device("/device:CPU:0"):
        values = _read(trace) if freeze_variables else []
        path = tf.constant(output_path or "")
    result, = python_calls.call(write, [path, *values], [tf.string], name or "application_compile")
    result.set_shape([])
    return result


def _options():
    """The compiler's options of the configuration in force, for one replica that is fed with real
    data."""
    lines = settings.compile_lines(config.snapshot()).splitlines()
    options = dict(one.split("=", 1) for one in lines)
    return {key: value for key, value in options.items() if key not in ("ipus", "synthetic_data")}


def _trace(func, inputs, graph):
    """The Trace of func(*inputs)."""
    with graph.as_default(), tf.variable_scope("", use_resource=True), tf.device(None):
        trace = tracing.Trace("application", _DEVICE)
        returned = trace.run(func, inputs)
        with trace.graph.as_default():
            tensors, _ = ipu_compiler._outputs(returned, trace.effects)
        trace.finish(tensors)
    return trace


def _module_of(trace):
    """A function that gives the bytes of the HloModuleProto of a Trace. What cannot be compiled is
    that function's error: it belongs to the operation, not to the building of it."""
    try:
        module = _lower(trace)
    except tf.errors.OpError as error:
        failure = errors.error_class(error.error_code)(None, None, error.message)

        def fail():
            raise failure

        return fail
    return lambda: module


def _lower(trace):
    """The bytes of the HloModuleProto of a Trace."""
    for message, code in trace.refusals:
        raise errors.error_class(code)(None, None, message)
    host = outside.Host(trace)
    prints = [one.name for one in _operations(trace.graph) if outside.prints(one)]
    try:
        source = staging.stage(trace.graph, trace.placeholders, trace.variables, trace.outputs,
                               trace.device, trace.state, host)
        called = [one.name for one in host.functions] + prints
        if not called:
            return lowering.lower(source).module
    except (bridge.LoweringError, tf.errors.InvalidArgumentError) as error:
        raise errors.error_class(errors.INVALID_ARGUMENT)(None, None, (
            "Detected unsupported operations when trying to compile graph: "
            f"{getattr(error, 'message', error)}")) from None
    raise errors.error_class(errors.INVALID_ARGUMENT)(None, None, (
        f"The program calls {called[0]} on the host, which a file cannot hold: take "
        "outside_compilation_scope and tf.print out of what is compiled into one."))


def _operations(graph):
    """The operations of a graph and of its functions."""
    return [operation for one in [graph, *graphs.function_graphs(graph).values()]
            for operation in one.get_operations()]


def _read(trace):
    """Tensors of the variables' values."""
    return [handles.apply_read(handle, handles.variable_type(handle)[0])
            for handle in trace.handles]


def _constant(tensor):
    """The array that a constant is; None for other tensors."""
    if eager.is_eager(tensor):
        return tensor.numpy()
    return tf.get_static_value(tensor) if tensor.op.type == "Const" else None


def _name(tensor):
    """A tensor's name in its graph; nothing in eager mode."""
    return "" if eager.is_eager(tensor) else tensor.name.partition(":")[0]
