"""Operations that the device does not have, or whose shape depends on values."""

import ast
import re

from tremula.check import names
from tremula.check.absent_ops import ABSENT
from tremula.check.project import names_of
from tremula.check.rules import rule

_NO_SHAPE = {"tf.unique": "Unique", "tf.unique_with_counts": "UniqueWithCounts",
             "tf.boolean_mask": "Where", "tf.dynamic_partition": "DynamicPartition",
             "tf.image.non_max_suppression": "NonMaxSuppressionV3",
             "tf.image.non_max_suppression_with_scores": "NonMaxSuppressionV5",
             "tf.sets.intersection": "a set operation", "tf.sets.difference": "a set operation",
             "tf.sets.union": "a set operation", "tf.setdiff1d": "ListDiff",
             "tf.ragged.boolean_mask": "a ragged operation",
             "tf.ragged.constant": "a ragged tensor", "tf.sparse.from_dense": "Where"}
_ABSENT_OPS = set(ABSENT.values())
# Functions and layers that resize -> the argument that says how.
_RESIZING = {"tf.image.resize": ("method", 2), "tf.image.resize_images": ("method", 2),
             "tf.keras.layers.UpSampling2D": ("interpolation", 2),
             "tf.keras.layers.Resizing": ("interpolation", 2)}
_METHODS = {"bicubic": "ResizeBicubic", 2: "ResizeBicubic", "area": "ResizeArea", 3: "ResizeArea",
            **dict.fromkeys(("lanczos3", "lanczos5", "gaussian", "mitchellcubic"),
                            "ScaleAndTranslate")}
_BLOCKS = {"tf.contrib.rnn.LSTMBlockCell": "LSTMBlockCell",
           "tf.contrib.rnn.LSTMBlockFusedCell": "BlockLSTM",
           "tf.contrib.rnn.GRUBlockCell": "GRUBlockCell",
           "tf.contrib.rnn.GRUBlockCellV2": "GRUBlockCell"}
_UNLESS = {"tf.nn.sampled_softmax_loss": "remove_accidental_hits"}
_TURNING = tuple(f"tf.keras.layers.{where}{name}" for where in ("", "experimental.preprocessing.")
                 for name in ("RandomRotation", "RandomZoom", "RandomTranslation"))
_IN_VAIN = 'tf.device("cpu") does not take it out of the compiled part'
_COLUMN_LAYERS = ("tf.feature_column.input_layer", "tf.feature_column.linear_model",
                  "tf.keras.layers.DenseFeatures")
_TEXT_COLUMNS = tuple(f"tf.feature_column.categorical_column_with_{kind}" for kind in (
    "hash_bucket", "vocabulary_list", "vocabulary_file"))
_LOOKUP_LAYERS = tuple(f"tf.keras.layers.{name}" for name in (
    "StringLookup", "IntegerLookup", "TextVectorization", "Hashing"))
_TABLES = ("tf.lookup.StaticHashTable", "tf.lookup.StaticVocabularyTable",
           "tf.lookup.experimental.DenseHashTable", "tf.lookup.experimental.MutableHashTable",
           "tf.contrib.lookup.HashTable")
_HOST_CALLS = ("tf.py_function", "tf.numpy_function", "tf.py_func")
_SUMMARIES = ("tf.summary.", "tf.contrib.summary.")
_INPUTS = re.compile("decode|encode|(?<!s)parse|string|file|jpeg|distorted|timestamp")


@rule(
    "unsupported-op", "error", "An operation that an IPU does not have",
    """A compiled part of a program is one program of the IPU. An operation without an
    implementation for it stops the compiler: texts, files, images of JPEG, Python functions,
    Fourier transforms, some of linear algebra.""",
    """Compute it on the host before the compiled part (in the dataset's `map`, say), put it under
    `ipu.scopes.outside_compilation_scope()`, or write it as a custom operator.""",
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(signal):
        return tf.abs(tf.signal.fft(signal))
    """,
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(signal):
        return tf.abs(signal)
    """)
def unsupported(project):
    texts = next((called for _, _, called in project.calls() if called in _TEXT_COLUMNS), None)
    for file, call, called in project.calls():
        if texts and called in _COLUMN_LAYERS and project.how_compiled(file, call):
            yield file, call, f"{called} looks up the texts of {texts}, and an IPU has no texts"
        table = _table(file, call)
        if table and project.how_compiled(file, call):
            yield file, call, f"{table} looks values up in a table of the host's"
        op = _absent(file, call, called)
        if called.startswith("tf.keras.layers."):
            if op and not _is_of_host(project, file, call):
                yield file, call, f"{called} is the op {op}, which an IPU does not have"
            continue
        if op is None or called in (*_HOST_CALLS, *_NO_SHAPE) or called.startswith(_SUMMARIES):
            continue
        if project.in_vain(file, call):
            yield file, call, f"{called} is the op {op}: {_IN_VAIN}"
        elif project.how_compiled(file, call) or project.comes_to_ipu(file, call) \
                and not _INPUTS.search(called):  # which a graph to be ported keeps on the host
            yield file, call, f"{called} is the op {op}, which an IPU does not have"


def _is_of_host(project, file, call):
    """Whether what is made of a layer is called in a function of the host's, or nowhere told."""
    if any(one in project.hosted for one in names.parents(call)):
        return True
    if getattr(call.parent, "func", None) is call:  # of a functional model
        return False
    made = next((one for one in names.parents(call) if isinstance(one, ast.stmt)), None)
    if not isinstance(made, ast.Assign):
        return not isinstance(made, (ast.Expr, ast.Return))
    name = names_of(made.targets[0])
    return any(names_of(one) == name and any(above in project.hosted
                                             for above in names.parents(one))
               for one in file.nodes if isinstance(one, (ast.Name, ast.Attribute)))


