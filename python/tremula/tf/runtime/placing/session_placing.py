"""How sessions place graphs.

A session places its whole graph before it optimises it. So one op that an IPU does not have would
make every run fail, also runs that do not need the op. TensorFlow can place only the nodes that a
run needs, but then it optimises nothing, and ops on an IPU would run one by one. So ops that cannot
be placed are put aside: the session takes them for ops of the CPU, and a run that needs one fails
with the placing error. If a session's first graph cannot be placed for another reason (two ops that
must be on one device, an op inside of a loop), that session places only the nodes that run.
"""

import re
import threading

from tremula.tf.inner import marks, patches, sessions
from tremula.tf.runtime.clusters import clusters
from tremula.tf.runtime.nodes import node_table
from tremula.tf.runtime.placing import placing_on_cpu
from tremula.tf.runtime.sessions import plain_graphs

_UNPLACEABLE = re.compile(r"Cannot assign a device for operation ([^\s:]+)")
_MOST_TRIES = 64  # each reads the graph anew
_CPU = "/device:CPU:0"


def place_what_can_be_placed():
    """Makes sessions place so. A session chooses before its first run."""
    patches.wrap_session(
        create=_undecided, extend=_deciding, run=_checking_run,
        set_up_partial_run=_checking_set_up, make_callable=_checking_callable,
        make_callable_from_options=_checking_options)


def _undecided(create):
    def create_undecided(self, target="", graph=None, config=None):
        self._tremula_undecided = None
        own, kind = plain_graphs.options_for(target, graph, config)
        create(self, target, graph, _optimized(config) if own is None else own)
        self._tremula_plain = None
        if own is not None:
            self._tremula_plain = self._graph.version, kind
        # What users see is what they gave.
        self._config = sessions.default_config() if config is None else config
        if not self._config.graph_options.place_pruned_graph:
            self._tremula_undecided = threading.Lock()
    return create_undecided


def _deciding(extend):
    import tensorflow.compat.v1 as tf

    def extend_and_decide(self):
        if not hasattr(self, "_tremula_undecided"):
            return _extend_older(self, extend)
        lock = self._tremula_undecided
        if lock is None:
            return _extend(self, extend)
        with lock:
            if self._tremula_undecided is not None:
                version, kind = self._tremula_plain or (self._graph.version, None)
                if version != self._graph.version and plain_graphs.kind_of(self._graph) != kind:
                    _start_again(self)
                try:
                    _extend(self, extend)
                except tf.errors.OpError:
                    # A run will say what was wrong, if it needs that.
                    _start_again(self, place_pruned_graph=True)
                if self._graph.version:
                    self._tremula_undecided = None
        return _extend(self, extend)
    return extend_and_decide


def _checking_run(run):
    def run_checked(self, handle, target_list, fetch_list, feed_dict, options, run_metadata):
        _check(self, [*target_list, *(one.op for one in fetch_list)],
               [one.deref().name for one in feed_dict])
        return run(self, handle, target_list, fetch_list, feed_dict, options, run_metadata)
    return run_checked


def _checking_set_up(set_up):
    def decide_and_set_up(self, fetches, feeds=None):
        self._extend_graph()  # the original takes the session before it does that
        _check_elements(self, fetches, feeds)
        return set_up(self, fetches, feeds)
    return decide_and_set_up


def _checking_callable(make_callable):
    def make_checked(self, fetches, feed_list=None, accept_options=False):
        self._extend_graph()
        _check_elements(self, fetches, feed_list)
        return make_callable(self, fetches, feed_list, accept_options)
    return make_checked


def _checking_options(make_callable):
    def make_checked(self, callable_options):
        self._extend_graph()
        _check_elements(self, [*callable_options.fetch, *callable_options.target],
                        callable_options.feed)
        return make_callable(self, callable_options)
    return make_checked


def _optimized(config):
    """A ConfigProto, or None, with what optimising graphs for an IPU needs: small graphs are
    optimised too. TensorFlow's remapper makes operations of CPUs out of some on IPUs; the plugin
    turns it off (optimizer.c), unless its optimiser is off."""
    import tensorflow.compat.v1 as tf
    if not isinstance(config, (tf.ConfigProto, type(None))):
        return config  # TensorFlow says what is wrong
    own = tf.ConfigProto()
    own.CopyFrom(sessions.default_config() if config is None else config)
    rewriting = own.graph_options.rewrite_options
    if not rewriting.min_graph_nodes:
        rewriting.min_graph_nodes = clusters.LEAST_NODES
    if rewriting.use_plugin_optimizers == rewriting.OFF:
        rewriting.remapping = rewriting.OFF
    return own


