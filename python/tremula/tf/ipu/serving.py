"""SavedModels for TensorFlow Serving (`tensorflow.python.ipu.serving`).

A model holds the compiled step; what loads it needs the plugin libtremula_tf.so and no Python of
ours. The original keeps a loop running on the IPU that takes its inputs from a feed, `iterations`
steps at a time; here a call runs one step, and gives the same.

In a TensorFlow 1 graph variables become constants. In eager mode they are saved with the model.
"""

import functools
import inspect
import os
import shutil

import tensorflow as tf

from tremula.tf.inner import functions
from tremula.tf.ipu import ipu_compiler, scopes
from tremula.tf.runtime.base import checks

_DEVICE = "/device:IPU:0"


def export_single_step(predict_step, export_dir, iterations, predict_step_signature=None,
                       input_dataset=None, output_names=None, preprocessing_step=None,
                       preprocessing_step_signature=None, postprocessing_step=None,
                       postprocessing_step_signature=None, purge_export_dir=False,
                       variable_initializer=None, checkpoint_restore_dir=None,
                       input_signature=None):
    """Writes a SavedModel of predict_step, with preprocessing_step before it and
    postprocessing_step after it on the CPU.

    predict_step            function of tensors that returns a tensor, a list or a dict of them
    export_dir              folder; must be empty or not there, unless purge_export_dir
    iterations              steps that the IPU does at a time: 1 or more; no difference here
    *_signature             list of tf.TensorSpec of the arguments of a step. That of the prediction
                            was called `input_signature` before SDK 3.4. A tf.function may have a
                            signature of its own
    input_dataset           instead of the signature of the step that comes first: its elements
                            are that step's arguments
    output_names            names of the outputs, by default output_0, output_1, ...
    variable_initializer    function of the session that gives variables their values (TensorFlow
                            1; default: their initialisers)
    checkpoint_restore_dir  folder of the checkpoint that has the values, which are read after
                            variable_initializer was called (TensorFlow 1)

    Returns a function of tensors, in eager mode a tf.function, that calls what was exported and
    gives a list of its outputs, with output_names a dict of them.

    Raises ValueError for a folder that is not empty, for signatures that are missing, of another
    length or not those of what a step gets, and for wrong output_names, TypeError for what is no
    signature or dataset.
    """
    checks.function("predict_step", predict_step)
    program = functools.partial(_compiled, predict_step)
    return _export(program, predict_step, export_dir, iterations,
                   _one("predict_step_signature", predict_step_signature, input_signature),
                   input_dataset, output_names, preprocessing_step, preprocessing_step_signature,
                   postprocessing_step, postprocessing_step_signature, purge_export_dir,
                   variable_initializer, checkpoint_restore_dir, "export_single_step")


def export_pipeline(computational_stages, export_dir, *args, **kwargs):
    """The same for a pipeline: the stages one after the other, each on its IPU.

    As in SDK 3.4: export_pipeline(computational_stages, export_dir, iterations, inputs=None,
    device_mapping=None, pipeline_schedule=None, poplar_options=None, name=None,
    predict_step_signature=None, input_dataset=None, and as export_single_step from output_names
    on); in SDK 2.5 `pipeline_depth` came before iterations.

    inputs          of the first stage, before those that a call gives
    device_mapping  the IPU of each stage, by default 0, 1, ...
    pipeline_schedule, poplar_options, name   make no difference to what is computed
    """
    names = ["iterations", "inputs", "device_mapping", "pipeline_schedule", "poplar_options",
             "name", "predict_step_signature", "input_dataset", "output_names",
             "preprocessing_step", "preprocessing_step_signature", "postprocessing_step",
             "postprocessing_step_signature", "purge_export_dir"]
    if "pipeline_depth" in kwargs or (len(args) > 1 and isinstance(args[1], int)):
        names.insert(0, "pipeline_depth")
    if len(args) > len(names):
        raise TypeError(f"export_pipeline() takes at most {len(names) + 2} arguments.")
    given = dict(zip(names, args))
    allowed = {*names, "variable_initializer", "checkpoint_restore_dir", "input_signature"}
    for key, value in kwargs.items():
        if key not in allowed or key in given:
            raise TypeError(f"export_pipeline() got an unexpected or repeated argument '{key}'.")
        given[key] = value
    if "iterations" not in given:
        raise TypeError("export_pipeline() needs the argument 'iterations'.")
    stages = _list_of("computational_stages", computational_stages)
    mapping = given.get("device_mapping")
    for stage in stages:
        checks.function("Every one of computational_stages", stage)
    if len(stages) < 2:
        raise ValueError("Pipeline requires at least two computational stages.")
    mapping = list(range(len(stages))) if mapping is None else _list_of("device_mapping", mapping)
    if len(mapping) != len(stages):
        raise ValueError(f"Each stage must be mapped to an IPU: {len(mapping)} mappings != "
                         f"{len(stages)} stages")
    before = [] if given.get("inputs") is None else _list_of("inputs", given["inputs"])

    def run_stages(*values):
        values = [*before, *values]
        for stage, shard in zip(stages, mapping):
            with scopes.ipu_shard(shard):
                returned = stage(*values)
            values = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        return values if isinstance(returned, (list, tuple)) else returned

    return _export(functools.partial(_compiled, run_stages), stages[0], export_dir,
                   given["iterations"],
                   _one("predict_step_signature", given.get("predict_step_signature"),
                        given.get("input_signature")),
                   given.get("input_dataset"), given.get("output_names"),
                   given.get("preprocessing_step"), given.get("preprocessing_step_signature"),
                   given.get("postprocessing_step"), given.get("postprocessing_step_signature"),
                   given.get("purge_export_dir", False), given.get("variable_initializer"),
                   given.get("checkpoint_restore_dir"), "export_pipeline", len(before))


