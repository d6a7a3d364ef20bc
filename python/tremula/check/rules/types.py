"""Types that an IPU does not have."""

import ast

from tremula.check import arrays, arrivals, elements, names
from tremula.check.project import is_keras_class, names_of
from tremula.check.rules import add_argument, replace, rule

_WIDE = {"float64": "float32", "double": "float32", "complex64": "", "complex128": "",
         "bfloat16": "float16"}
_TYPED = {"tf.cast": 1, "tf.constant": 1, "tf.zeros": 1, "tf.ones": 1, "tf.placeholder": 0,
          "tf.get_variable": 2, "tf.Variable": 4, "tf.convert_to_tensor": 1, "tf.random.normal": 3,
          "tf.random.uniform": 3, "tf.random_normal": 3, "tf.random_uniform": 3, "tf.range": 3,
          "tf.TensorSpec": 1, "tf.keras.Input": 9, "tf.keras.layers.Input": 9, "tf.fill": 9,
          "tf.truncated_normal": 3, "tf.ones_like": 1, "tf.zeros_like": 1, "tf.to_double": 9}
_INPUTS = ("tf.keras.Input", "tf.keras.layers.Input")
_EDGES = ("tf.placeholder", *_INPUTS)
_LAYERS = ("tf.keras.layers.", "tf.layers.")
_WEIGHT = "tf.keras.layers.Layer.add_weight"
FED = "what is fed here is"
_STATE = ("tf.Variable", "tf.get_variable")
POLICIES = ("tf.keras.mixed_precision.set_global_policy",
             "tf.keras.mixed_precision.experimental.set_policy",
             "tf.keras.mixed_precision.Policy",
             "tf.keras.mixed_precision.experimental.Policy")


def typed_calls(project):
    """Yields (file, call, name, node of the type, its name) of what names the type of a tensor."""
    for file, call, called in project.calls():
        if called in _TYPED:
            node = names.argument(call, "dtype", _TYPED[called])
            found = names.type_name(file, node)
            if found:
                yield file, call, called, node, found
        elif called.startswith(_LAYERS) or _adds_weight(file, call):
            node = names.argument(call, "dtype")
            found = names.type_name(file, node)
            if found:
                yield file, call, called if called.startswith(_LAYERS) else _WEIGHT, node, found


def _adds_weight(file, call):
    """Whether a call is self.add_weight(...) of a layer of Keras'."""
    if names_of(call.func) != "add_weight" or not isinstance(call.func, ast.Attribute) \
            or not names.is_of_self(call.func):
        return False
    return any(isinstance(one, ast.ClassDef) and is_keras_class(file, one)
               for one in names.parents(call))


@rule(
    "float64", "error", "float64, or another type that an IPU does not have",
    """An IPU computes with float32 and float16, integers and booleans. Tensors of float64, of
    complex numbers, of bfloat16 and of texts are refused at the device's door.""",
    """Use float32 (or float16); convert the host's arrays with `astype(np.float32)`, and texts to
    numbers in the dataset's `map`.""",
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.reduce_mean(tf.cast(x, tf.float64))
    """,
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.reduce_mean(tf.cast(x, tf.float32))
    """)
