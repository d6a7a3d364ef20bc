"""Functions that a program calls by operations of the original's types: Function, PipelineStage and
PipelineStageBackward (op_types.py). What is in such a function is a graph of its own, and so is its
gradient.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.inner import calls, graphs
from tremula.tf.ipu.ops import grad_util_ops_grad
from tremula.tf.runtime.nodes import op_types
from tremula.tf.runtime.tracing import tracing


def call(op_type, function, args, kwargs, scope, **attributes):
    """Calls function(*args, **kwargs) by an operation of `op_type`. Returns (what the function
    returned, the operation): tensors are the operation's results, and in the place of an operation
    is the call. `scope` is the name scope that becomes the operation's name, `attributes` are the
    operation's."""
    outer = tf.get_default_graph()
    graph = calls.new_graph(graphs.unique_name(scope.rstrip("/")))
    given = {id(one): one for one in tf.nest.flatten([args, kwargs]) if isinstance(one, tf.Tensor)}
    with graph.as_default(), graphs.in_program_order(graph) as effects:
        inside = {key: calls.placeholder(one) for key, one in given.items()}
        graph.inputs.extend(inside.values())
        for key, one in given.items():
            _hand_mask(one, inside[key], inside)
        args, kwargs = tf.nest.map_structure(lambda one: inside.get(id(one), one), [args, kwargs])
        returned = tf.nest.map_structure(_of_variable, function(*args, **kwargs))
        flat = tf.nest.flatten(returned, expand_composites=True)
        graph.outputs.extend(calls.result(one) for one in flat if isinstance(one, tf.Tensor))
    graph.control_outputs.extend(dict.fromkeys([
        *effects(), *tracing.unasked_effects(graph, graph.inputs),
        *(one for one in flat if isinstance(one, tf.Operation))]))
    with tracing.in_order(outer, graph):
        operation = calls.add(op_type, graph, [*given.values(), *graph.external_captures], scope,
                              **attributes)
    tensors = [one for one in flat if isinstance(one, tf.Tensor)]
    outside = {id(one): result for one, result in zip(tensors, operation.outputs)}
    for one, result in zip(tensors, operation.outputs):
        _hand_mask(one, result, outside)
    results = iter(operation.outputs)
    return tf.nest.pack_sequence_as(returned, [
        next(results) if isinstance(one, tf.Tensor) else
        operation if isinstance(one, tf.Operation) else one for one in flat],
                                    expand_composites=True), operation


def _hand_mask(tensor, other, others):
    """Gives the other side's tensor the mask that Keras' layers have put on a tensor, where the
    mask goes there too: `others` has the tensors of that side, by the id of this side's."""
    mask = others.get(id(getattr(tensor, "_keras_mask", None)))
    if mask is not None:
        other._keras_mask = mask


def _of_variable(value):
    return tf.convert_to_tensor(value) if isinstance(value, tf.Variable) else value


@tf.RegisterGradient(op_types.FUNCTION)
def _function_gradient(operation, *given):
    operation = operation.outputs[0].op  # a tape has the attributes of its time, and no operation
    return _gradient(op_types.FUNCTION, operation, given, **{
        name: operation.get_attr(name)
        for name in ("unique_sharding", "keep_input_layouts", "evaluate_as_constants")})


@tf.RegisterGradient(op_types.STAGE)
def _stage_gradient(operation, *given):
    operation = operation.outputs[0].op
    return _gradient(op_types.STAGE_BACKWARD, operation, given,
                     stage_id=operation.get_attr("stage_id"))


def _gradient(op_type, operation, given, **attributes):
    """The gradients of a call's inputs: the results of a call of another function, `op_type`."""
    forward = calls.graph_of(operation)
    places = [place for place, one in enumerate(given)
              if one is not None and calls.has_gradient(one)]
    graph = calls.new_graph(graphs.unique_name("gradient"))
    captured = grad_util_ops_grad.Frame()
    with graph.as_default(), captured.opened():
        inner = [calls.placeholder(given[place]) for place in places]
        graph.inputs.extend(inner)
        found = calls.gradients(forward, [forward.outputs[place] for place in places], inner)
        flat = tf.nest.flatten([found, captured.gradients], expand_composites=True)
        graph.outputs.extend(calls.result(one) for one in flat if one is not None)
    taken = [*(given[place] for place in places), *calls.resolved(graph, operation, forward)]
    backward = calls.add(op_type, graph, taken, None, **attributes)
    results = iter(backward.outputs)
    found, gradients = tf.nest.pack_sequence_as(
        [found, captured.gradients], [one if one is None else next(results) for one in flat],
        expand_composites=True)
    for tag, one in gradients.items():
        grad_util_ops_grad.capture(tag, one)
    return found
