"""The inner names of TensorFlow that the runtime needs, and how they differ between versions.

As tremula.tf.compat, but for what only the runtime uses. TensorFlow is imported when a function is
called, not before.
"""

import contextlib
import functools
import itertools
import re


def tensorflow_version():
    """Such as "2.15.1"."""
    from tensorflow.python.framework import versions
    return versions.VERSION


def load_device_plugin(path):
    """Lets TensorFlow load a library that holds devices, kernels and ops."""
    from tensorflow.python.framework import load_library
    load_library.load_pluggable_device_library(path)


def error_class(code):
    """The exception class of a status code; `Class(None, None, message)` makes one."""
    from tensorflow.python.framework import errors_impl
    return errors_impl.exception_type_from_error_code(code)


def error_code(error):
    """The status code of an exception: TensorFlow's own, or INTERNAL."""
    from tensorflow.python.framework import errors_impl
    code = getattr(error, "error_code", None)
    return code if isinstance(code, int) and code else errors_impl.INTERNAL


def dtype_name(number):
    """The name of a type, such as "float32", from its number in protocol buffers."""
    from tensorflow.core.framework import types_pb2
    name = types_pb2.DataType.Name(number)
    name = name[len("DT_"):].lower()
    return {"float": "float32", "half": "float16", "double": "float64"}.get(
        name.removesuffix("_ref"), name)


def with_half(numbers):
    """Numbers of types, with float16 among them."""
    from tensorflow.core.framework import types_pb2
    return sorted({*numbers, types_pb2.DT_HALF})


def registered_kernels():
    """A KernelList of every kernel of the process."""
    from tensorflow.python.framework import kernels
    return kernels.get_all_registered_kernels()


def kernel_list(data=b""):
    """A KernelList, empty or from bytes."""
    from tensorflow.core.framework import kernel_def_pb2
    return kernel_def_pb2.KernelList.FromString(data)


def op_definition(op):
    """The OpDef of an op, or None if there is no such op."""
    from tensorflow.python.framework import op_def_registry
    return op_def_registry.get(op)


@contextlib.contextmanager
def eagerly_on_cpu():
    """Eager mode, on the CPU, whatever mode and graph the program is in."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops
    with context.eager_mode(), ops.device("/device:CPU:0"):
        yield


def lower_something():
    """Lowers a function that does nothing much. TensorFlow registers its kernels for lowering
    when it does so for the first time."""
    import tensorflow as tf
    with eagerly_on_cpu():
        function = tf.function(lambda x: x + x, jit_compile=True, autograph=False)
        hlo(function.get_concrete_function(tf.TensorSpec([], tf.float32)))


def hlo(concrete_function):
    """The serialised HloModuleProto of a concrete function that is to be compiled. Call it
    eagerly_on_cpu()."""
    from tensorflow.python.eager.polymorphic_function import compiler_ir
    import warnings
    lower = compiler_ir.from_concrete_function(concrete_function)
    try:
        # Without a device TensorFlow asks which one it likes best, and that is ours.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 2.21 says that the argument is deprecated
            return lower(stage="hlo_serialized", device_name="/device:CPU:0")
    except ValueError as error:
        raise LoweringError(str(error)) from None


class LoweringError(Exception):
    """A graph that cannot be lowered. `said` is what TensorFlow's bridge said of it."""

    def __init__(self, message, said=""):
        super().__init__(message)
        self.said = said or message


def hlo_module(data):
    """The HloModuleProto in bytes."""
    from tensorflow.compiler.xla.service import hlo_pb2
    return hlo_pb2.HloModuleProto.FromString(data)


def new_function_graph(name):
    """A graph for the body of a function that is built inside the default graph.

    In a TensorFlow 1 graph nothing is ordered that the program does not order itself, in a
    tf.function everything is.
    """
    from tensorflow.python.framework import func_graph, ops
    outer = ops.get_default_graph()
    graph = func_graph.FuncGraph(name)
    # Loops and conditions ask for it.
    graph._add_control_dependencies = isinstance(outer, func_graph.FuncGraph)
    graph._attr_scope_map = dict(outer._attr_scope_map)
    graph.seed = outer.seed
    return graph


