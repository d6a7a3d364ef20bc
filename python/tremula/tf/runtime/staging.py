"""From a function graph to a Source, which can be lowered: now, or when its shapes are known."""

import zlib

from tremula.tf.runtime import (inside, lowering, name_order, node_table, outside, random_functions,
                                rewriting, support)

_READING_OPS = frozenset(("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape",
                          "VarIsInitializedOp", "_ReadVariablesOp"))
# Ops that call functions: how many inputs come before those that the functions get.
_CALLS = {"While": 0, "StatelessWhile": 0, "PartitionedCall": 0, "StatefulPartitionedCall": 0,
          "If": 1, "StatelessIf": 1, "Case": 1, "StatelessCase": 1}


def stage(graph, arguments, variables, outputs, device, state=(), host=None, names=None):
    """The Source of a function graph.

    arguments, variables   placeholders of the graph: for values, and for handles of variables
    state                  the same for handles of values that live as long as a run
    outputs                tensors of the graph; what they need is what the program does
    device                 the device's name, for messages
    host                   outside.Host: gets what runs on the host (None: nothing does)
    names                  what TensorFlow calls the arguments, then the variables, where accesses to
                           variables that nothing orders go by names (name_order.py)

    Raises InvalidArgumentError for operations that an IPU has not.
    """
    functions = inside.function_graphs(graph)
    stops = {tensor.op.name for tensor in [*arguments, *variables, *state]}
    graph_def = graph.as_graph_def()
    operations = {op.name: op for op in graph.get_operations()}
    _cut_outside(graph_def, graph, operations, functions, outputs, stops, host)
    # Assertions and random numbers are cut off from some of their inputs, which may then go too.
    rewriting.replace_checks(graph_def.node, operations)
    rewriting.use_plain_ops(graph_def.node)
    numbers = _RandomNumbers()
    _replace_random(graph_def.node, operations, numbers)
    rewriting.prune(graph_def, [tensor.op.name for tensor in outputs], stops)
    rewriting.order_functions(graph_def)
    kept = {node.name for node in graph_def.node}
    support.check((op for op in graph.get_operations()
                   if op.name in kept and not outside.runs_outside(op)), device)
    for function in graph_def.library.function:
        inner = functions.get(function.signature.name)
        if inner is not None:
            support.check(_needed(inner), device)

    order = None
    if names is not None:
        order = name_order.of_graph(graph_def, {
            one.op.name: known or one.op.name
            for one, known in zip([*arguments, *variables, *state],
                                  [*names, *(one.op.name for one in state)])})
    table = node_table.NodeTable()
    new_names = _rename_graph(graph_def, operations, table)
    if order is not None:
        name_order.apply(graph_def, [new_names[name] for name in order])
    for function in list(graph_def.library.function):
        _stage_function(graph_def, function, functions.get(function.signature.name), table,
                        numbers, host and host.described.get(function.signature.name))
    _call_random(graph_def, {new_names[name]: one for name, one in operations.items()
                             if name in new_names}, graph_def.node, numbers)
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


def _cut_outside(graph_def, graph, operations, functions, outputs, stops, host):
    """Cuts what runs on the host out of the graph and of its functions. `operations` gets entries
    for what takes its place."""
    if host is None or not any(map(outside.has_any, [
            graph_def.node, *[one.node_def for one in graph_def.library.function]])):
        return
    library = inside.new_graph_def(graph_def.library).library
    roots = [tensor.op.name for tensor in outputs]
    rewriting.replace_checks([one for one in graph_def.node if not outside.is_marked_node(one)],
                             operations)
    rewriting.prune(graph_def, roots, stops)
    outside.cut(outside.Part(graph_def.node, graph, operations), library, host)
    rewriting.prune(graph_def, roots, stops)
    rewriting.order_functions(graph_def)
    for function in graph_def.library.function:
        inner, nodes = functions.get(function.signature.name), function.node_def
        if inner is None or not outside.has_any(nodes):
            continue
        known = _operations_of(function, inner)
        rewriting.replace_checks([one for one in nodes if not outside.is_marked_node(one)], known)
        rewriting.prune_function(function)
        outside.cut(outside.Part(nodes, inner, known, function), library, host)
        rewriting.prune_function(function)
        host.described[function.signature.name] = known


def _shape(shape):
    """A TensorShape as a list with None for what is unknown, or None."""
    return None if shape.rank is None else shape.as_list()


def _variable_argument(handle, name):
    dtype, shape = inside.variable_type(handle)
    if not shape.is_fully_defined():
        raise inside.error_class(inside.INVALID_ARGUMENT)(None, None, (
            f"The variable behind {handle.name} has the shape {shape}, but an IPU program is "
            "static: give the variable a shape that is known."))
    return lowering.Argument(name, dtype.as_datatype_enum, shape.as_list())


def _rename_graph(graph_def, operations, table):
    new_names = {node.name: table.add(node_table.describe(operations[node.name]))
                 for node in graph_def.node}
    rewriting.rename(graph_def.node, new_names)
    rewriting.strip(graph_def.node)
    return new_names