def export_keras(model, export_dir, batch_size=None, output_names=None, preprocessing_step=None,
                 preprocessing_step_signature=None, postprocessing_step=None,
                 postprocessing_step_signature=None, purge_export_dir=False):
    """The same for a Keras model that was made in the scope of an IPUStrategy: its method
    export_for_ipu_serving(). Raises ValueError for any other."""
    export = getattr(model, "export_for_ipu_serving", None)
    if export is None:
        raise ValueError(
            "Provided model was not created inside an IPU strategy, so it does not contain "
            "IPU-specific functions. Please wrap its creation inside an IPU strategy.")
    return export(export_dir, batch_size, output_names, preprocessing_step,
                  preprocessing_step_signature, postprocessing_step,
                  postprocessing_step_signature, purge_export_dir)


def _compiled(function, *values):
    """function(*values) on the IPU: as it returns, a tensor, a list or a dict."""
    returned = []

    def computation(*inside):
        result = function(*inside)
        if result is None or not tf.nest.flatten(result):
            raise ValueError("The predict function returned nothing: it must return a tensor, or "
                             "a list or a dict of them.")
        returned.append(result)
        return tf.nest.flatten(result)

    with scopes.ipu_scope(_DEVICE):
        flat = ipu_compiler.compile(computation, list(values))
    return tf.nest.pack_sequence_as(returned[0], flat)


# ---- Signatures ----

def _one(name, value, older):
    if value is not None and older is not None:
        raise ValueError(f"Give {name} or input_signature, which is its older name, not both.")
    return older if value is None else value


def _list_of(name, value):
    if isinstance(value, (list, tuple)):
        return list(value)
    raise TypeError(f"{name} must be a list, but it is {value!r}.")


def _signature(function, signature, skipped=0):
    """A list of TensorSpecs with the names of the function's arguments."""
    if signature is None:
        signature = getattr(function, "input_signature", None)
    name = getattr(function, "__name__", "the function")
    if signature is None:
        raise ValueError(f"Missing input_signature for {name}")
    if not isinstance(signature, (tuple, list)):
        raise TypeError("input_signature must be either a tuple or a list, received "
                        f"{type(signature)}")
    for one in signature:
        if not isinstance(one, tf.TensorSpec):
            raise TypeError(f"input_signature must consist of tf.TensorSpec, but it has {one!r}.")
    parameters = list(inspect.signature(getattr(function, "python_function", function)).parameters
                      .values())[skipped:]
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        names = [f"input_{i}" for i in range(len(signature))]
    else:
        names = [one.name for one in parameters]
        signature = signature[skipped:] if len(signature) > len(names) else signature
    if len(signature) != len(names):
        raise ValueError(f"Length of input_signature does not match the number of {name} "
                         "arguments")
    return [tf.TensorSpec(one.shape, one.dtype, name) for one, name in zip(signature, names)]


