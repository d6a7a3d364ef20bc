"""Operators in C++ against Poplar's headers in TensorFlow programs, against NumPy or TensorFlow."""
import ctypes
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tremula.poplar import paths, popc

SOURCES = pathlib.Path(__file__).parent / "sources"
PROJECT = pathlib.Path(__file__).parent / "project"
CODELETS = SOURCES / "own_codelets.cpp"


def compile_operators(source, library):
    subprocess.run(["g++", "-std=c++11", "-O1", "-shared", "-fPIC", f"-I{paths.INCLUDE}",
                    f"-I{paths.table_headers()}", str(source), "-o", str(library)], check=True)
    return str(library)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Has the library and the codelets; codelets that tests compile are cached in it."""
    made = tmp_path_factory.mktemp("operators")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TREMULA_CODELET_CACHE", str(made / "cache"))
        compile_operators(SOURCES / "own_operators.cpp", made / "liboperators.so")
        popc.compile_codelets([CODELETS], made / "codelets.gp")
        yield made


@pytest.fixture
def op(folder):
    """op(name, inputs, *outputs): the operator; each output is (type, shape)."""
    def call(name, inputs, *outputs, library=folder / "liboperators.so",
             gp_path=str(folder / "codelets.gp"), **arguments):
        return ipu.custom_ops.precompiled_user_op(
            inputs, str(library), gp_path=gp_path, op_name=name,
            outs={"output_types": [dtype for dtype, _ in outputs],
                  "output_shapes": [shape for _, shape in outputs]}, **arguments)
    return call


def run(fetches, feed=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed)


F3 = (tf.float32, [3])


# ---- a1: popops only, gradients ----

@pytest.mark.parametrize("attributes, arguments", [
    ("", {}), ("separate", {"separate_gradients": True}),
    ("0 and 2", {"inputs_with_gradients": [0, 2]}),
])
def test_gradients_whole_separate_and_of_some_inputs(on_ipu, op, attributes, arguments):
    values = np.random.default_rng(0).standard_normal([3, 4, 5]).astype(np.float32)
    given = [tf.placeholder(tf.float32, [4, 5]) for _ in range(3)]

    def program(x, a, b):
        y, = op("ScaleShift", [x, a, b], (tf.float32, [4, 5]), gradient_attributes=attributes,
                **arguments)
        return [y, *(one for one in tf.gradients(y * y, [x, a, b]) if one is not None)]

    y, *gradients = run(on_ipu(program, given), dict(zip(given, values)))
    x, a, b = values
    expected = [2 * (x * a + b) * a, 2 * (x * a + b) * x, 2 * (x * a + b)]
    if attributes == "0 and 2":
        del expected[1]
    np.testing.assert_allclose(y, x * a + b, rtol=1e-6, atol=1e-6)
    assert len(gradients) == len(expected)
    for found, wanted in zip(gradients, expected):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


# ---- a2: a codelet over split regions, from a .gp and from its source ----

@pytest.mark.smoke
@pytest.mark.parametrize("gp_path", ["codelets.gp", str(CODELETS)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_codelet_over_split_regions(on_ipu, op, folder, dtype, gp_path):
    x, y = np.random.default_rng(1).standard_normal([2, 37, 11]).astype(dtype)
    given = [tf.placeholder(dtype, [37, 11]) for _ in range(2)]
    result = on_ipu(lambda a, b: op("Rotate", [a, b, 0.5], *[(dtype, [37, 11])] * 2,
                                    gp_path=os.path.join(folder, gp_path)), given)
    found = run(result, dict(zip(given, (x, y))))
    c, s, wide = np.cos(np.float32(0.5)), np.sin(np.float32(0.5)), np.float32
    expected = [(x * wide(1) * c - y * wide(1) * s), (x * wide(1) * s + y * wide(1) * c)]
    tolerance = 1e-6 if dtype == np.float32 else 2e-3
    for one, wanted in zip(found, expected):
        assert one.dtype == dtype
        np.testing.assert_allclose(one.astype(wide), wanted, rtol=tolerance, atol=tolerance)


# ---- a3: a variable in place ----

def test_a_variable_in_place_twice(on_ipu, op):
    with tf.variable_scope("in_place", use_resource=True):
        variable = tf.get_variable("v", initializer=np.float32([1, 2, 3]))
    step = tf.placeholder(tf.float32, [3])

    def program(step):
        before = variable.read_value()
        first = variable.assign(op("AddTo", [before, step], F3)[0])
        with tf.control_dependencies([first]):
            second = variable.assign(op("AddTo", [variable.read_value(), step], F3)[0])
        with tf.control_dependencies([second]):
            return before + 0, variable.read_value() + 0

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(program, [step])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for turn in range(3):
            before, after = session.run(result, {step: [1, 10, 100]})
            start = np.float32([1, 2, 3]) + 4 * turn * np.float32([1, 10, 100])
            np.testing.assert_array_equal(before, start)
            np.testing.assert_array_equal(after, start + 4 * np.float32([1, 10, 100]))
        np.testing.assert_array_equal(session.run(variable), after)


# ---- a4: an allocator ----

def test_an_allocator_places_the_input(on_ipu, op):
    result = on_ipu(lambda: op("Placed", [tf.zeros([3, 2])], (tf.int32, [3]), attributes="1000"))
    np.testing.assert_array_equal(run(result)[0], [1000, 1001, 1002])


# ---- a5: state ----

def test_state_lives_as_long_as_the_executable(on_ipu, op):
    result = on_ipu(lambda: op("Counter", [], (tf.int32, [])))
    with tf.Session() as session:
        assert [session.run(result)[0] for _ in range(3)] == [41, 42, 43]


def test_a_remote_buffer_is_state_and_a_stream_has_no_host(on_ipu, op):
    x = tf.placeholder(tf.float32, [2])
    result, streamed = (on_ipu(lambda x, text=text: op("History", [x], (tf.float32, [2]),
                                                       attributes=text), [x])
                        for text in ("", "stream"))
    with tf.Session() as session:
        found = [session.run(result, {x: [10 ** i, i]})[0] for i in range(5)]
        with pytest.raises(tf.errors.FailedPreconditionError, match="operator has no host"):
            session.run(streamed, {x: [0, 0]})
    np.testing.assert_array_equal(found, [[1, 0], [11, 1], [111, 3], [1110, 6], [11100, 9]])


def test_each_call_in_a_loop_and_outside_has_its_state(on_ipu, op):
    def program():
        loop = ipu.loops.repeat(4, lambda x: op("Counter", [x * 0 + 1], (tf.int32, []))[0], [0])
        return loop, op("Counter", [tf.constant(2)], (tf.int32, []))[0]

    result = on_ipu(program)
    with tf.Session() as session:
        found = [session.run(result) for _ in range(2)]
    assert [[int(np.ravel(one)[0]) for one in pair] for pair in found] == [[44, 42], [48, 44]]


def test_state_of_two_replicas(devices, session, op):
    devices(2)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def program():
        index = ipu.replication_ops.replication_index()
        return outfeed.enqueue(op("Counter", [index + 1], (tf.int32, []))[0])

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        step = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(3, program), [])
    dequeued = outfeed.dequeue()
    with session() as s:
        s.run(step)
        np.testing.assert_array_equal(s.run(dequeued), [[41, 42], [42, 44], [43, 46]])


# ---- a6: a loop ----

def test_repeat_while_true(on_ipu, op):
    x = tf.placeholder(tf.float32, [])
    result = on_ipu(lambda x: op("Root", [x], (tf.float32, []), (tf.uint32, [])), [x])
    root, steps = run(result, {x: 10})
    assert abs(root - np.sqrt(10)) < 1e-5 and 20 <= steps <= 30


# ---- a7: fields ----

def test_every_kind_of_field(on_ipu, op):
    result = on_ipu(lambda: op("Kinds", [tf.constant([1., 2., 3., 4.]),
                                         tf.constant([[1, 2, 3, 4], [5, 6, 7, 8]])],
                               (tf.float32, [4]), (tf.bool, []), (tf.int32, [8])))
    out, any_, workers = run(result)
    # rows[1] is the second row again, by another view.
    np.testing.assert_array_equal(out, [1 + 5 + 1 + 10, 2 + 12 + 2 + 20, 3 + 21 + 3 + 30,
                                        4 + 32 + 65535 + 40])
    assert any_
    np.testing.assert_array_equal(workers, [0, 1, 2, 3, 4, 5, 0, 1])


# ---- a8: views ----

def chain(choose, start):
    """A random chain of views: its words, and what NumPy makes of `start`."""
    words, x = [], start

    def add(word, *numbers):
        words.append(" ".join(map(str, [word, len(numbers), *numbers])))

    for _ in range(choose.randint(1, 6)):
        d = choose.randrange(x.ndim) if x.ndim else 0
        kind = choose.choice(["slice", "shuffle", "reshape", "broadcast", "concat", "expand",
                              "squeeze", "index", "roll", "sample"])
        if kind == "expand" and x.ndim < 6:
            d = choose.randint(0, x.ndim)
            add(kind, d)
            x = np.expand_dims(x, d)
        elif x.ndim == 0:
            continue
        elif kind == "slice":
            begin = choose.randrange(x.shape[d])
            end = choose.randint(begin + 1, x.shape[d])
            add(kind, d, begin, end)
            x = x.take(range(begin, end), d)
        elif kind == "shuffle":
            order = choose.sample(range(x.ndim), x.ndim)
            add(kind, *order)
            x = x.transpose(order)
        elif kind == "reshape":
            shape = choose.choice([[x.size], [x.size, 1], [1, x.size], x.shape[::-1]])
            add(kind, *shape)
            x = x.reshape(shape)
        elif kind == "broadcast" and x.size < 500:
            add(kind, d, 3)
            x = np.concatenate([x] * 3, d)
        elif kind == "concat" and x.size < 500:
            add(kind, d)
            x = np.concatenate([x, np.flip(x, d)], d)
        elif kind == "squeeze" and x.shape[d] == 1:
            add(kind, d)
            x = x.squeeze(d)
        elif kind == "index":
            i = choose.randrange(x.shape[0])
            add(kind, i)
            x = x[i]
        elif kind == "roll":
            to = choose.randrange(x.ndim)
            add(kind, d, to)
            x = np.moveaxis(x, d, to)
        elif kind == "sample":
            add(kind, d, 2)
            x = x.take(range(0, x.shape[d], 2), d)
    return " ".join(words), x


def test_chains_of_views_against_numpy(on_ipu, op):
    choose = random.Random(3)
    start = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    chains = [chain(choose, start) for _ in range(2000)]
    expected = np.concatenate([x.ravel() for _, x in chains])
    result = on_ipu(lambda: op("Views", [tf.constant(start)], (tf.float32, [expected.size]),
                               attributes=";".join(words for words, _ in chains)))
    found, = run(result)
    if not np.array_equal(found, expected):
        at = 0
        for words, x in chains:
            np.testing.assert_array_equal(found[at:at + x.size], x.ravel(), err_msg=words)
            at += x.size


# ---- a9, a11: refusals ----

def test_overlapping_writes_are_refused(on_ipu, op):
    result = on_ipu(lambda: op("Overlap", [tf.zeros([8])], (tf.float32, [8])))
    with pytest.raises(tf.errors.InternalError, match=(
            r"writes to elements \[0:8\) of variable '?data'? that are written to elsewhere in the "
            "same compute set|written to elsewhere in same compute set")):
        run(result)


@pytest.mark.parametrize("attributes, error, message", [
    ("poplar", tf.errors.InternalError, r"\[Poplar\]\[Build graph\] poplar_error: a poplar error"),
    ("poplibs", tf.errors.UnknownError, "a poplibs error"),
    ("standard", tf.errors.UnknownError, "a standard error"),
    ("other", tf.errors.UnknownError, "no std::exception"),
    ("view", tf.errors.InternalError,
     r"\[Poplar\]\[Build graph\] index_error: .*slice \[0, 100"),
    ("vertex", tf.errors.InternalError, "no codelet 'NoSuchVertex'"),
    ("codelets", tf.errors.InternalError, "nowhere.gp"),
    ("", tf.errors.InternalError, "has mismatched outputs number, expected: 1, returned: 0"),
])
def test_what_build_throws(on_ipu, op, attributes, error, message):
    result = on_ipu(lambda: op("Fails", [tf.zeros([3])], F3, attributes=attributes))
    with pytest.raises(error, match=message):
        run(result)


def test_a_missing_gp(on_ipu, op):
    result = on_ipu(lambda: op("Rotate", [tf.zeros([3]), tf.zeros([3]), 1.0], F3, F3,
                               gp_path="/nowhere.gp"))
    with pytest.raises(tf.errors.InternalError,
                       match="file_load_error: the codelets /nowhere.gp cannot be read"):
        run(result)


def test_a_source_without_a_compiler(on_ipu, op, monkeypatch):
    monkeypatch.setenv("TREMULA_CXX", "no-such-g++")
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"install the package g\+\+"):
        on_ipu(lambda: op("Rotate", [tf.zeros([3]), tf.zeros([3]), 1.0], F3, F3,
                          gp_path=str(CODELETS)))


def test_assembly(on_ipu, op, tmp_path):
    (tmp_path / "a.S").write_text("nop")
    result = on_ipu(lambda: op("Rotate", [tf.zeros([3]), tf.zeros([3]), 1.0], F3, F3,
                               gp_path=str(tmp_path / "a.S")))
    with pytest.raises(tf.errors.InternalError, match="are assembly of an IPU"):
        run(result)


def test_a_library_of_the_real_sdk(on_ipu, op, tmp_path):
    (tmp_path / "real.cpp").write_text(
        "#include <cstdint>\nextern \"C\" { int32_t custom_op_api_level = 5; void Build() {} }\n")
    library = compile_operators(tmp_path / "real.cpp", tmp_path / "libreal.so")
    with pytest.raises(tf.errors.FailedPreconditionError, match="Compile it again"):
        on_ipu(lambda: op("Build", [tf.zeros([3])], F3, library=library))


# ---- a10: levels and signatures ----

@pytest.fixture
def of_level(folder, tmp_path):
    """of_level(n): a copy of the library that says that it is of that level."""
    def make(level):
        path = tmp_path / f"lib{level}.so"
        shutil.copyfile(folder / "liboperators.so", path)
        kept.append(ctypes.CDLL(str(path)))
        ctypes.c_int32.in_dll(kept[-1], "custom_op_api_level").value = level
        return path
    kept = []
    return make


@pytest.mark.parametrize("level", [0, 6])
def test_other_levels_are_refused(on_ipu, op, of_level, level):
    library = of_level(level)
    for call in (lambda: op("ScaleShift", [tf.zeros([3])] * 3, F3, library=library),
                 lambda: ipu.custom_ops.cpu_user_operation(
                     [tf.zeros([3])], str(library), outs={"output_types": [tf.float32],
                                                          "output_shapes": [[3]]})):
        with pytest.raises(tf.errors.InternalError, match=(
                rf"Api level of module .*lib{level}.so, op name \w+ is {level}, expected 5. See "
                "section")):
            on_ipu(call)


def test_signatures_of_other_levels(on_ipu, op, of_level):
    """The attributes arrive as what the function takes in their place."""
    four = tf.constant([1, 2], tf.int32)
    short = [on_ipu(lambda library=library: op("Short", [four], (tf.int32, [2]), library=library,
                                               attributes="seven!!"))
             for library in (of_level(5), of_level(4))]
    third = on_ipu(lambda: op("Older", [four], (tf.int32, [2]), library=of_level(3)))
    np.testing.assert_array_equal(run(third)[0], [-1, -2])
    older = [on_ipu(lambda library=library: op("Older", [four], (tf.int32, [2]), library=library))
             for library in (of_level(2), of_level(1))]
    for result, expected in zip([*short, *older], [[8, 9]] * 2 + [[-1, -2]] * 2):
        np.testing.assert_array_equal(run(result)[0], expected)


# ---- a12: a pipeline with recomputation, and a loop ----

def test_in_a_loop(on_ipu, op):
    def body(x):
        return op("ScaleShift", [x, tf.constant([2., 3., 4.]), tf.constant([1., 1., 1.])], F3)[0]

    result = on_ipu(lambda: ipu.loops.repeat(4, body, [tf.constant([1., 1., 1.])]))
    expected = np.ones(3)
    for _ in range(4):
        expected = expected * [2, 3, 4] + 1
    np.testing.assert_array_equal(run(result)[0], expected)


def train(op, pipelined):
    """Trains one layer with Dense, or the same in TensorFlow: the weights."""
    from tensorflow.python.ipu import pipelining_ops
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal([24, 2, 3]).astype("f"), rng.standard_normal([24, 2, 4]).astype("f")
    start = rng.standard_normal([3, 4]).astype("f")
    with tf.Graph().as_default():
        if not pipelined:
            weights = start.copy()
            for update in range(3):
                total = np.zeros_like(weights)
                for i in range(update * 8, update * 8 + 8):
                    out = np.maximum(0.5 * x[i] @ weights, 0)
                    total += 0.5 * x[i].T @ np.where(out > 0, 2 * (out - y[i]), 0)
                weights -= 0.01 * total
            return weights
        data = tf.data.Dataset.from_tensor_slices((x, y)).repeat()
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def first(x, y):
            with tf.variable_scope("dense", use_resource=True):
                weights = tf.get_variable("w", initializer=start)
            product, = op("Dense", [x, weights], (tf.float32, [2, 4]),
                          attributes=json.dumps({"scale": 0.5, "relu": True}),
                          gradient_attributes='{"scale": "0.5"}')
            return product, y

        def network():
            return pipelining_ops.pipeline(
                [first, lambda out, y: tf.reduce_sum((out - y) ** 2)], infeed_queue=infeed,
                outfeed_queue=outfeed, gradient_accumulation_count=8, repeat_count=3,
                reduction_method="sum",
                recomputation_mode=pipelining_ops.RecomputationMode.RecomputeThenBackpropagate,
                optimizer_function=lambda loss: pipelining_ops.OptimizerFunctionOutput(
                    tf.train.GradientDescentOptimizer(0.01), loss))

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            step = ipu.ipu_compiler.compile(network)
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), infeed.initializer])
            session.run(step)
            return session.run(tf.global_variables()[0])


def test_in_a_pipeline_with_recomputation(devices, op):
    """a14 too: the attributes are JSON, read without a library for it."""
    devices(2)
    np.testing.assert_allclose(train(op, True), train(op, False), rtol=1e-5, atol=1e-6)


# ---- The elementwise functions ----

def _relu(x):
    return np.maximum(x, 0)


# What each function of tremula/poplar_op.def computes of floats, where NumPy calls it otherwise.
FLOATS = {
    "asin": np.arcsin, "erf": np.vectorize(math.erf), "inv": np.reciprocal, "neg": np.negative,
    "isFinite": np.isfinite, "isInf": np.isinf, "isNaN": np.isnan, "nearbyInt": np.rint,
    "relu": _relu, "round": lambda x: np.trunc(x + np.copysign(0.5, x)), "signum": np.sign,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "geluErf": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2))),
    "atan2": np.arctan2, "div": np.divide, "eq": np.equal, "gt": np.greater,
    "gteq": np.greater_equal, "lt": np.less, "lteq": np.less_equal, "max": np.maximum,
    "min": np.minimum, "mul": np.multiply, "neq": np.not_equal, "pow": np.power, "rem": np.fmod,
    "sub": np.subtract, "invStdDevToVariance": lambda x, y: 1 / (x * x) - y,
    "varianceToInvStdDev": lambda x, y: 1 / np.sqrt(x + y)}
INTEGERS = {
    "bitwiseNot": np.invert, "bitwiseAnd": np.bitwise_and, "bitwiseOr": np.bitwise_or,
    "bitwiseXor": np.bitwise_xor, "bitwiseXnor": lambda x, y: ~(x ^ y),
    "popcount": np.vectorize(lambda x: bin(int(x) & 0xffffffff).count("1")),
    "countLeadingZeros": np.vectorize(lambda x: 32 - int(x).bit_length()
                                      if x >= 0 else 0),
    "shiftLeft": np.left_shift, "shiftRightSignExtend": np.right_shift,
    "shiftRight": lambda x, y: (x.view(np.uint32) >> y.view(np.uint32)).view(np.int32)}
BOOLEANS = {"logicalNot": np.logical_not, "logicalAnd": np.logical_and,
            "logicalOr": np.logical_or}


@pytest.mark.parametrize("arity", ["UNARY", "BINARY"])
def test_every_elementwise_function(on_ipu, op, arity):
    rows = re.findall(rf"^POPLAR_{arity}\(\w+, \w+, (\w+), ",
                      (paths.table_headers() / "tremula/poplar_op.def").read_text(), re.MULTILINE)
    assert len(rows) > 25
    rng = np.random.default_rng(6)
    x = {"f": rng.uniform(0.1, 0.9, [2, 40]).astype(np.float32),
         "i": rng.integers(1, 31, [2, 40]).astype(np.int32), "b": rng.integers(0, 2, [2, 40]) == 1}
    x["f"][:, 20:] += 1 if arity == "BINARY" else 0
    inputs = [tf.constant(x[kind][k]) for kind in "fib" for k in range(2)]
    plan = [("i", INTEGERS[one]) if one in INTEGERS else ("b", BOOLEANS[one]) if one in BOOLEANS
            else ("f", FLOATS.get(one) or getattr(np, one)) for one in rows]
    count = 1 if arity == "UNARY" else 2
    expected = [function(*x[kind][:count]) for kind, function in plan]
    outputs = [(tf.bool if one.dtype == bool else tf.float32 if kind == "f" else tf.int32, [40])
               for one, (kind, _) in zip(expected, plan)]
    words = " ".join(f"{i} {'fib'.index(kind)}" for i, (kind, _) in enumerate(plan))
    result = on_ipu(lambda: op("Elementwise", inputs, *outputs, attributes=f"{count} {words}"))
    for name, found, wanted in zip(rows, run(result), expected):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6, err_msg=name)


# ---- More ----

def test_a_reduction_of_halves(on_ipu, op):
    x = np.random.default_rng(5).standard_normal([7, 3]).astype(np.float16)
    result = on_ipu(lambda: op("Mean", [tf.constant(x)], F3))
    np.testing.assert_allclose(run(result)[0], x.astype("f").mean(0), rtol=1e-6, atol=1e-6)


def test_encodings_and_collectives_within_a_replica(on_ipu, op):
    indices = np.int32([[0, 3], [2, 7]])
    parts = np.random.default_rng(8).standard_normal([3, 2, 2]).astype("f")
    result = on_ipu(lambda: op("Encoded", [tf.constant(indices), 5.0, -1.0, tf.constant(parts)],
                               (tf.int32, [5]), (tf.float16, [2, 2, 4]), (tf.float32, [2, 2, 4]),
                               *[(tf.float32, [3, 2, 2])] * 3))
    row, ones, own, *reduced = run(result)
    np.testing.assert_array_equal(row, [3, 4, 5, 6, 7])
    hot = indices[..., None] == np.arange(4)
    np.testing.assert_array_equal(ones, hot)
    np.testing.assert_array_equal(own, np.where(hot, 5, -1))
    for found, one in zip(reduced, [parts.sum(0), parts.mean(0), parts.max(0)]):
        np.testing.assert_allclose(found, np.broadcast_to(one, [3, 2, 2]), rtol=1e-6, atol=1e-6)


def test_a_host_callback_of_a_source_with_poplars_headers(on_ipu, folder):
    result = on_ipu(lambda: ipu.custom_ops.cpu_user_operation(
        [tf.constant([1., 2.])], str(folder / "liboperators.so"), attributes="2.5",
        outs={"output_types": [tf.float32], "output_shapes": [[2]]}))
    np.testing.assert_array_equal(run(result)[0], [2.5, 5])


def test_the_project_that_cmake_builds(on_ipu, op, tmp_path):
    """a15: its parts, which test_environment.py builds with CMake, as a program."""
    library = compile_operators(PROJECT / "scale.cpp", tmp_path / "libscale.so")
    result = on_ipu(lambda: op("Build", [tf.constant([1., 2., 4.])], F3, library=library,
                               gp_path=str(PROJECT / "scale_codelet.cpp")))
    np.testing.assert_array_equal(run(result)[0], [3.5, 6, 11])
