"""tf.contrib in the TensorFlow 1 runner."""

import importlib.util
import re

import pytest

needs_slim = pytest.mark.skipif(importlib.util.find_spec("tf_slim") is None,
                                reason="the package tf_slim is not installed")


def test_imports_of_old_programs(prints):
    out = prints("""
        import tensorflow as tf
        from tensorflow.contrib import data, framework, ipu, layers, losses, metrics, opt, rnn
        from tensorflow.contrib import training, util
        from tensorflow.contrib.compiler import jit, xla
        from tensorflow.contrib.compiler.xla import compile
        from tensorflow.contrib.framework import nest, list_variables, load_variable, sort
        from tensorflow.contrib.layers.python.layers import initializers, regularizers
        from tensorflow.contrib.opt.python.training.weight_decay_optimizers import AdamWOptimizer
        from tensorflow.contrib.rnn import BasicLSTMCell, GRUCell, LSTMCell, MultiRNNCell
        from tensorflow.contrib.rnn import LSTMStateTuple, static_rnn
        from tensorflow.contrib.rnn.python.ops import rnn_cell
        from tensorflow.contrib.training import HParams
        from tensorflow.python.layers.core import Dense
        import tensorflow.python.ipu as real
        assert ipu is real and compile is xla.compile and jit.experimental_jit_scope
        assert initializers.xavier_initializer is layers.xavier_initializer
        assert rnn_cell.LSTMBlockCell is rnn.LSTMBlockCell
        assert AdamWOptimizer is tf.contrib.opt.AdamWOptimizer and Dense is tf.layers.Dense
        proto = util.make_tensor_proto([1, 2])
        print(util.make_ndarray(proto).tolist(), framework.is_tensor(tf.constant(1)))
    """)
    assert out == ["[1, 2] True"]


@pytest.mark.parametrize("statement, words", [
    ("from tensorflow.contrib.seq2seq import BasicDecoder",
     "seq2seq.BasicDecoder .*tensorflow_addons"),
    ("import tensorflow as tf; tf.contrib.seq2seq.dynamic_decode",
     "seq2seq.dynamic_decode .*tensorflow_addons"),
    ("import tensorflow.contrib.tpu", "tensorflow.contrib.tpu .*TPUs"),
    ("from tensorflow.contrib.rnn import Foo", "tensorflow.contrib.rnn.Foo is a part"),
    ("from tensorflow.contrib.opt.python.training import foo", "tensorflow.contrib.opt.foo is"),
    ("import tensorflow as tf; tf.contrib.data.foo", "tf.contrib.data.foo is a part"),
])
def test_what_is_not_there_is_named(run, statement, words):
    result = run(statement)
    assert result.returncode == 1
    assert re.search(words, result.stderr.splitlines()[-1]), result.stderr


