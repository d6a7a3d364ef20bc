"""custom_ops: functions of the user's own in C and C++, against the same in NumPy."""

import functools
import os
import pathlib
import subprocess

import interpreter
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

ROOT = pathlib.Path(__file__).resolve().parents[3]

C_SOURCE = r"""
#include <stdio.h>
#include <string.h>
#include <tremula/user_op.h>

/* y = x * k + n, k from the attributes; the second output counts the calls. */
TRM_USER_OP(Scale)
TRM_USER_OP(Scale_grad)
int Scale(const trm_user_op_call *call) {
  static int calls;
  float k = 1;
  if (call->attributes[0] != 0 && sscanf(call->attributes, "%f", &k) != 1) {
    snprintf(call->message, call->message_size, "'%s' is no factor", call->attributes);
    return TRM_USER_OP_INVALID_ARGUMENT;
  }
  const float *x = call->inputs[0];
  const int32_t n = *(const int32_t *)call->inputs[1];
  for (uint64_t i = 0; i < call->input_info[0].elements; ++i) {
    ((float *)call->outputs[0])[i] = x[i] * k + (float)n;
  }
  if (call->num_outputs > 1) *(int32_t *)call->outputs[1] = ++calls;
  return 0;
}
int Scale_grad(const trm_user_op_call *call) {
  float k;
  sscanf(call->attributes, "%f", &k);
  if (call->gradient_size != 1 || call->num_inputs != 1 + 1 + 2) return 13;
  if (call->num_outputs != 1) return 13;
  for (uint64_t i = 0; i < call->input_info[0].elements; ++i) {
    ((float *)call->outputs[0])[i] = ((const float *)call->inputs[0])[i] * k;
  }
  return 0;
}

/* x * y; gradients for both at once, or one by one. */
TRM_USER_OP(Product)
TRM_USER_OP(Product_grad)
int Product(const trm_user_op_call *call) {
  const float *x = call->inputs[0], *y = call->inputs[1];
  for (uint64_t i = 0; i < call->input_info[0].elements; ++i) {
    ((float *)call->outputs[0])[i] = x[i] * y[i];
  }
  return 0;
}
int Product_grad(const trm_user_op_call *call) {
  const float *d = call->inputs[0];
  const float *factors[2] = {call->inputs[3], call->inputs[2]}; /* dx = d y, dy = d x */
  for (uint32_t o = 0; o < call->num_outputs; ++o) {
    const float *f = factors[call->num_outputs == 1 ? call->partial_derivative_index : o];
    for (uint64_t i = 0; i < call->input_info[0].elements; ++i) {
      ((float *)call->outputs[o])[i] = d[i] * f[i];
    }
  }
  return 0;
}

/* What it was told: rank, dims, dtype, bytes, replica, name's length. */
TRM_USER_OP(Told)
int Told(const trm_user_op_call *call) {
  int32_t *out = call->outputs[0];
  const trm_user_tensor *x = &call->input_info[0];
  const int32_t said[8] = {x->rank, (int32_t)x->dims[0], (int32_t)x->dims[1], x->dtype,
                           (int32_t)x->bytes, (int32_t)strlen(call->name),
                           (int32_t)call->size == (int32_t)sizeof *call,
                           (int32_t)call->output_info[0].dims[0]};
  memcpy(out, said, sizeof said);
  return 0;
}

TRM_USER_OP(Note)
int Note(const trm_user_op_call *call) {
  fprintf(stderr, "noted %d\n", *(const int32_t *)call->inputs[0]);
  return 0;
}

TRM_USER_OP(Pure)
TRM_USER_OP_METADATA(Pure)
int Pure(const trm_user_op_call *call) {
  *(float *)call->outputs[0] = *(const float *)call->inputs[0] + 1;
  return 0;
}
void Pure_metadata(trm_user_op_metadata *metadata) {
  metadata->is_stateless = metadata->is_hashable = metadata->is_elementwise = true;
}

const uint32_t Future_tremula = 77;
int Future(const trm_user_op_call *call) { return 0; }
"""

