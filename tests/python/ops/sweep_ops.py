"""Every op of the list, run on the IPU device with inputs made from its OpDef.

    python tests/python/ops/sweep_ops.py [--output FILE] [--only OP]...

Results go to FILE (tests/data/sweep_ops.json), from which docs/supported_ops.md has its column
"checked". An op that can be placed on the device by itself is; the others are compiled. The result
must be that of TensorFlow's CPU kernel or of XLA. A process of its own runs them, so that a crash
is one op's result. test_sweep.py says what must not change.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import re
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sweep_recipes as recipes  # noqa: E402

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "data" / "sweep_ops.json"
_SECONDS = 120
_TYPES = ("float32", "float16", "int32")
_MORE = ("uint32", "int64", "bool", "int8", "uint8", "int16", "uint16", "uint64")
_MESSAGE = 300  # characters

# outcomes
COMPUTES, WRONG, CRASH = "computes", "wrong", "crash"
REFUSED = "refused"      # in words: it is not implemented, or an IPU has not this type
NO_LOWERING = "no lowering"  # TensorFlow's bridge does not lower it
FAILS = "fails"          # XLA computes it, ours says something else
UNCHECKED = "unchecked"  # neither TensorFlow nor XLA computes it with any inputs that were tried

_HANDLES = ("TensorList", "TensorArray", "EmptyTensorList", "Stack", "_Arg", "_Retval",
            "_EagerConst", "_XlaAot", "_ArrayToList", "_ListToArray")
_INDEX_TYPES = (
    "Tidx", "Tindices", "Tshape", "Index", "Tdim", "Taxis", "Tpaddings", "Tmultiples", "Tperm",
    "Tseed", "Tnumsegments", "Tblock_shape", "Tcrops", "Tk", "shape_type", "Tindex", "Tsegmentids")
_RANDOM = ("Random", "Multinomial", "TruncatedNormal", "Stateful", "StochasticCast", "XlaRng",
           "FakeParam")


# ---- In the worker -------------------------------------------------------------------------------

def serve(pipe):
    """Answers (op, type) with (outcome, message), and None with {op: [types]}. (op, type, False) is
    for the peers only."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf
    tf.compat.v1.disable_eager_execution()
    from tensorflow.python import ipu
    configuration = ipu.config.IPUConfig()
    configuration.auto_select_ipus = 1
    configuration.configure_ipu_system()
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        pipe.send(_wanted() if request is None else check(*request))


def _wanted():
    from tremula.tf import runtime
    return {op: _types_of(op, attributes) for op, attributes in runtime.supported_ops().items()}


def _main_attribute(op, attributes):
    """The attribute that holds the type of the op's data, or None."""
    from tensorflow.python.framework import op_def_registry
    of = recipes.RECIPES.get(op, ([], {}))[1].get("of")
    if of:
        return None
    definition = op_def_registry.get(op)
    counts = {}
    for argument in [*definition.input_arg, *definition.output_arg]:
        name = argument.type_attr or argument.type_list_attr
        if name in attributes and name not in _INDEX_TYPES:
            counts[name] = counts.get(name, 0) + 1
    if "dtype" in counts and any(one.name == "shape" for one in definition.input_arg):
        return "dtype"  # T is the shape's type
    for name in ("T", "dtype"):
        if name in counts:
            return name
    return max(counts, key=counts.get) if counts else None


def _types_of(op, attributes):
    main = _main_attribute(op, attributes)
    if main is None:
        return [recipes.RECIPES.get(op, ([], {}))[1].get("of", "float32")]
    from tensorflow.python.framework import dtypes, op_def_registry
    [definition] = [one for one in op_def_registry.get(op).attr if one.name == main]
    allowed = [dtypes.as_dtype(one).name for one in definition.allowed_values.list.type]
    known = [one for one in attributes[main] if not allowed or one in allowed]
    return [one for one in _TYPES if one in known] or [one for one in _MORE if one in known][:1]


