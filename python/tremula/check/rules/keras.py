"""What Keras' loop on the device refuses: data of unknown shapes, eager steps, pipelines that are
told too little."""

import ast

from tremula.check import launches, names
from tremula.check.project import names_of
from tremula.check.rules import replace, rule

_FEEDING = ("fit", "evaluate", "predict")
_FLOWS = ("flow", "flow_from_directory", "flow_from_dataframe")
_SEQUENCES = ("tf.keras.utils.Sequence", "tf.keras.preprocessing.image.Iterator",
              "tf.keras.utils.PyDataset")
_ACCUMULATION = "gradient_accumulation_steps_per_replica"
_METHODS = ("set_pipelining_options", "set_gradient_accumulation_options",
            "set_infeed_queue_options", "set_outfeed_queue_options", "set_asynchronous_callbacks",
            "set_pipeline_stage_assignment", "get_pipeline_stage_assignment",
            "set_replication_options")


@rule(
    "keras-data", "error", "Data that Keras' loop on the device cannot take",
    """A model in an `IPUStrategy` must know the shapes of its data before the program is compiled.
    Generators, Keras' `Sequence` and the iterators of `ImageDataGenerator` do not tell them, and
    `run_eagerly` leaves no program to compile.""",
    """`tf.data.Dataset.from_generator(..., output_signature=...)`, or a dataset that reads the
    files itself; `batch(n, drop_remainder=True)`. Leave `run_eagerly` out.""",
    """
    import numpy as np
    import tensorflow as tf

    def batches():
        while True:
            yield np.zeros([8, 4], np.float32), np.zeros([8, 1], np.float32)

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(batches(), steps_per_epoch=10)
    """,
    """
    import numpy as np
    import tensorflow as tf

    def items():
        while True:
            yield np.zeros([4], np.float32), np.zeros([1], np.float32)

    data = tf.data.Dataset.from_generator(
        items, output_signature=(tf.TensorSpec([4]), tf.TensorSpec([1])))
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(data.batch(8, drop_remainder=True), steps_per_epoch=10)
    """)
