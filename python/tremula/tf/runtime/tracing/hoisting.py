"""Values of a loop's body that are the same in every iteration, used after the loop.

A pipeline's optimizer function builds its operations in the loop over mini-batches, for example a
learning rate that decays with the step. The optimizer is applied after the loop.
"""

import contextlib

from tremula.tf.inner import calls
from tremula.tf.runtime.nodes import op_types


@contextlib.contextmanager
def usable_after(body):
    """In this block, operations of the default graph may use tensors of the finished loop body
    `body`, a FuncGraph: they are computed again, from the inputs of the loop.

    Raises ValueError for a tensor that depends on the iteration.
    """
    import tensorflow.compat.v1 as tf
    graph = tf.get_default_graph()
    capture, made = graph.capture, {}

    def capture_or_hoist(tensor, *args, **kwargs):
        if getattr(tensor, "graph", None) is body:
            tensor = _again(tensor, body, graph, made)
            if tensor.graph is graph:
                return tensor
        return capture(tensor, *args, **kwargs)

    graph.capture = capture_or_hoist
    try:
        yield
    finally:
        del graph.capture


def _again(tensor, body, graph, made):
    """The tensor of `graph`, or of one around it, that is what `tensor` is in `body`; `made` keeps
    those that are there already, by id."""
    import tensorflow.compat.v1 as tf
    outside = {id(inner): outer for outer, inner in body.captures}
    taken = {}  # {id of a tensor that a called function gets: what it gets}
    wanted = tensor = _behind_calls(tensor, taken)
    waiting = [tensor]
    with graph.as_default(), tf.control_dependencies(None):
        while waiting:
            one = waiting[-1]
            if id(one) in made or id(one) in outside:
                waiting.pop()
                continue
            inputs = [_behind_calls(x, taken) for x in one.op.inputs]
            missing = [x for x in inputs if id(x) not in made and id(x) not in outside]
            if missing:
                _check(one.op, wanted)
                waiting += missing
                continue
            waiting.pop()
            copy = _copy(one.op, [made.get(id(x), outside.get(id(x))) for x in inputs], graph,
                         wanted)
            made.update((id(old), new) for old, new in zip(one.op.outputs, copy.outputs))
    return made.get(id(tensor), outside.get(id(tensor)))


def _behind_calls(tensor, taken):
    """What a tensor is where it is computed: that of the called function for a result of a call
    (op_types.py), and that of the call for what a called function takes."""
    while True:
        if tensor.op.type in op_types.CALLS:
            function = calls.graph_of(tensor.op)
            taken.update((id(inner), outer)
                         for inner, outer in zip(function.inputs, tensor.op.inputs))
            tensor = function.outputs[tensor.value_index]
        elif id(tensor) in taken:
            tensor = taken[id(tensor)]
        else:
            return tensor


def _copy(operation, inputs, graph, wanted):
    _check(operation, wanted)
    node = operation.node_def
    for value in node.attr.values():
        if value.HasField("func") and not graph._is_function(value.func.name):
            graph._add_function(operation.graph._get_function(value.func.name))
    attributes = {name: value for name, value in node.attr.items() if not name.startswith("_")}
    return graph.create_op(operation.type, inputs, [one.dtype for one in operation.outputs],
                           name=operation.name, attrs=attributes)


def _check(operation, wanted):
    # A variable is read, because it is not written before the update. Custom calls are not marked
    # as stateful, though what an infeed gives is one.
    same = operation.type == "ReadVariableOp" or not (
        operation.op_def.is_stateful or operation.type == "Placeholder"
        or operation.type.startswith("XlaCustomCall"))
    if not same:
        raise ValueError(
            f"{wanted.name} is used when all mini-batches are done, but it depends on the "
            f"mini-batch, by {operation.name}. What an optimizer is made of, such as its learning "
            "rate, must depend on inputs of the pipeline and on variables only.")
