"""Variables: what kind they are, where they begin, who counts the steps."""

import ast

from tremula.check import names
from tremula.check.rules import remove_argument, replace, rule

_RANDOM = ("random", "glorot", "he_", "lecun", "xavier", "variance_scaling", "truncated_normal",
           "orthogonal", "henormal", "randomnormal", "randomuniform")
_LAYERS = ("tf.layers.dense", "tf.layers.conv1d", "tf.layers.conv2d", "tf.layers.conv3d",
           "tf.layers.Dense", "tf.layers.Conv2D")
_GRAPH = ("ipu.ipu_compiler.compile", "ipu.loops.repeat", "ipu.pipelining_ops.pipeline")
_STEPS = ("tf.train.get_global_step", "tf.train.get_or_create_global_step",
          "tf.train.create_global_step")
_READING = tuple(f"tf.{where}.{name}" for where in ("train", "estimator") for name in (
    "LoggingTensorHook", "NanTensorHook", "SummarySaverHook", "FeedFnHook", "FinalOpsHook"))
_SCOPED = "ipu.scopes.ipu_scope"


@rule(
    "ref-variable", "error", "A variable that is no resource",
    """TensorFlow 1 makes variables of the kind VariableV2, unless it is told otherwise. They have
    no kernel for an IPU: "Could not satisfy explicit device specification '/device:IPU:0'".""",
    """Leave `use_resource=False` out; make variables with `tf.get_variable` in
    `tf.variable_scope(..., use_resource=True)` or in the compiled function.""",
    """
    from tensorflow.python import ipu
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()

    def body(x):
        with tf.variable_scope("line", use_resource=False):
            w = tf.get_variable("w", [8], initializer=tf.zeros_initializer())
        return x * w

    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [8])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(body, [x])
    """,
    """
    from tensorflow.python import ipu
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()

    def body(x):
        with tf.variable_scope("line", use_resource=True):
            w = tf.get_variable("w", [8], initializer=tf.zeros_initializer())
        return x * w

    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [8])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(body, [x])
    """)
def ref_variables(project):
    for file, call, called in project.calls():
        if called in ("tf.variable_scope", "tf.get_variable", "tf.Variable"):
            given = names.argument(call, "use_resource")
            if names.constant(given, True) is False:
                yield file, given, ("a variable that is no resource has no kernel for an IPU: say "
                                    "use_resource=True"), replace(file, given, "True")
    yield from _outside_variables(project)


def _outside_variables(project):
    """Variables that the host makes, without a resource scope, and a compiled function reads."""
    if not project.for_ipu or not project.uses("tf.disable_v2_behavior") \
            or project.uses("tf.enable_resource_variables") \
            or project.mentions("set_use_resource"):
        return
    for file, call, called in project.calls():
        if called not in ("tf.Variable", "tf.get_variable") \
                or names.argument(call, "use_resource") is not None \
                or names.function_around(call) or names.is_open_ended(call):
            continue
        if any(isinstance(one, ast.With) for one in names.parents(call)):
            continue
        target = call.parent.targets[0] if isinstance(call.parent, ast.Assign) else None
        if isinstance(target, ast.Name) and _is_read(project, file, target.id):
            yield file, call, (f"'{target.id}' is made outside of ipu_scope, so it is no resource, "
                               "and a compiled function reads it")


def _is_read(project, file, name):
    return any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
               and node.scope.find(name) is file.top and project.how_compiled(file, node)
               for node in file.nodes)


@rule(
    "global-step", "warning", "The global step on the IPU",
    """Who adds 1 to a `global_step` that is on the IPU swaps the training program out for the
    addition, every step.""",
    """Make it on the CPU (`with tf.device("cpu"): tf.train.get_or_create_global_step()`) before the
    compiled part, and leave `global_step=` out of `minimize` there.""",
    """
    from tensorflow.python import ipu
    import tensorflow.compat.v1 as tf

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        steps = tf.train.get_or_create_global_step()
    """,
    """
    from tensorflow.python import ipu
    import tensorflow.compat.v1 as tf

    with tf.device("cpu"):
        steps = tf.train.get_or_create_global_step()
    """)
def global_step(project):
    for file, call, called in project.calls():
        how = project.how_compiled(file, call)
        if how.endswith("Estimator"):
            continue  # which makes the step on the CPU, and counts it
        given = _counted(project, file, call)
        if how and called in ("tf.train.get_or_create_global_step", "tf.train.create_global_step"):
            yield file, call, "this makes the global step on the IPU"
        elif given is not None:
            yield file, given, (
                f"{call.func.attr} counts the global step on the IPU" if how else
                f"on an IPU, {call.func.attr} would count the global step there")


