"""The functions that TensorFlow 2 traces: their graphs, their calls, and copies of them."""

import contextlib
import re

_MUST_COMPILE = "_XlaMustCompile"


def eager_device():
    """The name of the device that what runs eagerly is placed on now, or ""."""
    from tensorflow.python.eager import context
    return context.context().device_name or ""


def bound_device(function):
    """The device that a call of an AtomicFunction runs on in eager mode; None in a graph."""
    context = function._bound_context
    return (context.device_name or "") if context.executing_eagerly() else None


def graph_devices():
    """The devices of the scopes around in the graph that is built, the innermost first."""
    from tensorflow.python.framework import ops
    return [str(scope.display_name)
            for scope in ops.get_default_graph()._device_function_stack.peek_objs()
            if scope.display_name]


def is_handle(argument):
    from tensorflow.python.framework import dtypes
    return getattr(argument, "dtype", None) == dtypes.resource


def must_compile(function):
    """Whether an AtomicFunction says `jit_compile=True`."""
    attributes = function.cached_definition.attr
    return _MUST_COMPILE in attributes and attributes[_MUST_COMPILE].b


def plain_name(function):
    """What the program's author calls an AtomicFunction."""
    name = re.sub(r"^_*(inference|forward|backward)?_*|_\d+$", "", function.graph.name)
    return re.sub(r"\W", "", name) or "function"


def is_function(function):
    """Whether something is a tf.function or a ConcreteFunction."""
    from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function
    return isinstance(function, (polymorphic_function.Function, concrete_function.ConcreteFunction))


def is_traced():
    """Whether what is called now is traced for a tf.function."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops
    return not context.executing_eagerly() and ops.get_default_graph().building_function


def without_retracing_warning(function):
    """A tf.function that TensorFlow does not warn of: the warning counts the traces of all
    functions that are made in one line."""
    function._omit_frequent_tracing_warning = True
    return function


def call(function, arguments):
    """Calls an AtomicFunction in the graph that is built. Returns its results and the operation."""
    from tensorflow.python.eager.polymorphic_function import atomic_function
    from tensorflow.python.framework import ops
    call_flat = atomic_function.AtomicFunction.call_flat.__wrapped__
    graph = ops.get_default_graph()
    outputs = call_flat(function, *arguments)
    operation = next(one for one in reversed(graph.get_operations())
                     if one.type in ("PartitionedCall", "StatefulPartitionedCall"))
    return list(outputs), operation


def calls_to_compile(graph):
    """The AtomicFunctions that a graph calls and that say `jit_compile=True`, by the names of the
    nodes that call them."""
    called = {}
    for operation in graph.get_operations():
        if operation.type in ("PartitionedCall", "StatefulPartitionedCall"):
            function = graph._functions.get(operation.get_attr("f").name)
            if function is not None and must_compile(function):
                called[operation.name] = function
    return called


def copy_graph(graph, arguments, programs):
    """Adds a function's graph to the default graph, with `arguments` for its inputs and calls of
    programs.Programs in place of the nodes {name: Program}. Returns the results and the operations
    that must run."""
    from tensorflow.python.framework import importer, ops
    graph_def = graph.as_graph_def()
    feeds = {one.name: argument for one, argument in zip(graph.inputs, arguments)}
    inputs = {one.op.name for one in graph.inputs}
    kept = [node for node in graph_def.node if node.name not in inputs]
    for node in kept:
        program = programs.get(node.name)
        if program is not None:
            for i, capture in enumerate(program.captures):
                name = f"{node.name}_capture_{i}"
                feeds[f"{name}:0"] = ops.get_default_graph().capture(capture)
                node.input.insert(len(node.attr["Tin"].list.type), f"{name}:0")
                node.attr["Tin"].list.type.append(capture.dtype.as_datatype_enum)
            node.op = "StatefulPartitionedCall"
            node.attr["f"].func.name = program.function.name
            del node.attr[_MUST_COMPILE]
            ops.get_default_graph()._add_function_recursive(program.function)
    del graph_def.node[:]
    graph_def.node.extend([type(node).FromString(node.SerializeToString()) for node in kept])
    direct = [feeds.get(one.name) for one in graph.outputs]  # an input that is a result too
    wanted = [one.name for one, given in zip(graph.outputs, direct) if given is None]
    found = importer.import_graph_def(
        graph_def, input_map=feeds, name="",
        return_elements=wanted + [one.name for one in graph.control_outputs]) or []
    results = iter(found[:len(wanted)])
    return [next(results) if one is None else one for one in direct], found[len(wanted):]


@contextlib.contextmanager
def new_function(name):
    """A graph of a function that is called eagerly, to be built in the block."""
    from tensorflow.python.framework import func_graph, ops
    with ops.init_scope():
        graph = func_graph.FuncGraph(name)
        with graph.as_default(), ops.device(None):
            yield graph


def finish_function(graph, like):
    """An AtomicFunction of a graph, with the results of another one."""
    from tensorflow.python.eager.polymorphic_function import atomic_function
    name = f"__inference_{graph.name}_{_number()}"
    return atomic_function.from_func_graph(name, graph, {}, like.function_type)


def _number():
    from tensorflow.python.framework import ops
    return ops.uid()
