"""From a function graph to a Source, which can be lowered: now, or when its shapes are known."""

import zlib

from tremula.tf.inner import errors, graphs, handles
from tremula.tf.runtime.host import outside
from tremula.tf.runtime.lowering import inlining, lowering
from tremula.tf.runtime.nodes import (name_order, node_table, op_types, quick_ops, rewriting,
                                      wide_ops)
from tremula.tf.runtime.ops import random_functions, support
from tremula.tf.runtime.tracing import pruning

_READING_OPS = frozenset(("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape",
                          "VarIsInitializedOp", "_ReadVariablesOp"))


def stage(graph, arguments, variables, outputs, device, state=(), host=None, names=None):
    """The Source of a function graph.

    arguments, variables   placeholders of the graph: for values, and for handles of variables
    state                  the same for handles of values that live as long as a run
    outputs                tensors of the graph; what they need is what the program does
    device                 the device's name, for messages
    host                   outside.Host: gets what runs on the host (None: nothing does)
    names                  what TensorFlow calls the arguments, then the variables, where accesses
                           to variables that nothing orders go by names (name_order.py)

    Raises InvalidArgumentError for operations that an IPU does not have.
    """
    stops = {tensor.op.name for tensor in [*arguments, *variables, *state]}
    roots = [tensor.op.name for tensor in outputs]
    graph_def = graph.as_graph_def()
    for nodes in (graph_def.node, *(one.node_def for one in graph_def.library.function)):
        op_types.lower(nodes)
    operations = {op.name: op for op in graph.get_operations()}
    functions = graphs.function_graphs(graph)
    known = {function.signature.name: _operations_of(function, functions[function.signature.name])
             for function in graph_def.library.function if function.signature.name in functions}
    for name, inlined in inlining.inline(graph_def, known).items():
        (known[name] if name in known else operations).update(inlined)
    rewriting.order_functions(graph_def)
    _keep(graph, graph_def, operations, functions, known, roots, stops, host)
    # Random numbers are cut off from some of their inputs, which may then go too.
    rewriting.use_plain_ops(graph_def.node)
    numbers = _RandomNumbers()
    _replace_random(graph_def.node, operations, numbers)
    pruning.prune(graph_def, roots, stops)
    rewriting.order_functions(graph_def)
    _check(graph_def.node, operations, device)
    for function in graph_def.library.function:
        _check(function.node_def, known.get(function.signature.name, {}), device)

    order = None if names is None else name_order.of_graph(graph_def, _called(
        [*arguments, *variables, *state], [*names, *(one.op.name for one in state)]))
    table = node_table.NodeTable()
    frames = {}  # of this graph's operations: see node_table.user_frame()
    new_names = _rename_graph(graph_def, operations, table, frames)
    if order is not None:
        name_order.apply(graph_def, [new_names[name] for name in order])
    for function in list(graph_def.library.function):
        _stage_function(graph_def, function, known.get(function.signature.name, {}), table,
                        numbers, frames)
    _call_random(graph_def, {new_names[name]: one for name, one in operations.items()
                             if name in new_names}, graph_def.node, numbers)
    quick_ops.use_quick_ops(graph_def.node, table)
    wide_ops.use_wide_ops(graph_def.node, table.entries)
    rewriting.rename_functions(graph_def)

    def name(tensor):
        return rewriting.rename_input(tensor.name, new_names)

    return lowering.Source(
        graph_def,
        [lowering.Argument(name(one), one.dtype.as_datatype_enum, _shape(one.shape))
         for one in arguments],
        [_variable_argument(one, name(one)) for one in variables],
        [name(one) for one in outputs], table=table.entries,
        state=[_variable_argument(one, name(one)) for one in state])


def _keep(graph, graph_def, operations, functions, known, roots, stops, host):
    """Leaves in a GraphDef what its program does on the IPU; the host gets the rest. `operations`
    and `known` are the operations of the graph's nodes and, by their names, of the functions'."""
    bodies = [graph_def.node, *(one.node_def for one in graph_def.library.function)]
    if host is not None:
        for nodes in bodies:
            rewriting.use_custom_calls(nodes, host.connect)
    calls_host = host is not None and any(map(outside.has_any, bodies))
    # What the host calls is as it was built.
    library = graphs.new_graph_def(graph_def.library).library if calls_host else None
    _prune(graph_def, operations, known, roots, stops, host)
    if calls_host:
        _cut_outside(graph_def, graph, operations, functions, known, library, host)
        _prune(graph_def, operations, known, roots, stops, host)


