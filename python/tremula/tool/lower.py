"""python -m tremula.tool.lower MODEL --output FILE: a model -> HloModuleProto.

MODEL is a SavedModel, a file that Keras has written, or a GraphDef.

The names of inputs and outputs travel in the module's side table, where the command line finds
them. Variables become constants.
"""

import argparse
import os
import re

from tremula import tool

_DEVICE = "/device:IPU:0"  # for messages

_HLO_TYPES = {"f16": "float16", "f32": "float32", "pred": "bool", "s8": "int8", "s16": "int16",
              "s32": "int32", "s64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
              "u64": "uint64"}


def main():
    parser = argparse.ArgumentParser(prog="python -m tremula.tool.lower")
    parser.add_argument("model")
    parser.add_argument("--output", required=True)
    parser.add_argument("--signature", default="serving_default")
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--feed", action="append", default=[])
    parser.add_argument("--fetch", action="append", default=[])
    arguments = parser.parse_args()
    with tool.complaining():
        tool.need_tensorflow()
        shapes = dict(parse_shape(text) for text in arguments.shape)
        program = read(arguments, shapes)
        tool.write(arguments.output, lower(*program))


def read(arguments, shapes, batch=None, variables=False):
    """What lower() takes, of the model that the arguments of a command name. batch: of inputs whose
    first dimension is unknown; variables: whether a GraphDef may have some."""
    model = arguments.model
    if os.path.isdir(model):
        return saved_model(model, arguments.signature, shapes, batch)
    if os.path.splitext(model)[1] in (".keras", ".h5", ".hdf5"):
        return keras_model(model, shapes, batch)
    return graph(model, arguments.feed, arguments.fetch, shapes, batch, variables)


# ---- Shapes and types ----

def _dimensions(text):
    return [int(size) for size in text.split(",") if size.strip()]


def parse_shape(text):
    """"x=1,4" -> ("x", [1, 4])."""
    name, equals, sizes = text.partition("=")
    if not (name and equals) or not re.fullmatch(r"\s*(\d+\s*(,\s*\d+\s*)*)?", sizes):
        raise tool.Complaint(f"--shape wants NAME=DIMS, such as x=1,224,224,3, not '{text}'")
    return name, _dimensions(sizes)


class Batch:
    """A batch size, and whether an input has taken it."""

    def __init__(self, size):
        self.size, self.is_taken = size, False


def full_shape(name, shape, shapes, batch=None):
    """The shape of the input `name`, a TensorShape, made complete by the user's, or by a Batch
    where the first dimension is unknown."""
    import tensorflow as tf
    wanted = shapes.pop(name, None)
    if wanted is None and batch and shape.rank and shape[0] is None:
        shape = tf.TensorShape([batch.size]).concatenate(shape[1:])
        batch.is_taken = True
    if wanted is not None:
        if not tf.TensorShape(shape).is_compatible_with(wanted):
            raise tool.Complaint(f"the input '{name}' has the shape {_shape_text(shape)}, which "
                                 f"--shape {name}={','.join(map(str, wanted))} does not fit")
        return wanted
    if not shape.is_fully_defined():
        raise tool.Complaint(f"the input '{name}' has the shape {_shape_text(shape)}, but an IPU "
                             f"program is static: give its shape with --shape {name}=DIMS")
    return shape.as_list()


def _shape_text(shape):
    if shape.rank is None:
        return "unknown"
    return "[" + ",".join("?" if size is None else str(size) for size in shape.as_list()) + "]"


def refuse_idle_batch(batch, known, shapes):
    """Refuses a batch size that no input takes: `known` are the inputs' own shapes, by name."""
    if batch and not any(shape.rank and shape[0] is None and name not in shapes
                         for name, shape in known.items()):
        raise tool.Complaint("--batch sets the first dimension of inputs where that is unknown, "
                             "but there is none: " +
                             ", ".join(f"{name} is {_shape_text(shape)}"
                                       for name, shape in known.items()))


def refuse_unused(shapes, names):
    if shapes:
        raise tool.Complaint(f"--shape names '{sorted(shapes)[0]}', which is not an input. The "
                             f"inputs are: {', '.join(names)}")


# ---- SavedModels ----

def load_signature(path, name):
    """A SavedModel, which owns the variables, and its signature of this name."""
    import tensorflow as tf
    if not tf.saved_model.contains_saved_model(path):
        raise tool.Complaint(f"{path} is a folder without a saved_model.pb, so not a SavedModel")
    try:
        with tf.device("/device:CPU:0"):
            loaded = tf.saved_model.load(path)
    except Exception as error:
        raise tool.Complaint(f"TensorFlow cannot load the SavedModel {path}: {error}") from error
    if name not in loaded.signatures:
        known = ", ".join(sorted(loaded.signatures)) or "none"
        raise tool.Complaint(f"{path} has no signature '{name}'. It has: {known}")
    return loaded, loaded.signatures[name]


