"""Ops of float16 that TensorFlow's bridge lowers to float32, not at all, or with indices that are
float16: they become ops of float32 between conversions. The node table keeps the op's name."""

from tremula.tf.runtime.nodes import rewriting

_HALF, _FLOAT = 19, 1  # the types' numbers in protocol buffers
# Op: the name of its output, then the numbers of its inputs of the type T.
_OPS = {
    "LRN": ("output", 0),
    "LRNGrad": ("output", 0, 1, 2),
    "ResizeBilinearGrad": ("output", 1),
    "ResizeNearestNeighbor": ("resized_images", 0),
}


def use_wide_ops(nodes, entries, function=None):
    """Rewrites nodes, which are those of a graph or of the FunctionDef `function`; `entries` are a
    NodeTable's."""
    def output(name):
        return ":0" if function is None else f":{name}:0"

    for node in [one for one in nodes if one.op in _OPS and one.attr["T"].type == _HALF]:
        entries[node.name]["type"] = node.op
        given, *taken = _OPS[node.op]
        wide = nodes.add()
        wide.CopyFrom(node)
        wide.name += "/wide"
        wide.attr["T"].type = _FLOAT
        for i in taken:
            wide.input[i] = _cast(nodes, f"{node.name}/{i}", node.input[i], _HALF,
                                  _FLOAT) + output("y")
        half = _cast(nodes, f"{node.name}/half", wide.name + output(given), _FLOAT, _HALF)
        node.op = "Identity"
        del node.input[:]
        node.input.append(half + output("y"))
        for attribute in [one for one in node.attr if one != "T"]:
            del node.attr[attribute]
        if function is not None and given != "output":
            rewriting.redirect_output(function, node.name, given, "output")


def _cast(nodes, name, tensor, source, target):
    """Adds a conversion. Returns its name."""
    added = nodes.add(name=name, op="Cast", input=[tensor])
    added.attr["SrcT"].type, added.attr["DstT"].type = source, target
    return name
