"""Functions that a running program calls on the host: outside.py has cut them out of programs.

The plugin calls back from the thread that runs the program, or a replica of it. A function is run
eagerly on the CPU; one that uses resources of a session's graph (variables, lookup tables, writers
of summaries), a queue by a shared name or devices of the session's server, by which it talks to
other processes, is run by the session that runs the program.
"""

import ctypes
import queue
import re
import threading
import weakref
import zlib

from tremula.tf.inner import dtypes, eager, errors, graphs, marks, patches
from tremula.tf.runtime.device import plugin

# The words with which TensorFlow introduces an error of a function.
_PREAMBLE = re.compile(r"\A(Graph execution error:\s+)?Detected at node .*?"
                       r"(<stack traces unavailable>|\n(?=\S))\s*", re.DOTALL)

_callback = None  # kept from being collected while the plugin has it
_functions = weakref.WeakValueDictionary()  # id -> HostFunction; graphs keep them alive
_lock = threading.RLock()


class HostFunction:
    """Part of a program that runs on the host.

    graph_def  its nodes, with names of tensors as a graph has them
    inputs     [(tensor name, dtype's number, shape or None)]: what the program gives
    resources  [(tensor name, tensor outside)]: what it takes from outside the program
    outputs    [(tensor name, dtype's number, list of sizes)]: what the program gets
    name       of what it came from, for messages
    """

    def __init__(self, graph_def, inputs, resources, outputs, name, keep):
        self.id = graphs.unique_name("host_function")
        self.name = name
        self._graph_def, self._inputs, self._resources = graph_def, inputs, resources
        self._outputs = outputs
        self._keep = keep  # graphs that Python functions of py_func belong to
        self._eager = None
        self._session_graph, self._session_feeds, self._session_fetches = None, None, None
        owners = {one.graph for _, one in resources if not eager.is_eager(one)}
        self._talk = 0 if eager.is_outside_functions() else _talk(graph_def)
        if not owners and (self._talk or not eager.is_outside_functions() and (
                _shares(graph_def) or _is_of_a_job(graph_def))):
            owners = {graphs.graphs_around()[-1]}
        if len(owners) > 1:
            raise errors.error_class(errors.INVALID_ARGUMENT)(None, None, (
                f"{name} takes resources of several graphs."))
        if owners:
            self._add_to(owners.pop())
        with _lock:
            _functions[self.id] = self

    def _add_to(self, graph):
        """Adds the nodes to the graph that the resources are in."""
        import tensorflow.compat.v1 as tf
        scope = self.id + "/"
        with graph.as_default(), graph.control_dependencies(None), tf.device("/device:CPU:0"), \
                marks.without_marks():
            with tf.name_scope(scope):
                feeds = [tf.placeholder(tf.dtypes.as_dtype(dtype), shape)
                         for _, dtype, shape in self._inputs]
            known = dict(zip((name for name, _, _ in self._inputs), feeds))
            known.update(self._resources)
            used = graphs.used_tensors(self._graph_def)
            names = [name for name, _, _ in self._outputs]
            nodes = [node.name for node in self._graph_def.node]
            found = graphs.import_nodes(self._graph_def, {
                name: tensor for name, tensor in known.items() if name in used},
                names + nodes, self.id + "_nodes")
        self._session_graph = weakref.ref(graph)
        self._session_feeds = feeds
        self._session_fetches = (found[:len(names)], found[len(names):])

    @property
    def talks(self):
        """Whether a session's run takes part in a collective of several processes."""
        return self._talk != 0

    def run(self, values):
        """The outputs, a list of arrays, for the inputs, a list of arrays."""
        results = self._run_in_session(values) if self._session_fetches else self._run_eagerly(
            values)
        return [self._checked(result, output) for result, output in zip(results, self._outputs)]

    def _checked(self, value, output):
        import numpy as np
        name, dtype, shape = output
        array = np.ascontiguousarray(value, dtypes.numpy_type(dtype)).reshape(np.shape(value))
        if list(array.shape) != shape:
            raise errors.error_class(errors.INVALID_ARGUMENT)(None, None, (
                f"{name.split(':')[0]} has the shape {list(array.shape)}, and the program was "
                f"compiled for {shape}."))
        return array

    def _run_in_session(self, values):
        import tensorflow.compat.v1 as tf
        session = _session_of(self._session_graph(), self.name)
        # In this thread: the program may have taken the only other one.
        options, metadata = tf.RunOptions(inter_op_thread_pool=-1), None
        if session in _traces:
            options.trace_level = options.SOFTWARE_TRACE  # one run at a time has the hardware's
            metadata = tf.RunMetadata()
            _traces[session].append(metadata)
        feeds = dict(zip(self._session_feeds, values))

        def run():
            return session.run(self._session_fetches, feeds, options, metadata)[0]

        if self._talk:
            options.experimental.collective_graph_key = self._talk
            return _talk_in_session(session, run)
        return run()

    def _run_eagerly(self, values):
        import tensorflow as tf
        with eager.eagerly_on_cpu():
            with _lock:
                if self._eager is None:
                    self._eager = self._build()
            results = self._eager(*[tf.constant(value) for value in values])
            return [one.numpy() for one in results]

    def _build(self):
        import tensorflow as tf

        def call(*values):
            feeds = {name: value for (name, _, _), value in zip(self._inputs, values)}
            if self._resources:
                names, outside = zip(*self._resources)
                feeds.update(zip(names, eager.capture(outside)))
            return graphs.import_graph(self._graph_def, feeds,
                                       [name for name, _, _ in self._outputs], "")

        function = tf.function(call, autograph=False)
        return function.get_concrete_function(*[
            tf.TensorSpec(shape, tf.dtypes.as_dtype(dtype)) for _, dtype, shape in self._inputs])


