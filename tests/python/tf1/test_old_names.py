"""Names that programs of the first releases import, and what they find there today."""


def test_the_first_name_of_the_api_and_of_its_modules(prints):
    lines = prints("""
        import tensorflow as tf
        from tensorflow.contrib import ipu
        from tensorflow.contrib.ipu.python import popnn_normalization, popnn_embedding
        from tensorflow.contrib.ipu.python.ops import ipu_scope
        from tensorflow.contrib.ipu.python.popnn_rnn import PopnnLSTM
        from tensorflow.python import ipu as today

        assert ipu is today and ipu.ops.ipu_shard is today.scopes.ipu_shard
        assert ipu_scope is today.scopes.ipu_scope
        assert ipu.ops.ipu_compile_summary is today.summary_ops.ipu_compile_summary
        assert PopnnLSTM is today.rnn_ops.PopnnLSTM
        assert popnn_normalization is today.normalization_ops
        assert popnn_embedding is today.embedding_ops and ipu.poprand is today.rand_ops
        assert ipu.internal is today.internal_ops
        assert ipu.popops_cross_replica_sum is today.cross_replica_ops
        assert (ipu.ipu_optimizer.CrossReplicaOptimizer
                is today.optimizers.CrossReplicaOptimizer)
        try:
            ipu.ipu_optimizer.Another
        except AttributeError as error:
            print(error)
        cfg = ipu.utils.auto_select_ipus(ipu.utils.create_ipu_config(), 2, sharded=True)
        print(cfg.auto_select_ipus)
    """)
    assert lines == ["module 'tensorflow.python.ipu.ipu_optimizer' has no attribute 'Another'", "2"]


def test_xla_compile_on_an_ipu_and_elsewhere(prints):
    lines = prints("""
        import tensorflow as tf
        from tensorflow.contrib.compiler import xla
        from tensorflow.contrib import ipu

        cfg = ipu.utils.auto_select_ipus(ipu.utils.create_ipu_config(), 1)
        ipu.utils.configure_ipu_system(cfg)
        with tf.device("cpu"):
            x = tf.placeholder(tf.float32, [2])

        def count(x):
            return tf.while_loop(lambda i, _: i < 10, lambda i, y: (i + 1, y * x), [0, x])[1]

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            on_ipu = xla.compile(count, [x])
        elsewhere = tf.xla.experimental.compile(count, [x])
        kinds = {op.type for op in tf.get_default_graph().get_operations()}
        print("IpuLaunch" in kinds, "XlaLaunch" in kinds or "XlaClusterOutput" in kinds)
        with tf.Session() as sess:
            print(*sess.run(on_ipu, {x: [1, 2]})[0])
            print(*sess.run(elsewhere, {x: [1, 2]})[0])
    """)
    assert lines == ["True True", "1.0 2048.0", "1.0 2048.0"]


def test_the_version_is_tensorflow_1_s_to_programs_only(prints, tmp_path):
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "installed.py").write_text(
        "import tensorflow as tf\nimport tensorflow.compat.v1 as v1\n"
        "version = tf.__version__\nassert v1.__version__ == v1.VERSION == version\n")
    lines = prints("""
        import sys
        import tensorflow as tf
        import tensorflow.compat.v1 as v1
        sys.path.insert(0, "site-packages")
        import installed
        print(tf.__version__, tf.VERSION, v1.__version__)
        print(installed.version == tf.version.VERSION, tf.version.VERSION[0])
    """)
    assert lines == ["1.15.5 1.15.5 1.15.5", "True 2"]


def test_inner_modules_have_what_they_had(prints):
    lines = prints("""
        import tensorflow as tf
        from tensorflow.app import run
        from tensorflow.flags import DEFINE_integer
        from tensorflow.python.distribute import distribution_strategy_context
        from tensorflow.python.framework import graph_util, ops, tensor_shape
        from tensorflow.python.keras.layers import BatchNormalization, Dense
        from tensorflow.python.layers.layers import batch_normalization
        from tensorflow.python.ops import array_ops, control_flow_ops
        from tensorflow.python.ops.control_flow_ops import case, cond, while_loop
        from tensorflow.python.pywrap_tensorflow import NewCheckpointReader

        assert ops.IndexedSlices is tf.IndexedSlices and cond is tf.cond and case is tf.case
        assert array_ops.stack is tf.stack and tensor_shape.scalar().rank == 0
        assert NewCheckpointReader is tf.train.NewCheckpointReader and run is tf.app.run
        assert tf.app.flags.DEFINE_integer is DEFINE_integer
        assert BatchNormalization is tf.keras.layers.BatchNormalization and Dense
        assert distribution_strategy_context.get_strategy is tf.distribute.get_strategy
        v = tf.get_variable("v", initializer=3.0)
        i = while_loop(lambda i: i < 10, lambda i: i + 1, [0])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            graph = graph_util.convert_variables_to_constants(
                sess, sess.graph_def, [v.value().op.name, "v"])
            print(sess.run(i), any(n.op == "Const" and n.name == "v" for n in graph.node))
    """)
    assert lines == ["10 True"]