# As the original's documentation has it.
CALLBACK_SOURCE = r"""
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

extern "C" void Callback(const std::vector<const void*>& data,
                         const std::vector<std::uint32_t>& number_of_elements,
                         const std::vector<void*>& outputs,
                         const std::string& attributes, const std::string& name) {
  const float *x = static_cast<const float *>(data.at(0));
  const std::int32_t *n = static_cast<const std::int32_t *>(data.at(1));
  float *y = static_cast<float *>(outputs.at(0));
  for (std::uint32_t i = 0; i < number_of_elements.at(0); ++i) {
    y[i] = x[i] * n[0] + std::stof(attributes.empty() ? "0" : attributes);
  }
  std::string copy = name;
  *static_cast<std::int32_t *>(outputs.at(1)) = copy.size() * 1000 + data.size() * 100
      + outputs.size() * 10 + number_of_elements.size();
}

extern "C" void Callback_grad(const std::vector<void*>& data,
                              const std::vector<std::uint32_t>& number_of_elements,
                              std::vector<void*>& outputs, const std::string& attributes,
                              const std::string& name) {
  /* gradients of 2 outputs, 2 outputs, 2 inputs */
  const float *d = static_cast<const float *>(data.at(0));
  const std::int32_t *n = static_cast<const std::int32_t *>(data.at(5));
  for (std::uint32_t i = 0; i < number_of_elements[0]; ++i) {
    static_cast<float *>(outputs[0])[i] = d[i] * n[0] * std::stof(attributes);
  }
}

extern "C" { std::int32_t custom_op_api_level = 5; }
namespace poplar { class Graph; struct Program { char data[16]; }; }
extern "C" poplar::Program Build(poplar::Graph &graph) { return {}; }
"""


def _build(folder, name, source, compiler, *options):
    path = folder / name
    path.write_text(source)
    library = folder / ("lib" + path.stem + ".so")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-I", str(ROOT / "include"), str(path),
                    "-o", str(library), *options], check=True)
    return str(library)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return _build(tmp_path_factory.mktemp("c"), "ops.c", C_SOURCE, "cc", "-Wall", "-Werror")


@pytest.fixture(scope="module")
def callbacks(tmp_path_factory):
    return _build(tmp_path_factory.mktemp("cpp"), "callback.cpp", CALLBACK_SOURCE, "g++")


def outs(*pairs):
    return {"output_types": [dtype for dtype, _ in pairs],
            "output_shapes": [shape for _, shape in pairs]}


def op(inputs, library, output, **arguments):
    return ipu.custom_ops.precompiled_user_op(inputs, library, outs=output, **arguments)


def run(fetches, feed=None):
    with tf.Session() as session:
        return session.run(fetches, feed)


F3 = outs((tf.float32, [3]))


PRE_COMPILED = """
import sys
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
tf.disable_v2_behavior()
config = ipu.config.IPUConfig()
config.device_connection.type = ipu.config.DeviceConnectionType.PRE_COMPILE
config.device_connection.version = "ipu2"
config.configure_ipu_system()
for name in ("Pure", "Note"):
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32 if name == "Pure" else tf.int32, [])
        outs = {"output_types": [x.dtype], "output_shapes": [x.shape]}
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            y = ipu.ipu_compiler.compile(lambda x: ipu.custom_ops.precompiled_user_op(
                [x], LIBRARY, op_name=name, outs=outs), [x])
        try:
            print(name, session.run(y, {x: 1}))
        except tf.errors.FailedPreconditionError as error:
            print(name, error.message)
"""


def test_pre_compilation_of_what_cannot_be_stored(script, library, tmp_path):
    done = script(PRE_COMPILED.replace("LIBRARY", repr(library)),
                  TF_POPLAR_FLAGS=f"--executable_cache_path={tmp_path}")
    first, second, *_ = done.stdout.splitlines()
    assert first == "Pure [0.0]" and "A pre-compiled Poplar program has been saved" in done.stderr
    assert second.startswith("Note ") and "cannot be safely pre-compiled" in second


# ---- Values ----

def test_values_and_attributes(on_ipu, library):
    x = tf.placeholder(tf.float32, [3])
    result = on_ipu(lambda x: op([x, tf.constant(10)], library, F3, op_name="Scale",
                                 attributes="2.5"), [x])
    np.testing.assert_array_equal(run(result, {x: [1, 2, 4]})[0], [12.5, 15, 20])


def test_what_a_call_is_told(on_ipu, library):
    x = tf.zeros([2, 5], tf.float16)
    result = on_ipu(lambda: op([x], library, outs((tf.int32, [8])), op_name="Told", name="abcde"))
    np.testing.assert_array_equal(run(result)[0], [2, 2, 5, 10, 20, 5, 1, 8])


