"""Lookups in embedding tables (`tensorflow.python.ipu.ops.embedding_ops`).

The table of a host embedding is a resource variable in the host's memory. A program that is
compiled for an IPU calls the host to look rows up and to add to them while the table is registered
(runtime/tracing/host_tables.py); elsewhere a lookup is a gather.
"""

import contextlib
import threading
import weakref

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _building, _generations, embedding_ops_grad
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.tracing import host_tables


@_generations.older_order(
    ("params", "ids", "name", "serialization_factor", "one_hot_threshold", "min_encoding_size"),
    lambda arguments: len(arguments) > 2 and (arguments[2] is None or isinstance(arguments[2],
                                                                                 str)))
def embedding_lookup(params, ids, serialization_factor=1, indices_are_sorted=False, name=None,
                     one_hot_threshold=0, min_encoding_size=1216):
    """The slices of `params` along its first dimension that `ids`, integers of any shape, name.

    serialization_factor  slices that the IPU does the lookup in; it divides the first dimension.
                          Like indices_are_sorted a mark for the cost model.
    one_hot_threshold, min_encoding_size   are ignored, as in releases after 1.2

    The gradient for params is a dense tensor. Returns a tensor of the shape of ids and of the
    rest of params. Raises ValueError for a serialization_factor that does not fit.
    """
    del one_hot_threshold, min_encoding_size
    factor = checks.whole("serialization_factor", serialization_factor)
    if factor < 1:
        raise ValueError(f"serialization_factor has to be at least 1, but was {factor}.")
    params, ids = tf.convert_to_tensor(params), tf.convert_to_tensor(ids)
    if params.shape.rank == 0:
        raise ValueError(f"params must have a dimension at least, but {params.name} is a scalar.")
    size, *rest = params.shape.as_list()
    if size is not None and size % factor != 0:
        raise ValueError(f"The serialization_factor ({factor}) must divide the size of the 0th "
                         f"dimension of params ({size}).")

    @tf.custom_gradient
    def lookup(table, ids):
        def gradient(d_rows):
            return embedding_ops_grad.lookup_grad(d_rows, ids, tf.shape(table)), None
        return tf.gather(table, ids, name=scope), gradient

    with tf.name_scope(name, "embedding_lookup", [params, ids]) as scope, _building.marked(
            embedding="IpuMultiSlice", serialization_factor=factor if factor > 1 else None,
            indices_are_sorted=indices_are_sorted or None):
        rows = lookup(params, tf.reshape(ids, [-1]))
        result = tf.reshape(rows, tf.concat([tf.shape(ids), tf.shape(params)[1:]], 0))
        result.set_shape([*ids.shape.as_list(), *rest] if ids.shape.rank is not None else None)
        return result