def test_public_modules_are_one_object(prints):
    prints("""
        import tensorflow as tf
        from tensorflow.data.experimental import StatsAggregator
        import tensorflow.nn.rnn_cell as cells
        assert StatsAggregator is tf.data.experimental.StatsAggregator
        assert cells.LSTMCell is tf.nn.rnn_cell.LSTMCell
    """)


def test_statistics_of_pipelines_are_empty_and_say_so(run):
    result = run("""
        import tensorflow as tf
        aggregator = tf.data.experimental.StatsAggregator()
        dataset = tf.data.Dataset.range(3).apply(tf.data.experimental.latency_stats("latency"))
        options = tf.data.Options()
        options.experimental_stats.aggregator = aggregator
        options.experimental_stats.latency_all_edges = True
        assert tf.data.Options().experimental_stats.aggregator is None
        element = dataset.with_options(options).make_one_shot_iterator().get_next()
        tf.add_to_collection(tf.GraphKeys.SUMMARIES, aggregator.get_summary())
        with tf.Session() as sess:
            print(*sess.run([element, tf.summary.merge_all()]))
    """)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.split() == ["0", "b''"]
    assert "latency_stats('latency'): this TensorFlow has no statistics" in result.stderr


def test_the_tutorials_mnist(prints):
    lines = prints("""
        import gzip, os, struct
        import numpy as np
        from tensorflow.examples.tutorials.mnist import input_data

        def write(name, array):
            with gzip.open(os.path.join("data", name + ".gz"), "wb") as file:
                file.write(struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape))
                file.write(array.tobytes())

        os.mkdir("data")
        images = np.arange(7 * 4, dtype=np.uint8).reshape(7, 2, 2)
        write("train-images-idx3-ubyte", images)
        write("train-labels-idx1-ubyte", np.arange(7, dtype=np.uint8))
        write("t10k-images-idx3-ubyte", images[:3])
        try:
            input_data.read_data_sets("data")
        except ValueError as error:
            print(error)
        write("t10k-labels-idx1-ubyte", np.arange(3, dtype=np.uint8))
        mnist = input_data.read_data_sets("data", one_hot=True, validation_size=2)
        print([part.num_examples for part in mnist], mnist.train.images.shape,
              mnist.train.images.dtype, mnist.train.labels.shape)
        assert np.array_equal(mnist.train.images[0], images[2].reshape(-1) / np.float32(255))
        seen = [mnist.train.next_batch(3)[1].argmax(1) for _ in range(5)]
        together = np.concatenate(seen)
        for epoch in range(3):
            assert sorted(together[5 * epoch:5 * epoch + 5]) == [2, 3, 4, 5, 6]
        print(mnist.train.epochs_completed, *mnist.test.next_batch(2, shuffle=False)[1].argmax(1))
        plain = input_data.read_data_sets("data", validation_size=0, reshape=False)
        print(plain.train.images.shape, *plain.train.next_batch(8, shuffle=False)[1])
        with gzip.open("data/t10k-labels-idx1-ubyte.gz", "ab") as file:
            file.write(b"more")
        try:
            input_data.read_data_sets("data")
        except ValueError as error:
            print(error)
    """)
    assert lines == [
        "data has a part of MNIST only: t10k-labels-idx1-ubyte.gz is missing.",
        "[5, 2, 3] (5, 4) float32 (5, 10)", "2 0 1", "(7, 2, 2, 1) 0 1 2 3 4 5 6 0",
        "data/t10k-labels-idx1-ubyte.gz is no file of MNIST: its header does not fit."]


def test_tensorflow_1_s_names_are_no_warnings(run):
    result = run("""
        import tensorflow as tf
        tf.logging.set_verbosity(tf.logging.INFO)
        x = tf.train.SessionRunArgs(None)
        tf.layers.dense(tf.zeros([1, 1]), 1)
        tf.logging.info("the end")
    """)
    assert result.returncode == 0 and "the end" in result.stderr
    assert "deprecated" not in result.stderr