def test_lstm_cells(prints):
    """Equal weights make equal values; the normalized cell against NumPy."""
    out = prints("""
        import numpy as np
        import tensorflow as tf
        from tensorflow.contrib import rnn
        np.random.seed(1)
        tf.set_random_seed(1)
        x = np.random.normal(size=[2, 3]).astype(np.float32)
        c, h = np.random.normal(size=[2, 2, 4]).astype(np.float32)
        one = tf.constant(.3)
        state = rnn.LSTMStateTuple(tf.constant(c), tf.constant(h))
        results = []
        for make in (rnn.BasicLSTMCell, rnn.LSTMBlockCell, rnn.LSTMCell):
            with tf.variable_scope(make.__name__, initializer=tf.constant_initializer(.3)):
                results.append(make(4)(tf.constant(x), state))
        with tf.variable_scope("normed", initializer=tf.constant_initializer(.3)):
            cell = rnn.LayerNormBasicLSTMCell(4, norm_gain=.5, norm_shift=.25)
            normed = cell(tf.constant(x), state)
        with tf.variable_scope("stack"):
            outputs, fw, bw = rnn.stack_bidirectional_dynamic_rnn(
                [rnn.GRUCell(4), rnn.GRUBlockCellV2(2)], [rnn.GRUCell(4), rnn.GRUCell(2)],
                tf.ones([2, 5, 3]), dtype=tf.float32)
            static, _, _ = rnn.stack_bidirectional_rnn(
                [rnn.GRUCell(4)], [rnn.GRUCell(4)], [tf.ones([2, 3])] * 5, dtype=tf.float32,
                scope="static")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            first, *others = session.run(results)
            for other in others:
                np.testing.assert_allclose(first[0], other[0], rtol=1e-6)
            print(session.run(outputs).shape, len(fw), static[0].shape)
            got = session.run(normed)

        def norm(x):
            return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12) \\
                * .5 + .25
        kernel = np.full([7, 16], .3)
        rows = np.concatenate([x, h], 1) @ kernel
        # A constant row is normalized to the shift, whatever rounding leaves of its variance.
        print(np.isfinite(got[0]).all(), sorted(v.op.name.rpartition("/")[2] for v in
                                                cell.trainable_weights).count("gamma"))
        with tf.variable_scope("random"):
            cell = rnn.LayerNormBasicLSTMCell(4, norm_gain=.5, norm_shift=.25)
            normed = cell(tf.constant(x), state)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            kernel = [v for v in cell.trainable_weights if v.op.name.endswith("kernel")][0]
            kernel, (output, new) = session.run([kernel, normed])
        sigmoid = lambda x: 1 / (1 + np.exp(-x))
        i, j, f, o = map(norm, np.split(np.concatenate([x, h], 1) @ kernel, 4, 1))
        wanted_c = norm(c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j))
        np.testing.assert_allclose(new.c, wanted_c, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(output, np.tanh(wanted_c) * sigmoid(o), rtol=1e-3, atol=1e-5)
        print("done")
    """)
    assert out == ["(2, 5, 4) 2 (2, 8)", "True 5", "done"]


def test_optimizers(prints):
    """One or two steps against NumPy, with both kinds of variables."""
    out = prints("""
        import numpy as np
        import tensorflow as tf
        from tensorflow.contrib import opt
        w0, g = np.array([1., -2., 3.], np.float32), np.array([.5, .25, -1.], np.float32)

        def train(optimizer, resource, steps=2, loss=lambda w: tf.reduce_sum(w * g), **kwargs):
            with tf.Graph().as_default():
                w = tf.get_variable("w", initializer=w0, use_resource=resource)
                op = optimizer().minimize(loss(w), **kwargs)
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    for _ in range(steps):
                        session.run(op)
                    return session.run(w)

        def adam(w, steps=2, decay=0., nesterov=False):
            m = v = 0
            for t in range(1, steps + 1):
                w = w - decay * w
                m, v = .9 * m + .1 * g, .999 * v + .001 * g * g
                lr = .1 * np.sqrt(1 - .999 ** t) / (1 - .9 ** t)
                w = w - lr * ((.9 * m + .1 * g) if nesterov else m) / (np.sqrt(v) + 1e-8)
            return w

        def momentum(w, decay, steps=2):
            m = 0
            for _ in range(steps):
                w = w - decay * w
                m = .9 * m + g
                w = w - .1 * m
            return w

        def lars(w, steps=2):
            m = 0
            for _ in range(steps):
                norm, slope = np.linalg.norm(w), np.linalg.norm(g)
                rate = .1 * .001 * norm / (slope + .01 * norm)
                m = .9 * m + g + .01 * w
                w = w - rate * m
            return w

        near = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5)
        for resource in (False, True):
            near(train(lambda: opt.AdamWOptimizer(.01, .1), resource), adam(w0, decay=.01))
            near(train(lambda: opt.MomentumWOptimizer(.01, .1, .9), resource), momentum(w0, .01))
            extended = opt.extend_with_decoupled_weight_decay(tf.train.AdamOptimizer)
            near(train(lambda: extended(.02, learning_rate=.1), resource), adam(w0, decay=.02))
            near(train(lambda: opt.NadamOptimizer(.1), resource), adam(w0, nesterov=True))
            near(train(lambda: opt.LARSOptimizer(.1, weight_decay=.01), resource), lars(w0))
            near(train(lambda: opt.LazyAdamOptimizer(.1), resource), adam(w0))
            row = lambda w: tf.reduce_sum(tf.gather(w, [1, 1]) * (g[1] / 2))
            lazy = train(lambda: opt.LazyAdamOptimizer(.1), resource, loss=row)
            near(lazy, np.where([False, True, False], adam(w0), w0))
        print("done")
    """)
    assert out == ["done"]


