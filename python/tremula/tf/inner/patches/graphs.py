"""Graphs: attributes, places, errors that name nodes."""

import functools
import re

from tremula.tf.inner.patches.wrapping import wrap


def inherit_graph_attributes(names):
    """Makes what marks.graph_attributes() puts on nodes as one of `names` reach the graphs of
    functions that are built meanwhile, bodies of loops and branches among them: TensorFlow keeps
    the scopes of attributes to the graph that they were entered in."""
    from tensorflow.python.framework import func_graph, ops

    def make_inheriting(make):
        def create(self, *args, **kwargs):
            make(self, *args, **kwargs)
            outer = ops.get_default_graph()._attr_scope_map
            self._attr_scope_map.update((name, outer[name]) for name in names if name in outer)
        return create

    wrap(func_graph.FuncGraph, "__init__", make_inheriting)


def after_new_graph(do):
    """Calls do(graph) for every graph that the program makes, and for the default one, because
    graphs that TensorFlow optimises come without what Python knows of them."""
    from tensorflow.python.framework import ops

    def make_telling(create):
        def create_and_tell(self, *arguments, **keywords):
            create(self, *arguments, **keywords)
            do(self)
        return create_and_tell

    wrap(ops.Graph, "__init__", make_telling)
    graph = ops._default_graph_stack._global_default_graph
    if graph is not None:
        do(graph)


def order_freely(op_types):
    """Makes functions run these stateful operations in any order, as their inputs are there.
    TensorFlow would run them in the order of the program, and two processes with different orders
    would wait for each other."""
    from tensorflow.python.framework import auto_control_deps
    auto_control_deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS |= frozenset(op_types)


def leave_dependencies_unmarked():
    """Keeps TensorFlow from marking operations that others are made to wait for.

    Only statistics read the mark, and setting it on an operation that a session has seen, such as
    the initializer of a variable, prints a warning that the program is wrong.
    """
    from tensorflow.python.framework import ops

    def but_for_the_mark(set_attribute):
        def set_attr(self, attr_name, attr_value):
            if attr_name != "_has_manual_control_dependencies":
                set_attribute(self, attr_name, attr_value)
        return set_attr

    wrap(ops.Operation, "_set_attr", but_for_the_mark)


def prefer_cpu():
    """Keeps what is placed nowhere on the CPU.

    TensorFlow prefers devices that come as plugins for the ops that it has kernels of for every
    device, such as variables; programs for IPUs say what is to be on an IPU.
    """
    from tensorflow.python.eager import context
    from tensorflow.python.framework import device as device_lib, ops
    if not context.context().device_name:
        name = "/job:localhost/replica:0/task:0/device:CPU:0"
        context.context()._set_device(name, device_lib.DeviceSpec.from_string(name))

    def make_preferring(create):
        def create_preferring(self, *arguments, **keywords):
            create(self, *arguments, **keywords)
            if type(self) is ops.Graph:  # graphs of functions take over the devices around them
                self._add_device_to_stack(_cpu_if_free)
        return create_preferring

    wrap(ops.Graph, "__init__", make_preferring)
    graph = ops._default_graph_stack._global_default_graph
    if graph is not None and not len(list(graph._device_function_stack.peek_objs())):
        graph._add_device_to_stack(_cpu_if_free)


def _cpu_if_free(operation):
    """The device of an operation: the CPU, if it has none and need not follow another one."""
    from tensorflow.python.framework import dtypes
    follows = any(one.dtype == dtypes.resource or one.dtype._is_ref_dtype
                  for one in getattr(operation, "inputs", ()))  # strategies ask for a mere device
    return operation.device or ("" if follows else "/device:CPU:0")


def compile_xla_on_ipus(compile_on_ipu):
    """Makes `xla.compile(computation, inputs)`, as the first IPU programs had it, call
    `compile_on_ipu` with these where the device scope around names an IPU."""
    from tensorflow.python.compiler.xla import xla
    from tensorflow.python.framework import ops

    def anywhere(compile_elsewhere):
        def compile_anywhere(computation, inputs=None):
            scopes = ops.get_default_graph()._device_function_stack.peek_objs()
            if any("device:ipu" in str(scope.display_name).lower() for scope in scopes):
                return compile_on_ipu(computation, inputs)
            return compile_elsewhere(computation, inputs)
        return compile_anywhere

    wrap(xla, "_compile_internal", anywhere)


def accept_old_collective_keys():
    """Makes the numbers of collectives take the arguments of TensorFlow 1.15 too: every group has
    instances of its own since."""
    from tensorflow.python.distribute import cross_device_utils

    def make(create):
        def create_of_old(self, group_key_start=1, op_instance_key_start=None,
                          variable_instance_key_start=None):
            del op_instance_key_start, variable_instance_key_start
            create(self, group_key_start)
        return create_of_old

    wrap(cross_device_utils.CollectiveKeys, "__init__", make)


def leave_unconverted():
    """Keeps AutoGraph from rewriting our own functions in a tf.function that calls them, which
    takes ten seconds: we are no part of the package whose name it knows."""
    from tensorflow.python.autograph.core import config
    config.CONVERSION_RULES = (config.DoNotConvert("tremula"), *config.CONVERSION_RULES)


def put_errors_first():
    """Makes what a session says of an error in our nodes begin with the error.

    TensorFlow begins with where the node was made, and says everything twice if something else
    waited for the node.
    """
    from tensorflow.python.framework import error_interpolation

    def ours_first(interpolate):
        return functools.partial(_interpolate, interpolate)

    wrap(error_interpolation, "interpolate_graph", ours_first)


def _interpolate(interpolate, message, graph):
    if re.search(r"iterator has not been initialized"
                 r".*\{\{node \S*feed\S*/IteratorGetNextAsOptional", message, re.DOTALL):
        return _not_initialized(graph) + "\n" + interpolate(message, graph)
    for name in re.findall(r"\{\{node (\S+?)\}\}", message):
        try:
            operation = graph.get_operation_by_name(name)
        except (KeyError, ValueError):
            continue
        if operation.type.startswith("Ipu"):
            found = re.search(r"(?:\A|\(0\) [A-Z_]+: )(?!\d+ root error)(.*?)\s+\[\[", message,
                              re.DOTALL)
            return f"{found.group(1)}\n(while running {name})" if found else message
    return interpolate(message, graph)


def _not_initialized(graph):
    names = {name.decode() for one in graph.get_operations() if one.type == "IpuStart"
             for name in one.get_attr("feeds") if name.startswith(b"infeed") or len(
                 one.get_attr("feeds")) == 1}
    which = f" '{names.pop()}'" if len(names) == 1 else ""
    return ("Trying to access an infeed dataset iterator which has not been created. Did you "
            f"initialize the infeed_queue{which} ? Run its `initializer` first.")
