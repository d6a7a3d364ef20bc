"""From a computation in Python to a function graph, and the tensors that it takes from outside.

Variables that the computation creates are made in the graph around it, as ordinary variables with
ordinary initialisers.
"""

import contextlib
import threading

from tremula import custom_calls
from tremula.tf.inner import dtypes, eager, errors, graphs, handles, python_code
from tremula.tf.runtime.host import outside
from tremula.tf.runtime.nodes import op_types, rewriting
from tremula.tf.runtime.ops import support
from tremula.tf.runtime.tracing import pruning

_local = threading.local()


class Trace:
    """A computation that is being traced, or has been.

    graph      its function graph
    arguments  tensors outside, in the order of `placeholders`, which stand for them
    handles    handles of variables outside, in the order of `variables`
    state      handles of values that live as long as a run (program_state.py)
    outputs    tensors of the graph
    effects    operations that run though no result needs them: in a tf.function a program's
               side effects happen in the order of its lines; for a TensorFlow 1 graph see
               unasked_effects()
    infeed     the infeed queue that it reads, or None
    feeds      the ids of the queues that it reads and writes, and of what it calls on the host, in
               the order of their numbers
    tables     the host tables that it uses (host_tables.py), by id
    updated    those of them that it updates
    accumulating  those of them whose updates wait for the update of the weights
    refusals   reasons that it can be built but not run: texts, each with a status code
    unchecked  checks of what has been built that wait for the rest of it: see when_built()
    """

    is_function = False  # TensorFlow traces it, and this is the recording of that

    def __init__(self, name, device):
        self.graph = graphs.new_function_graph(name)
        self.device = device
        self.arguments, self.placeholders = [], []
        self.handles, self.variables = [], []
        self._created = []  # handles of variables that the computation makes
        self.state = []
        self.outputs = []
        self.effects = []
        self.infeed = None
        self.feeds = []
        self.refusals, self.unchecked = [], []
        self.tables, self.updated, self.accumulating = {}, {}, {}

    def run(self, computation, inputs):
        """Traces computation(*inputs) and returns what it returned. `inputs` are tensors outside
        or structures of them."""
        import tensorflow.compat.v1 as tf
        eager.forget_eager_start()
        with entered(self):
            with graphs.static_program(self.graph), self._lifting_initial_values(), \
                    handles.resource_variables(), self._name_scope(), \
                    graphs.in_program_order(self.graph) as effects:
                returned = python_code.user_function(computation)(
                    *tf.nest.map_structure(self._placeholder, inputs))
            self.effects = effects() + unasked_effects(self.graph, self.placeholders)
            return returned

    def new_state(self, dtype, shape):
        """The handle of a value that lives as long as a run."""
        import tensorflow.compat.v1 as tf
        with self.graph.as_default(), tf.control_dependencies(None), tf.device(None):
            handle = handles.variable_handle(dtype, shape)
        self.state.append(handle)
        return handle

    def feed(self, queue_id):
        """What the program calls a queue: a number, so that a program does not depend on how many
        queues there were before."""
        if queue_id not in self.feeds:
            self.feeds.append(queue_id)
        return str(self.feeds.index(queue_id))

    def with_ids(self, config):
        """The configuration of a custom call with the queues' ids, as functions have it."""
        return {key: self.feeds[int(value)] if key in outside.FEEDS else value
                for key, value in config.items()}

    def _placeholder(self, tensor):
        import tensorflow.compat.v1 as tf
        with tf.device(None):
            placeholder = tf.placeholder(tensor.dtype, tensor.shape)
        self.arguments.append(tensor)
        self.placeholders.append(placeholder)
        return placeholder

    def _lifting_initial_values(self):
        """A variable's initial value may be a tensor that the computation has made, but the
        variable is made outside: so is, then, its initial value."""
        outer = self.graph.outer_graph

        def create(next_creator, **arguments):
            value = arguments.get("initial_value")
            if graphs.is_in_graph(value, self.graph):
                arguments["initial_value"] = lambda: graphs.lift(value, outer)
            variable = next_creator(**arguments)
            self._created.append(getattr(variable, "handle", None))
            self._collect(variable, arguments.get("collections") or ())
            return variable

        return self.graph._variable_creator_scope(create)

    def _collect(self, variable, names):
        """Collections such as that of the global step are copied from the graph outside before the
        variable is made; the computation finds it, too."""
        for name in names:
            collection = self.graph.get_collection_ref(name)
            if not any(other is variable for other in collection):
                collection.append(variable)

    def _name_scope(self):
        """Names begin with the name scope that the program is built in, as in the original, where
        it is a part of the graph."""
        import tensorflow.compat.v1 as tf
        outer = getattr(self.graph.outer_graph, "get_name_scope", lambda: "")()
        return tf.name_scope(outer + "/") if outer else contextlib.nullcontext()

    def finish(self, outputs):
        """Takes in the outputs, tensors of the graph, and what the graph has captured.

        Raises InvalidArgumentError for variables that are not resources and for handles of other
        things than variables.
        """
        import tensorflow.compat.v1 as tf
        self.outputs = list(outputs)
        for taken, placeholder in self.graph.captures:
            if taken.dtype._is_ref_dtype:
                raise support.refuse_reference(taken.op, self.device)
            if taken.dtype in (tf.resource, tf.string) and outside.is_used_outside_only(
                    placeholder):
                continue  # the host takes it from outside
            if handles.is_resource_variable_handle(placeholder):
                self.handles.append(taken)
                self.variables.append(placeholder)
            elif dtypes.dtype_name(taken.dtype.as_datatype_enum) in ("resource", "variant"):
                raise errors.error_class(errors.INVALID_ARGUMENT)(None, None, (
                    f"The compiled part uses {taken.name}, the handle of something that is not "
                    "a variable. Of what is outside, an IPU program can take tensors and "
                    "variables."))
            else:
                self.arguments.append(taken)
                self.placeholders.append(placeholder)
        self._order_variables()

    def _order_variables(self):
        """Puts the variables that the computation has made into the order in which it made them, in
        the places that they have among the others: in the original, what is made is read at once.
        """
        made = {id(handle): number for number, handle in enumerate(self._created)}
        places = [i for i, handle in enumerate(self.handles) if id(handle) in made]
        ordered = sorted(places, key=lambda i: made[id(self.handles[i])])
        for one in (self.handles, self.variables):
            for place, value in zip(places, [one[i] for i in ordered]):
                one[place] = value


