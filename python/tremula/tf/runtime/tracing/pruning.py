"""Which nodes of a graph are compiled: those that its results need, and those with side effects.

Functions are the bodies of loops, branches and calls. The other nodes are dropped, so they may be
of any kind: placeholders, texts, savers.
"""

from tremula.tf.inner import registry
from tremula.tf.runtime.host import outside
from tremula.tf.runtime.nodes import rewriting

# The beginnings of the names of operations that update variables.
UPDATES = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply",
           "ResourceStridedSliceAssign")

# Nodes whose values exist only outside of a program: placeholders that the program does not feed,
# and values that a saver restores.
UNKNOWN = frozenset(("Placeholder", "Restore", "RestoreSlice", "RestoreV2"))


def prune(graph_def, roots, stops):
    """Drops nodes of the graph (not of its functions) that the nodes `roots` do not need. `stops`
    are nodes that are fed: they and what only they need go too."""
    nodes = {node.name: node for node in graph_def.node}
    needed = _reached((name for name in roots if name not in stops), lambda name: (
        one for one in map(rewriting.node_of, nodes[name].input) if one not in stops))
    _keep(graph_def.node, needed)
    for node in graph_def.node:  # a fed node has nothing that one could wait for
        waits = [one for one in node.input if one.startswith("^") and one[1:] in stops]
        for one in waits:
            node.input.remove(one)


def prune_functions(graph_def):
    """Drops nodes of the graph's functions that neither their results nor their side effects
    need."""
    functions = {one.signature.name: one for one in graph_def.library.function}
    acting = _acting_functions(functions)
    for function in functions.values():
        _prune_function(function, acting)


def _prune_function(function, acting):
    nodes = {node.name: node for node in function.node_def}
    waiting = [rewriting.node_of(one) for returned in (function.ret, function.control_ret)
               for one in returned.values()]
    impossible = _impossible(function.node_def)
    waiting += [node.name for node in function.node_def
                if node.name not in impossible and _acts(node, acting)]
    needed = _reached(waiting, lambda name: (  # an argument has no node
        map(rewriting.node_of, nodes[name].input) if name in nodes else ()))
    _keep(function.node_def, needed)


def _reached(names, following):
    """The set of `names` and of all names that following(name) leads to."""
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += following(name)
    return found


def _keep(nodes, names):
    kept = [node for node in nodes if node.name in names]
    if len(kept) < len(nodes):
        del nodes[:]
        nodes.extend(kept)


def _impossible(nodes):
    """The names of a function's nodes that need an UNKNOWN value. Keras' layers, for example, leave
    updates that need the inputs with which a model was built."""
    waiting = [node.name for node in nodes if node.op in UNKNOWN]
    if not waiting:
        return ()
    users = {}
    for node in nodes:
        for one in node.input:
            users.setdefault(rewriting.node_of(one), []).append(node.name)
    return _reached(waiting, lambda name: users.get(name, ()))


def _acting_functions(functions):
    """The names of those of the functions, {name: FunctionDef}, that have side effects, also by the
    functions that they call."""
    callers, waiting = {}, []
    for name, function in functions.items():
        for called in rewriting.called(function.node_def):
            callers.setdefault(called, []).append(name)
        if any(_acts(node, ()) for node in function.node_def):
            waiting.append(name)
    return _reached(waiting, lambda name: callers.get(name, ()))


def _acts(node, acting):
    """Whether a node of a function has side effects: it updates a variable, reads or writes a
    queue, fails the run, does something on the host, or calls one of the functions `acting`."""
    if node.op == "XlaCustomCallV2":
        return node.attr["has_side_effect"].b
    return (node.op.startswith(UPDATES) or outside.is_marked_node(node) and _only_acts(node)
            or any(name in acting for name in rewriting.called([node])))


def _only_acts(node):
    """Whether a node has effects and no results."""
    definition = registry.op_definition(node.op)
    return definition is not None and definition.is_stateful and not any(
        not one.type_list_attr or node.attr[one.type_list_attr].list.type
        for one in definition.output_arg)
