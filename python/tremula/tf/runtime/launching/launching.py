"""The nodes that run a compiled part: IpuLaunch, or with an infeed IpuStart, a loop that feeds, and
IpuFinish. Variables are read before and assigned after; the program never writes to them itself.
"""

import contextlib
import contextvars

from tremula.tf.inner import bridge, errors, graphs, marks
from tremula.tf.runtime.host import outside
from tremula.tf.runtime.lowering import cache, staging
from tremula.tf.runtime.ops import node_kinds
from tremula.tf.runtime.sessions import interrupts
from tremula.tf.runtime.tracing import host_tables


# Called with a Trace and what it was lowered to (or None), before a launch.
_observer = contextvars.ContextVar("observer", default=None)


class _Lowered(Exception):
    """The module of the first program that a call would launch."""


def lowered_by(call):
    """The bytes of the HloModuleProto of the first program that call() launches. The call ends
    there. Raises what the call raises before."""
    def stop(_, lowered):
        if lowered is not None:
            raise _Lowered(lowered.module)

    try:
        with observed(stop):
            call()
    except _Lowered as found:
        return found.args[0]
    raise ValueError("The call launches no program.")


@contextlib.contextmanager
def observed(observer):
    """A block in which observer(trace, lowered) is called for each program that is to be launched;
    `lowered` is None where that waits for shapes or values."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def launch(trace, name, on_device=False):
    """Adds the nodes for a finished Trace to the default graph. `on_device` leaves the results in
    the device's memory, where the program has put them.

    Returns (results, done): tensors for the trace's outputs, and operations that end when all
    effects of the computation have happened.
    """
    import tensorflow.compat.v1 as tf
    host = outside.Host(trace)
    names = _input_names(trace)
    source = staging.stage(
        trace.graph, trace.placeholders, trace.variables, trace.outputs, trace.device, trace.state,
        host, None if trace.graph._add_control_dependencies else names)
    host.keep()
    source.names = names
    lowered = _lower_now(source)
    if _observer.get() is not None:
        _observer.get()(trace, lowered)
    if lowered is not None:
        program = {"module": lowered.module, "graph": b""}
        updates, shapes = lowered.updates, lowered.shapes
    else:
        program = {"module": b"", "graph": source.serialize()}
        updates = staging.written(trace.graph, trace.variables)
        shapes = [one.shape for one in trace.outputs]
    program["feeds"] = trace.feeds
    with marks.without_marks():
        values = [_read(handle, variable)
                  for handle, variable in zip(trace.handles, source.variables)]
        results = [one.dtype for one in trace.outputs]
        changed = [values[i].dtype for i in updates]
        types = ({"Tresults": [], "Tupdates": results + changed} if on_device else
                 {"Tresults": results, "Tupdates": changed})
        run = _launch_fed if trace.infeed is not None else _launch
        refusals = []
        for message, code in trace.refusals:  # one after the other: the first one fails the run
            with tf.device("/device:CPU:0"), tf.control_dependencies(refusals):
                refusals = [graphs.apply_op("IpuRefuse", message=message, code=code)]
        with tf.control_dependencies([*refusals, *host_tables.hand_over(trace)]):
            operation = run(trace, values, program, types, name)
        outputs = list(operation.outputs)
        results, new_values = outputs[:len(trace.outputs)], outputs[len(trace.outputs):]
        for tensor, shape in zip(results, shapes):
            tensor.set_shape(shape)
        done = [operation]
        for i, value in zip(updates, new_values):
            value.set_shape(values[i].shape)
            with tf.device(trace.handles[i].device):
                done.append(graphs.apply_op("AssignVariableOp", resource=trace.handles[i],
                                            value=value, validate_shape=False))
        with tf.control_dependencies([operation]):
            done += host_tables.take_back(trace)
        with tf.device(trace.device if on_device else "/device:CPU:0"), \
                tf.control_dependencies(done):
            return [tf.identity(tensor) for tensor in results], done


def launch_part(trace, name):
    """Adds a node for a finished Trace that takes and gives tensors only, all of them in the
    device's memory, to the default graph. Together with its neighbours the node becomes a program
    (clusters.py); where it stays alone, it launches one of its own. Returns the results."""
    import tensorflow.compat.v1 as tf
    source = staging.stage(trace.graph, trace.placeholders, [], trace.outputs, trace.device)
    source.names = _input_names(trace)
    with marks.without_marks(), tf.device(trace.device):
        operation = graphs.apply_op(
            "IpuLaunch", name=name, host=[], device=trace.arguments, module=b"",
            graph=source.serialize(), feeds=[], variables=0, Tresults=[],
            Tupdates=[one.dtype for one in trace.outputs])
    marks.set_operation_attribute(operation, node_kinds.PART, True)
    for tensor, inner in zip(operation.outputs, trace.outputs):
        tensor.set_shape(inner.shape)
    return list(operation.outputs)


def launches(graph):
    """Whether a graph, or a function that it calls, launches a program."""
    return any(operation.type in ("IpuLaunch", "IpuStart")
               for one in [graph, *graphs.function_graphs(graph).values()]
               for operation in one.get_operations())


def make_launch(node, source, host, device, results, updates):
    """Makes a NodeDef an IpuLaunch of a lowering.Source that is lowered when it runs.

    The others are lists of the numbers of types: of what the program takes in host memory and in
    the device's, and of what it gives in the two.
    """
    node.op = "IpuLaunch"
    for attribute, types in (("Thost", host), ("Tdevice", device), ("Tresults", results),
                             ("Tupdates", updates), ("feeds", [])):
        node.attr[attribute].list.SetInParent()
        node.attr[attribute].list.type.extend(types)
    node.attr["module"].s = b""
    node.attr["graph"].s = source.serialize()


def _input_names(trace):
    """TensorFlow's names of the arguments and the variables; None where there is no name."""
    variables = {id(one.handle): one.name for one in trace.graph.variables}
    names = [variables.get(id(one)) or getattr(one, "name", None)
             for one in [*trace.arguments, *trace.handles]]
    return [name and name.partition(":")[0] for name in names]