def _stack():
    if not hasattr(_local, "stack"):
        _local.stack = []
    return _local.stack


@contextlib.contextmanager
def entered(trace):
    """A block in which current() is `trace`. After it when_built()'s checks are done."""
    stack = _stack()
    stack.append(trace)
    try:
        yield
        while trace.unchecked:
            trace.unchecked.pop(0)()
    finally:
        stack.pop()


def current():
    """The Trace that is going on in this thread, or None."""
    stack = _stack()
    return stack[-1] if stack else None


def name_call(scope):
    """A name for the call of a function that is built in a name scope, which no other call of the
    program has: names in functions begin anew."""
    used = vars(current()).setdefault("call_names", set())
    name = scope = scope.rstrip("/")
    number = 0
    while name in used:
        number += 1
        name = f"{scope}_{number}"
    used.add(name)
    return name


def when_built(check):
    """Calls check() when the computation that is being traced is whole, loops and branches too."""
    current().unchecked.append(check)


def refuse(message, code=errors.FAILED_PRECONDITION, before_others=False):
    """Makes the traced program fail when it runs, with the error of a status code: the first that
    is asked for, or the last one `before_others`. Outside of a trace, raises that error."""
    trace = current()
    if trace is None:
        raise errors.error_class(code)(None, None, message)
    trace.refusals.insert(0 if before_others else len(trace.refusals), (message, code))