def check(op, dtype, ours=True):
    """Runs one op with one type, by the peers and, unless `ours` is false, on the device. Returns
    (outcome, message)."""
    from tensorflow.python.framework import op_def_registry
    definition = op_def_registry.get(op)
    if definition is None:
        return UNCHECKED, "this TensorFlow has no such op"
    if any("func" in one.type for one in definition.attr):
        return UNCHECKED, "it takes a function"
    if op.startswith(_HANDLES):
        return UNCHECKED, "it works on a handle"
    if (op, dtype) in recipes.UNANSWERED:
        return UNCHECKED, recipes.UNANSWERED[op, dtype]
    problem = "no inputs were found"
    for inputs, attributes in _candidates(op, definition, dtype):
        expected = {}
        for peer in ("tf", "xla"):
            try:
                expected[peer] = _run(op, inputs, attributes, peer)
            except Exception as error:  # pylint: disable=broad-except
                problem = _first_line(error)
        if expected and (op, dtype) in recipes.ANSWERS:
            expected = {"definition": recipes.ANSWERS[op, dtype](inputs)}
        if expected and not ours:
            return COMPUTES, ""
        if expected:
            return _judge(op, definition, inputs, attributes, expected)
    return UNCHECKED, problem


def _judge(op, definition, inputs, attributes, expected):
    import tensorflow as tf
    from tremula.tf.runtime.ops import kernel_list
    single = not (kernel_list._is_functional(op) or op.startswith(kernel_list._ONLY_COMPILED))
    try:
        got = _run(op, inputs, attributes, "ipu" if single else "compiled")
    except tf.errors.UnimplementedError as error:
        return REFUSED, _first_line(error)
    except Exception as error:  # pylint: disable=broad-except
        text = _first_line(error)
        if ("Could not satisfy explicit device specification" in str(error)
                or "depends on values" in text):
            return REFUSED, text
        # XLA may compute what the bridge alone does not lower: it optimises the graph before.
        by_bridge = "HLO text" in text and "compile-time constant" not in text
        return (NO_LOWERING if by_bridge or "xla" not in expected else FAILS), text
    if any(part in op for part in _RANDOM):
        return _judge_random(got, next(iter(expected.values())))
    form = recipes.ONE_OF_SEVERAL.get(op, list)
    differences = [_difference(form(got), form(one)) for one in expected.values()]
    if None in differences:
        return COMPUTES, ""
    return WRONG, "; ".join(f"{name}: {text}" for name, text in zip(expected, differences))


def _judge_random(got, expected):
    """Other numbers, of the same shapes and types."""
    for ours, theirs in zip(got, expected):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return WRONG, f"{ours.dtype}{list(ours.shape)}, not {theirs.dtype}{list(theirs.shape)}"
        if ours.dtype.kind == "f" and not np.isfinite(ours).all():
            return WRONG, "not finite"
    return COMPUTES, ""


def _difference(got, expected):
    """What is different, or None."""
    if len(got) != len(expected):
        return f"{len(got)} results, not {len(expected)}"
    for i, (ours, theirs) in enumerate(zip(got, expected)):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return (f"result {i} is {ours.dtype}{list(ours.shape)}, not "
                    f"{theirs.dtype}{list(theirs.shape)}")
        if ours.dtype.kind not in "fc":
            same = np.array_equal(ours, theirs)
        else:
            bound = 1e-2 if ours.dtype == np.float16 else 2e-5
            same = np.allclose(ours.astype(np.float64), theirs.astype(np.float64), bound, bound,
                               equal_nan=True)
        if not same:
            return f"result {i} is {_short(ours)}, not {_short(theirs)}"
    return None


def _short(array):
    return " ".join(np.array2string(array.ravel()[:6], precision=5).split())


def _first_line(error):
    """The line of an error that says what is wrong, without paths and numbers of functions."""
    text = getattr(error, "message", None) or str(error)
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    skipped = ("Detected at", "Graph execution error", "Node:", "File ", "from ")
    said = [line for line in lines if not line.startswith(skipped)] or lines or [""]
    first = next((line[4:] for line in said if line.startswith("(0) ")), said[0])
    text = f"{type(error).__name__}: {first}"
    text = re.sub(r"/\S+/(\w+\.py):\d+", r"\1", text)  # what changes from run to run
    return re.sub(r"a_inference_program_\d+__", "program", text)[:_MESSAGE]


