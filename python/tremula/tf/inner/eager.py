"""Eager mode: its context, its tensors, and functions that run in it."""

import contextlib

from tremula.tf.inner import graphs


@contextlib.contextmanager
def eagerly_on_cpu():
    """Eager mode on the CPU, in any mode and graph of the program."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops
    with context.eager_mode(), ops.device("/device:CPU:0"):
        yield


def is_eager(tensor):
    """Whether a tensor has a value now."""
    from tensorflow.python.framework import ops
    return isinstance(tensor, ops.EagerTensor)


def place_by_default(device):
    """Makes `device` the one of what runs eagerly in this thread and is placed nowhere."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import device as device_lib
    context.context()._set_device(device, device_lib.DeviceSpec.from_string(device))


def is_outside_functions():
    """Whether what calls the functions that are being built runs eagerly."""
    from tensorflow.python.framework import ops
    return ops.executing_eagerly_outside_functions()


def capture(tensors):
    """Makes eager tensors inputs of the function that is being traced, in this order. Returns
    what stands for them in it."""
    from tensorflow.python.framework import ops
    return [ops.get_default_graph().capture(tensor) for tensor in tensors]


def set_function_options(options):
    """Sets options of the graph optimiser for every tf.function of the process."""
    from tensorflow.python.eager import context
    context.context().set_optimizer_experimental_options(options)


@contextlib.contextmanager
def functions_of(graph_def):
    """Makes a graph's functions known to eager mode meanwhile, where lowering looks for them."""
    from tensorflow.python.eager import context
    added = [function for function in graph_def.library.function
             if not context.context().has_function(function.signature.name)]
    for function in added:
        context.context().add_function_def(function)
    try:
        yield
    finally:
        for function in added:
            context.context().remove_function(function.signature.name)


def keep_context():
    """Keeps TensorFlow from taking its eager context down, in a forked process: it would wait for
    threads that only the parent has."""
    import ctypes
    from tensorflow.python.eager import context
    handle = getattr(context.context(), "_context_handle", None)
    if handle is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def forget_eager_start():
    """TensorFlow notes in every thread whether it began in eager mode, and goes back there to
    create variables, even where eager execution has been disabled since. This makes it as if that
    had come first."""
    from tensorflow.python.eager import context
    if context.default_execution_mode != context.GRAPH_MODE:
        return
    stack = context.context().context_switches.stack
    while stack and stack[0].enter_context_fn is context.eager_mode:
        del stack[0]


def cpu_operation(op, name, shape):
    """The one result of the plugin's operation `op` on the CPU, which has neither inputs nor
    attributes: a tensor of `shape`, in eager mode its value."""
    import tensorflow.compat.v1 as tf
    with tf.device("cpu"):
        if tf.executing_eagerly():
            from tensorflow.python.eager import context, execute
            context.ensure_initialized()
            return execute.execute(op.encode(), 1, inputs=[], attrs=(), ctx=context.context(),
                                   name=name)[0]
        result = graphs.apply_op(op, name=name).outputs[0]
    result.set_shape(shape)
    return result


def has_devices():
    """Whether the process has made TensorFlow's devices."""
    from tensorflow.python.eager import context
    return getattr(context.context(), "_context_handle", None) is not None


def add_late_devices(kind, add):
    """Gives the eager context devices of `kind`, a type such as "IPU", if it was made before they
    were registered. add(address) does so for the TFE_Context at this address.

    Raises RuntimeError if the context has a server, whose devices are fixed.
    """
    import ctypes
    from tensorflow.python.eager import context
    owner = context.context()
    if not has_devices() or any(f":{kind}:" in name for name in owner._context_devices):
        return
    if owner._server_def is not None or owner._collective_ops_server_def is not None:
        raise RuntimeError(
            "TensorFlow has connected this process with others before it knew of IPUs. Import "
            "tensorflow.python.ipu before the program makes its cluster.")
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    owner.executor.wait()
    add(address(owner._context_handle, None))
    owner._initialize_logical_devices()


def has_executor(owner):
    """Whether operations of this thread in the context `owner` run in an executor."""
    return getattr(owner._thread_local_data, "executor", None) is not None


def thread_state(owner):
    """What the context `owner` keeps for this thread: its device and its options."""
    data = owner._thread_local_data
    return data.device_name, data.device_spec, data.function_call_options


def set_thread_state(owner, state):
    """Makes what the context `owner` keeps for this thread what thread_state() gave in another."""
    data = owner._thread_local_data
    data.device_name, data.device_spec, data.function_call_options = state


def run_on_cpu(op, **attributes):
    """Runs an operation of the plugin that has neither inputs nor results, in eager mode."""
    from tensorflow.python.eager import context, execute
    with eagerly_on_cpu():
        context.ensure_initialized()
        execute.execute(op.encode(), 0, inputs=[], ctx=context.context(), attrs=tuple(
            one for pair in attributes.items() for one in pair))


def result_on_cpu(op, inputs, **attributes):
    """Runs an operation of the plugin with one result in eager mode. Returns the result, which
    tapes know of."""
    from tensorflow.python.eager import context, execute
    with eagerly_on_cpu():
        context.ensure_initialized()
        attributes = {name: getattr(value, "as_datatype_enum", value)
                      for name, value in attributes.items()}
        pairs = tuple(one for pair in attributes.items() for one in pair)
        found, = execute.execute(op.encode(), 1, inputs=inputs, ctx=context.context(), attrs=pairs)
        if execute.must_record_gradient():
            execute.record_gradient(op, inputs, pairs, [found])
        return found


def record(operation):
    """Tells the tapes of a function that is being traced of an operation."""
    from tensorflow.python.eager import execute
    if execute.must_record_gradient():
        pairs = [(name, operation.get_attr(name)) for name in operation.node_def.attr]
        execute.record_gradient(operation.type, list(operation.inputs),
                                tuple(one for pair in pairs for one in pair),
                                list(operation.outputs))


def read_on_cpu(op, types, **attributes):
    """Runs an operation of the plugin without inputs in eager mode. Returns its results as arrays.
    Such an operation has the attribute `dtypes`, the types of the results."""
    from tensorflow.python.eager import context, execute
    attributes["dtypes"] = [one.as_datatype_enum for one in types]
    with eagerly_on_cpu():
        context.ensure_initialized()
        found = execute.execute(op.encode(), len(types), inputs=[], ctx=context.context(),
                                attrs=tuple(one for pair in attributes.items() for one in pair))
        return [one.numpy() for one in found]
