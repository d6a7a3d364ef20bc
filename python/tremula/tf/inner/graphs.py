"""Building graphs and the graphs of functions, and looking into them."""

import contextlib
import itertools

from tremula.tf.inner import versions


def new_function_graph(name):
    """A graph for the body of a function that is built inside the default graph.

    In a TensorFlow 1 graph only the program orders operations; in a tf.function TensorFlow orders
    all of them.
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
    """Marks operations that are added to the graph in this block as being for XLA: gradients of
    loops keep values in lists of a fixed size, gradients of conditions in plain tensors."""
    from tensorflow.python.ops import control_flow_ops
    context = control_flow_ops.XLAControlFlowContext()
    with _entered(graph.outer_graph), graph.as_default():
        context.Enter()
        try:
            yield
        finally:
            context.Exit()


def _entered(graph):
    """A block in which a graph is the default one of graph mode, instead of a graph that was
    entered: init_scope() then finds that graph, and no eager mode around it."""
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
    """The operations of a function's graph that run: those that its results need, and those with
    side effects."""
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


@contextlib.contextmanager
def of_type(op_type, made_of, to_apply, attributes):
    """Makes operations of the types `made_of` that are added to the default graph in this block
    ones of `op_type`, which has the same attributes, those given here ({name: text or number}) and,
    as "to_apply", the function whose name to_apply() gives. Gives a list of them."""
    from tensorflow.core.framework import attr_value_pb2
    from tensorflow.python.framework import ops
    graph = ops.get_default_graph()
    create, made = graph._create_op_internal, []

    def create_of_type(asked, inputs, *arguments, attrs=None, op_def=None, **keywords):
        if asked not in made_of:
            return create(asked, inputs, *arguments, attrs=attrs, op_def=op_def, **keywords)
        more = {name: attr_value_pb2.AttrValue(**{
            "s" if isinstance(value, str) else "i":
            value.encode() if isinstance(value, str) else value})
                for name, value in attributes.items()}
        more["to_apply"] = attr_value_pb2.AttrValue(
            func=attr_value_pb2.NameAttrList(name=to_apply()))
        made.append(create(op_type, inputs, *arguments, attrs={**attrs, **more}, **keywords))
        return made[-1]

    graph._create_op_internal = create_of_type
    try:
        yield made
    finally:
        del graph._create_op_internal


def record(operation, **attributes):
    """Tells gradient tapes of a node that apply_op() has added and whose op has a gradient, which
    may ask for these attributes."""
    from tensorflow.python.eager import execute
    if execute.must_record_gradient():
        flat = tuple(part for one in attributes.items() for part in one)
        execute.record_gradient(operation.type, list(operation.inputs), flat, operation.outputs)


def lift(tensor, to_graph):
    """Copies a tensor and what it needs from a function graph into another graph."""
    from tensorflow.python.eager import lift_to_graph
    return lift_to_graph.lift_to_graph([tensor], to_graph)[tensor]


_unique_numbers = itertools.count(1)


def unique_name(stem):
    """A name that this process has not used before."""
    return f"tremula_{stem}_{next(_unique_numbers)}"


def import_graph(graph_def, feeds, outputs, outputs_of):
    """Adds a graph to the default graph, with tensors `feeds` ({name: tensor}) for inputs
    that are not among its nodes. Returns the tensors named `outputs`, or all of the node
    `outputs_of`."""
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


def new_graph_def(library):
    """A GraphDef without nodes, with a copy of a FunctionDefLibrary."""
    from tensorflow.core.framework import graph_pb2
    graph_def = graph_pb2.GraphDef(versions=versions.graph_versions())
    graph_def.library.CopyFrom(library)
    return graph_def


def is_function_graph(graph):
    """Whether a graph is that of a function."""
    from tensorflow.python.framework import func_graph
    return isinstance(graph, func_graph.FuncGraph)


def used_tensors(graph_def):
    """The names of all tensors that nodes of the graph take, as "node:0"."""
    return {name if ":" in name else name + ":0"
            for node in graph_def.node for name in node.input if not name.startswith("^")}


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


def graphs_around():
    """The default graph and the graphs that it is inside of, the outermost last."""
    import tensorflow.compat.v1 as tf
    found = [tf.get_default_graph()]
    while getattr(found[-1], "outer_graph", None) is not None:
        found.append(found[-1].outer_graph)
    return found


def is_loop_body(graph):
    """Whether a graph is the body of a while loop."""
    from tensorflow.python.ops import control_flow_v2_func_graphs
    return isinstance(graph, control_flow_v2_func_graphs.WhileBodyFuncGraph)


def is_in_loop_body(graph):
    """Whether a graph is the body of a while loop, or a branch in one."""
    while graph is not None and not is_loop_body(graph):
        graph = getattr(graph, "outer_graph", None)
    return graph is not None


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


def in_compiled_function():
    """Whether what is built now ends in a function or in a computation for XLA."""
    from tensorflow.python.framework import func_graph, ops
    from tensorflow.python.ops import control_flow_util
    graph = ops.get_default_graph()
    if isinstance(graph, func_graph.FuncGraph):
        return True
    context = graph._get_control_flow_context()
    return control_flow_util.GetContainingXLAContext(context) is not None


def in_static_program():
    """Whether what is built now is in a program for XLA, or in a function inside one."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import control_flow_util
    return control_flow_util.GraphOrParentsInXlaContext(ops.get_default_graph())


def without_variables(concrete_function):
    """A concrete function with constants for its variables. Loops stay functions: TensorFlow's
    bridge cannot lower the other form."""
    from tensorflow.python.framework import convert_to_constants
    return convert_to_constants.convert_variables_to_constants_v2(
        concrete_function, lower_control_flow=False)
