"""Where TensorFlow is changed for functions on IPUs, and the inner names that functions/ needs.

All of it holds for TensorFlow 2.15 and 2.21, whose `polymorphic_function` is the same:

    AtomicFunction.call_flat            every call of a traced function, from Python or from a graph
    Function._generate_tracing_options  how a tf.function is traced
    DatasetV2.__iter__                  iter(dataset) in the scope of a strategy
    gen_array_ops.shape                 which TensorFlow refuses to run eagerly on a plugin's device
"""

import contextlib
import functools
import re

_MUST_COMPILE = "_XlaMustCompile"
_IPU = re.compile(r"device:IPU:(\d+)$", re.IGNORECASE)


def install():
    """Makes functions run on IPUs as programs. Called once."""
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.eager.polymorphic_function import atomic_function, polymorphic_function
    from tensorflow.python.ops import gen_array_ops
    atomic = atomic_function.AtomicFunction
    atomic.call_flat = _launching(atomic.call_flat)
    function = polymorphic_function.Function
    function._generate_tracing_options = _recording(function._generate_tracing_options)
    gen_array_ops.shape = _answering_at_once(gen_array_ops.shape)
    dataset = dataset_ops.DatasetV2
    dataset.__iter__ = _giving_strategy_iterators(dataset.__iter__)


# ---- Calls ----

def _launching(call_flat):
    from tremula.tf.functions import programs

    @functools.wraps(call_flat)
    def call_on_device(self, *arguments):
        device = _device_of_call(self, arguments)
        if device is not None:
            program = programs.find(self, device)
            if program is not None:
                turn = program.turn if self._bound_context.executing_eagerly() else (
                    contextlib.nullcontext())
                with turn, _plain_errors(self):
                    return call_flat(program.function, *arguments, *program.captures)
        return call_flat(self, *arguments)

    call_on_device._tremula_original = call_flat
    return call_on_device


def _device_of_call(function, arguments):
    """The IPU that a function is called for, or None; what is called in a program is part of it.
    Where nothing says so, TensorFlow puts a function beside the variables that the function uses.
    """
    context = function._bound_context
    if context.executing_eagerly():
        device = ipu(context.device_name)
        if device is None and must_compile(function):
            devices = (ipu(one.device) for one in arguments if _is_handle(one))
            device = next(filter(None, devices), None)
        return device
    from tensorflow.python.framework import ops
    from tremula.tf.runtime import tracing
    if tracing.current() is not None:
        return None
    for scope in ops.get_default_graph()._device_function_stack.peek_objs():  # the inner one first
        if scope.display_name:
            return ipu(str(scope.display_name))
    return current_ipu()


@contextlib.contextmanager
def _plain_errors(function):
    """Takes out of an error of a program what TensorFlow says of where our nodes were made."""
    from tensorflow.python.framework import errors_impl
    try:
        yield
    except errors_impl.OpError as error:
        found = re.match(r"Graph execution error:\n\nDetected at node .*?\n(?:  File [^\n]*\n|\n)+"
                         r"(.*?)(?:\n\t \[\[|\Z)", error.message, re.DOTALL)
        if found is None or not found.group(1).strip():
            raise
        raise type(error)(error.node_def, error.op, (
            f"{found.group(1)}\n(while running {plain_name(function)})")) from None


def _is_handle(argument):
    from tensorflow.python.framework import dtypes
    return getattr(argument, "dtype", None) == dtypes.resource


def ipu(device):
    """A device's name in the form "/device:IPU:0"; None for other devices."""
    found = _IPU.search(device or "")
    return f"/device:IPU:{found.group(1)}" if found else None


def current_ipu():
    """The IPU that what runs eagerly is placed on now, or None."""
    from tensorflow.python.eager import context
    return ipu(context.context().device_name)


def must_compile(function):
    """Whether an AtomicFunction says `jit_compile=True`."""
    attributes = function.cached_definition.attr
    return _MUST_COMPILE in attributes and attributes[_MUST_COMPILE].b


def plain_name(function):
    """What the program's author calls an AtomicFunction."""
    name = re.sub(r"^_*(inference|forward|backward)?_*|_\d+$", "", function.graph.name)
    return re.sub(r"\W", "", name) or "function"


