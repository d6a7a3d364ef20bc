"""Which arguments of a graph must be known when it is lowered: those from which shapes, axes and
other constants are computed.

arguments_to_know() is a guess that saves attempts: late.py tries the guess first and corrects it.
refusal() reports only certain failures, so that lowering.py need not try: TensorFlow logs a warning
for each failed attempt. Functions that the graph calls are not searched.
"""

from tremula.tf.runtime.nodes import rewriting
from tremula.tf.runtime.ops import node_kinds

# TensorFlow lists these too, but lowers without their values.
_NOT_NEEDED = {"Slice": 1}  # begin: the size alone gives the shape


# These are never lowered without their values. (Other ops may give results from unknown values.)
_STRICT = frozenset((
    "All", "Any", "Fill", "Max", "Mean", "Min", "OneHot", "Prod", "Range", "Reshape", "Sum", "Tile",
    "Transpose", "UnsortedSegmentSum"))
# If an input of one of these is unknown, all of the result is. (A Pack's result may be known in
# part, but all of it must be known.)
_UNKNOWN_THROUGH = frozenset((
    "Abs", "Add", "AddV2", "Cast", "Ceil", "ConcatV2", "ExpandDims", "Floor", "FloorDiv",
    "FloorMod", "Identity", "Max", "Maximum", "Mean", "Min", "Minimum", "Mul", "Neg", "Pack",
    "Prod", "RealDiv", "Round", "StopGradient", "Sub", "Sum"))


def refusal(source, constants):
    """The error with which TensorFlow would refuse a lowering.Source, because a value must be known
    that follows from unknown arguments; None where that is not certain. `constants` holds the
    numbers of the known arguments."""
    graph = source.graph_def
    nodes = {node.name: node for node in graph.node}
    unknown = {_tensor(one.tensor) for i, one in enumerate(source.arguments) if i not in constants}
    seen = set()
    for node in graph.node:
        strict = [0] if node.op in rewriting.RANDOM_OPS else (
            _known_inputs(node) if node.op in _STRICT else ())
        for i in strict:
            if _is_unknown(node.input[i], nodes, unknown, seen):
                return (f"Input {i} to node `{node.name}` with op {node.op} must be a "
                        "compile-time constant")
    return None


def _is_unknown(tensor, nodes, unknown, seen):
    """Whether a value follows from those of the tensors `unknown`. `seen` are some that do not."""
    waiting = [tensor]
    while waiting:
        tensor = _tensor(waiting.pop())
        if tensor in unknown:
            return True
        node = nodes.get(rewriting.node_of(tensor))
        if tensor in seen or node is None or node.op not in _UNKNOWN_THROUGH:
            continue
        seen.add(tensor)
        waiting += [one for one in node.input if not one.startswith("^")]
    return False


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
        if node is not None and node.op not in node_kinds.SHAPE_OPS:
            waiting += [one for one in node.input if not one.startswith("^")]
    return found


def _known_inputs(node):
    kind = node_kinds.Kind(node)
    if kind.inputs is None:
        return []
    return [i for i in kind.known_inputs(node.op)
            if i < len(node.input) and _NOT_NEEDED.get(node.op) != i]


def _tensor(name):
    """The tensor's name with its number, which is left out where it is 0."""
    return name if ":" in name else name + ":0"