@contextlib.contextmanager
def static_program(graph):
    """What is added to the graph meanwhile knows that it is for XLA: gradients of loops keep what
    they need in lists of a fixed size, those of conditions in plain tensors."""
    from tensorflow.python.ops import control_flow_ops
    context = control_flow_ops.XLAControlFlowContext()
    with _entered(graph.outer_graph), graph.as_default():
        context.Enter()
        try:
            yield
        finally:
            context.Exit()


def _entered(graph):
    """A block in a graph that is default because nothing runs eagerly, not because somebody has
    entered it: so init_scope() finds that graph, and no eager mode around it."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import func_graph
    is_entered = context.executing_eagerly() or isinstance(graph, func_graph.FuncGraph)
    return contextlib.nullcontext() if is_entered else graph.as_default()


def function_graphs(graph):
    """The graphs of the functions that `graph` and they call: {function name: graph}."""
    found = {}
    waiting = [graph]
    while waiting:
        for name, function in waiting.pop()._functions.items():
            inner = getattr(function, "graph", None)
            if name not in found and inner is not None:
                found[name] = inner
                waiting.append(inner)
    return found


def called_functions(operation):
    """The names of the functions that an operation calls: a list."""
    values = operation.node_def.attr.values()
    return [one.name for value in values
            for one in ([value.func] if value.HasField("func") else value.list.func)]


def needed_operations(function_graph):
    """The operations of a function's graph that are run: those that its results need, and those
    that it must run in any case."""
    waiting = [*(one.op for one in function_graph.outputs), *function_graph.control_outputs]
    found = set()
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += [*one.control_inputs, *(tensor.op for tensor in one.inputs)]
    return found


def apply_op(op, name=None, **arguments):
    """Adds a node to the default graph and returns the operation."""
    from tensorflow.python.framework import op_def_library
    _, _, operation, _ = op_def_library._apply_op_helper(op, name=name, **arguments)
    return operation


def run_on_cpu(op, **attributes):
    """Runs an operation of the plugin that has neither inputs nor results, in eager mode."""
    from tensorflow.python.eager import context, execute
    with eagerly_on_cpu():
        context.ensure_initialized()
        execute.execute(op.encode(), 0, inputs=[], ctx=context.context(), attrs=tuple(
            one for pair in attributes.items() for one in pair))


def apply_read(handle, dtype):
    """The value of the variable behind a handle."""
    from tensorflow.python.ops import gen_resource_variable_ops
    return gen_resource_variable_ops.read_variable_op(handle, dtype)


def is_resource_variable_handle(tensor):
    """Whether a tensor is the handle of a resource variable whose type and shape are known."""
    from tensorflow.python.framework import dtypes
    return tensor.dtype == dtypes.resource and variable_type(tensor) is not None


def variable_type(handle):
    """(dtype, shape) of the variable that a handle leads to, or None."""
    from tensorflow.python.framework import dtypes, tensor_shape
    from tensorflow.python.ops import handle_data_util
    data = getattr(handle, "_handle_data", None) or handle_data_util.get_resource_handle_data(
        handle)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    one = data.shape_and_type[0]
    return dtypes.as_dtype(one.dtype), tensor_shape.TensorShape(one.shape)


def variable_handle(dtype, shape):
    """A placeholder in the default graph for the handle of a variable of a type and a shape."""
    import tensorflow.compat.v1 as tf
    from tensorflow.python.framework import cpp_shape_inference_pb2
    from tensorflow.python.ops import handle_data_util
    handle = tf.placeholder(tf.resource, [])
    data = cpp_shape_inference_pb2.CppShapeInferenceResult.HandleData()
    data.is_set = True
    data.shape_and_type.append(cpp_shape_inference_pb2.CppShapeInferenceResult.HandleShapeAndType(
        shape=shape.as_proto(), dtype=dtype.as_datatype_enum))
    handle_data_util.set_handle_data(handle, data)
    return handle


def unborn_variable(dtype, shape):
    """The eager handle of a variable that nobody gives a value."""
    import tensorflow as tf
    with tf.init_scope(), tf.device("/device:CPU:0"):
        handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=unique_name("state"))
        set_variable_type(handle, dtype, shape)
        return handle


def set_variable_type(handle, dtype, shape):
    """Tells an eager handle the type and shape of its variable."""
    from tensorflow.python.framework import tensor_shape
    from tensorflow.python.ops import handle_data_util
    handle_data_util.set_handle_data(handle, handle_data_util.create_handle_data(
        tensor_shape.TensorShape(shape), dtype))


def lift(tensor, to_graph):
    """Copies a tensor and what it needs from a function graph into another graph."""
    from tensorflow.python.eager import lift_to_graph
    return lift_to_graph.lift_to_graph([tensor], to_graph)[tensor]


_unique_numbers = itertools.count(1)


def unique_name(stem):
    """A name that this process has not used before."""
    return f"tremula_{stem}_{next(_unique_numbers)}"


def import_graph(graph_def, feeds, outputs, outputs_of):
    """Adds a graph to the default graph, with tensors `feeds` ({name: tensor}) for inputs that it
    names but has not. Returns the tensors named `outputs`, or all of the node `outputs_of`."""
    from tensorflow.python.framework import importer
    wanted = [outputs_of] if outputs_of else list(outputs)
    direct = [feeds.get(name) for name in wanted]  # an input that is a result too
    missing = [name for name, tensor in zip(wanted, direct) if tensor is None]
    used = used_tensors(graph_def)
    found = iter(importer.import_graph_def(
        graph_def, input_map={name: tensor for name, tensor in feeds.items() if name in used},
        return_elements=missing, name="") or [])
    results = [next(found) if tensor is None else tensor for tensor in direct]
    return list(results[0].outputs) if outputs_of else results


def import_nodes(graph_def, feeds, names, prefix):
    """Adds a graph to the default graph under a prefix. Returns what has the names, tensors ("n:0")
    and operations ("n")."""
    from tensorflow.python.framework import importer
    return importer.import_graph_def(graph_def, input_map=feeds, return_elements=names,
                                     name=prefix)


def set_function_options(options):
    """Sets options of the graph optimiser for every tf.function of the process."""
    from tensorflow.python.eager import context
    context.context().set_optimizer_experimental_options(options)


def new_graph_def(library):
    """A GraphDef without nodes, with a copy of a FunctionDefLibrary."""
    from tensorflow.core.framework import graph_pb2
    graph_def = graph_pb2.GraphDef(versions=graph_versions())
    graph_def.library.CopyFrom(library)
    return graph_def


def is_eager(tensor):
    """Whether a tensor has a value now."""
    from tensorflow.python.framework import ops
    return isinstance(tensor, ops.EagerTensor)


def is_function_graph(graph):
    """Whether a graph is that of a function."""
    from tensorflow.python.framework import func_graph
    return isinstance(graph, func_graph.FuncGraph)


def used_tensors(graph_def):
    """The names of all tensors that nodes of the graph take, as "node:0"."""
    return {name if ":" in name else name + ":0"
            for node in graph_def.node for name in node.input if not name.startswith("^")}


CANCELLED = 1
INVALID_ARGUMENT = 3
FAILED_PRECONDITION = 9
UNIMPLEMENTED = 12


def wants_constant(error):
    """Whether a LoweringError says that some value must be known when lowering."""
    return "must be a compile-time constant" in error.said


def numpy_type(number):
    """The numpy type of a type's number in protocol buffers."""
    from tensorflow.python.framework import dtypes
    return dtypes.as_dtype(number).as_numpy_dtype