def _candidates(op, definition, dtype):
    """(inputs by name, attributes): those of the recipe, or several guesses."""
    rng = np.random.default_rng(len(op))
    given, attributes = recipes.RECIPES.get(op, (None, {}))
    attributes = {name: value for name, value in attributes.items() if name != "of"}
    for one in definition.attr:
        if one.name in attributes or one.HasField("default_value") or one.type in (
                "type", "list(type)"):
            continue
        value = recipes.attribute(one)
        if value is not None and not _is_inferred(definition, one.name):
            attributes[one.name] = value
    attributes = {name: _resolve(value, dtype) for name, value in attributes.items()}
    for one in definition.attr:
        if (one.type == "type" and one.name not in attributes
                and not _is_inferred(definition, one.name)
                and (not one.HasField("default_value") or one.name == "dtype")):
            attributes[one.name] = dtype
    for one in definition.attr:  # the helper that makes the op fills in no defaults
        if one.name not in attributes and not _is_inferred(definition, one.name):
            attributes[one.name] = _default(one.default_value)
    if given is not None:
        names = [argument.name for argument in definition.input_arg]
        if len(names) == len(given):
            yield _materialise(dict(zip(names, given)), dtype, rng), attributes
        return
    for shape in recipes.SHAPES if definition.input_arg else [()]:
        inputs = {}
        for argument in definition.input_arg:
            value = _guess(argument, shape)
            inputs[argument.name] = [value, value] if argument.number_attr else value
        yield _materialise(inputs, dtype, rng), attributes


def _guess(argument, shape):
    from tensorflow.python.framework import dtypes
    if argument.type:
        fixed = dtypes.as_dtype(argument.type)
        if fixed == dtypes.resource:
            return recipes.Variable(*shape)
        return recipes.by_name(argument.name, shape, fixed.as_numpy_dtype)
    if argument.name == "shape" or argument.type_attr in _INDEX_TYPES:
        return recipes.by_name(argument.name, shape, np.int32)
    return recipes.by_name(argument.name, shape, None)


def _is_inferred(definition, name):
    return any(name in (one.type_attr, one.type_list_attr, one.number_attr)
               for one in definition.input_arg)


def _default(value):
    kind = value.WhichOneof("value")
    if kind == "list":
        items = value.list
        return list(items.s or items.i or items.f or items.b or items.type or items.shape)
    if kind == "shape":
        return value.shape
    return getattr(value, kind) if kind else []


def _resolve(value, dtype):
    import tensorflow as tf
    if value == "=int32":
        return "int32" if np.dtype(dtype).itemsize == 4 else "int16"
    if value == "=float32":
        return "float32" if dtype != "float32" else "int32"
    if value == "=tensor":
        return tf.make_tensor_proto(np.ones([2, 3], dtype))
    return value


def _materialise(inputs, dtype, rng):
    """Arrays for T(...); the value of "MaxPool" and the like is what that op makes of the input
    before."""
    done, last = {}, None
    for name, value in inputs.items():
        if isinstance(value, str):
            done[name] = _forward(value, last)
        elif isinstance(value, list):
            done[name] = [one.array(dtype, rng) if isinstance(one, recipes.T) else one
                          for one in value]
        elif isinstance(value, recipes.Variable):
            done[name] = recipes.Variable(values=value.array(dtype, rng))
        else:
            done[name] = value.array(dtype, rng) if isinstance(value, recipes.T) else value
        last = done[name] if last is None else last
    return done


def _forward(op, value):
    import tensorflow as tf
    with tf.Graph().as_default(), tf.device("/CPU:0"):
        if op == "LRN":
            result = tf.cast(tf.nn.local_response_normalization(tf.cast(value, tf.float32)),
                             value.dtype)
        else:
            pool = tf.nn.max_pool2d if op == "MaxPool" else tf.nn.max_pool3d
            result = tf.cast(pool(tf.cast(value, tf.float32), 2, 1, "SAME"), value.dtype)
        with tf.compat.v1.Session() as session:
            return session.run(result)


