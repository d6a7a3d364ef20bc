"""Lowering at run time, for shapes or values that were not known before.

The plugin calls back from one of TensorFlow's threads, with an op that has been placed on the
device without `compile`, or with a compiled part some of whose shapes were not known. Each is
lowered once for each set of shapes and of values that must be constants.
"""

import ctypes
import threading

from tremula.tf.inner import bridge, dtypes, errors, versions
from tremula.tf.runtime.base import recent
from tremula.tf.runtime.device import plugin
from tremula.tf.runtime.lowering import cache, known_values, lowering, staging
from tremula.tf.runtime.nodes import node_marks, rewriting, wide_ops
from tremula.tf.runtime.ops import collective_shapes, kernel_list

_GRAPH, _NODE = ord("g"), ord("n")

# A value that must be a constant is a shape or an axis, for example: a few integers.
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
_MOST_BYTES = 8192
_SMALL_BYTES = 8  # of any type: the start of a range, what pads a diagonal

_callback = None  # kept from being collected while the plugin has it
_lock = threading.RLock()
_parts = recent.Recent(1024)  # the parts lowered last -> their inputs' shapes as text
_ops = recent.Recent(1024)  # the single ops lowered last: key -> (module, constants)


def install():
    """Gives the plugin the function to call."""
    global _callback
    _callback = plugin.LowerFunction(_answer)
    plugin.library().trm_tf_set_lower(_callback)


def _answer(request):
    """Called by the plugin; answers with one of its reply functions, whatever happens."""
    library = plugin.library()
    try:
        asked = request.contents
        payload = ctypes.string_at(asked.payload, asked.payload_size)
        inputs = [_Input(asked.inputs[i]) for i in range(asked.num_inputs)]
        with _lock:
            module, constants = (_lower_node if asked.kind == _NODE else _lower_graph)(
                payload, inputs, asked.name.decode())
        mask = bytes(int(i in constants) for i in range(len(inputs)))
        library.trm_tf_reply_module(request, module, len(module), mask)
    except Exception as error:  # pylint: disable=broad-except
        library.trm_tf_reply_error(request, *_describe(error))


def _describe(error):
    if isinstance(error, bridge.LoweringError):
        return errors.INVALID_ARGUMENT, str(error).encode()
    return errors.error_code(error), (str(error) or repr(error)).encode()


class _Input:
    """What is known of an input: its type's number, shape, and where its bytes are."""

    def __init__(self, raw):
        self.dtype = raw.dtype
        self.shape = [raw.dims[i] for i in range(raw.rank)]
        self._data, self.bytes = raw.data, raw.bytes

    def value(self):
        """A copy of the value, as an array."""
        import numpy as np
        data = ctypes.string_at(self._data, self.bytes) if self.bytes else b""
        return np.frombuffer(data, dtypes.numpy_type(self.dtype)).reshape(self.shape)

    def may_be_constant(self):
        return dtypes.dtype_name(self.dtype) in _INTEGERS and self.bytes <= _MOST_BYTES

    def is_small(self):
        return self.bytes <= _SMALL_BYTES or self.may_be_constant()

    def key(self, with_value):
        return (self.dtype, tuple(self.shape), self.value().tobytes() if with_value else None)


def _lower_graph(payload, inputs, name):
    """A compiled part: lowered for the shapes that have come."""
    source = lowering.Source.parse(payload)
    num_arguments = len(source.arguments)
    for variable, value in zip(source.variables, inputs[num_arguments:]):
        variable.shape = value.shape if variable.shape is None else variable.shape
    _tell_of_shapes((name, hash(payload)), name, inputs[:num_arguments])
    shapes = [one.shape for one in inputs[:num_arguments]]
    staging.infer_random_shapes(source, shapes)
    collective_shapes.replace(source, shapes)
    return _lower_with_constants(source, inputs[:num_arguments], fixed=())