def test_halves_of_the_ipu_model_are_halves_for_a_function(on_ipu, library, monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    x = tf.placeholder(tf.float16, [2, 5])
    result = on_ipu(lambda x: [op([x * x], library, outs((tf.int32, [8])), op_name="Told",
                                  name="abcde"), tf.cast(x * x, tf.float32)], [x])
    told, squares = run(result, {x: [[300] * 5] * 2})
    np.testing.assert_array_equal(told, [[2, 2, 5, 10, 20, 5, 1, 8]])
    np.testing.assert_array_equal(squares, [[90000] * 5] * 2)
    ipu.config.reset_ipu_configuration()


def test_cpu_operation_with_the_same_signature(on_ipu, library):
    result = on_ipu(lambda: ipu.custom_ops.cpu_user_operation(
        [tf.constant([1., 2., 3.]), 1], library, outs=F3, op_name="Scale"))
    np.testing.assert_array_equal(run(result)[0], [2, 3, 4])


def test_callback_of_the_original(on_ipu, callbacks):
    output = outs((tf.float32, [3]), (tf.int32, []))

    def program(x):
        y, numbers = ipu.custom_ops.cpu_user_operation(
            [x, 3], callbacks, outs=output, name="a_name_of_more_than_15_letters",
            attributes="0.25", gradient_attributes="10", inputs_with_gradients=[0])
        return [y, numbers, *tf.gradients(y, [x], grad_ys=[tf.constant([1., 2., 3.])])]

    y, numbers, gradient = run(on_ipu(program, [tf.constant([1., 2., 3.])]))
    np.testing.assert_array_equal(y, [3.25, 6.25, 9.25])
    assert numbers == 30000 + 200 + 20 + 2
    np.testing.assert_array_equal(gradient, [30, 60, 90])


def test_without_outputs(on_ipu, library, capfd):
    def body(i):
        return i + 1, ipu.custom_ops.precompiled_user_op([i], library, op_name="Note")

    assert run(on_ipu(lambda: ipu.loops.repeat(3, body, [5]))) == [8]
    noted = [line for line in capfd.readouterr().err.splitlines() if line.startswith("noted")]
    assert noted == ["noted 5", "noted 6", "noted 7"]


def test_stateful_ops_are_called_every_time(on_ipu, library):
    def program():
        both = outs((tf.float32, [3]), (tf.int32, []))
        a = op([tf.zeros([3]), 0], library, both, op_name="Scale")[1]
        b = op([tf.zeros([3]), 0], library, both, op_name="Scale")[1]
        return a, b

    result = on_ipu(program)
    with tf.Session() as session:
        first, second = session.run(result), session.run(result)
    assert sorted(first) == [first[0], first[0] + 1]
    assert sorted(second) == [second[0], second[0] + 1] and second[0] == first[1] + 1


def test_replicas(on_ipu, library, devices):
    devices(2)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices(np.arange(12, dtype=np.float32).reshape(4, 3)))

    def body(x):
        return outfeed.enqueue(op([x, 100], library, F3, op_name="Scale")[0])

    result = on_ipu(lambda: ipu.loops.repeat(2, body, [], infeed))
    dequeued = outfeed.dequeue()
    with tf.Session() as session:
        session.run(infeed.initializer)
        session.run(result)
        np.testing.assert_array_equal(session.run(dequeued),
                                      np.arange(12).reshape(2, 2, 3) + 100)


# ---- Gradients ----

@pytest.mark.parametrize("separate", [False, True])
def test_gradients(on_ipu, library, separate):
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 6])

    def program(x, y):
        z, = op([x, y], library, F3, op_name="Product", separate_gradients=separate)
        return tf.gradients(tf.reduce_sum(z * z), [x, y])

    found = run(on_ipu(program, [tf.constant(x), tf.constant(y)]))
    np.testing.assert_allclose(found[0], 2 * x * y * y)
    np.testing.assert_allclose(found[1], 2 * x * y * x)


def test_inputs_with_gradients(on_ipu, library):
    def program(x):
        y, = op([x, tf.constant(1)], library, F3, op_name="Scale", attributes="2",
                gradient_attributes="2", inputs_with_gradients=[0])
        return tf.gradients(y, [x])

    np.testing.assert_array_equal(run(on_ipu(program, [tf.zeros([3])]))[0], [2, 2, 2])


def test_no_inputs_with_gradients_and_no_name(on_ipu, library):
    def program(x):
        y, = op([x, tf.constant(1)], library, F3, op_name="Scale", attributes=b"2", name=None,
                inputs_with_gradients=[])
        assert tf.gradients(y, [x]) == [None]
        return y

    np.testing.assert_array_equal(run(on_ipu(program, [tf.ones([3])]))[0], [3, 3, 3])


# ---- Expressions ----

def test_codelet_expression(on_ipu):
    a, b, c = [tf.placeholder(tf.float32, shape) for shape in ([4, 1], [1], [1, 4])]

    def program(a, b, c):
        return [ipu.custom_ops.codelet_expression_op(lambda x, y, z: x * x + y * z, a, b, c),
                ipu.custom_ops.codelet_expression_op(lambda x: abs(x) - 1, a)]

    values = {a: np.ones([4, 1]) * -3, b: [2], c: np.arange(4.).reshape(1, 4)}
    one, two = run(on_ipu(program, [a, b, c]), values)
    np.testing.assert_array_equal(one, np.broadcast_to(9 + 2 * np.arange(4.), [4, 4]))
    np.testing.assert_array_equal(two, np.full([4, 1], 2.))
    with pytest.raises(ValueError, match="must be elementwise"):
        ipu.custom_ops.codelet_expression_op(tf.reduce_sum, tf.zeros([3]))


