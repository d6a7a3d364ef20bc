"""Python that runs once, when a function is traced, and looks as if it ran in every step."""

import ast

from tremula.check import names
from tremula.check.project import bound_functions, is_keras_class, names_of, results
from tremula.check.rules import rule

_CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "datetime.datetime.now")
_RANDOM = tuple(f"{module}.{name}" for module, all_of in (
    ("random", ("random", "uniform", "randint", "randrange", "choice", "gauss", "sample",
                "shuffle", "normalvariate", "betavariate")),
    ("np.random", ("rand", "randn", "random", "random_sample", "uniform", "normal", "randint",
                   "choice", "permutation", "shuffle", "standard_normal", "beta", "binomial")))
    for name in all_of)
# Where numbers of the host are what is meant: first values, seeds, constants of a graph.
_FIRST_VALUES = ("tf.Variable", "tf.get_variable", "tf.constant_initializer",
                 "tf.keras.initializers.Constant")
_FUNCTIONS = ("tf.function", "strategy.run")
_STEPS = ("train_step", "make_train_function", "make_test_function", "make_predict_function")


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
            if isinstance(node, ast.AugAssign) and node.scope is function.own \
                    and _is_of_outside(file, function, node.target, how):
                yield file, node, (f"'{ast.unparse(node.target)}' changes when the function is "
                                   "traced, once")


def _is_of_outside(file, function, target, how):
    """Whether += changes a global name, or a number that is an attribute of an object."""
    if isinstance(target, ast.Name):
        return target.id in function.own.outer
    if not isinstance(target, ast.Attribute) or how not in _FUNCTIONS:
        return False
    first = file.attribute(target)
    return isinstance(first, ast.Constant) and isinstance(first.value, (int, float))


def _effect(project, file, call, called):
    if called == "print":
        around = names.function_around(call)
        shown = next((one for one in call.args if around is not None
                      and _is_tensor(project, file, one, around)), None)
        return shown is not None and (f"this prints '{ast.unparse(shown)}' when the function is "
                                      "traced: a symbol, once")
    if called in _CLOCKS:
        return f"{called}() is read when the function is traced, once"
    if called in _RANDOM and project.how_compiled(file, call) in (*_FUNCTIONS, "keras") \
            and not _is_first_value(file, call):
        return f"{called}() is drawn when the function is traced, once: take tf.random"
    if called == "open":
        return "a file is opened when the function is traced, once"
    if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.args \
            and not call.keywords and called == "":
        return ".numpy() has no value while a function is traced"
    if isinstance(call.func, ast.Attribute) and call.func.attr == "append" and len(call.args) == 1:
        return _append(project, file, call)
    return None


def _is_first_value(file, call):
    """Whether a call is in a seed, or in what a variable begins with."""
    return any(isinstance(one, ast.keyword) and one.arg and "seed" in one.arg
               or isinstance(one, ast.Call) and (file.called(one) in _FIRST_VALUES
                                                 or names_of(one.func) == "add_weight")
               for one in names.parents(call))


def _append(project, file, call):
    """An append of a tensor to a list of outside of the function."""
    owner, around = call.func.value, names.function_around(call)
    if around is None or not _lives_outside(project, file, owner, around) \
            or not _is_tensor(project, file, call.args[0], around):
        return None
    return (f"'{ast.unparse(owner)}' gets a symbol when the function is traced, once, and not a "
            "number in every step")


def _lives_outside(project, file, owner, around):
    """Whether a list is the module's, or an object's whose training step does not make it anew."""
    if isinstance(owner, ast.Name):
        scope = owner.scope.find(owner.id)
        return scope is not None and isinstance(scope.node, ast.Module)
    return isinstance(owner, ast.Attribute) and names.is_of_self(owner) and (
        project.compiled.get(around, ("", ""))[1] in _FUNCTIONS
        or any(one is around for _, _, one, _ in own_steps(project))) and not any(
            isinstance(one, ast.Attribute) and one.attr == owner.attr
            and isinstance(one.ctx, ast.Store) for one in ast.walk(around))


def _is_tensor(project, file, node, around, deep=4):
    """Whether an expression is a tensor for sure: what a function of TensorFlow gives."""
    def again(one):
        return _is_tensor(project, file, one, around, deep - 1)
    if deep == 0:
        return False
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(one, ast.FormattedValue) and again(one.value)
                   for one in node.values)
    if isinstance(node, ast.Name):
        scope = node.scope.find(node.id)
        return scope is not None and scope.node is around and any(
            isinstance(one, (ast.Call, ast.BinOp)) and again(one)
            for one in scope.bound[node.id])
    if isinstance(node, ast.BinOp):
        return again(node.left) or again(node.right)
    return isinstance(node, ast.Call) and (_gives_tensor(file, node) or any(
        _is_tensor(project, other, result, function, deep - 1)
        for other, function in project.functions(file, node.func, 3)
        for result in results(function)))


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
    for file, node, step, name in own_steps(project):
        yield file, step, f"'{node.name}' has its own {name}"


def own_steps(project):
    """Yields (file, class, function, name) of the steps that models of Keras' have, their
    own or of a class that they share."""
    for file, node in project.nodes(ast.ClassDef):
        if not is_keras_class(file, node):
            continue
        for name in _STEPS:
            yield from ((file, node, one, name) for one in bound_functions(file, node, name))
