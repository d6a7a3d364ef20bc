"""A placed GraphDef as clustering sees it: edges between nodes, when a node runs, and which nodes
can be put together without a cycle and without running what would not have run.
"""

import math
import re

from tremula.tf.runtime.device import settings
from tremula.tf.runtime.ops import node_kinds

_PLACED = re.compile(r"/job:[^/]+/replica:\d+/task:\d+/device:IPU:\d+$")
_MOST_CONSTANT_BYTES = 1 << 16  # of a constant that is copied
_MOST_CONDITIONS = 32  # beyond these a node's own name stands for them


class Node:
    """A node and what is known of it.

    inputs    (node, output) of the tensors it takes
    controls  nodes that it waits for
    users     (node, input or None for a control edge, output) of those that take its tensors
    earlier   the nodes that it comes after if it is part of a program, which has its own copies of
              small constants; later: the other way around
    runs      what must hold for it to run, a set of words: branches taken, the loop that it is in
    variables  {input: the variable that it is a handle of}; a variable is a tuple that no other has
    writers   {variable: nodes that may write to it}, the same for all nodes of a graph
    fills     whether it fills a variable with one number, a program that the original reports on
    level     of two nodes with a path between them the later one has no lower level; it is higher
              where the path leaves what can be one program
    """

    def __init__(self, index, proto):
        self.index, self.proto, self.name, self.op = index, proto, proto.name, proto.op
        self.kind = node_kinds.Kind(proto)
        self.on_ipu = bool(_PLACED.match(proto.device))
        self.inputs, self.controls, self.users = [], [], []
        self.earlier, self.later = [], []
        self.variables, self.writers = {}, {}
        self.runs = frozenset()
        self.level = 0
        self.can_join = self.is_static = self.fills = False
        self.preserved = self.fed = False

    def before(self):
        """The nodes that this one comes after."""
        return [node for node, _ in self.inputs] + self.controls

    def is_copied(self):
        """Whether a program that takes this node gets a copy of its own."""
        return self.op == "Const" and not self.fed and self.kind.outputs is not None and (
            self.proto.attr["value"].ByteSize() <= _MOST_CONSTANT_BYTES
            and node_kinds.is_value(self.kind.outputs[0][1]))


class Unusual(Exception):
    """A graph of a form that TensorFlow does not make. It stays as it is."""


def read(graph_def, preserved, fetched):
    """The nodes of a GraphDef in topological order. Raises Unusual."""
    nodes = [Node(i, proto) for i, proto in enumerate(graph_def.node)]
    by_name = {node.name: node for node in nodes}
    in_function = is_function(nodes)
    for node in nodes:
        node.preserved = node.name in preserved
        # What gives nothing cannot be fed: it is a target of the run. In a function nothing is fed.
        node.fed = (node.preserved and node.name not in fetched and node.kind.outputs != []
                    and not in_function)
        for text in node.proto.input:
            source = by_name.get(text.removeprefix("^").split(":", 1)[0])
            if source is None:
                raise Unusual(f"{node.name} has an input {text}")
            if text.startswith("^"):
                node.controls.append(source)
                source.users.append((node, None, None))
            else:
                _, _, number = text.partition(":")
                number = int(number or 0)
                source.users.append((node, len(node.inputs), number))
                node.inputs.append((source, number))
    ordered = _sort(nodes)
    _find_variables(ordered)
    for node in ordered:
        node.runs = _runs(node)
    for node in ordered:
        _judge(node)
    for node in ordered:
        _connect(node)
    _leave_out(ordered)
    _level(ordered)
    return ordered


def is_function(nodes):
    """Whether nodes are those of a function, rather than of a session's graph."""
    return any(node.op in ("_Arg", "_Retval") for node in nodes)


def _is_back_edge(source, target):
    return (node_kinds.control_flow(source.op) == "NextIteration"
            and node_kinds.control_flow(target.op) == "Merge")


def _sort(nodes):
    missing = [sum(not _is_back_edge(one, node) for one in node.before()) for node in nodes]
    ready = [node for node in nodes if not missing[node.index]]
    ordered = []
    while ready:
        node = ready.pop()
        ordered.append(node)
        for user, _, _ in node.users:
            if not _is_back_edge(node, user):
                missing[user.index] -= 1
                if not missing[user.index]:
                    ready.append(user)
    if len(ordered) != len(nodes):
        raise Unusual("it has a cycle")
    return ordered


