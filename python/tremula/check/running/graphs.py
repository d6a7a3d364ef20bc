"""What only the graph of a step tells: operations, types and shapes, by the lines that made them.

The host's part of a step, which feeds it, ends at placeholders, queues and iterators; texts and
files behind the step's results are the host's too, where a session runs it.
"""

import re

# Where the host's part ends.
_SOURCES = frozenset((
    "Placeholder", "IteratorGetNext", "IteratorGetNextSync", "OneShotIterator", "IteratorV2",
    "QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2", "VarHandleOp",
    "MutableHashTableV2", "HashTableV2", "IteratorGetNextAsOptional"))
# Ops that write, print, check or pack results, which stay on the host.
_HOST = re.compile(r"^(\w*Summary\w*|Save\w*|Restore\w*|Print\w*|Assert|WriteFile|ShardedFilename|"
                   r"StringFormat|StringJoin|AsString|OptionalFromValue|QueueEnqueue\w*|"
                   r"VarIsInitializedOp)$")
_SUMMARY = re.compile(r"^(\w*Summary\w*)$")
_PYTHON = ("PyFunc", "EagerPyFunc", "PyFuncStateless")
_VALUES = frozenset((
    "Where", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "DynamicPartition",
    "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5", "ListDiff"))
_GRADIENT = re.compile(r"(^|/)(gradients\w*|gradient_tape|training/\w+)/")


def operations(step):
    """The operations of a step without those of the host, with those of the functions that it
    calls: a list of (operation, whether it is in a function)."""
    from tremula.tf.inner import graphs
    waiting = [getattr(one, "op", one) for one in step.fetches]
    inputs = {one.op for one, _ in step.shapes}
    found = set()
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        if one.type not in _SOURCES and one not in inputs:
            waiting += [*one.control_inputs, *(tensor.op for tensor in one.inputs)]
    inner = [(one, True) for graph in _called(found, graphs.function_graphs(step.graph), graphs)
             for one in graph.get_operations()]
    return [(one, False) for one in found] + inner


def _called(found, functions, graphs):
    """The graphs of the functions that operations call, and that those call."""
    waiting, names = list(found), set()
    while waiting:
        for name in graphs.called_functions(waiting.pop()):
            if name in functions and name not in names:
                names.add(name)
                waiting += functions[name].get_operations()
    return [functions[one] for one in sorted(names)]


class Reader:
    """Says which line of the program made an operation. for_ipu: whether the program says itself
    what an IPU does."""

    def __init__(self, recorder, for_ipu):
        self._recorder, self.for_ipu = recorder, for_ipu
        self._known = {}

    def line(self, operation, step):
        """(path, line) of the innermost frame of the program; of a layer of Keras', where the
        program makes the layer; else the step's own."""
        frames = operation.traceback
        found = self._known.get(frames) if frames is not None else None
        if found is None:
            found = next(((one.filename, one.lineno) for one in reversed(list(frames or ()))
                          if self._recorder.is_own(one.filename)), (step.path, step.line))
            if frames is not None:
                self._known[frames] = found
        if found == (step.path, step.line):
            for part in operation.name.split("/"):
                if part in self._recorder.layers:
                    return self._recorder.layers[part]
        return found


def findings(step, reader):
    """Yields (rule, path, line, message) for a step. Nothing where the script made the program for
    an IPU itself: TensorFlow has refused what cannot be in that."""
    if step.graph is None or step.module is not None:
        return
    found = [(one, is_inner) for one, is_inner in operations(step)
             if not one.type.startswith("Ipu") and (not reader.for_ipu or "IPU" in one.device)]
    yield from _unsupported(step, found, reader)
    yield from _types(step, found, reader)
    yield from _inputs(step, found, reader)


def _unsupported(step, found, reader):
    import tensorflow as tf
    from tremula.tf.inner import exports
    from tremula.tf.runtime.ops import support
    every = exports.ops_for_every_device()
    for one, _ in found:
        if one.type in _SOURCES or one.type.startswith(("TensorList", "Const")) \
                or one.type in every and one.type not in _VALUES:
            continue
        if one.type in _VALUES:
            lookup = "; ipu.embedding_ops.embedding_lookup has a gradient of known shape" \
                if one.type.startswith("Unique") and "/update_" in f"/{one.name}" else ""
            yield "value-dependent-shape", *reader.line(one, step), \
                f"the shape of '{_name(one)}' ({one.type}) depends on values{lookup}"
        elif one.type in _PYTHON:
            yield "host-call", *reader.line(one, step), f"'{_name(one)}' calls Python in every step"
        elif _HOST.match(one.type):
            if step.kind != "session" and step.kind != "estimator" and _SUMMARY.match(one.type):
                yield "summary-inside", *reader.line(one, step), f"'{_name(one)}' writes a summary"
        else:
            try:
                support.check([one], "/device:IPU:0")
            except tf.errors.InvalidArgumentError as error:
                if not _is_of_wide_type(one):
                    yield "unsupported-op", *reader.line(one, step), _details(one, error)