def _shares(graph_def):
    """Whether nodes make a queue that all users of its name share."""
    return any(node.op == "FIFOQueueV2" and node.attr["shared_name"].s for node in graph_def.node)


def _is_of_a_job(graph_def):
    """Whether nodes have devices that only the server of a session has."""
    return any(node.device.startswith("/job:") for node in graph_def.node)


def _talk(graph_def):
    """A number for the collectives of a graph's nodes, the same in all processes; 0 if there are
    none. TensorFlow knows a run with collectives by a number, and by default gives all sessions the
    same one, which the run of the program still has."""
    parts = [graph_def.node, *(one.node_def for one in graph_def.library.function)]
    nodes = {node.name: node for part in parts for node in part}
    keys = [nodes[name].attr["value"].tensor.SerializeToString(deterministic=True)
            for node in nodes.values() if node.op.startswith("Collective")
            for name in (one.split(":")[0] for one in node.input)
            if name in nodes and nodes[name].op == "Const"]
    talks = any(node.op.startswith("Collective") for node in nodes.values())
    return 1 + zlib.crc32(b"".join(sorted(keys))) if talks else 0


_talks = {}  # queue: the session whose answer comes there


def _talk_in_session(session, run):
    """run(), a run of the session, in a thread that can be abandoned: TensorFlow does not end a
    collective that waits for a process that has died."""
    answers = queue.SimpleQueue()

    def answer():
        try:
            answers.put((run(), None))
        except Exception as error:  # pylint: disable=broad-except
            answers.put((None, error))

    _talks[answers] = session
    try:
        threading.Thread(target=answer, daemon=True).start()
        results, error = answers.get()
    finally:
        del _talks[answers]
    if error is not None:
        raise error
    return results


def end_talks(session, error):
    """Makes the programs that a session runs fail with an error where they wait for others.
    Returns whether there were any."""
    waiting = [answers for answers, one in list(_talks.items()) if one is session]
    for answers in waiting:
        answers.put((None, error))
    return bool(waiting)


# ---- Sessions ----

_numbers = weakref.WeakKeyDictionary()  # session -> its number, from 1 on
_last_number = [0]
_running = []  # sessions, once for each run that is going on
_traces = {}  # session whose run is traced: [RunMetadata of the runs that its programs make]