def _signature_of_dataset(dataset, caller):
    if not isinstance(dataset, (tf.data.Dataset, tf.compat.v1.data.Dataset)):
        raise TypeError("If input_dataset is provided, it should be an instance of tf.Dataset. "
                        f"({caller})")
    spec = tf.data.DatasetSpec.from_value(dataset).element_spec
    signature = [spec] if isinstance(spec, tf.TensorSpec) else spec
    if not isinstance(signature, (list, tuple)) or not all(
            isinstance(one, tf.TensorSpec) for one in signature):
        raise TypeError("The elements of input_dataset must be tensors or tuples of them, one for "
                        f"each argument, but they are {spec!r}.")
    return list(signature)


def _exported_signature(predict, signature, dataset, before, before_signature, caller, skipped):
    """The signature of the step that comes first: a list of TensorSpecs."""
    first = "predict_step_signature" if before is None else "preprocessing_step_signature"
    given = signature if before is None else before_signature
    if given is not None and dataset is not None:
        raise ValueError(f"Both {first} and input_dataset cannot be provided to {caller}. Please "
                         "pass only one of them.")
    if dataset is not None:
        given = _signature_of_dataset(dataset, caller)
    if before is None:
        return _signature(predict, given, skipped)
    return _signature(before, given or getattr(before, "input_signature", None) or signature)


def _names(names):
    """output_names as a list, or None."""
    if names is None:
        return None
    names = [names] if isinstance(names, str) else _list_of("output_names", names)
    return [checks.text("Every one of output_names", one) for one in names]


def _named(returned, names):
    """{name: tensor} of what a function returned. A dict's names are its own."""
    if isinstance(returned, dict):
        if names is not None and sorted(returned) != sorted(names):
            raise ValueError(f"output_names are {names!r}, but the predict function returned a "
                             f"dict with the names {sorted(returned)!r}.")
        return dict(returned)
    flat = tf.nest.flatten(returned)
    if names is None:
        names = [f"output_{i}" for i in range(len(flat))]
    if len(names) != len(flat):
        raise ValueError("The number of output_names does not match the number of results "
                         "returned by the predict function.")
    if len(set(names)) != len(names):
        raise ValueError(f"output_names must differ, but they are {names!r}.")
    return dict(zip(names, flat))


# ---- The steps ----

def _steps(program, before, signature, after, after_signature):
    """The function that is exported: program(*values) on the IPU, with `before` and `after`, which
    may be None, on the CPU. The signatures are those of `program` and of `after`, or None."""
    def steps(*values):
        if before is not None:
            with tf.device("/device:CPU:0"):
                values = before(*values)
                values = [tf.convert_to_tensor(one) for one in (
                    values if isinstance(values, (list, tuple)) else [values])]
            if signature is not None:
                _check_step(values, signature, "preprocessing_step", "predict_step")
        result = program(*values)
        if after is None:
            return result
        named = result if isinstance(result, dict) else {}
        values = [] if named else tf.nest.flatten(result)
        if after_signature is not None:
            found = [named.get(one.name) for one in after_signature] if named else values
            _check_step(found, after_signature, "predict_step", "postprocessing_step")
        with tf.device("/device:CPU:0"):
            return after(*values, **named)

    return steps


def _check_step(values, signature, source, target):
    """Raises ValueError unless `values`, what the step `source` has returned, are what the
    signature of the step `target` says."""
    if len(values) != len(signature):
        raise ValueError(f"The number of the {source} outputs, {len(values)}, does not match the "
                         f"signature of {target}, which has {len(signature)}.")
    for i, (value, spec) in enumerate(zip(values, signature)):
        if value is None:
            raise ValueError(f"The {source} has no output {spec.name}, which {target} takes.")
        if value.dtype != spec.dtype or not spec.shape.is_compatible_with(value.shape):
            raise ValueError(
                f"The output {i} of {source} has the type {value.dtype.name} and the shape "
                f"{value.shape}, but the signature of {target} says {spec.dtype.name} and "
                f"{spec.shape}.")


# ---- Writing ----