def _tell_of_shapes(part, name, inputs):
    """Says that a part is compiled for further shapes, which costs: the first ones are what every
    program takes."""
    shapes = ", ".join(str(tuple(one.shape)) for one in inputs)
    known = _parts.get(part) or set()
    if known and shapes not in known:
        plugin.log(f"Compiling {name} again, for inputs of the shapes {shapes}")
    _parts.put(part, known | {shapes})


def _lower_node(payload, inputs, name):
    """A single op."""
    import tensorflow.compat.v1 as tf
    node = tf.NodeDef.FromString(payload)
    del name
    entry = {"name": node.name, "file": None, "line": 0}
    attributes = {}
    if node_marks.FRONTEND_ATTRIBUTES in node.attr:
        attributes = node_marks.decode_attributes(node.attr[node_marks.FRONTEND_ATTRIBUTES].s)
        entry["attributes"] = attributes
    node.name = "n1"
    del node.input[:]
    node.input.extend(f"input{i}:0" for i in range(len(inputs)))
    rewriting.strip([node])
    rewriting.elide_checks([node])
    rewriting.use_plain_ops([node])
    fixed = ()
    if node.op == kernel_list.CALL and node.attr["has_side_effect"].b:
        raise bridge.LoweringError(
            f"{entry['name']} does something that only a program can do: run it in a session or in "
            "a tf.function, and leave the option use_plugin_optimizers on.")
    if node.op in rewriting.RANDOM_OPS:
        fixed = (0,)
        rewriting.replace_random(node, staging.random_number(entry["name"]),
                                 [int(size) for size in inputs[0].value()])
    key = (node.SerializeToString(deterministic=True), entry["name"], repr(attributes),
           tuple(one.key(one.is_small()) for one in inputs))
    found = _ops.get(key)
    if found is None:
        graph_def = tf.GraphDef(node=[node], versions=versions.graph_versions())
        wide_ops.use_wide_ops(graph_def.node, {"n1": entry})
        source = lowering.Source(
            graph_def,
            [lowering.Argument(f"input{i}:0", one.dtype, one.shape)
             for i, one in enumerate(inputs)], [], [], "n1", {"n1": entry})
        found = _lower_with_constants(source, inputs, fixed)
        _ops.put(key, found)
    return found


def _lower_with_constants(source, inputs, fixed):
    """Lowers for the inputs' shapes, with the values that must be known and no others. Returns
    (module, numbers of the inputs that became constants)."""
    def compute():
        module, constants = _find_constants(source, inputs, fixed)
        return {"constants": sorted(constants)}, module

    # Which values matter is not known before: all that may are in the key.
    keys = [one.key(i in fixed or one.is_small()) for i, one in enumerate(inputs)]
    header, module = cache.remember([source.serialize(), repr((keys, fixed)).encode()], compute)
    return module, set(header["constants"])


def _find_constants(source, inputs, fixed):
    """What _lower_with_constants() says.

    TensorFlow says that a value must be known, or makes shapes depend on it, as those of x[1:n].
    """
    shapes = [one.shape for one in inputs]
    expected = {i for i in known_values.arguments_to_know(source) if inputs[i].is_small()}
    constants = {i: inputs[i].value() for i in expected.union(fixed)}
    try:
        return lowering.lower(source, shapes, constants).module, set(constants)
    except bridge.LoweringError as error:
        failed = error
    tried = constants
    for may_be_known in (lambda one: False, _Input.may_be_constant, _Input.is_small):
        constants = {i: one.value() for i, one in enumerate(inputs)
                     if i in fixed or may_be_known(one)}
        if constants.keys() == tried.keys():
            continue
        tried = constants
        try:
            module, failed = lowering.lower(source, shapes, constants).module, None
            break
        except bridge.LoweringError as error:
            failed = error
    if failed:
        raise failed
    for i in [i for i in constants if i not in fixed]:
        fewer = {j: value for j, value in constants.items() if j != i}
        try:
            module = lowering.lower(source, shapes, fewer).module
            constants = fewer
        except Exception:  # pylint: disable=broad-except
            pass  # it is needed, whatever TensorFlow says without it
    return module, set(constants)
