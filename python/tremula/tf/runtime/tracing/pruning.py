"""What of a graph is compiled: what its results need, and what it does besides.

Functions are the bodies of loops, branches and calls. Nodes that nothing needs are dropped, so
that they may be of any kind: placeholders, texts, what saves and restores variables.
"""

from tremula.tf.inner import registry
from tremula.tf.runtime.host import outside
from tremula.tf.runtime.nodes import rewriting

# How the names of the operations begin that update variables.
UPDATES = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply",
           "ResourceStridedSliceAssign")

# What is in a graph and can only be had outside of a program: what somebody feeds, where nothing
# stands for it, and what a saver restores.
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
    """Drops nodes of the graph's functions that they need neither for what they return nor for
    what they do."""
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
    """The set of `names` and of those that following(name) leads to, on and on."""
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
    """The names of those of a function's nodes that need what is UNKNOWN. Keras's layers, for one,
    leave updates by the inputs that a model was built with."""
    waiting = [node.name for node in nodes if node.op in UNKNOWN]
    if not waiting:
        return ()
    users = {}
    for node in nodes:
        for one in node.input:
            users.setdefault(rewriting.node_of(one), []).append(node.name)
    return _reached(waiting, lambda name: users.get(name, ()))


def _acting_functions(functions):
    """The names of those of the functions, {name: FunctionDef}, that do something besides what
    they return: themselves, or by what they call."""
    callers, waiting = {}, []
    for name, function in functions.items():
        for called in rewriting.called(function.node_def):
            callers.setdefault(called, []).append(name)
        if any(_acts(node, ()) for node in function.node_def):
            waiting.append(name)
    return _reached(waiting, lambda name: callers.get(name, ()))


def _acts(node, acting):
    """Whether a node of a function does something besides what it gives: it updates a variable,
    reads or writes a queue, fails the run, does something on the host, or calls one of the
    functions `acting`."""
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
