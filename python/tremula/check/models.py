"""`tremula check MODEL`: operations, types and shapes of a saved model that an IPU cannot have.

HLO needs no TensorFlow. A SavedModel, a GraphDef and Keras' files are read as `tremula plan` reads
them.
"""

import os
import re

from tremula import core, tool
from tremula.check import Report, rules

_WIDE = {"f64": "float64", "c64": "complex64", "c128": "complex128", "bf16": "bfloat16",
         "s64": "int64", "u64": "uint64"}
_TYPE = re.compile(r"^\s*(?:ROOT\s+)?%?([\w.-]+)\s*=\s*\(?(f64|c64|c128|bf16|s64|u64)\[")
_NARROWED = ("int64", "uint64")
_REFUSED = ("float64", "complex64", "complex128", "bfloat16")
_VALUES = ("Where", "Unique", "UniqueV2", "DynamicPartition", "NonMaxSuppressionV3", "ListDiff")


def check(path, arguments):
    """A Report on a model. Raises a Complaint for what cannot be read."""
    rules.load()
    module = None if os.path.isdir(path) or path.endswith((".keras", ".h5", ".hdf5")) \
        else _module(path)
    if module is not None and (arguments.shape or arguments.signature):
        raise tool.Complaint("a module of HLO has shapes: --shape and --signature do nothing")
    found = _of_module(path, module) if module is not None else _of_tensorflow(path, arguments)
    findings, seen = [], set()
    for rule, message, line in found:
        if (rule, message) not in seen:
            seen.add((rule, message))
            findings.append(rules.Finding(rules.RULES[rule], path, line, 1, message))
    return Report(findings, _answers(findings, path), [path], 0)


def _answers(findings, path):
    shapes = [one for one in findings if one.rule.id in ("unknown-shape", "value-dependent-shape")]
    wrong = any(one.rule.level == "error" for one in findings)
    return [f"size: `tremula plan {path}` says bytes and cycles, and whether it fits",
            "training or inference: inference; `tremula plan --training sgd` plans a step of it",
            "static shapes: " + (f"no: {shapes[0].message}" if shapes else "yes"),
            f"IPUs: `tremula plan {path} --ipus N` plans it on several",
            "next: " + ("mend the first error" if wrong else f"tremula plan {path}")]


# ---- HLO ----

def _module(path):
    """The module in a file, or None for what is a GraphDef."""
    try:
        return core.Module.read_file(path)
    except core.TremulaError as error:
        if not path.endswith((".pb", ".pbtxt")):
            raise tool.Complaint(str(error)) from error
        return None


def _of_module(path, module):
    try:
        with open(path, encoding="utf-8") as file:
            lines, numbered = file.read().splitlines(), True
    except UnicodeDecodeError:
        lines, numbered = module.print().splitlines(), False
    for number, line in enumerate(lines, 1):
        match = _TYPE.match(line)
        if match:
            name = _WIDE[match[2]]
            rule = "int64" if name in _NARROWED else "float64"
            yield rule, f"'{match[1]}' is of {name}, which an IPU does not have", \
                number if numbered else 1
    try:
        core.compile(module)
    except core.TremulaError as error:
        yield "unsupported-op", str(error), 1


# ---- TensorFlow ----

def _of_tensorflow(path, arguments):
    tool.need_tensorflow()
    from tremula.tool import lower
    given = dict(lower.parse_shape(text) for text in arguments.shape)
    nodes, inputs = _read(path, arguments)
    lower.refuse_unused({one: 0 for one in given if one not in dict(inputs)},
                        [name for name, _ in inputs])
    for name, shape in inputs:
        if name not in given and not shape.is_fully_defined():
            text = "unknown" if shape.rank is None else str(shape.as_list()).replace("None", "?")
            yield "unknown-shape", (f"the input '{name}' has the shape {text}; --shape {name}=DIMS "
                                    "gives it one"), 1
    yield from _of_nodes(nodes)


def _of_nodes(nodes):
    import tensorflow as tf
    from tremula.tf.inner import exports
    from tremula.tf.runtime import supported_ops
    table = supported_ops()
    fine = set(table) | exports.ops_for_every_device()
    for node in nodes:
        if node.op in _VALUES:
            yield "value-dependent-shape", f"'{node.name}' is the op {node.op}", 1
        elif node.op not in fine and node.op != "NoOp":
            yield "unsupported-op", (f"'{node.name}' is the op {node.op}, which an IPU does not "
                                     "have"), 1
        for attribute in node.attr.values():
            name = tf.dtypes.as_dtype(attribute.type).name if attribute.type else ""
            if name in _REFUSED:
                yield "float64", f"'{node.name}' ({node.op}) has the type {name}", 1
            elif name == "int64" and node.op in ("Placeholder", "VarHandleOp", "Cast"):
                yield "int64", f"'{node.name}' ({node.op}) has the type int64", 1


def _read(path, arguments):
    """The nodes of a model, and its inputs [(name, shape)]."""
    import tensorflow as tf
    from tremula.tool import lower
    if os.path.isdir(path):
        _, function = lower.load_signature(path, arguments.signature or "serving_default")
        inputs = function.structured_input_signature[1]
        return _all_nodes(function.graph.as_graph_def()), [
            (one, inputs[one].shape) for one in sorted(inputs)]
    if path.endswith((".keras", ".h5", ".hdf5")):
        return _of_keras(path)
    graph_def = lower.read_graph(path)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        inputs = [(one.name, one.outputs[0].shape) for one in graph.get_operations()
                  if one.type == "Placeholder"]
    return [one for one in _all_nodes(graph_def) if not one.name.startswith("save/")], inputs


def _of_keras(path):
    """The same of a file of Keras': its call, with the batch of the inputs left open."""
    import tensorflow as tf
    from tremula.tool import lower
    model = lower.load_keras(path)
    specs = [tf.TensorSpec(one.shape, one.dtype) for one in model.inputs]
    function = tf.function(lambda *values: model(
        list(values) if len(values) > 1 else values[0], training=False), autograph=False)
    graph = function.get_concrete_function(*specs).graph
    return _all_nodes(graph.as_graph_def()), [
        (one.name.split(":")[0], one.shape) for one in model.inputs]


def _all_nodes(graph_def):
    """The nodes of a graph and of the functions in it."""
    nodes = list(graph_def.node)
    for function in graph_def.library.function:
        nodes += function.node_def
    return nodes