def call(function, arguments):
    """Calls an AtomicFunction in the graph that is built. Returns its results and the operation."""
    from tensorflow.python.eager.polymorphic_function import atomic_function
    from tensorflow.python.framework import ops
    call_flat = atomic_function.AtomicFunction.call_flat._tremula_original
    graph = ops.get_default_graph()
    outputs = call_flat(function, *arguments)
    operation = next(one for one in reversed(graph.get_operations())
                     if one.type in ("PartitionedCall", "StatefulPartitionedCall"))
    return list(outputs), operation


def calls_to_compile(graph):
    """The AtomicFunctions that a graph calls and that say `jit_compile=True`, by the names of the
    nodes that call them."""
    called = {}
    for operation in graph.get_operations():
        if operation.type in ("PartitionedCall", "StatefulPartitionedCall"):
            function = graph._functions.get(operation.get_attr("f").name)
            if function is not None and must_compile(function):
                called[operation.name] = function
    return called


def copy_graph(graph, arguments, programs):
    """Adds a function's graph to the default graph, with `arguments` for its inputs and calls of
    programs.Programs in place of the nodes {name: Program}. Returns the results and the operations
    that must run."""
    from tensorflow.python.framework import importer, ops
    graph_def = graph.as_graph_def()
    feeds = {one.name: argument for one, argument in zip(graph.inputs, arguments)}
    inputs = {one.op.name for one in graph.inputs}
    kept = [node for node in graph_def.node if node.name not in inputs]
    for node in kept:
        program = programs.get(node.name)
        if program is not None:
            for i, capture in enumerate(program.captures):
                name = f"{node.name}_capture_{i}"
                feeds[f"{name}:0"] = ops.get_default_graph().capture(capture)
                node.input.insert(len(node.attr["Tin"].list.type), f"{name}:0")
                node.attr["Tin"].list.type.append(capture.dtype.as_datatype_enum)
            node.op = "StatefulPartitionedCall"
            node.attr["f"].func.name = program.function.name
            del node.attr[_MUST_COMPILE]
            ops.get_default_graph()._add_function_recursive(program.function)
    del graph_def.node[:]
    graph_def.node.extend([type(node).FromString(node.SerializeToString()) for node in kept])
    direct = [feeds.get(one.name) for one in graph.outputs]  # an input that is a result too
    wanted = [one.name for one, given in zip(graph.outputs, direct) if given is None]
    found = importer.import_graph_def(
        graph_def, input_map=feeds, name="",
        return_elements=wanted + [one.name for one in graph.control_outputs]) or []
    results = iter(found[:len(wanted)])
    return [next(results) if one is None else one for one in direct], found[len(wanted):]


@contextlib.contextmanager
def new_function(name):
    """A graph of a function that is called eagerly, to be built in the block."""
    from tensorflow.python.framework import func_graph, ops
    with ops.init_scope():
        graph = func_graph.FuncGraph(name)
        with graph.as_default(), ops.device(None):
            yield graph


def finish_function(graph, like):
    """An AtomicFunction of a graph, with the results of another one."""
    from tensorflow.python.eager.polymorphic_function import atomic_function
    name = f"__inference_{graph.name}_{_number()}"
    return atomic_function.from_func_graph(name, graph, {}, like.function_type)


def _number():
    from tensorflow.python.framework import ops
    return ops.uid()