def test_framework_checkpoints(prints):
    out = prints("""
        import numpy as np
        import tensorflow as tf
        from tensorflow.contrib import framework
        with tf.variable_scope("net"):
            w = tf.get_variable("w", initializer=[1., 2.])
            b = tf.get_variable("b", initializer=[3.], trainable=False)
        step = framework.get_or_create_global_step()
        print([v.op.name for v in framework.get_variables("net", suffix="w")],
              [v.op.name for v in framework.get_trainable_variables()],
              [v.op.name for v in framework.get_variables_to_restore(exclude=["net/b"])])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            path = tf.train.Saver().save(session, "./model")
            print(framework.list_variables(path), framework.load_variable(path, "net/w"))
            session.run([w.assign([0., 0.]), b.assign([0.])])
            framework.assign_from_checkpoint_fn(path, [w])(session)
            print(session.run([w, b]))
            op, feed = framework.assign_from_checkpoint(path, {"net/b": b})
            session.run(op, feed)
            print(session.run(b))
            try:
                framework.assign_from_checkpoint(path, {"other": b})
            except ValueError as error:
                print(error)
            print(framework.assign_from_checkpoint_fn(path, {"other": b}, True))
            framework.assign_from_values_fn({"net/b": np.array([7.])})(session)
            print(session.run(b))
    """)
    assert out == [
        "['net/w'] ['net/w'] ['net/w', 'global_step']",
        "[('global_step', []), ('net/b', [1]), ('net/w', [2])] [1. 2.]",
        "[array([1., 2.], dtype=float32), array([0.], dtype=float32)]", "[3.]",
        "Checkpoint is missing variable [other]", "None", "[7.]"]


def test_data_metrics_and_hparams(prints):
    out = prints("""
        import tensorflow as tf
        from tensorflow.contrib import data, losses, metrics
        from tensorflow.contrib.training import HParams
        one = tf.data.Dataset.range(5).apply(data.map_and_batch(lambda x: x * 2, 2,
                                                               drop_remainder=True))
        two = tf.data.Dataset.range(5).apply(data.batch_and_drop_remainder(2)).apply(
            data.unbatch()).apply(data.shuffle_and_repeat(1, 2))
        ends = [tf.data.make_one_shot_iterator(d).get_next() for d in (one, two)]
        right = metrics.accuracy(tf.constant([1, 2]), tf.constant([1, 3]))
        stream, update = metrics.streaming_accuracy(tf.constant([1, 2]), tf.constant([1, 3]))
        loss = losses.softmax_cross_entropy(tf.constant([[0., 0.]]), tf.constant([[0., 1.]]))
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            batch, number = session.run(ends)
            print(batch.tolist(), int(number), *map(float, session.run([right, update])),
                  round(float(session.run(loss)), 4))
        hparams = HParams(rate=.5, layers=[1, 2], name="a", on=False, n=3)
        hparams.parse("rate=1,layers=[4,5],on=true,name=b")
        print(hparams, "rate" in hparams, hparams.get("none", 1), hparams.to_json(sort_keys=True))
        for text in ("n=1.5", "foo=1", "layers=3"):
            try:
                hparams.parse(text)
            except ValueError as error:
                print("ValueError")
    """)
    assert out[0] == "[0, 2] 0 0.5 0.5 0.6931"
    assert out[1] == ("HParams(layers=[4, 5], n=3, name='b', on=True, rate=1.0) True 1 "
                      '{"layers": [4, 5], "n": 3, "name": "b", "on": true, "rate": 1.0}')
    assert out[2:] == ["ValueError"] * 3


