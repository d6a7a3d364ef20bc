"""Custom calls of collectives (src/host/ops/collective)."""

import json

import tensorflow.compat.v1 as tf

from tremula import custom_calls
from tremula.tf.inner import graphs
from tremula.tf.runtime.ops import collective_shapes
from tremula.tf.runtime.tracing import tracing

# The original's names of reductions -> the compiler's.
REDUCTIONS = {
    "COLLECTIVE_OP_ADD": "add", "COLLECTIVE_OP_MUL": "mul", "COLLECTIVE_OP_MIN": "min",
    "COLLECTIVE_OP_MAX": "max", "COLLECTIVE_OP_LOGICAL_AND": "logical_and",
    "COLLECTIVE_OP_LOGICAL_OR": "logical_or", "COLLECTIVE_OP_SQUARE_ADD": "square_add",
    "COLLECTIVE_OP_LOCAL": "local", "COLLECTIVE_OP_MEAN": "mean"}


def reduction(op):
    """The compiler's name of a reduction. Raises ValueError for one that there is not."""
    if not isinstance(op, str) or op not in REDUCTIONS:
        raise ValueError(f"There is no reduction {op!r}; there are {', '.join(REDUCTIONS)}.")
    return REDUCTIONS[op]


def group_size(size, name):
    """A number of replicas, the argument `name`, as an int; 0, which means all, for None.

    Raises ValueError for what is no number of replicas.
    """
    if size is None:
        return 0
    if isinstance(size, bool) or not hasattr(size, "__index__") or int(size) < 0:
        raise ValueError(f"{name} must be a number of replicas, but it is {size!r}.")
    return int(size)


def replicas(number, name):
    """The same, for a number that must be given and not be 0."""
    if number is None or group_size(number, name) < 1:
        raise ValueError(f"{name} must be a number of replicas, 1 or more, but it is {number!r}.")
    return int(number)


def tensor(value, name):
    """`value` as a tensor, all of whose sizes are known. Raises ValueError if they are not."""
    value = tf.convert_to_tensor(value)
    if not value.shape.is_fully_defined():
        raise ValueError(f"{name} takes tensors whose shapes are known when the program is built, "
                         f"but {value.name} has the shape {value.shape}.")
    return value


def call(target, config, value, shape, name):
    """The tensor of the shape `shape` that a custom call makes of `value`."""
    result = graphs.apply_op(
        "XlaCustomCallV2", name=name, operands=[] if value is None else [value],
        call_target_name=target, backend_config=json.dumps(config), has_side_effect=False,
        result_dtypes=[tf.int32 if value is None else value.dtype],
        result_shapes=[shape]).outputs[0]
    result.set_shape(shape)
    return result


def all_reduce(value, op, size, name):
    """All elements of `value`, combined with those of the other replicas in groups of `size`
    (0: all), by the compiler's reduction `op`.

    The gradient is in cross_replica_ops_grad.py.

    A shape that is known only when the program runs is a ValueError inside loops and conditions,
    and with groups.
    """
    value = tf.convert_to_tensor(value)
    trace = tracing.current()
    at_top = trace is not None and trace.graph is tf.get_default_graph()
    if at_top and not size and not value.shape.is_fully_defined():
        result = collective_shapes.stand_in(value, op, name)
    else:
        result = call(collective_shapes.TARGET, {"op": op, "group_size": size},
                      tensor(value, name), value.shape, name)
    graphs.record(result.op)
    return result


def factor(name=None):
    """The number of replicas, a scalar int32 tensor."""
    return call(custom_calls.REPLICATION_FACTOR, {}, None, [], name or "ReplicationFactor")


def is_all_reduce(operation):
    """Whether an operation was made by all_reduce()."""
    return operation.type == collective_shapes.STAND_IN or (
        operation.type == "XlaCustomCallV2"
        and operation.get_attr("call_target_name") == collective_shapes.TARGET.encode())
