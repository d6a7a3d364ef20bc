"""All-reduces whose shapes are known only when a program runs.

A custom call must say the shape of its result. Until the shape is known, TensorFlow's op
XlaAllReduce, which TensorFlow cannot lower, stands for the call.
"""

from tremula import custom_calls
from tremula.tf.inner import graphs
from tremula.tf.runtime.nodes import rewriting

STAND_IN = "XlaAllReduce"
TARGET = custom_calls.ALL_REDUCE
REDUCTIONS = {"add": "Add", "mean": "Mean", "min": "Min", "max": "Max", "mul": "Mul"}


def stand_in(value, op, name):
    """Adds the node that stands for the all-reduce of `value` over all replicas by the reduction
    `op`. Returns its result."""
    import tensorflow.compat.v1 as tf
    result = graphs.apply_op(
        STAND_IN, name=name, input=value, group_assignment=tf.zeros([0, 0], tf.int32),
        reduce_op=REDUCTIONS[op], mode="CrossReplica").outputs[0]
    result.set_shape(value.shape)
    return result


def reduction(attribute):
    """The compiler's name of the reduction that a stand-in's attribute `reduce_op` names."""
    text = attribute.decode()
    return next(op for op, one in REDUCTIONS.items() if one == text)


def replace(source, shapes):
    """Makes the stand-ins in a Source's graph custom calls, now that its arguments' shapes are
    `shapes`."""
    nodes = [node for node in source.graph_def.node if node.op == STAND_IN]
    if not nodes:
        return
    operations = graphs.inferred_operations(source, shapes)
    for node in nodes:
        config = {"op": reduction(node.attr["reduce_op"].s), "group_size": 0}
        dtype = node.attr["T"].type
        inputs = [one for one in node.input if not one.startswith("^")][:1]
        controls = [one for one in node.input if one.startswith("^")]
        shape = operations[node.name].outputs[0].shape
        if not shape.is_fully_defined():
            continue  # lowering says what it misses
        rewriting.custom_call(node, TARGET, config, inputs, controls, [dtype], [dtype],
                              [shape.as_list()])
        node.attr["has_side_effect"].b = False
