"""Spreading a model over IPUs automatically (`tensorflow.python.ipu.autoshard_cnn`).

The operations between the input and the loss are put in an order in which each comes after what it
needs, and that order is cut into as many pieces as there are shards: pieces that take about as much
memory each, cut where few bytes cross.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.inner import marks
from tremula.tf.ipu import sharding
from tremula.tf.runtime.nodes import node_marks

AUTOSHARD_ATTRIBUTE = "_IpuAutoshard"

# A cut may lie this far from where it would make the pieces equal, in parts of a piece.
_FREEDOM = 0.25


def automatic_sharding(num_shards, input_ts, loss_ts, edge_filter=None, frozen_inference=False):
    """Gives the operations from `input_ts` to `loss_ts` to `num_shards` IPUs.

    edge_filter       a function of (name of an operation, name of one that uses it): where it is
                      true nothing is cut
    frozen_inference  makes no difference: there is no backward pass that would have to be told

    Operations that are on an IPU already stay there, gradients follow what they are gradients of,
    and the rest of the graph follows its neighbours. Raises ValueError if no path leads from the
    input to the loss.
    """
    del frozen_inference
    path = _between(input_ts.op, loss_ts.op)
    if not path:
        raise ValueError(f"Automatic sharding needs a path from {input_ts.name} to "
                         f"{loss_ts.name}, but there is none.")
    marked = [one for one in path if sharding.has_attr(one, AUTOSHARD_ATTRIBUTE)]
    path = marked or path
    for shard, operations in enumerate(_pieces(path, num_shards, edge_filter)):
        for operation in operations:
            if sharding.get_sharding(operation) is None:
                marks.set_operation_attribute(operation, node_marks.SHARDING,
                                               node_marks.encode_sharding([shard]))
    sharding.propagate_sharding(loss_ts.graph)


def _between(start, end):
    """The operations that `end` needs and that need `start`, in order."""
    reached = {start}
    path = []
    for operation in sharding.dependencies([end]):
        if operation in reached or any(value.op in reached for value in operation.inputs):
            reached.add(operation)
            path.append(operation)
    return path if end in reached else []


def _pieces(path, num_shards, edge_filter):
    """The path as `num_shards` lists."""
    position = {operation: i for i, operation in enumerate(path)}
    until = [0]
    for operation in path:
        until.append(until[-1] + _memory(operation))
    crossing, forbidden = _crossing(path, position, edge_filter)
    cuts, piece = [0], until[-1] / num_shards
    for number in range(1, num_shards):
        wanted = number * piece
        allowed = [i for i in range(cuts[-1], len(path) + 1)
                   if abs(until[i] - wanted) <= _FREEDOM * piece and not forbidden[i]]
        if not allowed:  # one operation is as large as a piece: the nearest place
            allowed = [min((i for i in range(cuts[-1], len(path) + 1) if not forbidden[i]),
                           key=lambda i: abs(until[i] - wanted), default=cuts[-1])]
        cuts.append(min(allowed, key=lambda i: (crossing[i], abs(until[i] - wanted))))
    cuts.append(len(path))
    return [path[begin:end] for begin, end in zip(cuts, cuts[1:])]


def _crossing(path, position, edge_filter):
    """For each place between operations: how many bytes cross it, and whether an edge that must
    not be cut does."""
    change, barred = [0] * (len(path) + 2), [0] * (len(path) + 2)
    for i, operation in enumerate(path):
        for value in operation.outputs:
            users = [user for user in value.consumers() if user in position]
            last = max((position[user] for user in users), default=i)
            change[i + 1] += _size(value)
            change[last + 1] -= _size(value)
            for user in users:
                if edge_filter is not None and edge_filter((operation.name, user.name)):
                    barred[i + 1] += 1
                    barred[position[user] + 1] -= 1
    return _sums(change), _sums(barred)


def _sums(changes):
    total, sums = 0, []
    for one in changes:
        total += one
        sums.append(total)
    return sums


def _memory(operation):
    """Bytes of what an operation makes and of the variables that it reads."""
    read = sum(_size(value) for value in operation.inputs
               if value.op.type in ("ReadVariableOp", "Identity")
               and value.op.inputs and value.op.inputs[0].dtype == tf.resource)
    return read + sum(_size(value) for value in operation.outputs)


def _size(value):
    count = value.shape.num_elements()
    return 0 if count is None or value.dtype in (tf.resource, tf.variant, tf.string) \
        else count * value.dtype.size