def keras_data(project):
    for file, call, _ in project.calls():
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method in ("fit_generator", "evaluate_generator", "predict_generator"):
            yield file, call.func, f"{method} takes a generator, whose shapes nobody knows"
        elif method in _FEEDING and launches.is_keras_model(project, file, call.func.value):
            for one in (names.argument(call, "x", 0), names.argument(call, "validation_data")):
                what = _source(project, file, one)
                if what:
                    yield file, one, f"this is {what}, whose shapes nobody knows"
        elif method == "compile" and launches.is_keras_model(project, file, call.func.value):
            given = names.argument(call, "run_eagerly")
            if names.constant(given) is True:
                yield file, given, "run_eagerly leaves no program to compile", replace(
                    file, given, "False")
    for file, node in project.nodes(ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and target.attr == "run_eagerly" \
                and names.constant(node.value) is True \
                and launches.is_keras_model(project, file, target.value):
            yield file, target, "run_eagerly leaves no program to compile", replace(
                file, node.value, "False")


def _source(project, file, node):
    """What an expression is, where it is a generator or a sequence of Keras'."""
    value = file.value(node) if node is not None else None
    if not isinstance(value, ast.Call):
        return None
    if isinstance(value.func, ast.Attribute) and value.func.attr in _FLOWS \
            and not file.called(value):
        return "an iterator of ImageDataGenerator"
    for other, own in project.classes(file, value.func):
        if any(other.resolve(base) in _SEQUENCES for base in own.bases):
            return "a Sequence of Keras'"
    functions = project.functions(file, value.func)
    if functions and all(_yields(one) for _, one in functions):
        return "a generator"
    return None


def _yields(function):
    return any(isinstance(one, (ast.Yield, ast.YieldFrom))
               and names.function_around(one) is function for one in ast.walk(function))


@rule(
    "keras-pipeline", "error", "A Keras model that is told too little, or too late, for its IPUs",
    """The methods that set pipelines, queues and accumulation exist on models that are made in an
    `IPUStrategy`'s scope. A pipeline needs a stage for each layer, in order and without a gap, and
    a number of batches to accumulate, of which an execution's steps are a multiple.""",
    """Make the model in `with strategy.scope():`; give `set_pipeline_stage_assignment` one stage
    for each layer; give `set_pipelining_options` its `gradient_accumulation_steps_per_replica`, and
    `compile` a `steps_per_execution` that is a multiple of it.""",
    """
    import tensorflow as tf
    from tensorflow.python import ipu

    with ipu.ipu_strategy.IPUStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(8), tf.keras.layers.Dense(1)])
        model.set_pipeline_stage_assignment([0])
    """,
    """
    import tensorflow as tf
    from tensorflow.python import ipu

    with ipu.ipu_strategy.IPUStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(8), tf.keras.layers.Dense(1)])
        model.set_pipeline_stage_assignment([0, 1])
    """)
def keras_pipelines(project):
    if not project.for_ipu:
        return
    calls = {}
    for file, call, _ in project.calls():
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        calls.setdefault(method, []).append((file, call))
        if method in _METHODS and _is_made_outside(file, call):
            yield file, call.func, (f"the model is made outside of a strategy's scope, and has no "
                                    f"{method}")
        if method == "set_pipeline_stage_assignment":
            yield from _assignment(project, file, call)
    yield from _gaps(project)
    yield from _accumulation(project, calls)


def _is_made_outside(file, call):
    """Whether the model of a method is made in no `with`, by the code around the call."""
    made = file.value(call.func.value)
    return isinstance(made, ast.Call) and (file.called(made) or "") in (
        "tf.keras.Sequential", "tf.keras.Model", "tf.keras.models.Sequential",
        "tf.keras.models.Model") and names.function_around(made) is None and not any(
            isinstance(one, ast.With) for one in names.parents(made))


def _assignment(project, file, call):
    given = names.argument(call, "pipeline_stage_assignment", 0)
    made = file.value(call.func.value)
    if given is None:
        if not names.is_open_ended(call):
            yield file, call.func, "this needs a list with the stage of each layer"
        return
    for other, own in project.classes(file, made.func) if isinstance(made, ast.Call) else ():
        if any((other.resolve(base) or "") == "tf.keras.Model" for base in own.bases) \
                and not _is_built(file, call.func.value):
            yield file, call.func, (f"'{own.name}' has no layers that are connected before "
                                    "model.build(shape), or a call")
            return
    stages = _stages(file.value(given))
    layers = getattr(made, "args", [None])[:1] if isinstance(made, ast.Call) and (
        file.called(made) or "").endswith(".Sequential") else []
    listed = file.value(layers[0]) if layers and layers[0] is not None else None
    if stages and isinstance(listed, ast.List) and not _is_changed(file, call.func.value) \
            and not any(isinstance(one, ast.Starred) for one in listed.elts):
        count = len([one for one in listed.elts if (file.called(one) or "").split(".")[-1] not in (
            "Input", "InputLayer")])
        if count != len(stages):
            yield file, given, f"{len(stages)} stages are given for {count} layers"
            return
    if stages and (stages[0] != 0 or any(two - one not in (0, 1)
                                         for one, two in zip(stages, stages[1:]))):
        yield file, given, "stages begin with 0 and grow by 1 from layer to layer"


def _stages(node):
    """The numbers of a list that is written out, also as [0] * 4 + [1] * 4; None otherwise."""
    if isinstance(node, ast.List):
        found = [names.constant(one) for one in node.elts]
        return found if all(type(one) is int for one in found) else None
    if isinstance(node, ast.BinOp):
        left, right = _stages(node.left), _stages(node.right)
        if isinstance(node.op, ast.Add) and left and right:
            return left + right
        count = names.constant(node.right)
        if isinstance(node.op, ast.Mult) and left and type(count) is int:
            return left * count
    return None


def _is_changed(file, node):
    """Whether layers are added to a model, or taken from it, later."""
    return any(isinstance(one.func, ast.Attribute) and one.func.attr in ("add", "pop")
               and names_of(one.func.value) == names_of(node) for one in file.calls)


def _is_built(file, node):
    return any(names_of(one.func) == names_of(node) or isinstance(one.func, ast.Attribute)
               and one.func.attr in ("build", *_FEEDING, "load_weights")
               and names_of(one.func.value) == names_of(node) for one in file.calls)


def _gaps(project):
    """Stages of PipelineStage scopes that leave one out."""
    found = [(file, call, names.constant(names.argument(call, "stage", 0)))
             for file, call, called in project.calls() if called == "ipu.keras.PipelineStage"]
    numbers = [one for _, _, one in found]
    if not numbers or any(type(one) is not int for one in numbers):
        return
    for file, call, one in found:
        if one > 0 and one - 1 not in numbers:
            yield file, call, f"no layer has the stage {one - 1}"


def _accumulation(project, calls):
    is_pipeline = "set_pipeline_stage_assignment" in calls or any(
        called == "ipu.keras.PipelineStage" for _, _, called in project.calls())
    setting = calls.get("set_pipelining_options" if is_pipeline
                        else "set_gradient_accumulation_options", [])
    for file, call in setting:
        value = names.argument(call, _ACCUMULATION, 0)
        if value is None:
            alike = [one for _, one in setting if _place(one) == _place(call)]
            if is_pipeline and not any(names.is_open_ended(one) or names.argument(
                    one, _ACCUMULATION, 0) is not None for one in alike) and any(
                        _place(one) == _place(call) and one.lineno > call.lineno
                        for _, one in calls.get("fit", ())):
                yield file, call.func, f"a pipeline that trains needs {_ACCUMULATION}="
            continue
        count = names.constant(file.value(value))
        for other, one in _of_model(call, calls.get("compile", ()), setting):
            steps = names.argument(one, "steps_per_execution")
            number = names.constant(other.value(steps)) if steps is not None else None
            if type(count) is int and count > 0 and type(number) is int and number % count:
                yield other, steps, (f"{number} steps of an execution are no multiple of the "
                                     f"{count} batches that are accumulated")


def _of_model(call, others, setting):
    """Those of other calls that are of the same model as one that sets options: of the same name in
    the same function, or anywhere in a program that sets them only once."""
    same = [one for one in others if _place(one[1]) == _place(call)]
    return same or (list(others) if len(setting) == 1 and len(others) == 1 else [])


def _place(call):
    """The name of a method's model, and the function that the call stands in."""
    return names_of(call.func.value), names.function_around(call)
