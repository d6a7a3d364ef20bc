"""From a traced function to a function that launches one program for an IPU.

The program is one call of the traced function, so it has everything that is in the function: loops,
branches, functions that it calls, gradients. Around the program is a second function with the same
arguments and results: it reads the variables, launches, and assigns what the program has changed.
Both are kept with the traced function, one pair for each device.
"""

import threading
import weakref

from tremula.tf.functions import recording
from tremula.tf.inner import errors, functions, graphs, handles
from tremula.tf.runtime.device import plugin
from tremula.tf.runtime.launching import launching
from tremula.tf.runtime.nodes import node_table
from tremula.tf.runtime.tracing import tracing

_ATTRIBUTE = "_tremula_programs"
_lock = threading.RLock()
_local = threading.local()
_turns = {}  # device: the lock of its programs
_with_infeed = {}  # feed id: weak references to the functions that have programs with the infeed


class Program:
    """A function that launches, and what it takes beside the arguments of the traced function.

    turn  the lock of the device: a program reads variables, runs and assigns them before the next
          one begins, as on an IPU
    """

    def __init__(self, function, captures, device):
        self.function, self.captures = function, captures
        self.turn = _turns.setdefault(device, threading.RLock())


def find(function, device):
    """The Program of an AtomicFunction that is called for an IPU. None where TensorFlow runs the
    function operation by operation, because it is not to be compiled.

    Raises lowering's errors: InvalidArgumentError for operations that an IPU cannot do.
    """
    must = functions.must_compile(function)
    if not must and not _is_run(function):
        return None
    known = function.__dict__.setdefault(_ATTRIBUTE, {})
    if device not in known:
        with _lock:
            if device not in known:
                known[device] = _make(function, device, must)
    return known[device]


def known(function, device):
    """The Program that an AtomicFunction has already, or None."""
    return function.__dict__.get(_ATTRIBUTE, {}).get(device)


# ---- strategy.run: functions that do not say so are compiled if they can be ----

class run_whole:
    """A block in which a strategy runs `function`, a tf.function or a ConcreteFunction: one
    program, even where that does not say `jit_compile=True`. `is_users` is false where the strategy
    has made the function itself."""

    def __init__(self, function, is_users=True):
        self._run = function, is_users

    def __enter__(self):
        self._before = getattr(_local, "run", (None, False))
        _local.run = self._run

    def __exit__(self, *error):
        _local.run = self._before


def running():
    """The function of the run_whole block around, or None."""
    return getattr(_local, "run", (None, False))[0]


def checks_types(function):
    """Whether a strategy runs a function of the user's, of which it refuses float64 by name."""
    return getattr(_local, "run", None) == (function, True)


def call_whole(function, arguments, keywords):
    """function(*arguments, **keywords) where a function is traced: one program if it can be one.
    Otherwise its operations are in the graph that is built, on the device around."""
    import tensorflow as tf
    returned = {}

    def call():
        returned["structure"] = result = function(*arguments, **keywords)
        returned["flat"] = flat = tf.nest.flatten(result, expand_composites=True)
        return [one for one in flat if isinstance(one, tf.Tensor)]

    whole = functions.without_retracing_warning(tf.function(call, autograph=False))
    with run_whole(whole, is_users=False):
        tensors = iter(whole())
    return tf.nest.pack_sequence_as(
        returned["structure"],
        [next(tensors) if isinstance(one, tf.Tensor) else one for one in returned["flat"]],
        expand_composites=True)


def _is_run(function):
    runs = running()
    if runs is None:
        return False
    graph = function.graph
    found = recording.of(graph)
    return graph is getattr(runs, "graph", None) or found is not None and found.owner() is runs


# ---- Making ----

def _make(function, device, must):
    if not must and launching.launches(function.graph):
        return _with_parts(function, device)
    try:
        return _build(function, device)
    except (errors.error_class(errors.INVALID_ARGUMENT),
            errors.error_class(errors.UNIMPLEMENTED)) as error:
        if must:
            raise
        plugin.log(f"The function {functions.plain_name(function)} is no single program, so its "
                   f"operations run one after the other: {error.message}")
        return _with_parts(function, device)