def _stage_function(graph_def, function, graph, table, numbers, known):
    """The same for a FunctionDef; `graph` is where it came from, or None, and `known` what it is
    made of as _operations_of() says it, or None."""
    if known is None:
        known = _operations_of(function, graph) if graph is not None else {}
    rewriting.replace_checks(function.node_def, known)
    for name in rewriting.use_plain_ops(function.node_def):
        rewriting.redirect_output(function, name, "y", "output")
    for name in _replace_random(function.node_def, known, numbers):
        rewriting.redirect_output(function, name, "output", "results")
    _seed_random(function.node_def, numbers, in_function=True)
    _call_random(graph_def, known, function.node_def, numbers)
    new_names = {}
    for node in function.node_def:
        operation = known.get(node.name)
        new_names[node.name] = table.add(
            node_table.describe(operation) if operation is not None
            else {"name": node.name, "file": None, "line": 0})
    rewriting.rename_function(function, new_names)
    rewriting.strip(function.node_def)


def _operations_of(function, graph):
    """{name of a node: the operation that it was}. TensorFlow puts a number behind a node's name
    where the name is also that of a result."""
    operations = {op.name: op for op in graph.get_operations()}
    found = {}
    for node in function.node_def:
        stem, _, number = node.name.rpartition("_")
        for name in (node.name, stem if number.isdigit() else ""):
            if name in operations and operations[name].type == node.op:
                found[node.name] = operations[name]
                break
    return found


# ---- Random numbers ----

class _RandomNumbers:
    """Numbers that tell a program's random ops apart: the same in every process and every time,
    because a number follows from a name."""

    def __init__(self):
        self._used = set()

    def of(self, name):
        """A number for an op of that name, an int below 2**32 that none had before."""
        number = zlib.crc32(name.encode())
        while number in self._used:
            number = (number + 1) % 2 ** 32
        self._used.add(number)
        return number


def _replace_random(nodes, operations, numbers):
    """Makes the stateful random ops whose shapes are known custom calls. Returns their names."""
    replaced = []
    for node in nodes:
        operation = operations.get(node.name)
        if node.op not in rewriting.RANDOM_OPS or operation is None:
            continue
        shape = operation.outputs[0].shape
        if shape.is_fully_defined():
            rewriting.replace_random(node, numbers.of(operation.name), shape.as_list(),
                                     _known_bounds(operation))
            replaced.append(node.name)
    return replaced


def _seed_random(nodes, numbers, in_function):
    """The same for those whose shapes are not known."""
    for node in [one for one in nodes if one.op in rewriting.RANDOM_OPS]:
        rewriting.seed_random(nodes, node, numbers.of(node.name), in_function)


def _known_bounds(operation):
    """[minval, maxval] of an op that draws integers, if both are constants."""
    if operation.type != "RandomUniformInt":
        return None
    bounds = [inside.constant_value(tensor) for tensor in operation.inputs[1:3]]
    return None if None in bounds else bounds


def _call_random(graph_def, operations, nodes, numbers):
    """The same for those that draw something by way of others: they become calls of functions,
    which are added to the graph's."""
    for node in nodes:
        operation = operations.get(node.name)
        if operation is None or node.op not in random_functions.MAKERS:
            continue
        function = random_functions.MAKERS[node.op](operation, numbers.of(operation.name))
        graph_def.library.function.append(function.definition)
        rewriting.call_function(node, function.name, function.input_types, function.output_types)


def infer_random_shapes(source, shapes):
    """Does that for the random ops of a Source whose shapes depend on the arguments', now that
    these are `shapes`. What then is still unknown depends on values."""
    if not any(node.op in rewriting.RANDOM_OPS for node in source.graph_def.node):
        return
    operations = inside.inferred_operations(source, shapes)
    numbers = _RandomNumbers()
    _replace_random(source.graph_def.node, operations, numbers)
    _seed_random(source.graph_def.node, numbers, in_function=False)


# ---- What a graph does ----

def _needed(graph):
    """The operations that a function graph's results need."""
    waiting = [tensor.op for tensor in graph.outputs] + list(graph.control_outputs)
    seen = set()
    while waiting:
        operation = waiting.pop()
        if operation not in seen:
            seen.add(operation)
            waiting += operation.control_inputs
            # Of an Assert what it would print is left out.
            waiting += [tensor.op for tensor in
                        operation.inputs[:1 if operation.type == "Assert" else None]]
    return {one for one in seen if not outside.runs_outside(one) and not outside.makes_text(one)}


def written(graph, handles):
    """The numbers of those of the placeholders `handles` whose variables the graph writes to."""
    functions = inside.function_graphs(graph)
    return [i for i, handle in enumerate(handles) if _is_written(handle, functions)]


def _is_written(handle, functions):
    for user in handle.consumers():
        if outside.runs_outside(user):
            continue
        if user.type in ("Identity", "EnsureShape"):
            if _is_written(user.outputs[0], functions):
                return True
        elif user.type in _CALLS:
            if any(_is_written(inner, functions) for inner in _inside(user, handle, functions)):
                return True
        elif user.type not in _READING_OPS:
            return True
    return False


def _inside(call, handle, functions):
    """The placeholders that stand for an input of a call inside the functions that it calls."""
    positions = [i - _CALLS[call.type] for i, one in enumerate(call.inputs) if one is handle]
    for name in inside.called_functions(call):
        graph = functions.get(name)
        for position in positions:
            if graph is not None and 0 <= position < len(graph.inputs):
                yield graph.inputs[position]
