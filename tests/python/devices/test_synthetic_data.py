"""Synthetic data: --use_synthetic_data, its categories and initializers, --null_data_feed."""

PROGRAM = """
    import os
    import numpy as np

    def configure(text):
        os.environ["TF_POPLAR_FLAGS"] = text
        again = ipu.config.IPUConfig()
        again.auto_select_ipus = 1
        again.configure_ipu_system()

    read = []

    def elements():
        for i in range(100):
            read.append(i)
            yield np.full([64], 5.0, np.float32), np.int32(5)

    def feed_and_take(mode=ipu.ipu_outfeed_queue.IPUOutfeedMode.ALL):
        '''The sum of two elements, and what comes out of the outfeed.'''
        with tf.Graph().as_default(), tf.Session() as session:
            infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_generator(
                elements, (tf.float32, tf.int32), ([64], [])))
            outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(mode)

            def body(total, x, label):
                return total + x + tf.cast(label, tf.float32), outfeed.enqueue(x)

            with ipu.scopes.ipu_scope("/device:IPU:0"):
                total, = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(
                    2, body, [tf.zeros([64])], infeed))
            session.run(infeed.initializer)
            return session.run(total), session.run(outfeed.dequeue())
"""


def finish(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out.splitlines()


def test_infeeds_outfeeds_and_their_initializers(script):
    assert finish(script(1, "ALWAYS", PROGRAM + """
    def show(text):
        del read[:]
        configure(text)
        total, out = feed_and_take()
        print(len(read) > 0, float(total.min()), float(total.max()), len(set(total.tolist())),
              len(out))

    show("")
    show("--use_synthetic_data")
    show("--synthetic_data_categories=infeed --synthetic_data_initializer=3")
    show("--null_data_feed")
    show("--synthetic_data_categories=outfeed")
    configure("--use_synthetic_data --synthetic_data_initializer=uniform")
    total, _ = feed_and_take()
    print(0 <= total.min() and total.max() < 4 and len(set(total.tolist())) > 50)
    configure("--use_synthetic_data --synthetic_data_initializer=normal")
    total, _ = feed_and_take()
    again, _ = feed_and_take()
    print(total.min() < total.mean() - 2 and (total == again).all())
    configure("--synthetic_data_categories=outfeed")
    try:
        feed_and_take(ipu.ipu_outfeed_queue.IPUOutfeedMode.LAST)
    except tf.errors.FailedPreconditionError as error:
        print("when using synthethic data. This is not supported." in str(error))
    """)) == ["True 20.0 20.0 1 2", "False 0.0 0.0 1 0", "False 12.0 12.0 1 2",
              "False 0.0 0.0 1 2", "True 20.0 20.0 1 0", "True", "True", "True"]


def test_parameters_and_seed(script):
    assert finish(script(1, "ALWAYS", PROGRAM + """
    configure("--synthetic_data_categories=parameters --synthetic_data_initializer=2")
    print(run(lambda x: x * x, [5.0, 7.0]))
    configure("--synthetic_data_categories=Parameters,seed")
    print(run(lambda x: x + 1.0, [5.0, 7.0]))
    configure("")
    print(run(lambda x: x * x, [5.0, 7.0]))

    def restarts():
        with tf.Graph().as_default(), tf.Session() as session:
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                drawn, = ipu.ipu_compiler.compile(lambda: tf.random.uniform([4]))
            values = []
            for _ in range(2):
                ipu.utils.reset_ipu_seed(7)
                values.append(session.run(drawn).tolist())
            return values[0] == values[1]

    print(restarts())
    configure("--synthetic_data_categories=seed")
    print(restarts(), ipu.utils.use_synthetic_data_for(ipu.utils.SyntheticDataCategory.Seed),
          ipu.utils.use_synthetic_data_for(ipu.utils.SyntheticDataCategory.Infeed))
    """)) == ["[4.0, 4.0]", "[1.0, 1.0]", "[25.0, 49.0]", "True", "False True False"]


def test_the_profile_has_no_streams_of_what_is_made_up(script):
    """The memory of a program with all kinds of streams goes down with each that is made up."""
    assert finish(script(1, "ALWAYS", PROGRAM + """
    import pva
    from tensorflow.python.ipu import test_utils

    def profiled(text):
        os.environ["TF_POPLAR_FLAGS"] = text
        config, helper = ipu.config.IPUConfig(), test_utils.ReportHelper()
        config.auto_select_ipus = 1
        helper.set_autoreport_options(config)
        config.configure_ipu_system()
        with tf.Graph().as_default(), tf.Session() as session:
            infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors(
                tf.ones([64])).repeat())
            outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
            table = ipu.embedding_ops.create_host_embedding("table", [20, 64], tf.float32)

            def body(total, x):
                rows = table.lookup(tf.constant([1, 2]))
                return total + x + rows[0], outfeed.enqueue(total * 2.0)

            start = tf.placeholder(tf.float32, [64])
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                total, = ipu.ipu_compiler.compile(
                    lambda x: ipu.loops.repeat(2, body, [x], infeed), [start])
            session.run(tf.global_variables_initializer())
            session.run(infeed.initializer)
            helper.clear_reports()
            with table.register(session):
                session.run(total, {start: np.ones([64])})
            report = pva.openReport(helper.find_report())
        streams = sum(step.type == pva.Program.Type.StreamCopyMid
                      for step in report.compilation.programs)
        return streams, sum(tile.memory.total.excludingGaps for tile in report.compilation.tiles)

    streams, usual = profiled("")
    for category in "parameters", "infeed", "outfeed", "hostembedding":
        fewer, memory = profiled("--synthetic_data_categories=" + category)
        print(fewer < streams, memory < usual)
    none, least = profiled("--use_synthetic_data=true")
    listed = profiled(
        "--synthetic_data_categories='parameters, seed, infeed,outfeed,hostembedding'")
    print(none, listed == (none, least))
    """)) == ["True True"] * 4 + ["0 True"]