def _with_parts(function, device):
    """The Program of a function that is not compiled but calls functions that are; None if it calls
    none of these."""
    parts = {node: find(called, device)
             for node, called in functions.calls_to_compile(function.graph).items()}
    if not parts:
        return None
    with functions.new_function(f"ipu_{functions.plain_name(function)}") as around:
        arguments = [_argument(tensor) for tensor in function.graph.inputs]
        around.inputs = list(arguments)
        around.outputs, around.control_outputs = functions.copy_graph(
            function.graph, arguments, parts)
    return Program(functions.finish_function(around, function), around.external_captures, device)


def _build(function, device):
    import tensorflow as tf
    name = functions.plain_name(function)
    _check_results(function, name)
    with functions.new_function(f"ipu_{name}") as around:
        arguments = [_argument(tensor) for tensor in function.graph.inputs]
        around.inputs = list(arguments)
        trace = _trace(function, arguments, device)
        with tf.device(device):
            results, done = launching.launch(trace, name, on_device=True)
        around.outputs = results[:len(function.graph.outputs)]
        around.control_outputs = list(done)
    program = Program(functions.finish_function(around, function), around.external_captures, device)
    for feed in trace.feeds:
        _with_infeed.setdefault(feed, []).append(weakref.ref(function))
    return program


def _check_results(function, name):
    for one in function.graph.outputs:
        if one.dtype.name in ("resource", "string", "variant"):
            file, line = node_table.user_frame(one.op)
            where = f" (defined at {file}:{line})" if file else ""
            raise errors.error_class(errors.UNIMPLEMENTED)(None, None, (
                f"The function {name} gives {one.op.name}{where}, a {one.dtype.name}, to what is "
                "outside of its program, which an IPU program cannot. A gradient tape outside of "
                "a function asks for such lists where the function has a loop or a list: put the "
                "tape into the function."))


def _argument(tensor):
    """What stands for an input of a function in the function around the program."""
    import tensorflow.compat.v1 as tf
    known = handles.variable_type(tensor) if tensor.dtype == tf.resource else None
    if known is not None:
        return handles.variable_handle(*known)
    return tf.placeholder(tensor.dtype, tensor.shape)


def _trace(function, arguments, device):
    """The Trace of a program that is one call of a function."""
    import tensorflow.compat.v1 as tf
    trace = tracing.Trace("program", device)
    found = recording.of(function.graph)
    with graphs.static_program(trace.graph):
        outputs, call = functions.call(function, arguments)
        with tf.control_dependencies([call]):
            outputs = [tf.identity(one) for one in outputs] or [tf.identity(tf.constant(0))]
    if found is not None:
        trace.refusals = list(found.refusals)
        trace.tables, trace.updated = found.tables, found.updated
        trace.accumulating = found.accumulating
    trace.finish(outputs)
    if found is not None and found.state:
        _separate_state(trace, function, arguments, found.state)
    return trace


def _separate_state(trace, function, arguments, state):
    """Moves handles of state, which the Trace took for variables, to its state."""
    wanted = {id(one) for one in state}
    wanted = {id(argument) for argument, inner in zip(arguments, function.graph.inputs)
              if id(inner) in wanted}
    pairs = list(zip(trace.handles, trace.variables))
    trace.state = [inner for outer, inner in pairs if id(outer) in wanted]
    kept = [pair for pair in pairs if id(pair[0]) not in wanted]
    trace.handles = [outer for outer, _ in kept]
    trace.variables = [inner for _, inner in kept]


def forget_feed(feed):
    """Drops the programs that use a deleted queue."""
    for reference in _with_infeed.pop(feed, ()):
        function = reference()
        if function is not None:
            function.__dict__.pop(_ATTRIBUTE, None)
