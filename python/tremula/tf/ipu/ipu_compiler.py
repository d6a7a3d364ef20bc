"""Compiling a computation for an IPU (`tensorflow.python.ipu.ipu_compiler`)."""

from tremula.tf.inner import graphs
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.device import plugin
from tremula.tf.runtime.launching import launching
from tremula.tf.runtime.tracing import tracing

_NOT_ON_AN_IPU = (
    "A computation has been compiled, however it was not placed on an IPU device. This is "
    "probably because it was not built inside an `ipu_scope`, such as "
    "`with ipu.scopes.ipu_scope('/device:IPU:0'):`.")
_ESTIMATOR_SPEC = (
    "Your computation output contains an EstimatorSpec instance: return its members, such as the "
    "loss and the train_op, or use an IPUEstimator.")


def compile(computation, inputs=None):  # pylint: disable=redefined-builtin
    """Compiles computation(*inputs) into one program for the IPU of the device scope around, or of
    the scopes inside the computation.

    `inputs` is a list of tensors, of what can be made tensors, or of structures of them, of the
    types that an IPU has (docs/supported_ops.md). The computation returns None, a tensor, or a
    structure of tensors. A flat list may also have operations, which are run.

    Returns a list of tensors for a flat result, also for a single one; for a nested one the same
    structure; an operation if the computation returns no tensor.

    Raises ValueError for an EstimatorSpec, TypeError for inputs that are no list or for results
    that are no tensors, InvalidArgumentError for what an IPU cannot do, RuntimeError in eager mode,
    and an Exception if the device scope is not an IPU's.
    """
    import tensorflow.compat.v1 as tf
    plugin.load()
    if tf.executing_eagerly():
        raise RuntimeError(
            "ipu_compiler.compile builds part of a graph, but eager execution is enabled. Call "
            "it in a tf.Graph or a tf.function, or use an IPUStrategy.")
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        raise TypeError(f"inputs must be a list of tensors or None, not {type(inputs).__name__}.")
    checks.function("computation", computation)
    inputs = [_to_tensors(one) for one in inputs or []]
    device = _device_around()
    trace = tracing.Trace("cluster", device)
    returned = trace.run(computation, inputs)
    if device is None:
        device = trace.device = _device_inside(trace.graph)
    if device is None:
        if _does_nothing(returned, trace.graph):
            return tf.no_op(name="output_0")
        raise Exception(_NOT_ON_AN_IPU)  # pylint: disable=broad-exception-raised
    with trace.graph.as_default(), tf.device(None):
        tensors, pack = _outputs(returned, trace.effects)
    trace.finish(tensors)
    with tf.device(device):
        results, done = launching.launch(trace, "ipu_launch")
    return pack(results, done)


def _to_tensors(value):
    import tensorflow.compat.v1 as tf
    return tf.nest.map_structure(lambda one: checks.tensors("inputs", [one])[0], value)


def _device_around():
    """The IPU of the device scope around, or None."""
    import tensorflow.compat.v1 as tf
    return _ipu(tf.no_op(name="ipu_device").device)


def _device_inside(graph):
    """The IPU that operations of a graph, or of its loops and branches, are placed on, or None."""
    for one in [graph, *graphs.function_graphs(graph).values()]:
        for operation in one.get_operations():
            device = _ipu(operation.device)
            if device is not None:
                return device
    return None


def _does_nothing(returned, graph):
    """Whether a computation gave no tensor and built nothing but operations that do nothing."""
    import tensorflow.compat.v1 as tf
    return not any(tf.is_tensor(one) for one in tf.nest.flatten(returned)) and all(
        operation.type in ("NoOp", "Placeholder") for operation in graph.get_operations())


def _ipu(device):
    """A device's name in the form "/device:IPU:0"; None for other devices."""
    before, ipu, number = device.lower().rpartition("ipu:")
    return f"/device:IPU:{number}" if ipu and before.endswith((":", "/")) else None


def _outputs(returned, effects):
    """The tensors that the program has to compute for what the computation returned, and a
    function (results, done) -> what `compile` returns. `effects` are operations to run besides."""
    import tensorflow.compat.v1 as tf
    if _holds_estimator_spec(returned):
        raise ValueError(_ESTIMATOR_SPEC)
    flat = _flat(returned)
    nested = flat is None
    if nested:
        flat = tf.nest.flatten(returned)
    operations = [one for one in flat if isinstance(one, tf.Operation)]
    if nested and (operations or any(one is None for one in flat)):
        raise TypeError(
            "A computation that returns a nested structure must return tensors only, but this "
            f"one returned {returned}. Return operations in a flat list.")
    values = [_tensor(one) for one in flat
              if one is not None and not isinstance(one, tf.Operation)]
    with tf.control_dependencies([*operations, *effects]):
        tensors = [tf.identity(value) for value in values]
        if not tensors:
            # Something that needs the operations, so that they are part of the program.
            tensors = [tf.identity(tf.constant(0))]

    def pack(results, done):
        if nested:
            return tf.nest.pack_sequence_as(returned, results)
        return results if values else tf.group(*done, name="output_0")

    return tensors, pack


def _tensor(value):
    import tensorflow.compat.v1 as tf
    try:
        return tf.convert_to_tensor(value)
    except Exception as error:
        raise TypeError("A computation must return tensors, operations or None, but it returned "
                        f"{value!r}: {error}") from error


def _flat(returned):
    """The result as a flat list; None for a nested structure."""
    import tensorflow.compat.v1 as tf
    if not tf.nest.is_nested(returned):
        return [returned]
    if not isinstance(returned, (list, tuple)) or hasattr(returned, "_fields"):
        return None
    return None if any(tf.nest.is_nested(one) for one in returned) else list(returned)


def _holds_estimator_spec(returned):
    waiting = [returned]
    while waiting:
        one = waiting.pop()
        if type(one).__name__ in ("EstimatorSpec", "IPUEstimatorSpec"):
            return True
        if type(one) in (list, tuple, dict):
            waiting += one.values() if isinstance(one, dict) else one
    return False