def saved_model(path, name, shapes, batch=None):
    """What lower() takes, of a signature of a SavedModel. batch: of inputs whose first dimension is
    unknown."""
    loaded, signature = load_signature(path, name)
    specs = signature.structured_input_signature[1]
    outputs = sorted(signature.structured_outputs)

    def program(**values):
        results = signature(**values)
        return [results[one] for one in outputs]

    return _frozen(program, specs, outputs, shapes, batch, f"the signature '{name}' of {path}")


def _frozen(program, specs, outputs, shapes, batch, called):
    """What lower() takes, of a function of keyword arguments, which `specs` describes, that gives
    the list `outputs` names. Its variables become constants. called: for messages."""
    import tensorflow as tf
    from tremula.tf.inner import graphs
    inputs = sorted(specs)
    full = [tf.TensorSpec(full_shape(one, specs[one].shape, shapes, batch), specs[one].dtype)
            for one in inputs]
    refuse_unused(shapes, inputs)
    concrete = tf.function(lambda *values: program(**dict(zip(inputs, values))),
                           autograph=False).get_concrete_function(*full)
    frozen = graphs.without_variables(concrete)
    if len(frozen.inputs) != len(inputs):
        extra = ", ".join(one.name for one in frozen.inputs[len(inputs):])
        raise tool.Complaint(f"{called} uses something that cannot be made a constant, such as a "
                             f"table: {extra}")
    return frozen.graph, list(frozen.inputs), list(frozen.outputs), inputs, outputs


# ---- Keras ----

def load_keras(path):
    """The model in a file that Keras has written."""
    import tensorflow as tf
    from tremula.tf.inner import keras
    if not os.path.exists(path):
        raise tool.Complaint(f"cannot open {path}: there is no such file")
    try:
        with tf.device("/device:CPU:0"):
            model = keras.load_model(path)
    except Exception as error:
        raise tool.Complaint(f"Keras cannot load {path}: {error}") from error
    if not getattr(model, "inputs", None):
        raise tool.Complaint(f"the model in {path} does not say what it takes, as models of "
                             "classes of one's own do: save it as a SavedModel")
    return model


def keras_model(path, shapes, batch=None):
    """What lower() takes, of a file that Keras has written: the model's call as predict() makes it.
    batch: of inputs whose first dimension is unknown."""
    import tensorflow as tf
    model = load_keras(path)
    inputs = [one.name.split(":")[0] for one in model.inputs]
    specs = {name: tf.TensorSpec(one.shape, one.dtype) for name, one in zip(inputs, model.inputs)}
    outputs = list(getattr(model, "output_names", None)
                   or [f"output_{i}" for i in range(len(model.outputs))])

    def program(**values):
        given = [values[one] for one in inputs]
        return tf.nest.flatten(model(given if len(given) > 1 else given[0], training=False))

    return _frozen(program, specs, outputs, shapes, batch, f"the model in {path}")


# ---- GraphDefs ----

_FEED = re.compile(r"(?P<name>[^:\[\]]+)(:(?P<port>\d+))?(:(?P<type>\w+)\[(?P<dims>[\d,\s]*)\])?")


def _parse_feed(text):
    """"x:f32[2,3]", "x:0" or "x" -> (name, tensor name, type or None, dimensions or None)."""
    import tensorflow as tf
    match = _FEED.fullmatch(text)
    if not match:
        raise tool.Complaint(f"--feed wants NAME or NAME:TYPE[DIMS], such as x:f32[1,28,28], not "
                             f"'{text}'")
    dtype, dims = None, None
    if match["type"]:
        try:
            dtype = tf.dtypes.as_dtype(_HLO_TYPES.get(match["type"], match["type"]))
        except TypeError:
            raise tool.Complaint(f"'{match['type']}' in --feed {text} is not a type; types are "
                                 f"{', '.join(_HLO_TYPES)}") from None
        dims = _dimensions(match["dims"])
    name = match["name"] + (f":{match['port']}" if match["port"] else "")
    return name, f"{match['name']}:{match['port'] or 0}", dtype, dims


def read_graph(path):
    """The GraphDef in a file, binary or text."""
    import tensorflow as tf
    from google.protobuf import message, text_format
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise tool.Complaint(f"cannot open {path}: {error.strerror}") from error
    graph_def = tf.compat.v1.GraphDef()
    try:
        graph_def.ParseFromString(data)
        return graph_def
    except message.DecodeError:
        pass
    try:
        return text_format.Parse(data.decode(), tf.compat.v1.GraphDef())
    except (UnicodeDecodeError, text_format.ParseError) as error:
        raise tool.Complaint(f"{path} is no GraphDef: as a text, {error}") from None