class HostEmbeddingOptimizerSpec:
    """How a host embedding is trained: by stochastic gradient descent with `learning_rate`, a
    number of Python's; 0: not at all. Each replica's update is applied as it is, one after the
    other; what is accumulated is a sum, too."""

    def __init__(self, learning_rate, optimizer_name=None):
        self._learning_rate = learning_rate
        self._optimizer_name = optimizer_name or "SGD"

    def get_learning_rate(self):
        """The learning rate."""
        return self._learning_rate

    def create_lookup_instruction(self, embedding_tensor, indices, slot_vars, partition_strategy,
                                  name):
        """The rows that `indices` [n] name. Its gradient updates the table; to be reached by an
        optimizer it belongs to a trainable variable of its own, `<name>/__dummy`. As
        HostEmbeddingOptimizerSpec.lookup_rows()."""
        del slot_vars, partition_strategy
        dummy = None
        if self._learning_rate != 0:
            with tf.variable_scope(name, reuse=tf.AUTO_REUSE, use_resource=True):
                dummy = tf.get_variable("__dummy", [], embedding_tensor.dtype.base_dtype,
                                        tf.zeros_initializer(), trainable=True)
        return self.lookup_rows(dummy, embedding_tensor, indices, name)

    def lookup_rows(self, dummy, embedding_tensor, indices, name):
        """The rows that `indices` [n], int32, name, in the table's type: [n, encoding]. Their
        gradient goes to `dummy`, a scalar, and on the way updates the table. None: they are not
        trained.

        An index outside the table ends the run with InvalidArgumentError.
        """
        table = _table_of(embedding_tensor, name) if _building.in_program() else None
        if dummy is None:
            return _rows(table, embedding_tensor, indices)

        @tf.custom_gradient
        def lookup(dummy, indices):
            def gradient(d_rows):
                with tf.name_scope("IpuDeviceEmbeddingUpdateAdd"):
                    update = self._update(table, embedding_tensor, indices, d_rows)
                    with tf.control_dependencies([update]):
                        return tf.zeros_like(dummy), None
            return _rows(table, embedding_tensor, indices), gradient

        return lookup(tf.convert_to_tensor(dummy), indices)

    def update_rows(self, embedding_tensor, indices, d_rows, name):
        """The operation that updates the table by the gradients of rows: `d_rows` [n, encoding], of
        a type of floats, of the rows that `indices` [n], int32, name.

        An index outside the table ends the run with InvalidArgumentError.
        """
        table = _table_of(embedding_tensor, name) if _building.in_program() else None
        return self._update(table, embedding_tensor, indices, d_rows)

    def _update(self, table, embedding_tensor, indices, d_rows):
        """The operation that updates the table by the gradients of rows."""
        rows = tf.cast(d_rows * -self._learning_rate, embedding_tensor.dtype.base_dtype)
        if table is not None:
            return table.update(rows, indices, self._optimizer_name == "SGD+GA")
        return tf.raw_ops.ResourceScatterAdd(resource=embedding_tensor.handle, indices=indices,
                                             updates=rows)

    def create_register_instruction(self, embedding_tensor, slot_vars, name):
        """The first operation of a scope of HostEmbedding.register(): it lets programs use the
        table. In eager mode it runs at once."""
        del slot_vars
        return _register(_table_of(embedding_tensor, name), True)

    def create_deregister_instruction(self, embedding_tensor, slot_vars, name):
        """The same for the end of the scope."""
        del slot_vars
        return _register(_table_of(embedding_tensor, name), False)

    def create_slot_variables(self, embedding_tensor, name):
        """The variables that the optimizer needs besides the table: a list, empty here."""
        del embedding_tensor, name
        return []


class HostEmbeddingSGDGAOptimizerSpec(HostEmbeddingOptimizerSpec):
    """Stochastic gradient descent with updates that are kept until the program updates its weights:
    for pipelines and gradient accumulation, `accumulation_factor` mini-batches at a time. Where a
    program does not add gradients up, each update is applied at once."""

    def __init__(self, learning_rate, accumulation_factor):
        super().__init__(learning_rate, "SGD+GA" if accumulation_factor > 1 else None)
        self._accumulation_factor = accumulation_factor

    def get_accumulation_factor(self):
        """The number of mini-batches."""
        return self._accumulation_factor