def _export(program, predict, export_dir, iterations, signature, dataset, output_names, before,
            before_signature, after, after_signature, purge, initializer, checkpoint, caller,
            skipped=0):
    checks.whole("iterations", iterations, least=1)
    export_dir = checks.path("export_dir", export_dir)
    if os.path.exists(export_dir) and not os.path.isdir(export_dir):
        raise ValueError(f"export_dir must be a directory, but {export_dir} is a file.")
    purge = checks.boolean("purge_export_dir", purge)
    checks.function("preprocessing_step", before, optional=True)
    checks.function("postprocessing_step", after, optional=True)
    checks.function("variable_initializer", initializer, optional=True)
    checkpoint = checks.path("checkpoint_restore_dir", checkpoint, optional=True)
    output_names = _names(output_names)
    if os.path.isdir(export_dir) and os.listdir(export_dir) and not purge:
        raise ValueError("Directory is not empty. Please specify an empty directory.")
    exported = _exported_signature(predict, signature, dataset, before, before_signature, caller,
                                   skipped)
    if signature is not None:
        signature = _signature(predict, signature, skipped)
    if after is not None and after_signature is not None:
        after_signature = _signature(after, after_signature)
    if os.path.isdir(export_dir) and purge:
        shutil.rmtree(export_dir)
    steps = _steps(program, before, signature, after, after_signature)
    if tf.executing_eagerly():
        if initializer is not None or checkpoint is not None:
            raise ValueError("variable_initializer and checkpoint_restore_dir are for TensorFlow 1 "
                             "graphs: in eager mode variables have values.")
        return _write(steps, exported, export_dir, output_names)
    return _write_graph(steps, exported, export_dir, output_names, initializer, checkpoint)


def _write(steps, signature, export_dir, output_names):
    model = tf.Module()

    @tf.function(input_signature=signature, autograph=False)
    def predict(*values):
        return _named(steps(*values), output_names)

    concrete = predict.get_concrete_function()
    model.kept = list(concrete.variables)
    model.predict = predict
    tf.saved_model.save(model, export_dir, signatures={"serving_default": concrete})
    # As it was saved: with values of its own, and in the scope of whatever strategy.
    saved = tf.saved_model.load(export_dir)
    names = list(concrete.structured_outputs)

    def run(*values):
        exported = saved.signatures["serving_default"]
        found = exported(**{spec.name: value for spec, value in zip(
            signature, _arguments(values, signature))})
        return _results({name: found[name] for name in names}, output_names)

    return functions.without_retracing_warning(tf.function(run, autograph=False))


def _arguments(values, signature):
    """The values as tensors of the types that the signature has. Raises TypeError for another
    number of them."""
    if len(values) != len(signature):
        raise TypeError(f"The exported function takes {len(signature)} tensors "
                        f"({', '.join(one.name for one in signature)}), but got {len(values)}.")
    return [tf.convert_to_tensor(value, spec.dtype) for value, spec in zip(values, signature)]


def _results(named, output_names):
    """What an exported function gives, {name: tensor}, as its caller gets it."""
    return named if output_names else list(named.values())


def _write_graph(steps, signature, export_dir, output_names, initializer, checkpoint):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        with tf.device("/device:CPU:0"):
            inputs = {one.name: v1.placeholder(one.dtype, one.shape, one.name)
                      for one in signature}
        outputs = _named(steps(*inputs.values()), output_names)
        with tf.device("/device:CPU:0"):
            outputs = {name: tf.identity(one, f"result/{name}") for name, one in outputs.items()}
        if initializer is not None:
            initializer(session)
        elif checkpoint is None:
            session.run(v1.global_variables_initializer())
        if checkpoint is not None:
            path = tf.train.latest_checkpoint(checkpoint)
            if path is None:
                raise ValueError(f"There is no checkpoint in {checkpoint}.")
            v1.train.Saver().restore(session, path)
        names = [one.op.name for one in outputs.values()]
        frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), names)
    with tf.Graph().as_default(), v1.Session() as session:
        shapes = {name: one.shape for name, one in outputs.items()}
        found = tf.import_graph_def(frozen, name="", return_elements=[
            *(one.name for one in inputs.values()), *(one.name for one in outputs.values())])
        inputs = dict(zip(inputs, found))
        outputs = dict(zip(outputs, found[len(inputs):]))
        for name, one in outputs.items():
            one.set_shape(shapes[name])
        builder = v1.saved_model.Builder(export_dir)
        builder.add_meta_graph_and_variables(session, ["serve"], {
            "serving_default": v1.saved_model.predict_signature_def(inputs, outputs)})
        builder.save()
    takes, gives = [one.name for one in inputs.values()], [one.name for one in outputs.values()]

    def run(*values):
        results = tf.import_graph_def(frozen, {
            name: value for name, value in zip(takes, _arguments(values, signature))}, gives,
            name="serving")
        for one, shape in zip(results, shapes.values()):
            one.set_shape(shape)
        return _results(dict(zip(shapes, results)), output_names)

    return run
