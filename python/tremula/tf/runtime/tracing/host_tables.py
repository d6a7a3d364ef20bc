"""The tables of host embeddings: the calls with which a program looks rows up and updates them, and
how the engine gets the variable that holds the rows.

The table is not an input of the program. It stays in the variable's buffer, where the plugin
answers the calls (src/tf/host_calls.h). Before each run a node hands over that buffer. If the
variable was written since the last run, the node first makes a copy that no other tensor shares.
After each run the buffer is assigned to the variable again. That changes something only where
TensorFlow copies on reads and assignments, which it does after a variable was read row by row.
"""

import weakref

from tremula import custom_calls
from tremula.tf.inner import errors, graphs, marks
from tremula.tf.runtime.device import plugin
from tremula.tf.runtime.tracing import tracing

_TARGET = custom_calls.HOST_CALL


class HostTable:
    """The table in `variable`, a resource variable [tokens, encoding] on the CPU, or a tensor that
    is only looked up. `name` is for messages."""

    is_updated = False  # by a program

    def __init__(self, name, variable):
        self.id = f"{name}#{graphs.unique_name('host_table')}"
        self.variable = variable
        weakref.finalize(self, _forget, self.id).atexit = False

    def lookup(self, indices):
        """The rows that `indices`, an int32 tensor [n], name: [n, encoding]."""
        shape = [_length(indices), self.variable.shape.as_list()[1]]
        dtype = self.variable.dtype.base_dtype
        rows = self._call("lookup", [indices], [dtype], [shape]).outputs[0]
        rows.set_shape(shape)
        return rows

    def update(self, rows, indices, accumulates):
        """The operation that adds rows [n, encoding] to those that `indices` [n] name; with
        `accumulates` when the program next updates its weights, if it adds gradients up."""
        import tensorflow.compat.v1 as tf
        rows = tf.ensure_shape(rows, [_length(indices), self.variable.shape.as_list()[1]])
        tracing.current().updated[self.id] = self
        self.is_updated = True
        if not accumulates:
            return self._call("update", [rows, indices], [], [], together=True)
        tracing.current().accumulating.setdefault(self.id, self)
        return self._call("accumulate", [rows, indices], [], [], together=True)

    def apply(self):
        """The operation that adds what "accumulate" has kept."""
        return self._call("apply", [], [], [], together=True)

    def _call(self, what, operands, dtypes, shapes, **config):
        trace = tracing.current()
        trace.tables.setdefault(self.id, self)
        number = trace.feed(f"host_table/{what}/{self.id}")
        config = {"host_call": number, "table": True, **config}
        return tracing.side_effect(_TARGET, config, operands, dtypes, shapes)

    def set_registered(self, registered):
        """Whether programs may use the table from now on."""
        plugin.library().trm_tf_register_host_table(self.id.encode(), int(registered))

    def register_operation(self, registered):
        """The operation that registers the table in a session."""
        import tensorflow.compat.v1 as tf
        with tf.device("/device:CPU:0"), marks.without_marks():
            return graphs.apply_op("IpuHostTableRegister", table=self.id, registers=registered)


def _forget(table):
    plugin.library().trm_tf_register_host_table(table.encode(), 0)


def _length(indices):
    size = indices.shape.as_list()[0] if indices.shape.rank == 1 else None
    if size is None:
        raise errors.error_class(errors.INVALID_ARGUMENT)(None, None, (
            f"The indices of a host embedding have the shape {indices.shape}, and an IPU program "
            "is static: their number must be known. Set it with set_shape() or tf.ensure_shape()."))
    return size


def apply_accumulated():
    """The operations that add what "accumulate" calls of the program have kept, as part of its
    update of the weights. None outside of a program."""
    trace = tracing.current()
    return [table.apply() for table in trace.accumulating.values()] if trace is not None else []


def hand_over(trace):
    """Operations that must run before a Trace's program does, in the default graph."""
    import tensorflow.compat.v1 as tf
    nodes = _nodes()
    for table in trace.tables.values():
        if table.id not in nodes:  # one serves all programs of a step
            with tf.control_dependencies(None):
                nodes[table.id] = (table, *_hand_over(table))
    return [nodes[one][1] for one in trace.tables]


def take_back(trace):
    """Operations that must run after a Trace's program has run."""
    nodes = _nodes()
    return [_assign(table.variable, nodes[table.id][2]) for table in trace.updated.values()]


def _nodes():
    """{id of a table: (table, the operation that hands it over, the tensor that programs use)} of
    the default graph."""
    import tensorflow.compat.v1 as tf
    graph = tf.get_default_graph()
    if not hasattr(graph, "_tremula_host_tables"):
        graph._tremula_host_tables = {}
    return graph._tremula_host_tables


def _hand_over(table):
    import tensorflow.compat.v1 as tf
    value = variable = table.variable
    is_variable = hasattr(variable, "handle")
    with marks.without_marks():
        if is_variable:
            with tf.device(variable.handle.device):
                value = graphs.apply_op("ReadVariableOp", resource=variable.handle,
                                        dtype=variable.dtype.base_dtype).outputs[0]
        with tf.device("/device:CPU:0"):
            use = graphs.apply_op("IpuHostTableUse", table=table.id, value=value)
    shared = use.outputs[0]
    shared.set_shape(variable.shape)
    return _assign(variable, shared) if is_variable else use, shared


def _assign(variable, value):
    import tensorflow.compat.v1 as tf
    with marks.without_marks(), tf.device(variable.handle.device):
        return graphs.apply_op("AssignVariableOp", resource=variable.handle, value=value,
                               validate_shape=False)