# ---- Refusals ----

def test_poplar_library_is_refused(on_ipu, callbacks):
    with pytest.raises(tf.errors.FailedPreconditionError,
                       match="Compile it again.*tremula/user_op.h"):
        on_ipu(lambda: op([tf.zeros([3])], callbacks, F3))


def test_library_that_needs_poplar_is_refused(on_ipu, tmp_path):
    library = _build(tmp_path, "needs.c", "extern int _ZN6poplar5GraphC1Ev(void);\n"
                     "int Build(void) { return _ZN6poplar5GraphC1Ev(); }\n", "cc")
    with pytest.raises(tf.errors.NotFoundError, match="_ZN6poplar5Graph.*Compile it again"):
        on_ipu(lambda: op([tf.zeros([3])], library, F3))


def test_what_is_not_there(on_ipu, library):
    with pytest.raises(tf.errors.NotFoundError, match="could not be opened: .*nowhere.so"):
        on_ipu(lambda: op([tf.zeros([3])], "/nowhere.so", F3))
    with pytest.raises(tf.errors.NotFoundError, match="has no function 'Absent'"):
        on_ipu(lambda: op([tf.zeros([3])], library, F3, op_name="Absent"))
    with pytest.raises(tf.errors.FailedPreconditionError, match="version 77"):
        on_ipu(lambda: op([tf.zeros([3])], library, F3, op_name="Future"))


def test_bad_arguments(on_ipu, library):
    x = tf.zeros([3])
    for message, build in [
            ("inputs_with_gradients must be numbers of the 1 inputs",
             lambda: op([x], library, F3, op_name="Told", inputs_with_gradients=[1])),
            ("outs must be", lambda: op([x], library, {"output_types": [tf.int32]})),
            ("outs has 1 output_types and 0", lambda: op([x], library, {
                "output_types": [tf.int32], "output_shapes": []})),
            ("all shapes must be known", lambda: op([x], library, outs((tf.int32, [None])))),
            ("first output has the shape of its first input", lambda: op(
                [x], library, outs((tf.float32, [4])), op_name="Pure"))]:
        with pytest.raises(ValueError, match=message):
            on_ipu(build)
    for wrong in {"attributes": 7}, {"gradient_attributes": 7}, {"name": 7}:
        with pytest.raises(TypeError, match=f"{next(iter(wrong))} must be a str, but it is 7"):
            on_ipu(functools.partial(op, [x], library, F3, op_name="Told", **wrong))
    with pytest.raises(RuntimeError, match="must be part of a program"):
        op([x], library, F3, op_name="Told")


def test_error_of_the_function(on_ipu, library):
    result = on_ipu(lambda: op([tf.zeros([3]), 0], library, F3, op_name="Scale",
                               attributes="much"))
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=r"(?s)'much' is no factor.*test_user_ops.py"):
        run(result)


# ---- The executable cache ----

_CACHED = """
    import sys
    def program(x):
        return ipu.custom_ops.precompiled_user_op(
            [x] if sys.argv[2] == "Pure" else [x, 1], sys.argv[1], op_name=sys.argv[2],
            outs={"output_types": [tf.float32], "output_shapes": [[]]})
    with tf.Graph().as_default(), ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(program, [tf.constant(4.)])
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with tf.Session() as session:
            print("result", float(session.run(result)[0]))
"""


@pytest.mark.parametrize("name, files", [("Pure", 1), ("Scale", 0)])
def test_cache(library, tmp_path, name, files):
    """Only programs whose ops all say that they can be told from others are kept."""
    script = tmp_path / "cached.py"
    script.write_text("import tensorflow.compat.v1 as tf\nfrom tensorflow.python import ipu\n"
                      "tf.disable_v2_behavior()\n" + "\n".join(
                          line[4:] for line in _CACHED.splitlines()))
    folder = tmp_path / "cache"
    environment = dict(os.environ, TF_POPLAR_FLAGS=f"--executable_cache_path={folder}",
                       TF_CPP_MIN_LOG_LEVEL="0", PYTHONPATH=str(ROOT / "python"))
    for _ in range(2):
        done = interpreter.run([script, library, name], env=environment)
        assert "result 5.0" in done.stdout, done.stderr[-3000:]
        assert len(list(folder.glob("*.poplar_exec"))) == files
        assert ("custom user operations which cannot be safely" in done.stderr) == (files == 0)


# ---- The example ----

def test_example(tmp_path):
    environment = dict(os.environ, TREMULA_RUNTIME_DIR=str(tmp_path),
                       PYTHONPATH=str(ROOT / "python"))
    done = interpreter.run([ROOT / "examples/user_op/rotate.py"], env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "angle 0.7000 of 0.7000" in done.stdout