def _details(operation, error):
    """What support.check() says of an operation, in one sentence."""
    types = next((line for line in error.message.splitlines() if "IPU supports" in line), "")
    return f"the op {operation.type} is not an IPU's ('{_name(operation)}')" if not types else \
        f"'{_name(operation)}': {types}"


def _name(operation):
    """The end of an operation's name, which may be long."""
    return "/".join(operation.name.split("/")[-2:])


def _is_of_wide_type(operation):
    return any(one.dtype.name in ("float64", "complex64", "complex128") for one in
               [*operation.inputs, *operation.outputs])


def _types(step, found, reader):
    """Where float64 and complex numbers begin, and inputs of int64."""
    for one, _ in found:
        for tensor in one.outputs:
            name = tensor.dtype.name
            if name in ("float64", "complex64", "complex128") and not any(
                    given.dtype.name == name for given in one.inputs):
                if one.type == "Const" and all(user.type == "Cast" for user in tensor.consumers()):
                    continue
                yield "float64", *reader.line(one, step), \
                    f"'{_name(one)}' ({one.type}) is of {name}, which an IPU does not have"
            elif name == "int64" and one.type in ("Placeholder", "IteratorGetNext") \
                    and tensor.consumers() and tensor.shape.rank != 0:
                yield "int64", *reader.line(one, step), \
                    f"the input '{_name(one)}' of the step is of int64, which becomes int32"


def _inputs(step, found, reader):
    """Inputs with dimensions that the script leaves open."""
    scalars = {tensor.op for tensor, shape in step.shapes
               if not shape and tensor.shape.rank is None}  # rates and probabilities
    for one, is_inner in found:
        if one in scalars or is_inner or one.type not in (
                "Placeholder", "IteratorGetNext", "IteratorGetNextSync", "QueueDequeueManyV2",
                "QueueDequeueUpToV2"):
            continue
        for tensor in one.outputs:
            if tensor.dtype.name in ("resource", "variant", "string") or not tensor.consumers() \
                    or tensor.shape.is_fully_defined():
                continue
            if step.items and tensor.shape.rank and tensor.shape[1:].is_fully_defined():
                if step.items % step.batch:
                    yield "unknown-shape", step.path, step.line, (
                        f"{step.items} items are no multiple of the batch size {step.batch}: the "
                        "last batch is smaller")
                break
            text = "unknown" if tensor.shape.rank is None else \
                str(tensor.shape.as_list()).replace("None", "?")
            yield "unknown-shape", *reader.line(one, step), \
                f"the shape of the input '{_name(one)}' is {text}"
            break


def unknown_origins(step, reader):
    """Yields (path, line, message) where a shape becomes unknown though the inputs' are known: for
    a step that could not be lowered."""
    found = [one for one, _ in operations(step)]
    behind = {one for one in found if _GRADIENT.search(one.name)}
    waiting = list(behind)
    while waiting:
        more = {user for tensor in waiting.pop().outputs for user in tensor.consumers()} - behind
        behind |= more
        waiting += more
    for one in found:
        if one.type in _SOURCES or one.type in _VALUES or one in behind or not one.inputs:
            continue
        if all(_is_known(given) for given in one.inputs) and not all(map(_is_known, one.outputs)):
            tensor = next(given for given in one.outputs if not _is_known(given))
            yield *reader.line(one, step), (f"the shape of '{_name(one)}' ({one.type}) becomes "
                                            f"{tensor.shape} here: it depends on values")


def _is_known(tensor):
    return tensor.dtype.name in ("resource", "variant", "string") or \
        tensor.shape.is_fully_defined()


def is_training(step):
    """Whether a step computes gradients."""
    if step.graph is None or step.module is not None:
        return step.trains or step.kind == "eager"
    return trains(one for one, _ in operations(step))


def trains(found):
    """Whether some of these operations are of gradients."""
    return any(_GRADIENT.search(one.name) for one in found)
