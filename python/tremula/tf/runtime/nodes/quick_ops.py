"""Ops that TensorFlow's bridge lowers slowly, written with ops that it lowers quickly.

The bridge makes an MLIR module and its passes anew for each node of the slow ops, which takes 20
times as long as a quick op: half the time of lowering a ResNet. The HLO is the same, but for
conversions that change nothing. The node table keeps the slow op's name for reports.
"""

from tremula.tf.runtime.nodes import rewriting

_HALF, _BFLOAT16, _FLOAT = 19, 14, 1  # the types' numbers in protocol buffers
_FLOATS = frozenset((_HALF, _BFLOAT16, _FLOAT))
_FORMATS = frozenset((b"NHWC", b"NCHW"))  # those that the second version of batch norm has


def use_quick_ops(nodes, table, function=None):
    """Rewrites nodes, which are those of a graph or of the FunctionDef `function`. Their names are
    those in the NodeTable."""
    outputs = _rewrite_activations(nodes, table, function is not None)
    if function is not None:
        _rename_outputs(function, outputs)
    returned = [*function.ret.values()] if function is not None else []
    _rewrite_norms(nodes, table, returned)


# ---- Activations ----

def _rewrite_activations(nodes, table, in_function):
    """Returns the names of outputs in a FunctionDef that have changed: {"name:old": "name:new"}."""
    outputs = {}
    for node in [one for one in nodes if one.op in ("Relu", "ReluGrad")]:
        if node.attr["T"].type not in _FLOATS:
            continue
        table.entries[node.name]["type"] = node.op
        features = node.input[0 if node.op == "Relu" else 1]
        zeros = _add(nodes, node, "ZerosLike", "zeros", [features]) + (
            ":y:0" if in_function else ":0")
        if node.op == "Relu":
            outputs[f"{node.name}:activations"] = f"{node.name}:z"
            node.op, arguments, taken = "Maximum", [features, zeros], 1
        else:
            positive = _add(nodes, node, "Greater", "positive", [features, zeros]) + (
                ":z:0" if in_function else ":0")
            outputs[f"{node.name}:backprops"] = f"{node.name}:output"
            arguments, taken = [positive, node.input[0], zeros], 2
            node.op = "SelectV2"
        controls = node.input[taken:]
        del node.input[:]
        node.input.extend([*arguments, *controls])
    return outputs


def _add(nodes, like, op, name, inputs):
    """Adds a node of the type of another one. Returns its name."""
    added = nodes.add(name=f"{like.name}/{name}", op=op, input=inputs)
    added.attr["T"].type = like.attr["T"].type
    return added.name


def _rename_outputs(function, outputs):
    """In a FunctionDef: "name:old:0" becomes "name:new:0"."""
    if not outputs:
        return

    def renamed(tensor):
        stem, _, number = tensor.rpartition(":")
        return f"{outputs[stem]}:{number}" if stem in outputs else None

    for node in function.node_def:
        for i, one in enumerate(node.input):
            new = renamed(one)
            if new is not None:
                node.input[i] = new
    for key, one in list(function.ret.items()):
        function.ret[key] = renamed(one) or one


# ---- Batch normalization: the second version has no third reserve space ----

def _rewrite_norms(nodes, table, returned):
    norms = [one for one in nodes if one.op in ("FusedBatchNormV3", "FusedBatchNormGradV3")
             and one.attr["data_format"].s in _FORMATS]
    if not norms:
        return
    used = _used(nodes, returned)
    # The bridge's other way has another order of operations for gradients of inference.
    for node in norms:
        if node.op == "FusedBatchNormGradV3" and node.attr["is_training"].b and not (
                used.get(node.name, {}).keys() & {3, 4, "reserve_space_4", "reserve_space_5"}):
            _forget(used, node.input[5])
            del node.input[5]
            _make_second(node, table)
    for node in norms:
        if node.op == "FusedBatchNormV3" and not (
                used.get(node.name, {}).keys() & {5, "reserve_space_3"}):
            _make_second(node, table)


def _make_second(node, table):
    table.entries[node.name]["type"] = node.op
    node.op = node.op.removesuffix("V3") + "V2"


def _used(nodes, returned):
    """{name of a node: {output: how often it is taken}}. An output has a number in a graph, a name
    in a FunctionDef."""
    used = {}
    for tensor in [*(one for node in nodes for one in node.input), *returned]:
        if not tensor.startswith("^"):
            outputs = used.setdefault(rewriting.node_of(tensor), {})
            outputs[_output(tensor)] = outputs.get(_output(tensor), 0) + 1
    return used


def _forget(used, tensor):
    outputs, output = used[rewriting.node_of(tensor)], _output(tensor)
    outputs[output] -= 1
    if not outputs[output]:
        del outputs[output]


def _output(tensor):
    _, *parts = tensor.split(":")
    if not parts:
        return 0
    return int(parts[0]) if parts[0].isdigit() else parts[0]