def _absent(file, call, called):
    """The op of a call that an IPU does not have, or None."""
    if called.startswith("tf.raw_ops."):
        op = called.split(".")[2]
        return op if op in _ABSENT_OPS and op not in _NO_SHAPE.values() else None
    if called in _TURNING:
        return "ImageProjectiveTransformV3"
    if called in _RESIZING:
        given = names.argument(call, *_RESIZING[called])
        method = (file.resolve(given) or "").split(".")[-1].lower() if isinstance(
            given, ast.Attribute) else names.constant(given)
        if names.constant(names.argument(call, "antialias"), False) is True:
            return "ScaleAndTranslate"
        return _METHODS.get(method)
    if called in _UNLESS and names.constant(names.argument(call, _UNLESS[called]), True) is False:
        return None
    return ABSENT.get(called) or _BLOCKS.get(called)


def _table(file, call):
    """The name of the layer or table of lookups that a call asks, or None."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "lookup"
    asked = call.func.value if is_method else call.func
    made = file.attribute(asked) or file.value(asked)
    called = file.called(made) or "" if isinstance(made, ast.AST) else ""
    return called if called in _TABLES and is_method or called in _LOOKUP_LAYERS else None


@rule(
    "summary-inside", "warning", "A summary in a compiled part",
    """Summaries are files that the host writes. An IPU has no operation for them.""",
    """Give the value out of the compiled part (as a result, or through an outfeed queue), and
    write the summary on the host.""",
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        loss = tf.reduce_mean(x)
        tf.summary.scalar("loss", loss, step=1)
        return loss
    """,
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.reduce_mean(x)

    tf.summary.scalar("loss", step(tf.ones([4])), step=1)
    """)
def summaries(project):
    for file, call, called in project.calls():
        if called.startswith(_SUMMARIES) and called.split(".")[-1] in (
                "scalar", "histogram", "image", "audio", "text", "write"):
            if project.how_compiled(file, call):
                yield file, call, f"{called} is in a part that is compiled for an IPU"


@rule(
    "value-dependent-shape", "error", "A shape that depends on values",
    """An IPU program is static: the compiler must know the size of every array. The size of what
    these functions give depends on the numbers that they are given.""",
    """Keep the shape: multiply by a mask, use `tf.where(condition, x, y)`, or `tf.math.top_k` with
    a fixed number; or compute it on the host.""",
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.reduce_sum(tf.boolean_mask(x, x > 0))
    """,
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.reduce_sum(tf.where(x > 0, x, tf.zeros_like(x)))
    """)
def value_dependent(project):
    for file, call, called in project.calls():
        what = _NO_SHAPE.get(called.replace("tf.math.", "tf."))
        if called.startswith("tf.raw_ops."):
            what = next((one for one in ("Where", *_NO_SHAPE.values())
                         if one == called.split(".")[2].removesuffix("V2")), None)
        if called == "tf.where" and not names.is_open_ended(call) \
                and len(call.args) + sum(one.arg in ("x", "y") for one in call.keywords) == 1:
            what = "Where of one argument"
        if what and project.comes_to_ipu(file, call):
            yield file, call, (f"the shape of {called}'s result depends on values ({what}); an IPU "
                               "program is static")


@rule(
    "host-call", "error", "A call back to Python in a compiled part",
    """`py_function`, `numpy_function` and `py_func` leave the device: the whole IPU would wait for
    Python. The compiler refuses them.""",
    """Write it with TensorFlow's operations, do it in the dataset's `map`, or put it under
    `ipu.scopes.outside_compilation_scope()`.""",
    """
    import numpy as np
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.numpy_function(np.sinc, [x], tf.float32)
    """,
    """
    import numpy as np
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.sin(np.pi * x) / (np.pi * x)
    """)
def host_calls(project):
    for file, call, called in project.calls():
        if called in _HOST_CALLS and project.in_vain(file, call):
            yield file, call, f"{called} leaves the compiled part for Python: {_IN_VAIN}"
        elif called in _HOST_CALLS and project.comes_to_ipu(file, call):
            yield file, call, f"{called} leaves the compiled part for Python"


@rule(
    "data-inside", "error", "tf.data in a compiled part",
    """Datasets and iterators are the host's. A compiled part that makes one, or asks an iterator
    of TensorFlow 1 for its next element, cannot be compiled.""",
    """Make the dataset outside, and hand it over by an `IPUInfeedQueue`, or by `iter(dataset)`
    in an `IPUStrategy` as an argument of the function.""",
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step():
        dataset = tf.data.Dataset.from_tensor_slices([[1.0, 2.0], [3.0, 4.0]])
        return next(iter(dataset))
    """,
    """
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices([[1.0, 2.0], [3.0, 4.0]])

    @tf.function(jit_compile=True)
    def step(batches):
        return next(batches)

    step(iter(dataset))
    """)
def data_inside(project):
    for file, call, called in project.calls():
        is_data = called.startswith("tf.data.") and called.split(".")[2][:1].isupper() \
            and not called.startswith(("tf.data.AUTOTUNE", "tf.data.Options"))
        if is_data and project.how_compiled(file, call) and not isinstance(
                file.value(call.func), ast.ClassDef):
            yield file, call, f"{called} is in a part that is compiled for an IPU"