def _called(tensors, names):
    """{name of the operation of a tensor: what TensorFlow calls it}."""
    return {one.op.name: called or one.op.name for one, called in zip(tensors, names)}


def _prune(graph_def, operations, known, roots, stops, host):
    """Drops what the graph and its functions neither give nor do. `operations` and `known` are the
    operations of the graph's nodes and, by their names, of the functions'."""
    def replace_checks(nodes, described):
        rewriting.replace_checks(
            [one for one in nodes if host is None or not outside.is_marked_node(one)], described)

    replace_checks(graph_def.node, operations)
    pruning.prune(graph_def, roots, stops)
    rewriting.order_functions(graph_def)
    for function in graph_def.library.function:
        replace_checks(function.node_def, known.get(function.signature.name, {}))
    pruning.prune_functions(graph_def)
    rewriting.order_functions(graph_def)


def _cut_outside(graph_def, graph, operations, functions, known, library, host):
    """Cuts what runs on the host out of the graph and of its functions. `library` has the functions
    that it calls. `operations` and `known` get entries for what takes its place."""
    parts = [outside.Part(graph_def.node, graph, operations)] + [
        outside.Part(function.node_def, functions[function.signature.name],
                     known[function.signature.name], function)
        for function in graph_def.library.function if function.signature.name in functions]
    for one in parts:
        if outside.has_any(one.nodes):
            outside.cut(one, library, host)


def _check(nodes, operations, device):
    """Raises InvalidArgumentError for the first node that an IPU does not have."""
    found = (operations.get(node.name) for node in nodes)
    support.check((one for one in found if one is not None and not outside.runs_outside(one)),
                  device)


def _shape(shape):
    """A TensorShape as a list with None for what is unknown, or None."""
    return None if shape.rank is None else shape.as_list()


def _variable_argument(handle, name):
    dtype, shape = handles.variable_type(handle)
    if not shape.is_fully_defined():
        raise errors.error_class(errors.INVALID_ARGUMENT)(None, None, (
            f"The variable behind {handle.name} has the shape {shape}, but an IPU program is "
            "static: give the variable a shape that is known."))
    return lowering.Argument(name, dtype.as_datatype_enum, shape.as_list())


def _rename_graph(graph_def, operations, table, frames):
    new_names = {node.name: table.add(node_table.describe(operations[node.name], frames))
                 for node in graph_def.node}
    rewriting.rename(graph_def.node, new_names)
    rewriting.strip(graph_def.node)
    return new_names


def _stage_function(graph_def, function, known, table, numbers, frames):
    """The same for a FunctionDef; `known` is what it is made of as _operations_of() says it."""
    for name in rewriting.use_plain_ops(function.node_def):
        rewriting.redirect_output(function, name, "y", "output")
    for name in _replace_random(function.node_def, known, numbers):
        rewriting.redirect_output(function, name, "output", "results")
    _seed_random(function.node_def, numbers, in_function=True)
    for name in _call_random(graph_def, known, function.node_def, numbers):
        for place, one in enumerate(known[name].op_def.output_arg):
            rewriting.redirect_output(function, name, one.name, "output", place)
    new_names = {}
    for node in function.node_def:
        operation = known.get(node.name)
        new_names[node.name] = table.add(
            node_table.describe(operation, frames) if operation is not None
            else {"name": node.name, "file": None, "line": 0})
    rewriting.rename_function(function, new_names)
    rewriting.strip(function.node_def)
    quick_ops.use_quick_ops(function.node_def, table, function)
    wide_ops.use_wide_ops(function.node_def, table.entries, function)


def _operations_of(function, graph):
    """{name of a node: the operation that it was}. TensorFlow puts a number behind a node's name
    where the name is also that of a result."""
    operations = {op.name: op for op in graph.get_operations()}
    found = {}
    for node in function.node_def:
        stem, _, number = node.name.rpartition("_")
        for name in (node.name, stem if number.isdigit() else ""):
            if name in operations and op_types.lowered(operations[name].type) == node.op:
                found[node.name] = operations[name]
                break
    return found