def _answering_at_once(shape):
    """The op Shape, which has an answer without a kernel where it runs eagerly."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import constant_op, dtypes, ops

    @functools.wraps(shape)
    def shape_at_once(input, out_type=dtypes.int32, name=None):  # pylint: disable=redefined-builtin
        if context.executing_eagerly() and current_ipu() is not None:
            value = ops.convert_to_tensor(input)
            return constant_op.constant(value.shape.as_list(), out_type, name=name)
        return shape(input, out_type=out_type, name=name)

    return shape_at_once


# ---- Tracing ----

def _recording(generate):
    from tremula.tf.functions import programs, recording

    @functools.wraps(generate)
    def generate_recording(self, function, scope_type):
        options = generate(self, function, scope_type)
        traced = options.python_function

        @functools.wraps(traced, updated=())
        def trace(*arguments, **keywords):
            from tensorflow.python.framework import ops
            if not self._jit_compile and programs.running() is not self:
                return traced(*arguments, **keywords)
            graph = ops.get_default_graph()
            with recording.recorded(graph, current_ipu(), self):
                returned = traced(*arguments, **keywords)
            if programs.running() is self:
                _refuse_float64(graph, returned)
            return returned

        options.python_function = trace
        return options

    return generate_recording


def _refuse_float64(graph, returned):
    """In the original's words, whatever the function does with it."""
    import tensorflow as tf
    for kind, tensors in (("input", graph.inputs), ("output", tf.nest.flatten(
            returned, expand_composites=True))):
        for one in tensors:
            if getattr(one, "dtype", None) == tf.float64:
                raise TypeError(f"Unsupported data type for {kind}: float64")


# ---- Datasets ----

def _giving_strategy_iterators(iterate):
    @functools.wraps(iterate)
    def iterate_for_strategy(self):
        from tensorflow.python.distribute import distribute_lib
        if distribute_lib.has_strategy():
            strategy = distribute_lib.get_strategy()
            enabled = getattr(strategy, "_enable_dataset_iterators", None)
            if enabled is not None and enabled():
                return strategy._create_dataset_iterator(self)
        return iterate(self)

    iterate_for_strategy._tremula_original = iterate
    return iterate_for_strategy


def plain_iterator(dataset):
    """iter(dataset) as it is outside of strategies."""
    from tensorflow.python.data.ops import dataset_ops
    return dataset_ops.DatasetV2.__iter__._tremula_original(dataset)


def owned_iterator():
    """The class of the iterators of datasets in eager mode."""
    from tensorflow.python.data.ops import iterator_ops
    return iterator_ops.OwnedIterator


# ---- Strategies ----

def is_function(function):
    """Whether something is a tf.function or a ConcreteFunction."""
    from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function
    return isinstance(function, (polymorphic_function.Function, concrete_function.ConcreteFunction))


@contextlib.contextmanager
def xla_context():
    """A block in which what is built knows that it is for XLA."""
    from tensorflow.python.ops import control_flow_ops
    context = control_flow_ops.XLAControlFlowContext()
    context.Enter()
    try:
        yield
    finally:
        context.Exit()


def update_context(device):
    """The block in which a strategy updates variables."""
    from tensorflow.python.distribute import distribute_lib
    return distribute_lib.UpdateContext(device)


def plain_initial_value(value):
    """A variable's initial value without what a checkpoint has put around the value."""
    from tensorflow.python.trackable import base
    return value.wrapped_value if isinstance(value, base.CheckpointInitialValue) else value


def _workers(cpu):
    from tensorflow.python.distribute import input_lib
    return input_lib.InputWorkers([(cpu, (cpu,))])


def dataset_iterator(dataset, cpu, strategy):
    """TensorFlow 1's iterator over a dataset in a strategy."""
    from tensorflow.python.distribute.v1 import input_lib
    return input_lib.DatasetIterator(dataset, _workers(cpu), strategy)


def input_function_iterator(function, cpu, strategy):
    """The same, over the dataset that function(InputContext) gives."""
    from tensorflow.python.distribute import distribute_lib
    from tensorflow.python.distribute.v1 import input_lib
    return input_lib.InputFunctionIterator(function, _workers(cpu),
                                           [distribute_lib.InputContext()], strategy)


def distributed_dataset(dataset, cpu, strategy, options):
    """A distributed dataset of one worker, the CPU."""
    from tensorflow.python.distribute import input_util
    return input_util.get_distributed_dataset(dataset, _workers(cpu), strategy, options=options)


def numpy_dataset(arrays, cpu, session):
    """A dataset of arrays, in variables of the CPU."""
    from tensorflow.python.distribute import numpy_dataset as numpy_datasets
    return numpy_datasets.one_host_numpy_dataset(arrays, numpy_datasets.SingleDevice(cpu), session)