def graph_versions():
    """The VersionDef of graphs that this TensorFlow makes."""
    from tensorflow.core.framework import versions_pb2
    from tensorflow.python.framework import versions
    return versions_pb2.VersionDef(producer=versions.GRAPH_DEF_VERSION)


def inferred_operations(source, shapes):
    """The operations of a Source's graph, {name: operation}, with what TensorFlow knows of their
    shapes when the arguments' are `shapes`."""
    import tensorflow.compat.v1 as tf
    with tf.Graph().as_default() as graph:
        feeds = {argument.tensor: tf.placeholder(tf.dtypes.as_dtype(argument.dtype), shape)
                 for argument, shape in zip(source.arguments, shapes)}
        feeds.update((variable.tensor, tf.raw_ops.VarHandleOp(
            dtype=tf.dtypes.as_dtype(variable.dtype), shape=variable.shape))
            for variable in [*source.variables, *source.state])
        import_graph(source.graph_def, feeds, source.outputs, source.outputs_of)
        return {operation.name: operation for operation in graph.get_operations()}


def constant_value(tensor):
    """The value of a scalar as a number of Python's, or None if it is not known."""
    from tensorflow.python.framework import tensor_util
    value = tensor_util.constant_value(tensor)
    return None if value is None else value.item()


def is_in_graph(value, graph):
    """Whether `value` is a tensor of the graph."""
    from tensorflow.python.framework import tensor_util
    return tensor_util.is_tf_type(value) and getattr(value, "graph", None) is graph


