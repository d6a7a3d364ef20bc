"""What Tremula does when a tf.function is called or traced, and at iter(dataset)."""

import contextlib
import functools
import re
import threading

import tensorflow as tf

from tremula.tf.inner import functions, patches, strategies

_local = threading.local()
_IPU = re.compile(r"device:IPU:(\d+)$", re.IGNORECASE)


def install():
    """Makes functions run on IPUs as programs. Called once."""
    patches.wrap_traced_functions(_launching)
    patches.wrap_function_traces(_recording)
    patches.wrap_dataset_iterators(_giving_strategy_iterators)
    patches.answer_shapes_at_once(lambda: current_ipu() is not None)
    patches.gather_from_values(lambda device: ipu(device) is not None)


def ipu(device):
    """A device's name in the form "/device:IPU:0"; None for other devices."""
    found = _IPU.search(device or "")
    return f"/device:IPU:{found.group(1)}" if found else None


def current_ipu():
    """The IPU on which eager operations are placed now, or None."""
    return ipu(functions.eager_device())


# ---- Calls ----

def _launching(call_flat):
    from tremula.tf.functions import programs

    def call_on_device(self, *arguments):
        device = device_of_call(self, arguments)
        if device is not None:
            program = programs.find(self, device)
            if program is not None:
                call = Call(call_flat, self, program, device, arguments)
                noted = getattr(_local, "calls", None)
                if noted is not None:
                    noted.append(call)
                return call.make()
        return call_flat(self, *arguments)

    return call_on_device


class Call:
    """A call of a program, which can be made again with the same arguments, on the same device:
    without what TensorFlow does to find a function for arguments."""

    def __init__(self, call_flat, function, program, device, arguments):
        self._call_flat, self._function, self._program = call_flat, function, program
        self._device, self._arguments = device, (*arguments, *program.captures)
        self._name = f"{functions.plain_name(function)} on {device}"
        self._turn = program.turn if functions.bound_device(function) is not None else (
            contextlib.nullcontext())

    def is_current(self):
        """Whether the function still has this program."""
        from tremula.tf.functions import programs
        return programs.known(self._function, self._device) is self._program

    def make(self):
        """Returns the program's results. TensorFlow's profiler shows the call by name."""
        with self._turn, _plain_errors(self._function), tf.profiler.experimental.Trace(self._name):
            return self._call_flat(self._program.function, *self._arguments)


@contextlib.contextmanager
def noted_calls():
    """A block that gives a list, to which each Call that this thread makes in it is added."""
    before, _local.calls = getattr(_local, "calls", None), []
    try:
        yield _local.calls
    finally:
        _local.calls = before


def device_of_call(function, arguments):
    """The IPU that a function is called for, or None; what is called in a program is part of it.
    Where nothing says so, TensorFlow puts a function beside the variables that the function uses.
    """
    from tremula.tf.runtime.tracing import tracing
    device = functions.bound_device(function)
    if device is not None:
        device = ipu(device)
        if device is None and functions.must_compile(function):
            devices = (ipu(one.device) for one in arguments if functions.is_handle(one))
            device = next(filter(None, devices), None)
        return device
    if tracing.current() is not None:
        return None
    around = functions.graph_devices()
    return ipu(around[0]) if around else current_ipu()


@contextlib.contextmanager
def _plain_errors(function):
    """Removes TensorFlow's words about the origin of our nodes from a program's error."""
    import tensorflow as tf
    try:
        yield
    except tf.errors.OpError as error:
        message = _message_in(error.message)
        if not message:
            raise
        raise type(error)(error.node_def, error.op, (
            f"{message}\n(while running {functions.plain_name(function)})")) from None


def _message_in(text):
    """What an error says beside where nodes were made; "" if it says nothing of these. Of several
    errors that nodes of one run have had, the first."""
    found = re.match(r"Graph execution error:\n\n(?:Detected at node .*?\n(?:  File [^\n]*\n|\n)+)+"
                     r"(?:\d+ root error\(s\) found\.\n  \(0\) [A-Z_]+:\s*)?"
                     r"(.*?)(?:\n\t \[\[|\Z)", text, re.DOTALL)
    return found.group(1) if found is not None and found.group(1).strip() else ""


# ---- Tracing ----

def _recording(generate):
    from tremula.tf.functions import programs, recording

    def generate_recording(self, function, scope_type):
        options = generate(self, function, scope_type)
        traced = options.python_function

        @functools.wraps(traced, updated=())
        def trace(*arguments, **keywords):
            import tensorflow.compat.v1 as tf
            if not self._jit_compile and programs.running() is not self:
                return traced(*arguments, **keywords)
            graph = tf.get_default_graph()
            with recording.recorded(graph, current_ipu(), self):
                returned = traced(*arguments, **keywords)
            if programs.checks_types(self):
                _refuse_float64(graph, returned)
            return returned

        options.python_function = trace
        return options

    return generate_recording


def _refuse_float64(graph, returned):
    """Refuses float64 in the original's words, also where the function would not use the value."""
    import tensorflow as tf
    for kind, tensors in (("input", graph.inputs), ("output", tf.nest.flatten(
            returned, expand_composites=True))):
        for one in tensors:
            if getattr(one, "dtype", None) == tf.float64:
                raise TypeError(f"Unsupported data type for {kind}: float64")


# ---- Datasets ----

def _giving_strategy_iterators(iterate):
    def iterate_for_strategy(self):
        strategy = strategies.strategy()
        enabled = getattr(strategy, "_enable_dataset_iterators", None)
        if enabled is not None and enabled() and not strategies.iterates_plainly():
            return strategy._create_dataset_iterator(self)
        return iterate(self)

    return iterate_for_strategy
