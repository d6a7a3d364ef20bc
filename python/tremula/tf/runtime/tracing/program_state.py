"""Values that live as long as one run of a program: zeros at its start, then what was assigned.

They hold sums of gradients. In the graph such a value looks like a variable, so that loops and
branches carry it, but it is in no collection and no checkpoint. In the lowered module it is no
parameter: it begins as zeros, and its last value is dropped.
"""

from tremula.tf.inner import graphs
from tremula.tf.runtime.nodes import op_types
from tremula.tf.runtime.tracing import tracing


class State:
    """One such value, of a type and a shape that are fixed."""

    def __init__(self, dtype, shape, name):
        """Adds a value to the program that is being traced.

        Raises RuntimeError outside of `ipu_compiler.compile`, ValueError for an unknown shape.
        """
        import tensorflow.compat.v1 as tf
        trace = tracing.current()
        if trace is None:
            raise RuntimeError(f"{name} keeps values in the program around it, but there is none: "
                               "build it inside a computation that ipu_compiler.compile traces.")
        self.dtype, self.shape = tf.as_dtype(dtype).base_dtype, tf.TensorShape(shape)
        if not self.shape.is_fully_defined():
            raise ValueError(f"{name} has the shape {self.shape}, but an IPU program is static: "
                             "its shape must be known.")
        self._handle = trace.new_state(self.dtype, self.shape)

    def read(self):
        """The value, a tensor."""
        import tensorflow.compat.v1 as tf
        value = graphs.apply_op("ReadVariableOp", resource=self._handle,
                                dtype=self.dtype).outputs[0]
        value.set_shape(self.shape)
        return tf.identity(value)

    def assign(self, value):
        """The operation that sets the value."""
        import tensorflow.compat.v1 as tf
        return graphs.apply_op("AssignVariableOp", resource=self._handle,
                               value=tf.convert_to_tensor(value, self.dtype),
                               validate_shape=False)

    def assign_add(self, value, name=None):
        """The operation that adds to the value."""
        return graphs.apply_op(op_types.ACCUMULATE, resource=self._handle, value=value, name=name)


def keep_sum(state, total):
    """Keeps a State with its value for take_sums() in the same graph."""
    import tensorflow.compat.v1 as tf
    graph = tf.get_default_graph()
    graph._tremula_sums = [*getattr(graph, "_tremula_sums", ()), (state, total)]


def take_sums():
    """The (State, value) pairs that were kept in this graph and not yet taken."""
    import tensorflow.compat.v1 as tf
    graph = tf.get_default_graph()
    sums, graph._tremula_sums = getattr(graph, "_tremula_sums", []), []
    return sums