def _lower_now(source):
    """The lowered program, or None if a shape or a value is known only at run time."""
    if not source.is_static():
        return None
    try:
        return cache.lower(source)
    except bridge.LoweringError as error:
        if bridge.wants_constant(error):
            return None
        raise errors.error_class(errors.INVALID_ARGUMENT)(None, None, str(error)) from None


def _read(handle, variable):
    import tensorflow.compat.v1 as tf
    with tf.device(handle.device):
        value = graphs.apply_op("ReadVariableOp", resource=handle,
                                dtype=tf.dtypes.as_dtype(variable.dtype)).outputs[0]
    value.set_shape(variable.shape)
    return value


def _launch(trace, values, program, types, name):
    return graphs.apply_op("IpuLaunch", name=name, host=trace.arguments, device=values,
                           variables=len(values), **program, **types)


def _launch_fed(trace, values, program, types, name):
    import tensorflow.compat.v1 as tf
    interrupts.feeds_exist()
    start = graphs.apply_op("IpuStart", name=f"{name}/start", host=trace.arguments, device=values,
                            variables=len(values), **program)
    run = _scalar(start)
    with tf.device("/device:CPU:0"):
        fed = _feed(trace.infeed, run)
    return graphs.apply_op("IpuFinish", name=name, run=run, fed=fed, **types)


def _feed(infeed, run):
    """A loop that pushes elements until the run needs no more. Returns a tensor that has a value
    when the loop ends."""
    import tensorflow.compat.v1 as tf

    def push(element):
        return _scalar(graphs.apply_op("IpuPush", run=run, elements=tf.nest.flatten(element)))

    def body(more):
        del more
        element = infeed.next_element()
        return tf.cond(element.has_value(), lambda: push(element.get_value()),
                       lambda: _scalar(graphs.apply_op("IpuEnd", run=run)))

    return tf.while_loop(lambda more: more, body, [_scalar(graphs.apply_op("IpuReady", run=run))],
                         parallel_iterations=1, name="feed")


def _scalar(operation):
    tensor = operation.outputs[0]
    tensor.set_shape([])
    return tensor
