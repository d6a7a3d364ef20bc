"""Which shard an operation is on, and giving a shard to the operations around
(`tensorflow.python.ipu.sharding`).

A graph may be cut into shards, each on an IPU of its own: the scope ipu.scopes.ipu_shard() puts
what is built in it on a shard. Shards have the numbers 0, 1, ...
"""

import contextlib

from tremula.tf.inner import marks, patches
from tremula.tf.runtime.base import orders
from tremula.tf.runtime.nodes import node_marks

_COLOCATION = b"loc:@"


def has_attr(o, attr_name):
    """Whether the operation `o` has the attribute `attr_name`."""
    return marks.operation_attribute(o, attr_name) is not None


def dependencies(roots):
    """The operations that `roots` (operations or tensors) need through data and control inputs, and
    the roots' own: a list in which each operation comes after what it needs."""
    def needed(operation):
        inputs = [value.op for value in operation.inputs]
        return reversed([*inputs, *operation.control_inputs])

    return orders.postorder([getattr(one, "op", one) for one in reversed(list(roots))], needed)


def get_sharding(op):
    """The numbers of the shards of the operation `op`, a list; None if it is on no shard."""
    data = _mark(op)
    return None if data is None else node_marks.decode_sharding(data)


def get_shard_from_colocation(op):
    """The shard of an operation that `op` is colocated with: bytes of an OpSharding, XLA's message
    for it; None if there is no such operation, or it is on no shard."""
    for name in marks.operation_attribute(op, "_class") or []:
        if not name.startswith(_COLOCATION):
            continue
        try:
            other = op.graph.get_operation_by_name(name[len(_COLOCATION):].decode())
        except KeyError:
            continue
        data = _mark(other)
        if data is not None:
            return data
    return None


def propagate_sharding(g):
    """Puts operations of the graph `g` that are on no shard on that of a neighbour.

    An operation takes the shard of one that it is colocated with; else that of the first of its
    inputs that is on a shard; else that of the first user of its outputs that is on one. This is
    repeated until nothing changes.
    """
    operations = g.get_operations()
    known = {operation: _mark(operation) for operation in operations}
    given = {operation for operation, data in known.items() if data is not None}
    for operation in operations:
        known[operation] = known[operation] or get_shard_from_colocation(operation)
    changed = True
    while changed:
        changed = False
        for operation in operations:
            changed |= _take(known, operation, [value.op for value in operation.inputs])
        for operation in reversed(operations):
            changed |= _take(known, operation, [user for value in operation.outputs
                                                for user in value.consumers()])
    for operation, data in known.items():
        if data is not None and operation not in given:
            marks.set_operation_attribute(operation, node_marks.SHARDING, data)


def enable_sharded_gradients():
    """Makes `tf.gradients`, and so optimizers, put the gradient of an operation on its shard."""
    if "graph" not in _enabled:
        _enabled.add("graph")
        patches.wrap_gradients(lambda operation: _sharded(_mark(operation)))


def enable_sharded_gradient_tape():
    """Makes `tf.GradientTape` put the gradient of an operation on the operation's shard."""
    if "tape" not in _enabled:
        _enabled.add("tape")
        patches.wrap_tape_gradients(node_marks.SHARDING, _sharded)


def beside(value):
    """A context manager: what is built in it is on the IPU of `value`, a tensor or the like."""
    operation = getattr(value, "op", None)
    return _sharded(_mark(operation) if operation is not None else None)


_enabled = set()


def _mark(operation):
    """The serialised OpSharding of an operation, or None."""
    return marks.operation_attribute(operation, node_marks.SHARDING)


@contextlib.contextmanager
def _sharded(data):
    if data is None:
        yield
    else:
        with marks.graph_attributes({node_marks.SHARDING: data}):
            yield


def _take(known, operation, neighbours):
    """Gives `operation` the sharding of the first of `neighbours` that has one: whether it did."""
    if known[operation] is None:
        known[operation] = next(filter(None, map(known.get, neighbours)), None)
        return known[operation] is not None
    return False
