"""Nodes that a program places on an IPU without `compile`, but that TensorFlow has for CPUs only.

These are TensorArrays, which TensorFlow 1's loops (dynamic_rnn, map_fn, scan) read and write, and
constants that are texts, as in assertions. The original has both on its device. TensorFlow wants a
TensorArray, and the nodes that pass its handle on, on the device of the first value that is
written. So these nodes go to the CPU before a session places a graph. The operations that compute
the values stay on the IPU.
"""

import threading

_CPU = "/device:CPU:0"
_CLASS = "_class"

_lock = threading.Lock()


def move(graph):
    """Places the operations that were added to a graph since the last call. Call it before a
    session is extended by them: TensorFlow refuses later changes."""
    if getattr(graph, "_tremula_moved", (None,))[0] == graph.version:
        return
    with _lock:
        _, seen, arrays = getattr(graph, "_tremula_moved", (None, 0, set()))
        operations = graph.get_operations()
        for operation in operations[seen:]:
            op = operation.type
            if op.startswith("TensorArray") or arrays and _follows(operation, arrays):
                arrays.add(operation.name)
                _leave(operation, arrays)
            elif op == "Const" and _is_on_ipu(operation) and _is_text(operation):
                operation._set_device(_CPU)
        graph._tremula_moved = graph.version, len(operations), arrays


def _is_on_ipu(operation):
    return "IPU" in operation.device.upper()


def _is_text(operation):
    import tensorflow as tf
    return operation.outputs[0].dtype == tf.string


def _follows(operation, arrays):
    """Whether an operation takes a handle of an array, or is colocated with one that does."""
    import tensorflow as tf
    if any(one.dtype == tf.resource and one.op.name in arrays for one in operation.inputs):
        return True
    return any(name in arrays for name in _classes(operation))


def _classes(operation):
    """The names of the operations with which an operation is colocated."""
    try:
        return [one.decode().removeprefix("loc:@") for one in operation.get_attr(_CLASS)]
    except ValueError:
        return []


def _leave(operation, arrays):
    """Puts an operation on the CPU, if it would be on an IPU."""
    classes = _classes(operation)
    strangers = [name for name in classes if name not in arrays]
    graph = operation.graph
    if not _is_on_ipu(operation) and not any(
            _is_on_ipu(graph.get_operation_by_name(name)) for name in strangers):
        return
    if strangers:
        import tensorflow.compat.v1 as tf
        value = tf.AttrValue()
        value.list.s.extend(f"loc:@{name}".encode() for name in classes if name in arrays)
        operation._clear_attr(_CLASS)
        if value.list.s:
            operation._set_attr(_CLASS, value)
    operation._set_device(_CPU)
