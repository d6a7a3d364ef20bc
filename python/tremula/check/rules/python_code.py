"""Python that runs once, when a function is traced, and looks as if it ran in every step."""

import ast

from tremula.check import names
from tremula.check.project import is_keras_class
from tremula.check.rules import rule

_CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "datetime.datetime.now")
_DESCRIBING = ("shape", "dtype", "name", "device", "op", "get_shape")


@rule(
    "python-side-effect", "warning", "Python in a compiled function, which runs once",
    """Python runs while the function is traced, once, and not in every step: a `print` shows a
    symbol instead of a number, a clock stands still, a counter counts one.""",
    """Return the value, or put it into an outfeed queue, and do this on the host; count with a
    `tf.Variable`.""",
    """
    import time
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        start = time.time()
        return tf.reduce_mean(x), start
    """,
    """
    import time
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.reduce_mean(x)

    start = time.time()
    step(tf.ones([8]))
    """)
def side_effects(project):
    for file, call, called in project.calls():
        message = _effect(project, file, call, called)
        if message and project.how_compiled(file, call) not in ("", "ipu_scope"):
            yield file, call, message
    for function, (file, how) in project.compiled.items():
        if how == "keras" or not isinstance(getattr(function, "body", None), list):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) \
                    and node.target.id in function.own.outer \
                    and node.scope is function.own:
                yield file, node, f"'{node.target.id}' changes when the function is traced, once"


def _effect(project, file, call, called):
    if called == "print":
        around = names.function_around(call)
        shown = next((one for one in call.args if around is not None
                      and _is_tensor(file, one, around)), None)
        return shown is not None and (f"this prints '{ast.unparse(shown)}' when the function is "
                                      "traced: a symbol, once")
    if called in _CLOCKS:
        return f"{called}() is read when the function is traced, once"
    if called == "open":
        return "a file is opened when the function is traced, once"
    if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.args \
            and not call.keywords and called == "":
        return ".numpy() has no value while a function is traced"
    if isinstance(call.func, ast.Attribute) and call.func.attr == "append" and len(call.args) == 1:
        return _append(file, call)
    return None


def _append(file, call):
    """An append of a tensor to a list of outside of the function."""
    owner, around = call.func.value, names.function_around(call)
    if not isinstance(owner, ast.Name) or around is None:
        return None
    scope = owner.scope.find(owner.id)
    if scope is None or not isinstance(scope.node, ast.Module) \
            or not _is_tensor(file, call.args[0], around):
        return None
    return (f"'{owner.id}' gets a symbol when the function is traced, once, and not a number in "
            "every step")


def _is_tensor(file, node, around):
    """Whether an expression is a tensor for sure: what a function of TensorFlow gives."""
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(one, ast.FormattedValue) and _is_tensor(file, one.value, around)
                   for one in node.values)
    if isinstance(node, ast.Name):
        scope = node.scope.find(node.id)
        if scope is None or scope.node is not around:
            return False
        values = [one for one in scope.bound[node.id] if isinstance(one, ast.AST)]
        return any(isinstance(one, ast.Call) and _gives_tensor(file, one) for one in values)
    return isinstance(node, ast.Call) and _gives_tensor(file, node)


def _gives_tensor(file, call):
    called = file.called(call) or ""
    return called.startswith(("tf.reduce_", "tf.nn.", "tf.math.", "tf.matmul", "tf.cast",
                              "tf.square", "tf.losses.", "tf.linalg.", "tf.random.")) \
        and called not in ("tf.nn.rnn_cell",)


@rule(
    "own-train-step", "error", "A Keras model with a train_step of its own",
    """Keras' loop on the device builds the step itself: it adds up gradients, runs pipeline stages
    and replicas. A model with its own `train_step` or `make_train_function` is refused in an
    `IPUStrategy`.""",
    """Use a loss function, `add_loss`, or a layer for what the step adds; or write the loop
    yourself: a `tf.function(jit_compile=True)` with a `GradientTape`, called by
    `strategy.run`.""",
    """
    import tensorflow as tf

    class Model(tf.keras.Model):
        def train_step(self, data):
            return {"loss": 0.0}
    """,
    """
    import tensorflow as tf

    class Model(tf.keras.Model):
        def call(self, inputs):
            return inputs * 2.0
    """)
def train_steps(project):
    for file, node in project.nodes(ast.ClassDef):
        if not is_keras_class(file, node):
            continue
        for one in node.body:
            if isinstance(one, names.FUNCTIONS) and one.name in (
                    "train_step", "make_train_function", "make_test_function",
                    "make_predict_function"):
                yield file, one, f"'{node.name}' has its own {one.name}"