# ---- Variables ----

# The name of TensorFlow 2's anonymous variables.
_ANONYMOUS = b"cd2c89b7-88b7-44c8-ad83-06c2a9158347"


def _find_variables(ordered):
    writers = {}
    for node in ordered:
        node.writers = writers
        for i in node.kind.resources[:len(node.inputs)]:
            variable = _variable(*node.inputs[i])
            node.variables[i] = variable
            if node.op not in node_kinds.READS and not _passes_on(node):
                writers.setdefault(variable, []).append(node)


def _passes_on(node):
    return node.op == "Identity" or node_kinds.control_flow(node.op) in ("Enter", "Switch")


def _variable(source, number):
    """The variable that a tensor is a handle of."""
    while _passes_on(source) and source.inputs:
        source, number = source.inputs[0]
    if source.op != "VarHandleOp":
        return source.name, number
    attributes = source.proto.attr
    shared = attributes["shared_name"].s
    if shared in (b"", _ANONYMOUS):
        shared = source.name.encode()
    return source.proto.device, attributes["container"].s, shared


def _is_known(source):
    """Whether a node's result can be the handle of one variable only."""
    while _passes_on(source) and source.inputs:
        source, _ = source.inputs[0]
    return source.op in ("VarHandleOp", "_Arg")


# ---- When a node runs ----

def _runs(node):
    """What must hold for a node to run. The same words mean the same; more words may, too."""
    kind = node_kinds.control_flow(node.op)
    if kind == "Merge":
        words = _runs_merge(node)
    else:
        words = frozenset().union(*[_after(*one) for one in node.inputs],
                                  *[one.runs for one in node.controls])
    if kind == "Enter":
        frame = node.proto.attr["frame_name"].s
        words |= {("loop", frame)}
        if not node.proto.attr["is_constant"].b:
            words |= {("once", node.name)}
    elif kind == "Exit":
        words = _runs_exit(node)
    if node_kinds.may_block(node.op):
        words |= {("after", node.name)}
    return words if len(words) <= _MOST_CONDITIONS else frozenset({("node", node.name)})


def _after(source, number):
    """What must hold for a tensor to be there."""
    if node_kinds.control_flow(source.op) != "Switch":
        return source.runs
    count = source.proto.attr["num_outs"].i if source.op.endswith("N") else 2
    return source.runs | {("branch", _predicate(source), number, count)}


def _predicate(switch):
    if len(switch.inputs) < 2:
        raise Unusual(f"{switch.name} has no predicate")
    node, number = switch.inputs[1]
    while node.op == "Identity" and node.inputs:
        node, number = node.inputs[0]
    return node.name, number


def _runs_merge(node):
    first = [one for one in node.inputs if not _is_back_edge(one[0], node)]
    words = [_after(*one) for one in first]
    waits = frozenset().union(*[one.runs for one in node.controls])
    if len(first) < len(node.inputs):  # of a loop
        if len(first) != 1:
            raise Unusual(f"{node.name} merges more than a loop")
        return waits | {word for word in words[0] if word[0] != "once"}
    common = frozenset.intersection(*words)
    own = [one - common for one in words]
    if all(len(one) == 1 for one in own):
        branches = {next(iter(one)) for one in own}
        if (all(one[0] == "branch" for one in branches)
                and len({(one[1], one[3]) for one in branches}) == 1
                and {one[2] for one in branches} == set(range(next(iter(branches))[3]))):
            return waits | common
    return frozenset({("node", node.name)})


def _runs_exit(node):
    """A loop's result is there when the loop has been entered."""
    switch = node.inputs[0][0] if node.inputs else None
    merge = switch.inputs[0][0] if switch is not None and switch.inputs else None
    if (merge is None or node_kinds.control_flow(switch.op) != "Switch"
            or node_kinds.control_flow(merge.op) != "Merge"):
        return frozenset({("node", node.name)})
    enters = [one for one, _ in merge.inputs if node_kinds.control_flow(one.op) == "Enter"]
    if len(enters) != 1:
        return frozenset({("node", node.name)})
    frame = ("loop", enters[0].proto.attr["frame_name"].s)
    return (merge.runs | switch.inputs[1][0].runs) - {frame}


# ---- What can be part of a program ----