def _run(op, inputs, attributes, where):
    """The results of an op, and the values of its variables after it, as arrays."""
    import tensorflow as tf
    from tensorflow.python import ipu
    tf1 = tf.compat.v1
    feeds, variables = {}, {}
    with tf.Graph().as_default() as graph:
        place = (lambda: tf.device("/CPU:0")) if where in ("tf", "xla") else (
            lambda: ipu.scopes.ipu_scope("/device:IPU:0"))
        for name, value in inputs.items():
            if isinstance(value, recipes.Variable):
                with place():
                    variables[name] = tf1.get_variable(
                        name, initializer=tf1.constant_initializer(value.values),
                        shape=value.values.shape, dtype=value.values.dtype, use_resource=True)
        keys, values = [], []
        for name, value in inputs.items():
            for i, one in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(one, np.ndarray) and (
                        one.dtype.kind == "f" or where in ("ipu", "tf")):
                    with tf.device("/CPU:0"):
                        placeholder = tf1.placeholder(one.dtype, one.shape)
                    feeds[placeholder] = one
                    keys.append((name, i))
                    values.append(placeholder)

        def step(*tensors):
            fed = dict(zip(keys, tensors))
            arguments = {}
            for name, value in inputs.items():
                if name in variables:
                    arguments[name] = variables[name].handle
                elif isinstance(value, list):
                    arguments[name] = [fed.get((name, i), one) for i, one in enumerate(value)]
                else:
                    arguments[name] = fed.get((name, 0), value)
            return _build(op, arguments, attributes, list(variables.values()))

        if where == "compiled":
            with place():
                fetches = ipu.ipu_compiler.compile(step, values)
        elif where == "xla":
            with place():
                fetches = tf.function(step, jit_compile=True, autograph=False)(*values)
        else:
            with place():
                fetches = step(*values)
        fetches = [one for one in tf.nest.flatten(fetches)]
        ipu.utils.move_variable_initialization_to_cpu(graph)
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer())
            results = session.run(fetches, feeds)
    return [np.asarray(one) for one in results if one is not None]


def _build(op, arguments, attributes, variables):
    """The op's tensors; where it writes to variables, their values after it, too."""
    import tensorflow as tf
    from tensorflow.python.framework import op_def_library
    made = op_def_library.apply_op(op, name="checked", **arguments, **attributes)
    tensors = [] if made is None or isinstance(made, tf.Operation) else tf.nest.flatten(made)
    operations = [made] if isinstance(made, tf.Operation) else [one.op for one in tensors]
    if variables or not tensors:
        with tf.control_dependencies(operations):
            tensors += [one.read_value() for one in variables] or [tf.constant(0)]
    return tensors


# ---- In the parent -------------------------------------------------------------------------------

class Worker:
    """A process that checks ops; after a crash, another one."""

    def __init__(self):
        self._process = self._pipe = None

    def ask(self, request):
        """Its answer; (CRASH, ...) where it gives none."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        self._pipe.send(request)
        try:
            if self._pipe.poll(_SECONDS):
                return self._pipe.recv()
            problem = f"no answer in {_SECONDS} s"
        except EOFError:
            self._process.join()
            problem = f"the process ended with code {self._process.exitcode}"
        self.end()
        return CRASH, problem

    def end(self):
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = self._pipe = None


def sweep(only=(), progress=None):
    """{op: {type: [outcome, message]}}."""
    worker, results = Worker(), {}
    try:
        wanted = worker.ask(None)
        if not isinstance(wanted, dict):
            raise RuntimeError(f"the list of ops cannot be read: {wanted[1]}")
        for op, types in wanted.items():
            if not only or op in only:
                results[op] = {dtype: _ask(worker, op, dtype) for dtype in types}
                if progress:
                    progress(op, results[op])
    finally:
        worker.end()
    return results


def _ask(worker, op, dtype):
    outcome, message = worker.ask((op, dtype))
    if outcome == CRASH and worker.ask((op, dtype, False))[0] == CRASH:
        return [UNCHECKED, "stock TensorFlow crashes"]
    return [outcome, message]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--only", action="append", default=[])
    arguments = parser.parse_args()

    def progress(op, found):
        for dtype, (outcome, message) in found.items():
            print(f"{op:38} {dtype:8} {outcome:11} {message}".rstrip(), flush=True)

    found = sweep(arguments.only, progress)
    if arguments.only:
        return
    import importlib.metadata
    versions = [importlib.metadata.version(one) for one in ("tensorflow-cpu",)]
    arguments.output.write_text(json.dumps({"tensorflow": versions[0], "ops": found}, indent=1)
                                + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