def capture(tensors):
    """Makes eager tensors inputs of the function that is being traced, in this order. Returns
    what stands for them in it."""
    from tensorflow.python.framework import ops
    return [ops.get_default_graph().capture(tensor) for tensor in tensors]


@contextlib.contextmanager
def without_marks():
    """Nodes that are added to the default graph meanwhile get no attributes from scopes around."""
    from tensorflow.python.framework import ops
    graph = ops.get_default_graph()
    marks, graph._attr_scope_map = graph._attr_scope_map, {}
    try:
        yield
    finally:
        graph._attr_scope_map = marks


def put_errors_first():
    """Makes what a session says of an error in our nodes begin with the error.

    TensorFlow begins with where the node was made, and says everything twice if something else
    waited for the node.
    """
    from tensorflow.python.framework import error_interpolation
    interpolate = error_interpolation.interpolate_graph

    @functools.wraps(interpolate)
    def interpolate_ours(message, graph):
        if re.search(r"iterator has not been initialized"
                     r".*\{\{node \S*feed\S*/IteratorGetNextAsOptional", message, re.DOTALL):
            return _not_initialized(graph) + "\n" + interpolate(message, graph)
        for name in re.findall(r"\{\{node (\S+?)\}\}", message):
            try:
                operation = graph.get_operation_by_name(name)
            except (KeyError, ValueError):
                continue
            if operation.type.startswith("Ipu"):
                found = re.search(r"(?:\A|\(0\) [A-Z_]+: )(?!\d+ root error)(.*?)\s+\[\[", message,
                                  re.DOTALL)
                return f"{found.group(1)}\n(while running {name})" if found else message
        return interpolate(message, graph)

    error_interpolation.interpolate_graph = interpolate_ours


def outermost_graph():
    """The graph that the default graph is, or is inside of."""
    import tensorflow.compat.v1 as tf
    graph = tf.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def _not_initialized(graph):
    names = {name.decode() for one in graph.get_operations() if one.type == "IpuStart"
             for name in one.get_attr("feeds") if name.startswith(b"infeed") or len(
                 one.get_attr("feeds")) == 1}
    which = f" '{names.pop()}'" if len(names) == 1 else ""
    return ("Trying to access an infeed dataset iterator which has not been created. Did you "
            f"initialize the infeed_queue{which} ? Run its `initializer` first.")


def is_loop_body(graph):
    """Whether a graph is the body of a while loop."""
    from tensorflow.python.ops import control_flow_v2_func_graphs
    return isinstance(graph, control_flow_v2_func_graphs.WhileBodyFuncGraph)


def failed_precondition(message):
    """A FailedPreconditionError."""
    from tensorflow.python.framework import errors_impl
    return errors_impl.FailedPreconditionError(None, None, message)