def unasked_effects(graph, placeholders):
    """The side effects of a TensorFlow 1 graph that no result needs: updates of variables, elements
    for outfeeds, prints in an outside_compilation_scope, also in loops and branches. As in the
    original, a program does everything that was built in its computation, whatever it returns.

    A loop or a branch whose results are needed runs with all side effects that were built in it
    (pruning.py). An effect that needs a placeholder which the program does not feed is left out.
    `placeholders` stand for the computation's inputs."""
    if graph._add_control_dependencies:
        return []
    functions = graphs.function_graphs(graph)
    harmless = set()
    impossible = _impossible(graph, placeholders)
    return [one for one in graph.get_operations()
            if one not in impossible and _acts(one, functions, harmless)]


def _impossible(graph, placeholders):
    """The operations of a graph that need what is pruning.UNKNOWN."""
    known = {id(one) for one in [*placeholders, *(inner for _, inner in graph.captures)]}

    def is_unknown(one):
        return one.type in pruning.UNKNOWN and not any(
            id(tensor) in known or tensor.dtype.name == "resource" for tensor in one.outputs)

    operations = graph.get_operations()
    found = set(filter(is_unknown, operations))
    for one in operations if found else ():  # which are in the order in which they were built
        if any(tensor.op in found for tensor in one.inputs) or not found.isdisjoint(
                one.control_inputs):
            found.add(one)
    return found


def _acts(operation, functions, harmless):
    """Whether an operation has effects, itself or by the graphs `functions`, by name, that it
    calls. `harmless` are names of functions without effects."""

    def is_effect(one):
        if one.outputs or one.op_def is None:
            return False
        if one.type == "XlaCustomCallV2":
            return one.get_attr("has_side_effect")
        if one.type == "IpuEffect":
            return True
        return one.op_def.is_stateful and (
            op_types.lowered(one.type).startswith(pruning.UPDATES) or outside.is_marked(one))

    seen, waiting = set(), [operation]
    while waiting:
        one = waiting.pop()
        if is_effect(one):
            return True
        if op_types.lowered(one.type) in rewriting.CALLS:
            called = {name for name in graphs.called_functions(one) if name in functions}
            for name in called - harmless - seen:
                seen.add(name)
                waiting += graphs.needed_operations(functions[name])
    harmless |= seen
    return False


# What the nodes are called in the original, which profiles show.
_EFFECT_NAMES = {custom_calls.INFEED: "PopDatastreamInfeedDequeue",
                 custom_calls.OUTFEED: "PopDatastreamOutfeedEnqueue",
                 custom_calls.HOST_CALL: "HostCall", custom_calls.USER_OP: "UserOp"}


@contextlib.contextmanager
def in_order(graph, called):
    """A block in which calls of a function with the graph `called` come after the side effects that
    `graph` has already, and before those to come, if the function has any."""
    import tensorflow.compat.v1 as tf
    before = getattr(graph, "_tremula_side_effect", None)
    if getattr(called, "_tremula_side_effect", None) is None:
        yield
        return
    with tf.control_dependencies([before] if before is not None else []):
        yield
    graph._tremula_side_effect = graph.get_operations()[-1]


def side_effect(target, config, operands, result_dtypes, result_shapes, name=None):
    """Adds a custom call with side effects to the default graph, after those that it has already.
    Returns the operation."""
    import json
    import tensorflow.compat.v1 as tf
    graph = tf.get_default_graph()
    before = getattr(graph, "_tremula_side_effect", None)
    common = {"name": name or _EFFECT_NAMES.get(target), "operands": operands,
              "call_target_name": target, "backend_config": json.dumps(config)}
    trace = current()
    if graph._add_control_dependencies or (
            trace.is_function if trace is not None else not result_dtypes):
        # TensorFlow drops a node without state and results, and orders nodes with state.
        if trace is not None:
            common["backend_config"] = json.dumps(trace.with_ids(config))
        operation = graphs.apply_op("IpuEffect", result_dtypes=result_dtypes,
                                    result_shapes=result_shapes, **common)
        for tensor, shape in zip(operation.outputs, result_shapes):
            tensor.set_shape(shape)
        return operation
    with tf.control_dependencies([before] if before is not None else []):
        operation = graphs.apply_op(
            "XlaCustomCallV2", has_side_effect=True, result_dtypes=result_dtypes,
            result_shapes=result_shapes, **common)
    graph._tremula_side_effect = operation
    return operation