_VARIABLES = ("Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable")


def graph(path, feeds, fetches, shapes, batch=None, variables=False):
    """Makes of a GraphDef what lower() takes. batch: the size for unknown first dimensions of
    inputs; variables: whether the graph may have variables."""
    import tensorflow as tf
    graph_def = read_graph(path)
    nodes = {node.name: node for node in graph_def.node}
    feeds = [_parse_feed(text) for text in feeds]
    for name in [tensor for _, tensor, _, _ in feeds] + fetches:
        if name.split(":")[0] not in nodes:
            raise tool.Complaint(f"the graph in {path} has no node '{name.split(':')[0]}'")
    names = [name for name, _, _, _ in feeds]
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        known = tf.compat.v1.get_default_graph()
        types, own_shapes = [], {}
        for name, tensor, _, dims in feeds:
            own_shapes[name] = (tf.TensorShape(dims) if dims is not None
                                else _tensor(known, tensor, path).shape)
        for name, tensor, dtype, _ in feeds:
            shape = full_shape(name, own_shapes[name], shapes, batch)
            types.append((dtype or _tensor(known, tensor, path).dtype, shape))
        for fetch in fetches:
            _tensor(known, _tensor_name(fetch), path)
    refuse_unused(shapes, names)
    _check_needed(nodes, {tensor for _, tensor, _, _ in feeds}, fetches, path, variables)
    with tf.Graph().as_default() as result:
        placeholders = [tf.compat.v1.placeholder(dtype, shape, name="tremula_feed")
                        for dtype, shape in types]
        fed = {tensor: placeholder
               for (_, tensor, _, _), placeholder in zip(feeds, placeholders)}
        wanted = [_tensor_name(one) for one in fetches]
        computed = tf.import_graph_def(graph_def, name="", return_elements=wanted, input_map=fed)
        outputs = [fed.get(name, tensor) for name, tensor in zip(wanted, computed)]
    return result, placeholders, outputs, names, fetches


def _tensor_name(name):
    return name if ":" in name or name.startswith("^") else name + ":0"


def _tensor(graph, name, path):
    try:
        return graph.get_tensor_by_name(name)
    except (KeyError, ValueError) as error:
        raise tool.Complaint(f"the graph in {path} has no tensor '{name}': {error}") from None


def _check_needed(nodes, fed, fetches, path, variables):
    """Refuses placeholders that are not fed and, but where `variables` says that they may be,
    variables that are not frozen, where the fetches need them."""
    waiting, seen = [_tensor_name(one) for one in fetches], set()
    while waiting:
        tensor = waiting.pop()
        if tensor in seen or tensor in fed:
            continue
        seen.add(tensor)
        node = nodes[tensor.removeprefix("^").split(":")[0]]
        if node.op == "Placeholder":
            raise tool.Complaint(f"the graph in {path} needs the placeholder '{node.name}': name "
                                 f"it with --feed {node.name}")
        if node.op in _VARIABLES and not variables:
            raise tool.Complaint(f"the graph in {path} has the variable '{node.name}'; freeze it "
                                 "first, or save a SavedModel, whose variables are frozen here")
        waiting += map(_tensor_name, node.input)


# ---- Lowering ----

def lower(from_graph, placeholders, outputs, input_names, output_names, updates=(), notes=None):
    """The bytes of the HloModuleProto of a graph.

    updates  pairs (number of an output, number of the input that it is the new value of)
    notes    what the side table says besides, by key
    """
    import tensorflow as tf
    from tremula.tf.inner import bridge
    from tremula.tf.runtime.lowering import lowering, staging
    from tremula.tf.runtime.ops import kernel_list
    for kind, tensors, names in (("input", placeholders, input_names),
                                 ("output", outputs, output_names)):
        for tensor, name in zip(tensors, names):
            if tensor.dtype.name not in kernel_list.TYPES:
                raise tool.Complaint(f"the {kind} '{name}' is of the type {tensor.dtype.name}, "
                                     "which an IPU does not have")
    try:
        source = staging.stage(from_graph, placeholders, [], outputs, _DEVICE)
        return lowering.lower(
            source, updates=updates,
            side_table={"inputs": input_names, "outputs": output_names, **(notes or {})}).module
    except bridge.LoweringError as error:
        if bridge.wants_constant(error):
            raise tool.Complaint(f"{error} (an input decides on a shape; save the model with that "
                                 "value as a constant)") from error
        raise tool.Complaint(str(error)) from error
    except tf.errors.OpError as error:
        raise tool.Complaint(error.message) from error


if __name__ == "__main__":
    main()