def keep_context():
    """Keeps TensorFlow from taking its eager context down, in a forked process: it would wait for
    threads that only the parent has."""
    import ctypes
    from tensorflow.python.eager import context
    handle = getattr(context.context(), "_context_handle", None)
    if handle is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def leave_unconverted():
    """Keeps AutoGraph from rewriting our own functions in a tf.function that calls them, which takes
    ten seconds: we are no part of the package whose name it knows."""
    from tensorflow.python.autograph.core import config
    config.CONVERSION_RULES = (config.DoNotConvert("tremula"), *config.CONVERSION_RULES)


def user_function(function):
    """A function of the program's, to be called while something of it is traced: where a
    tf.function is traced that AutoGraph rewrites, this is, too."""
    from tensorflow.python.autograph.core import ag_ctx
    from tensorflow.python.autograph.impl import api
    return api.tf_convert(function, ag_ctx.control_status_ctx(), convert_by_default=False)


def prefer_cpu():
    """Keeps what is placed nowhere on the CPU.

    TensorFlow prefers devices that come as plugins for the ops that it has kernels of for every
    device, such as variables; programs for IPUs say what is to be on an IPU.
    """
    from tensorflow.python.eager import context
    from tensorflow.python.framework import device as device_lib, ops
    if not context.context().device_name:
        name = "/job:localhost/replica:0/task:0/device:CPU:0"
        context.context()._set_device(name, device_lib.DeviceSpec.from_string(name))
    create = ops.Graph.__init__

    @functools.wraps(create)
    def create_preferring(self, *arguments, **keywords):
        create(self, *arguments, **keywords)
        if type(self) is ops.Graph:  # graphs of functions take over the devices around them
            self._add_device_to_stack(_cpu_if_free)

    ops.Graph.__init__ = create_preferring
    graph = ops._default_graph_stack._global_default_graph
    if graph is not None and not len(list(graph._device_function_stack.peek_objs())):
        graph._add_device_to_stack(_cpu_if_free)


def _cpu_if_free(operation):
    """The device of an operation: the CPU, if it has none and need not follow another one."""
    from tensorflow.python.framework import dtypes
    follows = any(one.dtype == dtypes.resource or one.dtype._is_ref_dtype
                  for one in operation.inputs)
    return operation.device or ("" if follows else "/device:CPU:0")


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


def restart_iterator(iterator, dataset):
    """Starts an eager iterator from the beginning of its dataset."""
    from tensorflow.python.ops import gen_dataset_ops
    gen_dataset_ops.make_iterator(dataset._variant_tensor, iterator._iterator_resource)


@contextlib.contextmanager
def in_program_order(graph):
    """Orders the stateful operations that are added to a function graph meanwhile, if the graph
    wants that. Gives a function that lists those that must run, to be called afterwards."""
    from tensorflow.python.framework import auto_control_deps
    if not graph._add_control_dependencies:
        yield list
        return
    with auto_control_deps.AutomaticControlDependencies() as control:
        yield lambda: list(control.ops_which_must_run)


def default_config():
    """The ConfigProto of sessions that are given none."""
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.eager import context
    config = config_pb2.ConfigProto()
    config.CopyFrom(context.context().config)
    # Options of functions are in there, ours among them: set_function_options().
    rewriting = config.graph_options.rewrite_options
    if rewriting.min_graph_nodes < 0:
        rewriting.ClearField("min_graph_nodes")
    if not rewriting.ByteSize():
        config.graph_options.ClearField("rewrite_options")
    if not config.graph_options.ByteSize():
        config.ClearField("graph_options")
    return config


def rewrites_precision():
    """Whether sessions compute in half precision where TensorFlow finds that good."""
    from tensorflow.python.client import session
    return session.mixed_precision_global_state.is_mixed_precision_graph_rewrite_enabled()


def dataset_class():
    """The class that the datasets of both APIs are of."""
    from tensorflow.python.data.ops import dataset_ops
    return dataset_ops.DatasetV2


def function_arguments(function):
    """The names of a function's arguments; of a functools.partial, of those that are left."""
    from tensorflow.python.util import function_utils
    return function_utils.fn_args(function)