class HostEmbedding:
    """An embedding table in the host's memory.

    name                of the embedding
    embedding_tensor    a resource variable [tokens, encoding]; without an optimizer_spec also a
                        tensor
    partition_strategy  "TOKEN" or "ENCODING": which dimension replicas would share on an IPU with
                        remote buffers; no difference here
    optimizer_spec      how it is trained; None: not at all

    Raises ValueError for other values.
    """

    @_generations.older_order(
        ("self", "name", "embedding_tensor", "optimizer_spec"),
        lambda arguments: len(arguments) == 4 and not isinstance(arguments[3], str))
    def __init__(self, name, embedding_tensor, partition_strategy="TOKEN", optimizer_spec=None):
        if not (tf.is_tensor(embedding_tensor) or isinstance(embedding_tensor, tf.Variable)):
            raise ValueError("HostEmbedding embedding_tensor is not a tensorflow tensor")
        if optimizer_spec is None:
            optimizer_spec = HostEmbeddingOptimizerSpec(0)
        if not isinstance(optimizer_spec, HostEmbeddingOptimizerSpec):
            raise ValueError("HostEmbedding optimizer_spec is not a HostEmbeddingOptimizerSpec or "
                             "None")
        if partition_strategy not in ("TOKEN", "ENCODING"):
            raise ValueError(f"Unknown partition strategy {partition_strategy}")
        _check_holds_rows(name, embedding_tensor, optimizer_spec.get_learning_rate() != 0)
        self._name = name
        self._embedding_tensor = embedding_tensor
        self._partition_strategy = partition_strategy
        self._optimizer_spec = optimizer_spec
        self._slot_vars = optimizer_spec.create_slot_variables(embedding_tensor, name)
        _tensors[name] = weakref.ref(embedding_tensor)

    def get_embedding_tensor(self):
        """The table. It holds what programs have made of it so far, also while it is registered.
        (Do not assign it to another variable meanwhile: that would share its memory.)"""
        return self._embedding_tensor

    def register(self, session=None):
        """A context manager in which programs with lookups can be run in `session`. Raises
        ValueError without a session unless in eager mode."""
        if session is None and not tf.executing_eagerly():
            raise ValueError("HostEmbedding.register requires a session when eager execution"
                             "is disabled.")
        return _Scope(self, session)

    def __call__(self, iteration_count=1, replication_factor=1, training=True):
        """As in SDK 1.2: an operation to run beside the program. The table can be used from now on,
        and the operation does nothing. training=False is for programs without updates. Raises
        ValueError for a count below 1, NotImplementedError for training=False where a program has
        updates of the table: it could not be kept from them."""
        del replication_factor
        if iteration_count <= 0:
            raise ValueError("HostEmbedding call iteration count must be positive, but it is "
                             f"{iteration_count}")
        table = _table_of(self._embedding_tensor, self._name)
        if not training and table.is_updated:
            raise NotImplementedError(
                "HostEmbedding cannot keep a program with gradients from updating the table: build "
                "a program without them for training=False.")
        table.set_registered(True)
        if tf.executing_eagerly():
            return None
        with tf.device("cpu"):
            return tf.no_op()

    @_generations.older_order(
        ("self", "indices", "count", "clip_indices"),
        lambda arguments: len(arguments) > 2 and not isinstance(arguments[2], bool))
    def lookup(self, indices, clip_indices=True, count=1):
        """The rows of the table that `indices`, int32 of any shape, name: [..., encoding].

        clip_indices  whether indices outside the table are moved to its ends; else they end the run
        count         is ignored, as in releases after 1.2

        On an IPU the shape must be known: InvalidArgumentError. A run without register() fails with
        FailedPreconditionError, an index outside the table ends it with InvalidArgumentError.
        """
        del count
        indices = tf.cast(tf.convert_to_tensor(indices), tf.int32)
        tokens, encoding = self._embedding_tensor.shape.as_list()
        with tf.name_scope("IpuDeviceEmbeddingLookup"), _building.marked(
                embedding="IpuDeviceEmbeddingLookup",
                partition_strategy=self._partition_strategy):
            if clip_indices:
                indices = tf.clip_by_value(indices, 0, tokens - 1)
            rows = self._optimizer_spec.create_lookup_instruction(
                self._embedding_tensor, tf.reshape(indices, [-1]), self._slot_vars,
                self._partition_strategy, self._name)
            result = tf.reshape(rows, tf.concat([tf.shape(indices), [encoding]], 0))
            if indices.shape.rank is not None:
                result.set_shape([*indices.shape.as_list(), encoding])
            return result


class _Scope:
    """What HostEmbedding.register() returns."""

    def __init__(self, embedding, session):
        self._embedding, self._session = embedding, session

    def _run(self, create):
        one = self._embedding
        with _graph_of(self._session):
            operation = create(one._embedding_tensor, one._slot_vars, one._name)
        if self._session is not None and operation is not None:
            self._session.run(operation)

    def __enter__(self):
        self._run(self._embedding._optimizer_spec.create_register_instruction)
        return self._embedding

    def __exit__(self, *failure):
        self._run(self._embedding._optimizer_spec.create_deregister_instruction)


def create_host_embedding(name, shape, dtype, partition_strategy="TOKEN", optimizer_spec=None,
                          initializer=None):
    """A HostEmbedding with a new variable `name` of the shape [tokens, encoding] on the CPU.

    `initializer`: as tf.get_variable() takes it, or what the table holds at first, of that shape.
    """
    if isinstance(partition_strategy, HostEmbeddingOptimizerSpec):  # SDK 1.2: it had none
        initializer, optimizer_spec = optimizer_spec, partition_strategy
        partition_strategy = "TOKEN"
    if initializer is not None and not callable(initializer):  # TensorFlow wants no shape then
        initializer = tf.ensure_shape(tf.convert_to_tensor(initializer, dtype), shape)
        shape = None
    with tf.device("cpu"):
        # An optimizer must not take it for a variable of its own.
        table = tf.get_variable(name, shape, dtype, initializer, use_resource=True,
                                trainable=False)
    return HostEmbedding(name, table, partition_strategy, optimizer_spec)


_lock = threading.Lock()
_tensors = {}  # by the name of an embedding: its table, weakly