def _counted(project, file, call):
    """The step that a minimize or apply_gradients for the IPU counts, or None."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name not in ("minimize", "apply_gradients") or not project.comes_to_ipu(file, call):
        return None
    given = names.argument(call, "global_step")
    second = file.value(call.args[1]) if len(call.args) > 1 else None
    if file.called(second) in _STEPS:  # Keras' optimizers have something else there
        given = call.args[1]
    return given if given is not None and names.constant(given, 0) is not None \
        and not isinstance(file.value(given), ast.Constant) else None


@rule(
    "estimator-step", "error", "A model_fn that counts the global step",
    """An IPUEstimator adds the number of its loop's steps to the global step itself, on the CPU. It
    refuses a `model_fn` that counts: "Illegal increment of the `global_step` variable".""",
    """Leave `global_step=` out of `minimize` and `apply_gradients`, and `assign_add` away. A
    learning rate may read the step.""",
    """
    import tensorflow.compat.v1 as tf

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(features * tf.get_variable("w", [8]))
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        train = optimizer.minimize(loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    estimator = tf.estimator.Estimator(model_fn)
    """,
    """
    import tensorflow.compat.v1 as tf

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(features * tf.get_variable("w", [8]))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    estimator = tf.estimator.Estimator(model_fn)
    """)
def estimator_step(project):
    for file, call, called in project.calls():
        if not project.how_compiled(file, call).endswith("Estimator"):
            continue
        given = _counted(project, file, call)
        if given is not None:
            yield file, given, (
                f"an IPUEstimator counts the global step itself, and refuses {call.func.attr} that "
                "does"), remove_argument(file, call, "global_step")
        elif called in ("tf.assign", "tf.assign_add") and _is_step(file, names.argument(
                call, "ref", 0)) or isinstance(call.func, ast.Attribute) and call.func.attr in (
                    "assign", "assign_add") and _is_step(file, call.func.value):
            yield file, call, "an IPUEstimator counts the global step itself"


def _is_step(file, node):
    value = file.value(node) if node is not None else None
    return isinstance(value, ast.Call) and file.called(value) in _STEPS


@rule(
    "estimator-hook", "error", "A hook that reads a tensor of the model_fn",
    """An IPUEstimator compiles the `model_fn` into a loop on the device, whose tensors no session
    can fetch. A hook that logs, checks or writes one of them fails.""",
    """`ipu.ipu_session_run_hooks.IPULoggingTensorHook`, whose `log(tensors)` is called in the
    `model_fn`; or `host_call=` of an `IPUEstimatorSpec`. The estimator logs the loss itself.""",
    """
    import tensorflow.compat.v1 as tf

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(features)
        hook = tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=10)
        return tf.estimator.EstimatorSpec(mode, loss=loss, training_hooks=[hook])

    estimator = tf.estimator.Estimator(model_fn)
    """,
    """
    import tensorflow.compat.v1 as tf

    def model_fn(features, labels, mode):
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(features))

    estimator = tf.estimator.Estimator(model_fn)
    """)
def estimator_hooks(project):
    for file, call, called in project.calls():
        if called in _READING and project.how_compiled(file, call).endswith("Estimator"):
            yield file, call, f"{called} reads a tensor in the loop on the IPU"


@rule(
    "random-initialiser", "warning", "Random first weights made on the IPU",
    """The first values of variables on the IPU are computed by a program of their own. It is
    compiled, loaded and thrown away again, and random numbers of an IPU differ from the host's.""",
    """Call `ipu.utils.move_variable_initialization_to_cpu()` after the graph is built and before
    the session runs the initialiser.""",
    """
    from tensorflow.python import ipu
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()

    def body(x):
        w = tf.get_variable("w", [8], initializer=tf.random_normal_initializer())
        return x * w

    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [8])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(body, [x])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
    """,
    """
    from tensorflow.python import ipu
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()

    def body(x):
        w = tf.get_variable("w", [8], initializer=tf.random_normal_initializer())
        return x * w

    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [8])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = ipu.ipu_compiler.compile(body, [x])
    ipu.utils.move_variable_initialization_to_cpu()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
    """)
def random_initialisers(project):
    if project.mentions("move_variable_initialization_to_cpu") \
            or not project.uses("tf.global_variables_initializer"):
        return
    for file, call, called in project.calls():
        if project.how_compiled(file, call) not in (*_GRAPH, _SCOPED):
            continue
        given = names.argument(call, "initializer", 3) if called == "tf.get_variable" \
            else names.argument(call, "kernel_initializer") if called in _LAYERS else None
        default = given is None and not names.is_open_ended(call)
        if default and (called in _LAYERS or called == "tf.get_variable"
                        and _draws_by_default(file, call)):
            yield file, call, f"{called} draws its first weights on the IPU"
        elif given is not None and any(word in (_initialiser(file, given) or "").lower()
                                       for word in _RANDOM):
            yield file, given, "these first values are drawn on the IPU"


def _draws_by_default(file, call):
    """Whether get_variable() takes its own initialiser: it is of floats, and no scope gives one."""
    kind = names.argument(call, "dtype", 2)
    if kind is not None and not (names.type_name(file, kind) or "").startswith("float"):
        return False
    return not any(names.argument(item.context_expr, "initializer", 2) is not None
                   or names.is_open_ended(item.context_expr)
                   for one in names.parents(call) if isinstance(one, ast.With)
                   for item in one.items if isinstance(item.context_expr, ast.Call))


def _initialiser(file, node):
    node = file.value(node)
    return file.called(node) or file.resolve(node) if isinstance(node, ast.AST) else None
