"""Operators in C++: an allocator's refusal, outputs in gradients, replicas, estimates."""
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from end_to_end import configured, devices, graph  # noqa: F401
from tensorflow.python import ipu
from tremula.poplar import environment, popc

SOURCES = pathlib.Path(__file__).parent / "sources"
RNG = np.random.default_rng(31)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("operators") / "liboperators.so"
    env = {**os.environ, **{name: ":".join([*map(str, folders), os.environ.get(name, "")])
                            for name, folders in environment.variables().items()}}
    subprocess.run(["g++", "-O1", "-shared", "-fpic", "-Wall", "-Wextra", "-Werror",
                    SOURCES / "operators.cpp", "-o", path, "-lpoplar", "-lpoputil", "-lpopops",
                    "-lpoplin"], env=env, check=True)
    return str(path)


@pytest.fixture(scope="module")
def gp(tmp_path_factory):
    path = tmp_path_factory.mktemp("gp") / "rotate.gp"
    assert popc.main(["-O2", str(SOURCES / "rotate.cpp"), "-o", str(path)]) == 0
    return str(path)


@pytest.fixture
def compiled():
    """compiled(function, *arrays): what the program computes of them, in a session."""
    def compute(function, *arrays):
        with tf.Graph().as_default():
            feeds = [tf.placeholder(one.dtype, one.shape) for one in arrays]
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                fetches = ipu.ipu_compiler.compile(function, feeds)
            with tf.Session() as session:
                return session.run(fetches, dict(zip(feeds, arrays)))
    return compute


def outs(*arrays):
    return {"output_types": [tf.as_dtype(one.dtype) for one in arrays],
            "output_shapes": [one.shape for one in arrays]}


def floats(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def operator(inputs, library, outputs, op_name, **arguments):
    return ipu.custom_ops.precompiled_user_op(
        inputs, library, outs=outs(*outputs), op_name=op_name, name=op_name, **arguments)


@pytest.mark.parametrize("separate", [False, True])
def test_gradients(compiled, library, separate):
    x, y = floats(300, 7), floats(300, 7)

    def program(x, y):
        z, = operator([x, y], library, [x], "Scaled", attributes="3", separate_gradients=separate,
                      gradient_attributes="3 " + ("" if separate else "both"))
        return z, *tf.gradients(tf.reduce_sum(z * y), [x, y])

    z, dx, dy = compiled(program, x, y)
    np.testing.assert_allclose(z, 3 * x + y, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(dx, 3 * y, rtol=1e-6)
    np.testing.assert_allclose(dy, y + z, rtol=1e-5, atol=1e-5)


def test_an_allocator(compiled, library):
    x, w = floats(4, 6), floats(6, 5)
    z, = compiled(lambda x, w: operator([x, w], library, [np.zeros((4, 5), np.float32)], "Product",
                                        attributes="left first"), x, w)
    np.testing.assert_allclose(z, x @ w, rtol=1e-5, atol=1e-6)
    with pytest.raises(tf.errors.InternalError,
                       match=r"\[Poplar\]\[Build graph\] poplar_error: wrong allocator call"):
        compiled(lambda x, w: operator([x, w], library, [np.zeros((4, 5), np.float32)], "Product"),
                 x, w)


def test_what_is_not_there(compiled, library, tmp_path):
    x = floats(3)
    with pytest.raises(tf.errors.NotFoundError, match="has no function 'Absent'"):
        compiled(lambda x: operator([x, x], library, [x], "Absent"), x)
    (tmp_path / "codelets.cpp").write_text("no codelet")
    with pytest.raises(tf.errors.InternalError,
                       match="popc could not compile the codelets .*codelets.cpp"):
        compiled(lambda x: operator([x, x], library, [x], "Rotate",
                                    gp_path=str(tmp_path / "codelets.cpp")), x)


def test_replicas_have_states_of_their_own(devices, library):  # noqa: F811
    devices(2)

    def program():
        index = tf.reshape(tf.cast(ipu.replication_ops.replication_index(), tf.float32), [1])
        count, = operator([index + 1], library, [np.zeros(1, np.float32)], "Count")
        return count, ipu.cross_replica_ops.cross_replica_sum(count)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        fetches = ipu.ipu_compiler.compile(program)
    with tf.Session() as session:
        for run in range(1, 4):
            assert [float(one[0]) for one in session.run(fetches)] == [run, 3 * run]


@pytest.mark.parametrize("recompute", [False, True])
def test_a_stage_of_a_pipeline(devices, library, recompute):  # noqa: F811
    devices(2)
    data = floats(8, 4, 6)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices(data).repeat())
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def first(x):
        weight = tf.get_variable("weight", [4, 6], initializer=tf.ones_initializer(),
                                 use_resource=True)
        return operator([x, weight], library, [data[0]], "Scaled", attributes="3",
                        gradient_attributes="3 both")[0]

    mode = ipu.pipelining_ops.RecomputationMode.RecomputeThenBackpropagate if recompute else None
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        compiled = ipu.ipu_compiler.compile(lambda: ipu.pipelining_ops.pipeline(
            [first, lambda y: tf.reduce_sum(y * y)], gradient_accumulation_count=8,
            infeed_queue=infeed, outfeed_queue=outfeed, recomputation_mode=mode,
            optimizer_function=lambda loss: ipu.pipelining_ops.OptimizerFunctionOutput(
                tf.train.GradientDescentOptimizer(0.5), loss)))
    losses = outfeed.dequeue()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        session.run(compiled)
        weight, = session.run(tf.global_variables())
        np.testing.assert_allclose(np.ravel(session.run(losses)),
                                   [np.sum((3 * one + 1) ** 2) for one in data], rtol=1e-4)
    np.testing.assert_allclose(weight, 1 - np.sum(3 * data + 1, 0), rtol=1e-4, atol=1e-4)


def plan(tool, library, gp, op, **more):
    config = {"library": library, "op": op, "gp_path": gp, "poplar": True, **more}
    text = json.dumps(json.dumps(config))
    tool.write("op.hlo", f"""HloModule op
ENTRY e {{
  x = f32[64,1472] parameter(0)
  y = f32[64,1472] parameter(1)
  z = (f32[64,1472]) custom-call(x, y), custom_call_target="tremula.user-op", backend_config={text}
  ROOT r = f32[64,1472] get-tuple-element(z), index=0
}}
""")
    return json.loads(tool.ok("plan", "op.hlo", "--json"))


def test_the_estimate_of_vertices(tool, library, gp):
    # On each of 1472 tiles 64 elements, which six workers share: one vertex each.
    case, = plan(tool, library, gp, "Rotate")["cases"]
    assert case["cycles"]["compute"] == 6 * 20 and case["cycles"]["exchange"] == 0
    assert case["memory"]["by_category"]["vertexInstanceState"] >= 1472 * 6 * 16
    assert not [one for one in case["notes"] if "estimate" in one]
    case, = plan(tool, library, gp, "Rotate", attributes="unknown")["cases"]
    assert case["cycles"]["compute"] == 6 * (20 + 4 * 12)
    note, = [one for one in case["notes"] if "8832 vertices have no estimate" in one]
    assert "counts as 20 cycles and 4 for each element" in note


def test_the_estimate_of_library_steps(tool, library, gp):
    case, = plan(tool, library, gp, "Scaled", attributes="3")["cases"]
    assert 64 * 6 / 4 < case["cycles"]["compute"] < 64 * 12
