"""Which arguments of a graph must be known when it is lowered: those from which shapes, axes and
the like are computed.

It is a guess that saves attempts, and the warnings that TensorFlow logs of those that fail: late.py
tries it first and finds out by itself where it was wrong. Functions that the graph calls are not
looked into.
"""

from tremula.tf.runtime import clusters_ops, rewriting

# TensorFlow wants to know these too, but makes do without.
_NOT_NEEDED = {"Slice": 1}  # begin: the size alone gives the shape


def arguments_to_know(source):
    """The numbers of a lowering.Source's arguments whose values its ops must know."""
    graph = source.graph_def
    nodes = {node.name: node for node in graph.node}
    arguments = {_tensor(one.tensor): i for i, one in enumerate(source.arguments)}
    waiting = [node.input[i] for node in graph.node for i in _known_inputs(node)]
    seen, found = set(), set()
    while waiting:
        tensor = _tensor(waiting.pop())
        if tensor in seen:
            continue
        seen.add(tensor)
        if tensor in arguments:
            found.add(arguments[tensor])
            continue
        node = nodes.get(rewriting.node_of(tensor))
        if node is not None and node.op not in clusters_ops.SHAPE_OPS:
            waiting += [one for one in node.input if not one.startswith("^")]
    return found


def _known_inputs(node):
    kind = clusters_ops.Kind(node)
    if kind.inputs is None:
        return []
    return [i for i in kind.known_inputs(node.op)
            if i < len(node.input) and _NOT_NEEDED.get(node.op) != i]


def _tensor(name):
    """The tensor's name with its number, which is left out where it is 0."""
    return name if ":" in name else name + ":0"
