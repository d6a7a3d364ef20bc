"""`tensorflow.tools.graph_transforms`, which TensorFlow 2 no longer has: what programs did to a
frozen graph before they put it on the IPU.

There are the transforms that need no knowledge of single operations' quantised or mobile forms.
"""

import re

from tremula.tf.inner import registry

_CONTROL_FLOW = ("Enter", "Exit", "Merge", "NextIteration", "Switch", "LoopCond")
_FOLDED_AT_MOST = 10 << 20  # bytes of one constant


def TransformGraph(input_graph_def, inputs, outputs, transforms):  # its name there
    """A copy of a GraphDef after `transforms`, each as text: a name, or name(option=value, ...).

    `inputs` and `outputs` are names of nodes or of their outputs. Raises ValueError for a
    transform that is not here, and for an output that is not in the graph.
    """
    import tensorflow.compat.v1 as tf
    graph = tf.GraphDef()
    graph.CopyFrom(input_graph_def)
    inputs, outputs = ([_node_of(name) for name in names] for names in (inputs, outputs))
    missing = set(outputs) - {node.name for node in graph.node}
    if missing:
        raise ValueError(f"The output '{sorted(missing)[0]}' is not in the graph.")
    for text in transforms:
        name, options = _parse(text)
        if name not in _TRANSFORMS:
            raise ValueError(f"The graph transform '{name}' is not here. There are "
                             f"{', '.join(sorted(_TRANSFORMS))}.")
        graph = _TRANSFORMS[name](graph, inputs, outputs, options)
    return graph


def _parse(text):
    """('remove_nodes', [('op', 'Identity')]) of 'remove_nodes(op=Identity)'."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    if match is None:
        raise ValueError(f"'{text}' is not the name of a graph transform with its options.")
    pairs = re.findall(r"(\w+)\s*=\s*(\"[^\"]*\"|[^,]*)", match.group(2) or "")
    return match.group(1), [(key, value.strip().strip('"')) for key, value in pairs]


def _node_of(name):
    return name.lstrip("^").split(":")[0]


def _without(graph, drop):
    """A copy of the graph without the nodes that `drop(node)` names."""
    import tensorflow.compat.v1 as tf
    kept = tf.GraphDef(versions=graph.versions, library=graph.library)
    kept.node.extend(node for node in graph.node if not drop(node))
    return kept


def _strip_unused_nodes(graph, inputs, outputs, options):
    """Keeps what outputs need; inputs become placeholders, of their own type if it is known."""
    import tensorflow.compat.v1 as tf
    given = dict(options)
    nodes = {node.name: node for node in graph.node}
    needed, pending = set(), list(outputs)
    while pending:
        name = pending.pop()
        if name in needed or name not in nodes:
            continue
        needed.add(name)
        if name not in inputs:
            pending += [_node_of(one) for one in nodes[name].input]
    for name in needed & set(inputs):
        node = nodes[name]
        if node.op == "Placeholder":
            continue
        dtype = next((node.attr[key].type for key in ("dtype", "T", "DstT") if key in node.attr),
                     tf.float32.as_datatype_enum)
        del node.input[:]
        node.attr.clear()
        node.op = "Placeholder"
        node.attr["dtype"].type = tf.as_dtype(given.get("type", dtype)).as_datatype_enum
        if "shape" in given:
            sizes = [int(size) for size in given["shape"].split(",")]
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(sizes).as_proto())
    return _without(graph, lambda node: node.name not in needed)


def _remove_nodes(graph, inputs, outputs, options):
    """Takes out nodes of the given kinds that have one input: who reads them reads that."""
    kinds = {value for key, value in options if key == "op"}
    instead = {node.name: node.input[0] for node in graph.node
               if node.op in kinds and len(node.input) == 1 and not node.input[0].startswith("^")
               and node.name not in inputs and node.name not in outputs}

    def source(name):
        control = name.startswith("^")
        while _node_of(name) in instead and name.partition(":")[2] in ("", "0"):
            name = instead[_node_of(name)]
        return f"^{_node_of(name)}" if control else name

    for node in graph.node:
        before = list(node.input)
        del node.input[:]
        node.input.extend(dict.fromkeys(source(one) for one in before if one.startswith("^"))
                          if before and all(one.startswith("^") for one in before)
                          else [source(one) for one in before])
    return _without(graph, lambda node: node.name in instead)


def _fold_constants(graph, inputs, outputs, options):
    """Computes what depends on constants only. With ignore_errors, what fails is left alone."""
    import tensorflow.compat.v1 as tf
    nodes = {node.name: node for node in graph.node}
    constant = set()
    ordered = _in_order(graph, nodes)
    for node in ordered:
        sources = [_node_of(one) for one in node.input]
        if node.name not in inputs and (node.op == "Const" or (
                sources and all(one in constant for one in sources) and _is_pure(node.op))):
            constant.add(node.name)
    wanted = set()
    for node in graph.node:
        if node.name not in constant:
            wanted.update(one for one in node.input if not one.startswith("^")
                          and _node_of(one) in constant and nodes[_node_of(one)].op != "Const")
    wanted.update(name for name in outputs if name in constant and nodes[name].op != "Const")
    ignore = dict(options).get("ignore_errors", "false").lower() == "true"
    values = {}
    with tf.Graph().as_default() as known, tf.device("/device:CPU:0"):
        tf.import_graph_def(_without(graph, lambda node: node.name not in constant), name="")
        with tf.Session(graph=known) as session:
            for name in sorted(wanted):
                try:
                    values[name] = session.run(name if ":" in name else f"{name}:0")
                except tf.errors.OpError:
                    if not ignore:
                        raise
    # A node of several outputs keeps its name: only first outputs are replaced.
    for name, value in values.items():
        node = nodes[_node_of(name)]
        if name.partition(":")[2] not in ("", "0") or value.nbytes > _FOLDED_AT_MOST:
            continue
        if any(_node_of(one) == node.name and one.partition(":")[2] not in ("", "0")
               for other in graph.node for one in other.input):
            continue
        del node.input[:]
        node.attr.clear()
        node.op = "Const"
        node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return _strip_unused_nodes(graph, [], outputs, [])


def _in_order(graph, nodes):
    """The nodes, each after what it reads; those of loops are left out."""
    waiting = {node.name: {_node_of(one) for one in node.input} & set(nodes)
               for node in graph.node}
    readers = {}
    for name, sources in waiting.items():
        for one in sources:
            readers.setdefault(one, []).append(name)
    ready = [name for name, sources in waiting.items() if not sources]
    ordered = []
    while ready:
        name = ready.pop()
        ordered.append(nodes[name])
        for reader in readers.get(name, ()):
            waiting[reader].discard(name)
            if not waiting[reader]:
                ready.append(reader)
    return ordered


def _is_pure(op):
    """Whether an operation of constants gives the same always."""
    known = registry.op_definition(op)
    return known is not None and not known.is_stateful and op not in _CONTROL_FLOW


_TRANSFORMS = {
    "fold_constants": _fold_constants,
    "remove_nodes": _remove_nodes,
    "strip_unused_nodes": _strip_unused_nodes,
}
