"""What Build and its vertices may do: leave gradients out, ask for IPUs, throw, run without end."""
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import pipelining_ops
from tremula.poplar import paths

SOURCES = pathlib.Path(__file__).parent / "sources"


@pytest.fixture(scope="module")
def op(tmp_path_factory):
    """op(name, inputs, output's type, its shape)."""
    library = tmp_path_factory.mktemp("builds") / "libbuilds.so"
    subprocess.run(["g++", "-std=c++11", "-shared", "-fPIC", f"-I{paths.INCLUDE}",
                    f"-I{paths.table_headers()}", str(SOURCES / "builds.cpp"), "-o", str(library)],
                   check=True)

    def call(name, inputs, dtype, shape, **arguments):
        result, = ipu.custom_ops.precompiled_user_op(
            inputs, str(library), op_name=name,
            outs={"output_types": [dtype], "output_shapes": [shape]}, **arguments)
        return result
    call.library = str(library)
    return call


def run(fetches, feed=None, **options):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed, **options)


def test_a_null_tensor_is_a_gradient_of_zeros(on_ipu, op):
    x, y = (tf.placeholder(tf.float32, [2, 3]) for _ in range(2))

    def program(x, y):
        return tf.gradients(op("Product", [x, y], tf.float32, [2, 3]) + 2 * y, [x, y])

    of_x, of_y = run(on_ipu(program, [x, y]), {x: np.ones([2, 3]), y: np.arange(6).reshape(2, 3)})
    np.testing.assert_array_equal(of_x, np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(of_y, np.full([2, 3], 2))


def configure(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def test_an_operator_on_no_shard_has_the_ipus_of_all(on_ipu, op):
    configure(4)

    def program(x):
        with ipu.scopes.ipu_shard(1):
            one = op("Machine", [x], tf.int32, [3])
        with ipu.scopes.ipu_shard(3):
            x = x + 1
        return one, op("Machine", [x], tf.int32, [3])

    tiles = 1472
    one, every = run(on_ipu(program, [tf.zeros([32 * 4 * tiles])]))
    np.testing.assert_array_equal(one, [1, tiles, tiles])
    np.testing.assert_array_equal(every, [4, 4 * tiles, 4 * tiles])


def test_a_pipeline_stage_on_all_ipus(op):
    configure(2)
    queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def first(x):
        return op("Machine", [x], tf.int32, [3]), x

    def second(machine, x):
        return machine, op("Product", [x, x], tf.float32, [4])

    def program(x):
        return pipelining_ops.pipeline(
            [first, second, lambda machine, x: (machine, x + 1)], 6, inputs=[x],
            outfeed_queue=queue, device_mapping=[pipelining_ops._ALL_DEVICES, 0, 1])

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(program, [tf.constant([1., 2., 3., 4.])])
    outs = queue.dequeue()
    with tf.Session() as session:
        session.run(result)
        machines, products = session.run(outs)
    np.testing.assert_array_equal(machines[:, :2], [[2, 2 * 1472]] * 6)
    np.testing.assert_array_equal(products, [[2, 5, 10, 17]] * 6)


def test_what_a_vertex_throws_is_an_error(on_ipu, op):
    x = tf.placeholder(tf.float32, [40])
    result = on_ipu(lambda x: op("Throwing", [x], tf.float32, [40],
                                 gp_path=str(SOURCES / "builds_codelets.cpp")), [x])
    for value, text in (11, "the vertex Throws threw: x is 11"), (
            -1, "threw: an exception that is no std::exception"):
        with pytest.raises(tf.errors.UnknownError, match=text):
            run(result, {x: np.arange(40) // 39 * value})
    np.testing.assert_array_equal(run(result, {x: np.zeros(40)})[0], np.ones(40))


def test_a_loop_without_end_is_cancelled(script, op):
    done = script("""
        import os, signal, sys, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import tensorflow.compat.v1 as tf
        from tensorflow.python import ipu
        from tremula.tf.runtime.device import plugin
        tf.disable_v2_behavior()

        def program(x):
            return ipu.custom_ops.precompiled_user_op(
                [x], os.environ["TREMULA_BUILDS"], op_name="Endless",
                outs={"output_types": [tf.float32], "output_shapes": [[4]]})

        def interrupt():
            while not plugin.library().trm_tf_interrupt_is_watched():
                time.sleep(0.01)
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            result = ipu.ipu_compiler.compile(program, [tf.zeros([4])])
        threading.Thread(target=interrupt, daemon=True).start()
        signal.alarm(60)  # ends a loop that goes on
        with tf.Session() as session:
            try:
                session.run(result)
            except KeyboardInterrupt:
                print("interrupted")
        """, TREMULA_BUILDS=op.library)
    assert done.stdout == "interrupted\n", done.stderr[-2000:]