# ---- Random numbers ----

def random_number(name):
    """A number for a random op of that name, an int below 2**32."""
    return zlib.crc32(name.encode())


class _RandomNumbers:
    """Numbers that tell a program's random ops apart: the same in every process and every time,
    because a number follows from a name."""

    def __init__(self):
        self._used = set()

    def of(self, name):
        """The number of an op of that name, or the next that none had before."""
        number = random_number(name)
        while number in self._used:
            number = (number + 1) % 2 ** 32
        self._used.add(number)
        return number


def _replace_random(nodes, operations, numbers, names=None):
    """Makes the stateful random ops whose shapes are known custom calls. `names` are what the
    program's author calls the nodes, where they have other names. Returns their names."""
    replaced = []
    for node in nodes:
        operation = operations.get(node.name)
        if node.op not in rewriting.RANDOM_OPS or operation is None:
            continue
        shape = operation.outputs[0].shape
        if shape.is_fully_defined():
            number = numbers.of((names or {}).get(node.name, operation.name))
            rewriting.replace_random(node, number, shape.as_list(), _known_bounds(operation))
            replaced.append(node.name)
    return replaced


def _seed_random(nodes, numbers, in_function, names=None):
    """The same for those whose shapes are not known."""
    for node in [one for one in nodes if one.op in rewriting.RANDOM_OPS]:
        number = numbers.of((names or {}).get(node.name, node.name))
        rewriting.seed_random(nodes, node, number, in_function)


def _known_bounds(operation):
    """[minval, maxval] of an op that draws integers, if both are constants."""
    if operation.type != "RandomUniformInt":
        return None
    bounds = [graphs.constant_value(tensor) for tensor in operation.inputs[1:3]]
    return None if None in bounds else bounds


def _call_random(graph_def, operations, nodes, numbers):
    """Makes random ops that are composed of simpler ones calls of functions, which it adds to the
    graph's library. Returns the names of the nodes."""
    replaced = []
    for node in nodes:
        operation = operations.get(node.name)
        if operation is None or node.op not in random_functions.MAKERS:
            continue
        function = random_functions.MAKERS[node.op](operation, numbers.of(operation.name))
        graph_def.library.function.append(function.definition)
        rewriting.call_function(node, function.name, function.input_types, function.output_types)
        replaced.append(node.name)
    return replaced


def infer_random_shapes(source, shapes):
    """Replaces the random ops of a Source whose shapes depend on its arguments, which have the
    shapes `shapes` now. A shape that is still unknown depends on values."""
    if not any(node.op in rewriting.RANDOM_OPS for node in source.graph_def.node):
        return
    operations = graphs.inferred_operations(source, shapes)
    numbers = _RandomNumbers()
    names = {name: entry["name"] for name, entry in source.table.items()}
    _replace_random(source.graph_def.node, operations, numbers, names)
    _seed_random(source.graph_def.node, numbers, in_function=False, names=names)


# ---- What a graph does ----

def written(graph, handles):
    """The numbers of those of the placeholders `handles` whose variables the graph writes to."""
    functions = graphs.function_graphs(graph)
    return [i for i, handle in enumerate(handles) if _is_written(handle, functions)]


def _is_written(handle, functions):
    for user in handle.consumers():
        if outside.runs_outside(user):
            continue
        if user.type in ("Identity", "EnsureShape"):
            if _is_written(user.outputs[0], functions):
                return True
        elif op_types.lowered(user.type) in rewriting.CALLS:
            if any(_is_written(inner, functions) for inner in _inside(user, handle, functions)):
                return True
        elif user.type not in _READING_OPS:
            return True
    return False


def _inside(call, handle, functions):
    """The placeholders that stand for an input of a call inside the functions that it calls."""
    before = rewriting.CALLS[op_types.lowered(call.type)]
    positions = [i - before for i, one in enumerate(call.inputs) if one is handle]
    for name in graphs.called_functions(call):
        graph = functions.get(name)
        for position in positions:
            if graph is not None and 0 <= position < len(graph.inputs):
                yield graph.inputs[position]
