"""What a session or a function gets from programs on an accelerator."""

import pytest

from test_accelerator import plugin, run

tf = pytest.importorskip("tensorflow")

# Two variables are trained in a loop that an infeed drives, and one of the results is read at once,
# another by an operation on the CPU. Operations outside of `compile` hand their results on.
SESSION = """
    import numpy as np
    import tremula._finder
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    x = np.random.default_rng(1).normal(size=(8, 64, 64)).astype(np.float32)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(x).repeat())

    def step(total, count, x):
        w = tf.get_variable("w", [64, 64], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
        with tf.control_dependencies([tf.train.MomentumOptimizer(.001, .5).minimize(loss)]):
            return total + loss, count + 1

    def program():
        total, count = ipu.loops.repeat(4, step, [0., 0], infeed)
        return total / 4, count, tf.fill([300], total)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        loss, count, filled = ipu.ipu_compiler.compile(program)
        single = tf.matmul(tf.sin(tf.ones([64, 64])), tf.ones([64, 64]))
    with tf.device("cpu"):
        halved = loss / 2
        sums = tf.reduce_sum(filled), tf.reduce_sum(single)
    with tf.Session() as session:
        session.run([infeed.initializer, tf.global_variables_initializer()])
        for turn in range(3):
            values = session.run([loss, halved, sums, count])
            print("VALUES", *np.hstack([np.ravel(one) for one in values]))
        print("VALUES", session.run(tf.reduce_sum(tf.global_variables()[0])))
"""
FUNCTION = """
    import numpy as np
    import tremula._finder
    import tensorflow as tf
    from tensorflow.python import ipu
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    x = np.random.default_rng(1).normal(size=(8, 64, 64)).astype(np.float32)
    with ipu.ipu_strategy.IPUStrategy().scope():
        w = tf.Variable(tf.ones([64, 64]))
        elements = iter(tf.data.Dataset.from_tensor_slices(x).repeat())

        @tf.function(jit_compile=True)
        def steps(elements):
            def step(turn, total):
                y = tf.tanh(tf.matmul(next(elements), w))
                w.assign_add(0.001 * y)
                return turn + 1, total + tf.reduce_mean(y)

            _, total = tf.while_loop(lambda turn, total: turn < 4, step, [0, 0.])
            return total, tf.fill([300], total)

        strategy = tf.distribute.get_strategy()
        for turn in range(3):
            total, filled = strategy.run(steps, [elements])
            print("VALUES", float(total), float(tf.reduce_sum(filled)), float(total * 2))
        print("VALUES", w.numpy().sum())
"""


# The device's kernels add up lists of tensors on the host.
LISTS = """
    import numpy as np
    import tremula._finder
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    ones = tf.placeholder(tf.float32, [64, 64])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        x = tf.matmul(ones, ones)
        none = tf.raw_ops.EmptyTensorList(element_shape=[64, 64], max_num_elements=2,
                                          element_dtype=tf.float32)
        one = tf.raw_ops.TensorListPushBack(input_handle=none, tensor=x)
        total = tf.raw_ops.TensorListStack(input_handle=tf.add_n([one, one]),
                                           element_shape=[64, 64], element_dtype=tf.float32)
        squares = total * total
    with tf.Session() as session:
        for turn in range(3):
            values = session.run([total, squares], {ones: np.ones([64, 64])})
            print("VALUES", *(one.sum() for one in values), *values[0][0, 0, :4])
"""
PROGRAMS = {"session": SESSION, "function": FUNCTION}
if tf.__version__ < "2.16":  # later ones do not export what takes lists apart
    PROGRAMS["lists"] = LISTS


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_results_of_programs(text, tmp_path):
    numbers = []
    for accelerator in ("", plugin()):
        done = run(text, accelerator, TREMULA_ACCELERATOR_LEAST="0", POPLAR_LOG_LEVEL="INFO",
                   TREMULA_RUNTIME_DIR=str(tmp_path))
        numbers.append([float(word) for line in done.stdout.splitlines()
                        if line.startswith("VALUES") for word in line.split()[1:]])
        assert (" run on cpu:0" in done.stderr) == bool(accelerator), done.stderr[-2000:]
    assert len(numbers[0]) > 9 and numbers[1] == pytest.approx(numbers[0], rel=1e-4)