def tensor_of(name, shape, dtype):
    """The table of the latest HostEmbedding of that name. In a session's graph that has none, a
    variable that register_table() fills later. Raises ValueError without a session if there is
    none, and for one of another shape or type."""
    tensor = _tensor_now(name)
    if tensor is None:
        tensor = _stand_in(name, shape, tf.as_dtype(dtype))
    if tensor.shape.as_list() != tf.TensorShape(shape).as_list() \
            or tensor.dtype.base_dtype != tf.as_dtype(dtype).base_dtype:
        raise ValueError(f"The host embedding {name} is {tensor.dtype.base_dtype.name} "
                         f"{tensor.shape}, not {tf.as_dtype(dtype).name} {shape}.")
    return tensor


def _tensor_now(name):
    """The table of that name in the outermost graph, or None."""
    with tf.init_scope():
        tensor = _tensors.get(name, lambda: None)()
        if tensor is None or tf.executing_eagerly() or tensor.graph is tf.get_default_graph():
            return tensor
        return None


def _stand_in(name, shape, dtype):
    """A variable for the table `name`, which is to be registered by register_table()."""
    with tf.init_scope():
        if tf.executing_eagerly():
            raise ValueError(f"There is no host embedding {name!r}: make a HostEmbedding of that "
                             "name before its lookups.")
        with tf.device("cpu"):
            variable = tf.Variable(lambda: tf.zeros(shape, dtype), trainable=False, collections=[],
                                   use_resource=True, name=f"{name}_rows")
        variable._tremula_stands_in = True
        with _lock:
            _tensors[name] = weakref.ref(variable)
        tf.add_to_collection("tremula_stand_ins", variable)  # as long as the graph
        return variable


def register_table(embedding_tensor, name, registered):
    """What HostEmbedding.register() begins or ends with, for a table by its name. Where a stand-in
    has its rows while it is registered, they get back to it at the end, and a session gets them."""
    now = _tensor_now(name)
    if now is None and isinstance(embedding_tensor, tf.Variable) \
            and not hasattr(embedding_tensor, "handle"):
        now = _stand_in(name, embedding_tensor.shape, embedding_tensor.dtype.base_dtype)
    if hasattr(now, "_tremula_stands_in"):
        return _register_stand_in(now, embedding_tensor, name, registered)
    if now is None:
        _tensors[name] = weakref.ref(embedding_tensor)
    return _register(_table_of(embedding_tensor, name), registered)


def _register_stand_in(variable, embedding_tensor, name, registered):
    tensor_of(name, embedding_tensor.shape, embedding_tensor.dtype.base_dtype)
    table = _table_of(variable, name)
    if registered:
        with tf.control_dependencies([variable.assign(embedding_tensor, read_value=False)]):
            return table.register_operation(True)
    with tf.control_dependencies([table.register_operation(False)]):
        rows = variable.read_value()
        is_variable = hasattr(embedding_tensor, "assign")
        return embedding_tensor.assign(rows) if is_variable else rows


def _check_holds_rows(name, embedding_tensor, is_trained):
    """Raises ValueError unless programs can use the table where it is: a resource variable, or
    without training also a tensor."""
    if not hasattr(embedding_tensor, "handle") and (
            is_trained or isinstance(embedding_tensor, tf.Variable)):
        raise ValueError(
            f"The embedding_tensor of the HostEmbedding {name} must be a resource variable: "
            "make it with create_host_embedding, or with use_resource=True.")


def _table_of(embedding_tensor, name):
    """The one HostTable of a variable or tensor."""
    with _lock:
        table = getattr(embedding_tensor, "_tremula_host_table", None)
        if table is None:
            table = embedding_tensor._tremula_host_table = host_tables.HostTable(
                name, embedding_tensor)
        return table


def _register(table, registered):
    if tf.executing_eagerly() or tf.get_default_graph().finalized:
        table.set_registered(registered)
        return None
    return table.register_operation(registered)


def _graph_of(session):
    return contextlib.nullcontext() if session is None else session.graph.as_default()


def _rows(table, embedding_tensor, indices):
    """The rows, from the host, or without a HostTable by a gather. Reading the table as a variable
    is read would have TensorFlow look for a gradient."""
    if table is not None:
        return table.lookup(indices)
    if not hasattr(embedding_tensor, "handle"):
        return tf.gather(embedding_tensor, indices)
    return tf.gather(tf.raw_ops.ReadVariableOp(resource=embedding_tensor.handle,
                                               dtype=embedding_tensor.dtype.base_dtype), indices)
