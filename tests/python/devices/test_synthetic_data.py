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
        print("get the last value from an outfeed queue" in str(error))
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
