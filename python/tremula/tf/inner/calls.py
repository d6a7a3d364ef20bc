"""Nodes that call a function, whose graph may grow results while its gradient is built."""

from tremula.tf.inner import graphs


def new_graph(name):
    """A graph for the function of a call in the default graph, which orders operations as that one
    does."""
    import tensorflow.compat.v1 as tf
    graph = graphs.new_function_graph(name)
    graph._add_control_dependencies = tf.get_default_graph()._add_control_dependencies
    return graph


def add(op_type, graph, inputs, name, **attributes):
    """Adds a node that calls the function of a graph with tensors for the graph's inputs. Returns
    the operation, which gradient tapes know."""
    from tensorflow.core.framework import attr_value_pb2
    function = attr_value_pb2.NameAttrList(name=_define(graph))
    operation = graphs.apply_op(
        op_type, name=name, inputs=list(inputs), to_apply=function, Tout=graph.output_types,
        output_shapes=graph.output_shapes, **attributes)
    _tell_shapes(operation, graph)
    graphs.record(operation)
    return operation


def placeholder(tensor):
    """A placeholder in the default graph for a tensor outside."""
    import tensorflow.compat.v1 as tf
    from tensorflow.python.ops import handle_data_util
    with tf.device(None), tf.control_dependencies(None):
        inner = tf.placeholder(tensor.dtype, tensor.shape)
    handle_data_util.copy_handle_data(tensor, inner)
    return inner


def result(tensor):
    """A tensor as a result of the default graph's function, which is none of what it takes."""
    import tensorflow.compat.v1 as tf
    graph = tf.get_default_graph()
    is_own = getattr(tensor, "graph", None) is graph and not any(
        tensor is one for one in graph.inputs)
    return tensor if is_own else tf.identity(tensor)


def graph_of(operation):
    """The graph of the function that a node calls."""
    return operation.graph._get_function(operation.get_attr("to_apply").name).graph


def _add_results(operation, graph, tensors):
    """Makes tensors of a call's graph results of it, after those that it has."""
    if not tensors:
        return
    graph.outputs.extend(tensors)
    graph.name += "_grown"
    operation._set_func_attr("to_apply", _define(graph))
    operation._set_type_list_attr("Tout", graph.output_types)
    operation._set_shape_list_attr("output_shapes", graph.output_shapes)
    operation._add_outputs([one.dtype for one in tensors], [one.shape for one in tensors])
    _tell_shapes(operation, graph)


def gradients(graph, results, given):
    """In the default graph: what tf.gradients() gives for the inputs of the function graph `graph`,
    of its outputs `results` with the gradients `given`. What is constant there is one here."""
    import tensorflow.compat.v1 as tf
    from tensorflow.python.ops import gradients_util
    here = tf.get_default_graph()
    capture = here.capture

    def capture_or_copy(tensor, *arguments, **keywords):
        if getattr(tensor, "graph", None) is graph:
            value = tf.get_static_value(tensor)
            if value is not None:
                with tf.control_dependencies(None):
                    return tf.constant(value, tensor.dtype)
        return capture(tensor, *arguments, **keywords)

    here.capture = capture_or_copy
    graph._original_op = here._original_op  # what is built here belongs to an operation there
    try:
        # Gated as an optimizer's are: all gradients of an operation are computed before one is
        # used, so that what they need is not kept.
        return gradients_util._GradientsHelper(results, list(graph.inputs), grad_ys=given,
                                               gate_gradients=True, src_graph=graph)
    finally:
        del here.capture, graph._original_op


def has_gradient(tensor):
    """Whether a tensor is of a type that has gradients; tapes give zeros for others too."""
    from tensorflow.python.eager import backprop_util
    return backprop_util.IsTrainable(tensor)


def resolved(graph, operation, forward):
    """What the graph of a call's gradient has captured, as tensors of the call's own graph: for
    those of the call's function `forward` its inputs and results. What is neither becomes a
    result."""
    outer = {id(inner): one for inner, one in zip(forward.inputs, operation.inputs)}
    captured = list(graph.external_captures)
    missing = [one for one in captured
               if getattr(one, "graph", None) is forward and id(one) not in outer]
    before = len(operation.outputs)
    _add_results(operation, forward, missing)
    outer.update((id(inner), one) for inner, one in zip(missing, operation.outputs[before:]))
    return [outer.get(id(one), one) for one in captured]


def _define(graph):
    from tensorflow.python.ops import control_flow_util_v2
    return control_flow_util_v2.create_new_tf_function(graph)


def _tell_shapes(operation, graph):
    from tensorflow.python.ops import handle_data_util
    for tensor, inner in zip(operation.outputs, graph.outputs):
        tensor.set_shape(inner.shape)
        handle_data_util.copy_handle_data(inner, tensor)