def _start_again(self, place_pruned_graph=False):
    """Gives a session that has run nothing a new inner one, with the user's options; which may
    place only what runs."""
    import tensorflow.compat.v1 as tf
    config = tf.ConfigProto()
    config.CopyFrom(self._config)
    if place_pruned_graph:
        config.graph_options.place_pruned_graph = True
    sessions.start_again(self, _optimized(config))
    self._config = config


# ---- Ops that cannot be placed ----

def _extend(self, extend):
    """Extends a session by its graph's new nodes, and puts aside those that cannot be placed."""
    import tensorflow.compat.v1 as tf
    placing_on_cpu.move(self._graph)
    for tries in reversed(range(_MOST_TRIES)):
        try:
            return extend(self)
        except tf.errors.InvalidArgumentError as error:
            if not tries or not _put_aside(self._graph, error):
                raise
    return None


def _extend_older(self, extend):
    """The same for a session that is older than the IPU API. TensorFlow lists a session's devices
    when the session is made, and takes no more; there are IPUs among them if the process has loaded
    the plugin by itself."""
    import tensorflow.compat.v1 as tf
    on_ipus = [one.name for one in self._graph.get_operations() if _is_on_ipu(one)]
    if on_ipus and not any(one.device_type == "IPU" for one in self.list_devices()):
        raise tf.errors.FailedPreconditionError(None, None, (
            f"This session has no IPUs, which '{on_ipus[0]}' needs: the session was made before "
            "tensorflow.python.ipu was imported. Make the session after the import."))
    return extend(self)


def _put_aside(graph, error):
    """Whether the op that the error is about could be put aside. It takes with it others of its
    kind with the same types."""
    found = _UNPLACEABLE.search(str(error))
    aside = _aside(graph)
    try:
        operation = graph.get_operation_by_name(found.group(1)) if found else None
    except (KeyError, ValueError):
        return False
    if operation is None or operation.name in aside or not _is_on_ipu(operation):
        return False
    types = _types(operation)
    for one in graph.get_operations():
        if one.name not in aside and one.type == operation.type and _is_on_ipu(one) and \
                _types(one) == types:
            aside[one.name] = (one.device, str(error).replace(operation.name, one.name))
            marks.set_operation_device(one, _CPU)
    return True


def _aside(graph):
    """{name: (device, what placing it gave)} of the ops of a graph that were put aside."""
    if not hasattr(graph, "_tremula_aside"):
        graph._tremula_aside = {}
    return graph._tremula_aside


def _is_on_ipu(operation):
    return "device:IPU:" in operation.device.upper().replace("DEVICE:", "device:")


def _types(operation):
    return [one.dtype for one in operation.inputs], [one.dtype for one in operation.outputs]


def _check(self, operations, feeds):
    """Raises the error of an op that was put aside and that the operations need. `feeds` are names
    of tensors that are fed."""
    import tensorflow.compat.v1 as tf
    version = self._graph.version
    if getattr(self, "_tremula_checked", (None,))[0] != version:
        self._extend_graph()
        self._tremula_checked = version, set()
    aside = getattr(self._graph, "_tremula_aside", None)
    if not aside or self._config.allow_soft_placement:
        return
    fed = frozenset(feeds)
    checked = self._tremula_checked[1]
    key = frozenset(operations), fed
    if key in checked:
        return
    seen, stack = set(), [one for one in operations
                          if not one.outputs or one.outputs[0].name not in fed]
    while stack:
        one = stack.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.name in aside:
            device, said = aside[one.name]
            raise tf.errors.InvalidArgumentError(one.node_def, one, _explain(one, device, said))
        stack += one.control_inputs
        stack += [tensor.op for tensor in one.inputs if tensor.name not in fed]
    checked.add(key)


def _check_elements(self, fetches, feeds):
    """The same for names in any structure, as callers give them."""
    import tensorflow.compat.v1 as tf
    element = self._graph.as_graph_element
    try:
        wanted = [element(one, allow_tensor=True, allow_operation=True)
                  for one in tf.nest.flatten(fetches)]
        fed = [one if isinstance(one, str) else one.name
               for one in tf.nest.flatten(list(feeds or []))]
    except (AttributeError, KeyError, TypeError, ValueError):
        return  # TensorFlow will say what is wrong
    _check(self, [getattr(one, "op", one) for one in wanted], fed)


def _explain(operation, device, said):
    file, line = node_table.user_frame(operation)
    where = f"{operation.type}, on '{device}'" + (f", defined at {file}:{line}" if file else "")
    said = said.replace(f"operation {operation.name}:", f"operation {operation.name} ({where}):", 1)
    return (f"{said}\nPlace it on the CPU, or let the session do that "
            "(tf.ConfigProto(allow_soft_placement=True)).")
