"""Nodes that a program adds to a graph when a session has seen it, and from outside the graph."""

import tensorflow.compat.v1 as tf
from tensorflow.python import ipu


def test_the_initializer_is_of_the_datasets_graph(on_ipu):
    with tf.Graph().as_default() as graph:
        feed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.range(4).map(
            lambda k: tf.cast(k, tf.float32)))
        total, = on_ipu(lambda: ipu.loops.repeat(4, lambda sum, x: sum + x, [0.0], feed))
    with tf.Session(graph=graph) as one:
        start = feed.initializer
        assert start.graph is graph
        one.run(start)
        assert one.run(total) == 6


def test_initializers_made_after_a_run_are_no_warning(script):
    result = script("""
        import tensorflow.compat.v1 as tf
        from tensorflow.python import ipu
        tf.disable_v2_behavior()

        feed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.range(4).map(
            lambda k: tf.cast(k, tf.float32)))
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            total, = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(
                2, lambda sum, x: sum + x, [0.0], feed))
        v = tf.get_variable("v", initializer=1.0)
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with tf.Session() as one:
            one.run(tf.constant(1))
            one.run(tf.global_variables_initializer())
            one.run(feed.initializer)
            print(*one.run([v, total]))
    """, TF_CPP_MIN_LOG_LEVEL="0")
    assert result.returncode == 0 and "1.0 1.0" in result.stdout, result.stderr[-2000:]
    assert "mlir_graph_optimization_pass" in result.stderr  # TensorFlow's log is on
    assert "was changed by" not in result.stderr


def test_what_an_ipu_scope_leaves_on_the_cpu_is_not_compiled(script):
    """The slots of a variable that is on the CPU."""
    result = script("""
        import tensorflow.compat.v1 as tf
        from tensorflow.python import ipu
        tf.disable_v2_behavior()

        v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
        def step():
            loss = tf.reduce_sum(v * v)
            return loss, tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            loss, = ipu.ipu_compiler.compile(step)
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with tf.Session() as one:
            one.run(tf.global_variables_initializer())
            print(one.run(loss), one.run(loss))
    """, TF_CPP_MIN_LOG_LEVEL="0")
    assert result.returncode == 0 and "5.0 3.2" in result.stdout, result.stderr[-2000:]
    assert "device_compiler" not in result.stderr  # TensorFlow's own compiler is not used