def _watch_sessions():
    """Numbers the sessions, and keeps track of those that exist and of those that run."""
    patches.wrap_session(create=_known, run=_noted, traced=_traced)


def _known(create):
    def create_known(self, *arguments, **keywords):
        create(self, *arguments, **keywords)
        with _lock:
            _last_number[0] += 1
            _numbers[self] = _last_number[0]
    return create_known


def _noted(run):
    def run_noted(self, *arguments, **keywords):
        with _lock:
            _running.append(self)
        try:
            return run(self, *arguments, **keywords)
        finally:
            with _lock:
                _running.remove(self)
    return run_noted


def _traced(run):
    def run_traced(self, fetches, feed_dict=None, options=None, run_metadata=None):
        is_traced = options is not None and run_metadata is not None and options.trace_level
        if not is_traced or self in _traces:
            return run(self, fetches, feed_dict, options, run_metadata)
        _traces[self] = []
        try:
            results = run(self, fetches, feed_dict, options, run_metadata)
        finally:
            found = _traces.pop(self)
        for one in found:
            _add_nodes(run_metadata.step_stats, one.step_stats)
        return results
    return run_traced


def _add_nodes(stats, more):
    """Adds the nodes of StepStats to those of the same device."""
    devices = {one.device: one for one in stats.dev_stats}
    for one in more.dev_stats:
        if one.device in devices:
            devices[one.device].node_stats.extend(one.node_stats)
        else:
            devices[one.device] = stats.dev_stats.add()
            devices[one.device].CopyFrom(one)


def number_of(session):
    """The number by which the plugin knows a session; 0 for one that is older than the IPU API."""
    return _numbers.get(session, 0)


def had_sessions():
    """Whether the process has made a session."""
    return _last_number[0] > 0


def forget_runs():
    """In a forked process, the threads of the parent's runs do not exist, nor does the holder of
    the lock."""
    global _lock
    _lock = threading.RLock()
    _running.clear()


def running_sessions():
    """The set of sessions that run something."""
    with _lock:
        return set(_running)


def _session_of(graph, name):
    """The session that runs the graph."""
    with _lock:
        running = {one for one in _running if one.graph is graph}
        found = running or {one for one in _numbers
                            if one.graph is graph and not getattr(one, "_closed", False)}
    if len(found) != 1:
        raise errors.failed_precondition(
            f"{name} uses variables or other resources of a session, and {len(found)} sessions run "
            "its graph: it cannot be told which one is meant.")
    return found.pop()


# ---- The plugin ----

def install():
    """Gives the plugin the function to call."""
    global _callback
    _watch_sessions()
    _callback = plugin.HostFunctionType(_answer)
    plugin.library().trm_tf_set_host_function(_callback)


def _answer(request):
    """Called by the plugin."""
    try:
        asked = request.contents
        function = _functions.get(asked.id.decode())
        if function is None:
            raise errors.failed_precondition(
                "The program runs part of its operations on the host, and the graph that they were "
                "built in is gone: it was made in another process, or has been deleted.")
        values = [_array(asked.inputs[i]) for i in range(asked.num_inputs)]
        for i, result in enumerate(function.run(values)):
            if result.nbytes:
                ctypes.memmove(asked.outputs[i].data, result.ctypes.data, result.nbytes)
    except Exception as error:  # pylint: disable=broad-except
        plugin.library().trm_tf_host_error(request, errors.error_code(error),
                                           _said(error).encode())


def _said(error):
    """An exception's message, without the place in the graph at the end of TensorFlow's."""
    text = getattr(error, "message", None) or str(error) or repr(error)
    text = _PREAMBLE.sub("", text.split("\n\t [[")[0])
    return text.strip()


def _array(raw):
    """A copy of an input."""
    import numpy as np
    data = ctypes.string_at(raw.data, raw.bytes) if raw.bytes else b""
    return np.frombuffer(data, dtypes.numpy_type(raw.dtype)).reshape(
        [raw.dims[i] for i in range(raw.rank)])