@needs_slim
def test_layers_and_slim(prints):
    """A network of contrib layers in an arg_scope, trained on the IPU."""
    out = prints("""
        import numpy as np
        import tensorflow as tf
        from tensorflow.contrib import layers, slim
        from tensorflow.contrib.framework import arg_scope
        from tensorflow.python import ipu

        tf.set_random_seed(1)

        def network(x, y):
            with arg_scope([layers.conv2d], normalizer_fn=layers.batch_norm,
                           normalizer_params={"is_training": True, "updates_collections": None},
                           weights_regularizer=layers.l2_regularizer(1e-3)):
                x = layers.conv2d(x, 4, 3, scope="conv")
            x = slim.max_pool2d(x, 2)
            x = layers.fully_connected(layers.flatten(x), 2, activation_fn=None, scope="out")
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=y, logits=x)) + layers.apply_regularization(
                    layers.l2_regularizer(1e-3), tf.trainable_variables())
            return loss, tf.train.GradientDescentOptimizer(.1).minimize(loss)

        x = tf.placeholder(tf.float32, [8, 6, 6, 1])
        y = tf.placeholder(tf.int32, [8])
        config = ipu.utils.create_ipu_config()
        ipu.utils.configure_ipu_system(ipu.utils.auto_select_ipus(config, 1))
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            train = ipu.ipu_compiler.compile(network, [x, y])
        ipu.utils.move_variable_initialization_to_cpu()
        print(sorted(v.op.name for v in tf.trainable_variables()))
        images = np.random.RandomState(1).normal(size=[8, 6, 6, 1]).astype(np.float32)
        labels = np.arange(8) % 2
        images[labels == 1] += 1
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run(train, {x: images, y: labels})[0] for _ in range(30)]
        print(losses[-1] < .5 * losses[0])
    """)
    assert out == ["['conv/BatchNorm/beta', 'conv/weights', 'out/biases', 'out/weights']", "True"]


def test_without_slim_it_says_so(prints):
    out = prints("""
        import sys
        sys.modules["tf_slim"] = None
        import tensorflow as tf
        for code in ("tf.contrib.layers.fully_connected", "tf.contrib.framework.arg_scope",
                     "__import__('tensorflow.contrib.slim')"):
            try:
                eval(code)
            except ImportError as error:
                print(error)
    """)
    assert len(out) == 3 and all(line.endswith("pip install tf_slim") for line in out)


def test_seq2seq(prints):
    """The loss of sequences against its sum by numpy."""
    out = prints("""
        import numpy as np
        import tensorflow as tf
        from tensorflow.contrib import seq2seq
        random = np.random.RandomState(3)
        logits = random.normal(size=[2, 3, 4]).astype(np.float32)
        targets, weights = random.randint(4, size=[2, 3]), np.array([[1, .5, 0], [2, 0, 0]], "f")
        picked = np.take_along_axis(logits, targets[..., None], 2)[..., 0]
        losses = (np.log(np.exp(logits).sum(2)) - picked) * weights
        args = [tf.constant(one) for one in (logits, targets, weights)]
        found = [seq2seq.sequence_loss(*args),
                 seq2seq.sequence_loss(*args, average_across_batch=False),
                 seq2seq.sequence_loss(*args, average_across_timesteps=False),
                 seq2seq.sequence_loss(*args, False, False),
                 seq2seq.sequence_loss(*args, False, False, True, True)]
        batch = losses.sum(0) / np.array([3, .5, 1])
        wanted = [losses.sum() / 3.5, losses.sum(1) / [1.5, 2], batch, losses, losses.sum() / 3]
        with tf.Session() as session:
            for one, other in zip(session.run(found), wanted):
                np.testing.assert_allclose(one, other, rtol=1e-5)
            tiled = seq2seq.tile_batch((tf.constant([1, 2]), tf.constant([[3]])), 2)
            print(session.run(tiled)[0].tolist())
        try:
            seq2seq.sequence_loss(args[0], args[1], args[2], sum_over_batch=True)
        except ValueError as error:
            print(error)
    """)
    assert out == ["[1, 1, 2, 2]", "average_across_batch and sum_over_batch cannot be set to True "
                   "at same time."]
