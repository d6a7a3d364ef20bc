"""Programs that feed much out, in memory that a laptop has."""


def test_1600_tensors_of_an_outfeed(script):
    """An autoencoder that feeds parts of its gradients out."""
    done = script("""
        import numpy as np, tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        from tensorflow.python import ipu
        LAYERS, SIZE, TURNS, PARTS = 25, 32, 4, 32
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
            tf.data.Dataset.from_tensors(np.linspace(-1, 1, 4 * SIZE, dtype="f").reshape(4, SIZE)
                                         ).repeat())
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        random = np.random.RandomState(0)

        def body(x):
            y, weights = x, []
            for i in range(LAYERS):
                with tf.variable_scope(f"layer_{i}", use_resource=True):
                    weights += [tf.get_variable(
                        "w", [SIZE, SIZE], initializer=tf.constant_initializer(
                            random.randn(SIZE, SIZE) / SIZE ** 0.5)),
                        tf.get_variable("b", [SIZE], initializer=tf.zeros_initializer())]
                y = tf.tanh(tf.matmul(y, weights[-2]) + weights[-1])
            loss = tf.reduce_mean((x - y) ** 2)
            gradients = tf.gradients(loss, weights)
            update = tf.train.GradientDescentOptimizer(0.5).apply_gradients(
                zip(gradients, weights))
            parts = [one for gradient in gradients for one in tf.split(gradient, PARTS, -1)]
            return update, outfeed.enqueue(parts)

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            run = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(TURNS, body, [], infeed))
        fed_out = outfeed.dequeue()
        last = tf.global_variables()[-1]
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), infeed.initializer])
            before = session.run(last)
            session.run(run)
            values = session.run(fed_out)
            moved = session.run(last) - before
        found = np.concatenate(values[-PARTS:], -1).sum(0)  # of the last bias, over the turns
        np.testing.assert_allclose(moved, -0.5 * found, rtol=1e-4, atol=1e-6)
        assert moved.any()
        # RUSAGE_SELF would count the process that started this one.
        peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print(len(values), peak.split()[1])
    """)
    assert done.returncode == 0, done.stderr
    count, kilobytes = map(int, done.stdout.split()[-2:])
    assert count == 1600
    assert kilobytes < 1_500_000


def test_what_is_dequeued_is_there_once(script):
    done = script("""
        import numpy as np, tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        from tensorflow.python import ipu
        COUNT, SIZE, TURNS = 64, 100_000, 10                   # 256 MB in all
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def body(turn):
            return turn + 1, outfeed.enqueue([tf.fill([SIZE], turn * COUNT + i)
                                              for i in range(COUNT)])

        def peak():
            line = next(one for one in open("/proc/self/status") if one.startswith("VmHWM"))
            return int(line.split()[1])

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            run = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(TURNS, body, [0.0]))
        fed_out = outfeed.dequeue()
        with tf.Session() as session:
            session.run(run)
            before = peak()
            values = session.run(fed_out)
        for i, value in enumerate(values):
            assert np.array_equal(value[:, 0], np.arange(TURNS) * COUNT + i)
            assert np.array_equal(value[:, -1], value[:, 0])
        print(sum(value.nbytes for value in values) // 1000, peak() - before)
    """)
    assert done.returncode == 0, done.stderr
    kilobytes, more = map(int, done.stdout.split()[-2:])
    assert kilobytes == 256_000 and more < 64_000