def _judge(node):
    """Sets is_static (the values are known when all shapes are) and can_join."""
    kind = node.kind
    if node.op == "Const":
        node.is_static = not node.fed
        return
    if not kind.can_join:
        return
    if len(kind.inputs) != len(node.inputs):
        raise Unusual(f"{node.name} has {len(node.inputs)} inputs")
    node.is_static = not node.fed and kind.is_pure and (node.op in node_kinds.SHAPE_OPS or (
        bool(node.inputs) and all(one.is_static for one, _ in node.inputs)))
    node.can_join = (
        node.on_ipu and not node.fed and not any(word[0] == "once" for word in node.runs)
        and all(node.inputs[i][0].is_static for i in kind.known_inputs(node.op)))
    node.fills = (node.can_join and node.op == node_kinds.ASSIGN and settings.writes_reports()
                  and node.inputs[1][0].is_copied() and _is_repeated(node.inputs[1][0]))
    if not all(_is_known(node.inputs[i][0]) for i in kind.resources):
        node.runs |= {("node", node.name)}  # the variable is not known


def _is_repeated(constant):
    """Whether a constant has several elements, written as one."""
    value = constant.proto.attr["value"].tensor
    sizes = [one.size for one in value.tensor_shape.dim]
    written = [len(values) for field, values in value.ListFields() if field.name.endswith("_val")]
    return math.prod(sizes) > 1 and written == [1] and not value.tensor_content


def _joins(source, target):
    """Whether two nodes with an edge between them can be in one program."""
    return (source.can_join and target.can_join and source.runs == target.runs
            and source.proto.device == target.proto.device)


def _connect(node):
    """Sets earlier and later."""
    earlier = {}
    for source in node.before():
        if node.can_join and source.is_copied():
            earlier.update({one.index: one for one in source.controls})
        elif not _is_back_edge(source, node):
            earlier[source.index] = source
    node.earlier = list(earlier.values())
    for source in node.earlier:
        source.later.append(node)


def _leave_out(ordered):
    """Leaves out nodes at the beginning or end of a program that cost nothing outside: inside,
    they would divide their neighbours into more programs."""
    for node in ordered:
        if node.can_join and not node.kind.weight and not node.fills:
            enough = any if node.op in node_kinds.READS else all
            node.can_join = (any(_joins(one, node) for one in node.earlier)
                             or bool(node.later)
                             and enough(_joins(node, one) for one in node.later))
    for node in reversed(ordered):
        if node.can_join and not node.kind.weight and node.op in node_kinds.RENAMES:
            node.can_join = any(_joins(node, one) for one in node.later) or any(
                _joins(one, node) for one, _ in node.inputs[1:])


def _level(ordered):
    for node in ordered:
        for source in node.earlier:
            step = int(source.can_join and not _joins(source, node))
            node.level = max(node.level, source.level + step)
    # What would be alone goes to those that use it, where that is later.
    weights = _weights(ordered)
    for node in reversed(ordered):
        if not node.can_join or not node.later or weights[node.index] > 1:
            continue
        latest = min(user.level - int(not _joins(node, user)) for user in node.later)
        if latest > node.level and any(
                user.level == latest and _joins(node, user) for user in node.later):
            node.level = latest


def groups(ordered):
    """Lists of nodes that can be one program each, in topological order."""
    parent = {node.index: node.index for node in ordered}

    def root(index):
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for node in ordered:
        for source in node.earlier:
            if source.level == node.level and _joins(source, node):
                parent[root(source.index)] = root(node.index)
    found = {}
    for node in ordered:
        if node.can_join:
            found.setdefault(root(node.index), []).append(node)
    return _merge_in_loops(found.values(), ordered)


def _merge_in_loops(found, ordered):
    """Joins independent groups that run in the same iteration of a loop, because the iteration ends
    when all have run. Elsewhere one group would wait for the other's inputs."""
    merged = {}
    for i, group in enumerate(found):
        first = group[0]
        apart = not any(word[0] == "loop" for word in first.runs) or not any(
            node.kind.weight for node in group)
        key = i if apart else (first.level, first.runs, first.proto.device)
        merged.setdefault(key, []).extend(group)
    place = {node.index: i for i, node in enumerate(ordered)}
    return [sorted(group, key=lambda node: place[node.index]) for group in merged.values()]


def _weights(ordered):
    """For each node by number: how many programs its group would be without clustering."""
    weights = {}
    for group in groups(ordered):
        total = sum(node.kind.weight for node in group)
        weights.update({node.index: total for node in group})
    return weights