def wide_floats(project):
    for file, call, called, node, name in typed_calls(project):
        if called in _INPUTS and name == "string":
            yield file, node, "an IPU has no texts; turn them into numbers in the dataset's map"
        if name not in _WIDE or called in _EDGES and project.is_outside(file, call) \
                and not project.for_ipu:
            continue
        is_layer = called.startswith(_LAYERS)
        if called in _EDGES or is_layer or _is_of_state(project, file, call) \
                or project.comes_to_ipu(file, call):
            better = f"; use {_WIDE[name]}" if _WIDE[name] else ""
            yield file, node, f"an IPU has no {name}{better}"
    for file, call, called in project.calls():
        if called in _STATE and _is_of_state(project, file, call):
            given = names.argument(call, "initial_value", 0)
            if names.argument(call, "dtype", _TYPED[called]) is None \
                    and arrays.is_wide(project, file, given):
                yield file, given, ("this array is of NumPy's float64, and so is the variable; add "
                                    ".astype(np.float32)")
        elif called in POLICIES and names.constant(
                names.argument(call, "name", 0) or names.argument(call, "policy"), "") \
                == "mixed_bfloat16":
            yield file, call, "an IPU has no bfloat16: the policy is mixed_float16"
        elif called == "tf.keras.backend.set_floatx":
            name = names.constant(names.argument(call, "floatx", 0))
            if name in _WIDE:
                yield file, call, f"an IPU has no {name}: all layers would be of it"
        elif called in ("tf.constant", "tf.convert_to_tensor"):
            given = names.argument(call, "value", 0)
            if names.argument(call, "dtype", 1) is None and not names.is_open_ended(call) and (
                    _is_of_state(project, file, call) or project.comes_to_ipu(file, call)) \
                    and arrays.is_wide(project, file, given):
                yield file, given, ("this is of NumPy's float64, and so is the tensor; say "
                                    'dtype="float32"'), add_argument(file, call, 'dtype="float32"')
        for other, array, where in arrays.given(project, file, call, called):
            yield other, array, (f"this array is of NumPy's float64, and it goes to {where}; add "
                                 ".astype(np.float32)")
    for one in _fed(project, _WIDE):
        better = f"; use {_WIDE[one.type]}" if _WIDE[one.type] else ""
        yield one.file, one.node, (f"{FED} of {one.type}, which an IPU does not "
                                   f"have{better}")


def _fed(project, wanted):
    """What gives one of the wanted types to what goes to the device from outside, each once."""
    seen = set()
    found = [one for file, node in arrivals.datasets(project)
             for one in elements.Reader(project).of_dataset(file, node)]
    if "int64" in wanted:  # Keras makes float32 of wider arrays itself
        found += [one for file, node in arrivals.arrays(project)
                  for one in elements.Reader(project).of_value(file, node)]
    for one in found:
        if one.type in wanted and one.node is not None and one.node not in seen:
            seen.add(one.node)
            yield one


def _is_of_state(project, file, node):
    """Whether a call makes a variable of a program with a compiled part, or its first value."""
    return (project.compiled or project.ports_graph) and not project.is_outside(file, node) and any(
        file.called(one) in _STATE for one in [node, *names.parents(node)]
        if isinstance(one, ast.Call))


@rule(
    "int64", "warning", "int64 that becomes int32",
    """An IPU has integers of 32 bits. int64 in a compiled part is narrowed: values over 2147483647
    wrap, and labels of int64 that are fed to Keras or a queue are refused.""",
    """Use int32: `tf.cast(x, tf.int32)`, `tf.argmax(x, output_type=tf.int32)`. Cast labels in the
    dataset's `map`.""",
    """
    from tensorflow.python import ipu
    import tensorflow.compat.v1 as tf

    def body(x):
        return tf.cast(x, tf.int64)

    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [8])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(body, [x])
    """,
    """
    from tensorflow.python import ipu
    import tensorflow.compat.v1 as tf

    def body(x):
        return tf.cast(x, tf.int32)

    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [8])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(body, [x])
    """)
def int64(project):
    for file, call, called, node, name in typed_calls(project):
        if name == "int64" and (called in _EDGES or project.comes_to_ipu(file, call)):
            edit = rename_type(file, node)
            yield file, node, "int64 becomes int32 on an IPU; say int32", edit
    for one in _fed(project, ("int64",)):
        edit = rename_type(one.file, one.written) if one.written is not None else None
        yield one.file, one.node, f"{FED} of int64, which a queue refuses; say int32", edit


def rename_type(file, node):
    """An edit from int64 to int32 of a type that is written out."""
    if isinstance(node, ast.Attribute) and node.attr == "int64":
        text = ast.get_source_segment(file.text, node)
        return replace(file, node, text[:-len("int64")] + "int32") if text else None
    if isinstance(node, ast.Constant):
        return replace(file, node, '"int32"')
    return None
