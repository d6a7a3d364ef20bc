"""Hazards of float16: what falls below its range, and what goes beyond."""

import ast

from tremula.check import names
from tremula.check.project import is_keras_class
from tremula.check.rules import rule
from tremula.check.rules.types import POLICIES, typed_calls

_SMALLEST = 2.0 ** -24  # the least float16 above 0
_LARGEST = 65504.0
_SUMS = ("tf.reduce_sum", "tf.math.reduce_sum")
_TYPED = ("tf.constant", "tf.cast", "tf.fill")
# Functions whose result has the type of their first argument.
_ALIKE = tuple(f"tf.{name}" for name in (
    "abs", "add", "exp", "identity", "log", "maximum", "minimum", "multiply", "nn.relu",
    "nn.softmax", "reduce_max", "reduce_mean", "reduce_min", "reduce_sum", "reduce_variance",
    "reshape", "rsqrt", "sigmoid", "sqrt", "square", "subtract", "tanh", "transpose"))


def _half_calls(project):
    return [(file, call, called) for file, call, called, _, name in typed_calls(project)
            if name in ("float16", "half")]


def _is_half(project, file, node, deep=8):
    """Whether an expression is of float16 for sure: it says so itself, or its source does, or it
    comes from the input of a layer in a policy of float16."""
    value = file.value(node) if isinstance(node, ast.Name) else node
    if deep == 0 or value is None and not _is_half_input(project, file, node):
        return False
    if isinstance(value, ast.BinOp):
        return any(_is_half(project, file, one, deep - 1) for one in (value.left, value.right))
    if not isinstance(value, ast.Call):
        return value is None
    called = file.called(value) or ""
    if called.replace("tf.math.", "tf.") in _ALIKE and value.args:
        return _is_half(project, file, value.args[0], deep - 1)
    position = {"tf.cast": 1, "tf.constant": 1, "tf.zeros": 1, "tf.ones": 1, "tf.placeholder": 0,
                "tf.get_variable": 2, "tf.sequence_mask": 2}.get(called)
    return position is not None and names.type_name(
        file, names.argument(value, "dtype", position)) in ("float16", "half")


def _is_half_input(project, file, node):
    """Whether a name is the first parameter of the `call` of a layer that no type is given to."""
    function = names.function_around(node)
    if not isinstance(node, ast.Name) or getattr(function, "name", "") != "call" \
            or not isinstance(function.parent, ast.ClassDef) \
            or not is_keras_class(file, function.parent):
        return False
    first, text = [one.arg for one in function.args.args[1:2]], ast.unparse(function.parent)
    return first == [node.id] and len(function.own.bound[node.id]) == 1 \
        and "float32" not in text and "dtype" not in text and has_half_policy(project)


def has_half_policy(project):
    return any(called in POLICIES and names.constant(
        names.argument(call, "name", 0) or names.argument(call, "policy"))
        in ("mixed_float16", "float16") for _, call, called in project.calls())


@rule(
    "half-loss-scale", "warning", "Training in float16 without a loss scale",
    """Gradients below 6e-8 are zero in float16, and training stands still. A factor on the loss,
    taken off the gradients again, lifts them.""",
    """Scale the loss (`loss * SCALE`, the gradients divided by it), or use Keras'
    `LossScaleOptimizer`, which `compile` adds to the policy mixed_float16 by itself.""",
    """
    import tensorflow as tf

    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(0.1)

    @tf.function(jit_compile=True)
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    """,
    """
    import tensorflow as tf

    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))

    @tf.function(jit_compile=True)
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
            scaled = optimizer.get_scaled_loss(loss)
        gradients = optimizer.get_unscaled_gradients(
            tape.gradient(scaled, model.trainable_variables))
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    """)
def loss_scale(project):
    if project.mentions("loss_scal", "lossscal", "scaled_loss", "scale_loss", "unscale",
                        "alsoptimizer"):
        return
    policy = has_half_policy(project)
    variables = any(called == "tf.get_variable" for _, _, called in _half_calls(project))
    for file, call, _ in project.calls():
        if not isinstance(call.func, ast.Attribute):
            continue
        if policy and call.func.attr == "apply_gradients" and project.uses("tf.GradientTape") \
                or variables and call.func.attr == "minimize":
            yield file, call.func, "gradients of float16 are taken without a loss scale"


@rule(
    "half-epsilon", "warning", "A small number that is zero in float16",
    """The least float16 above zero is 6e-8. An epsilon of 1e-8, which shall keep a division from
    failing, is zero in float16.""",
    "Take 1e-6 or more, or compute this part in float32.",
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        x = tf.cast(x, tf.float16)
        return x / tf.constant(1e-8, tf.float16)
    """,
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        x = tf.cast(x, tf.float16)
        return x / tf.constant(1e-5, tf.float16)
    """)
def epsilon(project):
    for file, node, number in _half_numbers(project):
        if 0 < abs(number) < _SMALLEST:
            yield file, node, f"{number:g} is zero in float16, whose least number is 6e-8"


@rule(
    "half-range", "warning", "A number beyond float16",
    """The largest float16 is 65504. A larger number becomes 65504 or a NaN: masks of -1e9, sums of
    many elements.""",
    """Use a smaller number (-6e4 for a mask); sum up in float32, or take the mean.""",
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.cast(x, tf.float16) + tf.constant(-1e9, tf.float16)
    """,
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.cast(x, tf.float16) + tf.constant(-6e4, tf.float16)
    """)
def beyond(project):
    for file, node, number in _half_numbers(project):
        if abs(number) > _LARGEST:
            yield file, node, f"{number:g} is beyond float16, whose largest number is 65504"
    for file, call, called in project.calls():
        if called in _SUMS and call.args and _many(project, file, call):
            yield file, call, ("a sum of float16 over more than 65504 elements may go beyond the "
                               "type; sum up in float32")


def _half_numbers(project):
    """Yields (file, node, number) of numbers that become float16."""
    for file, call, called in _half_calls(project):
        if called in _TYPED and call.args:
            number = names.constant(call.args[0])
            if isinstance(number, (int, float)) and not isinstance(number, bool):
                yield file, call.args[0], float(number)
    for file, node in project.nodes(ast.BinOp):
        for number, other in ((node.left, node.right), (node.right, node.left)):
            given = file.value(number) if isinstance(number, ast.Name) else number
            value = names.constant(given) if isinstance(given, ast.AST) else None
            if isinstance(value, (int, float)) and not isinstance(value, bool) \
                    and _is_half(project, file, other) and project.how_compiled(file, node):
                yield file, number, float(value)


def _many(project, file, call):
    """Whether a sum of everything is over more than 65504 elements of float16."""
    if names.argument(call, "axis", 1) is not None or not _is_half(
            project, file, call.args[0]):
        return False
    value = file.value(call.args[0])
    position = {"tf.placeholder": 1, "tf.get_variable": 1, "tf.ones": 0}.get(file.called(value))
    shape = names.constant(names.argument(value, "shape", position)) if position is not None \
        else None
    count = 1
    for size in shape if isinstance(shape, (list, tuple)) else (0,):
        count *= size if isinstance(size, int) else 0
    return count > _LARGEST
