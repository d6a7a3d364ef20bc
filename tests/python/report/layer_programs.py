"""Programs of a few layers, trained and not, whose compute sets have known names
(tests/data/compute_sets.json says which)."""

import contextlib

import tensorflow.compat.v1 as tf
from program_parts import (
    compiled, convolution, descent, feed, on_ipu, variable)
from tensorflow.compiler.plugin.poplar.ops import gen_popnn_ops
from tensorflow.python import ipu

GRU, LSTM = ipu.rnn_ops.PopnnGRU, ipu.rnn_ops.PopnnLSTM
HALVES = [.5, .5]


def batch_norm(x, **more):
    return tf.layers.batch_normalization(x, fused=True, **more)


def group_norm_of(x, mean, deviation):
    gamma = beta = tf.constant(HALVES)
    return gen_popnn_ops.popnn_group_norm_inference(
        x, gamma, beta, mean, deviation, data_format="NHWC", epsilon=.0015, num_groups=2)


def group_norm_by_statistics(x):
    mean, deviation = gen_popnn_ops.popnn_group_norm_statistics(
        x, data_format="NHWC", epsilon=.0015, num_groups=2)
    return group_norm_of(x, mean, deviation)


def _layers(*functions, x=None):
    """The functions one after the other, on a small image or on x."""
    def network(x):
        with tf.variable_scope("vs", use_resource=True):
            for function in functions:
                x = function(x)
        return x
    return on_ipu(network, feed(1, 4, 4, 2) if x is None else x)


# ---- normalisations ----

def group_norm_then_batch_norm():
    def group_norm(x):
        return group_norm_of(x, tf.constant(HALVES), tf.constant(HALVES))
    return _layers(convolution, group_norm, convolution, batch_norm)


def biased_convolution_normalised():
    return _layers(lambda x: convolution(x, bias=True), batch_norm, tf.nn.relu)


def batch_norms_of_two_shapes():
    return _layers(convolution, batch_norm, lambda x: tf.reshape(x, [1, 2, 8, 2]), convolution,
                   batch_norm)


def batch_norms_of_two_types_placed():
    return _layers(convolution, batch_norm, lambda x: tf.cast(x, tf.float16), convolution,
                   batch_norm)


def batch_norm_of_halves_placed():
    return _layers(batch_norm, x=feed(4, 64, 64, 4, dtype=tf.float16))


def batch_norm_by_moments():
    def network(x):
        beta, gamma = variable("x", [4], tf.float16, 0.0), variable("y", [4], tf.float16)
        mean, variance = tf.nn.moments(x, [0, 1, 2], name="moments")
        return tf.nn.fused_batch_norm(x, gamma, beta, mean, variance, is_training=False)[0]
    return compiled(network, feed(4, 64, 64, 4, dtype=tf.float16))


def group_norms_by_statistics():
    return _layers(*[convolution, group_norm_by_statistics] * 2)


# ---- groups ----

def _grouped_convolution_trained(channels, filters, groups):
    def network(x, labels):
        with tf.variable_scope("vs", use_resource=True):
            b = variable("b", [channels * groups])
            w = variable("w", [3, 3, channels, filters * groups])
            y = tf.nn.conv2d(x + b, w, [1, 1, 1, 1], "VALID", name="cnv")
            y = tf.reduce_mean(y, axis=[1, 2])
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(
                logits=y, labels=labels))
        return loss, descent(loss)
    return compiled(network, feed(1, 12, 12, channels * groups), feed(1, filters * groups))


def sixteen_groups_trained():
    return _grouped_convolution_trained(64, 9, 16)


def four_groups_trained():
    return _grouped_convolution_trained(8, 3, 4)


# ---- several at once ----

def two_convolutions_at_once():
    @ipu.nn_ops.multi_conv
    def convolutions(x, y):
        return convolution(x, name="a"), convolution(y, name="b")

    def network(x, y):
        with tf.variable_scope("vs", use_resource=True):
            a, b = convolutions(x, y)
        return tf.reduce_mean(tf.cast(a, tf.float32)) + tf.reduce_mean(b)
    return compiled(network, feed(2, 32, 32, 4, dtype=tf.float16), feed(2, 32, 32, 4))


# ---- training ----

def _trained(normalise=lambda x: x, names=("conv1", "conv2", "conv3"), shards=None, rates=(),
             bias=False):
    """Steepest descent of the sum of convolutions; `rates`: an input for the rate, or none."""
    def on(k):
        return ipu.scopes.ipu_shard(shards[k]) if shards else contextlib.nullcontext()

    def network(x, rate=.1):
        with tf.variable_scope("vs", use_resource=True):
            for k, name in enumerate(names):
                with on(k):
                    x = normalise(convolution(x, bias=bias, name=name))
        with on(-1):
            loss = tf.reduce_sum(x)
            return loss, descent(loss, rate)
    return on_ipu(network, feed(1, 4, 4, 2), *rates)


def convolutions_trained_placed():
    return _trained()


def convolutions_trained_by_a_fed_rate():
    return _trained(rates=[feed()])


def biases_trained_by_a_fed_rate():
    return _trained(names=(None, None), rates=[feed()], bias=True)


def batch_norms_trained():
    return _trained(lambda x: batch_norm(x, training=True))


def group_norms_trained():
    half = tf.constant(HALVES)
    return _trained(lambda x: gen_popnn_ops.popnn_group_norm_training(
        x, half, half, data_format="NHWC", epsilon=.0015, num_groups=2)[0])


def batch_norms_trained_on_two_shards():
    return _trained(lambda x: batch_norm(x, training=True), shards=(0, 0, 1))


# ---- replicas that share out the state of an optimizer ----

def _shared_out(optimizer):
    data = tf.data.Dataset.from_tensors((tf.constant([1, 2]), tf.zeros([2, 4]))).repeat()
    feeds = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
    tf.add_to_collection("before", feeds.initializer)

    def body(rows, labels):
        x = tf.nn.embedding_lookup(variable("table", [10, 4]), rows)
        loss = tf.losses.mean_squared_error(labels, tf.matmul(x, variable("weight", [4, 4])))
        accumulating = ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2(
            optimizer, 4, replicated_optimizer_state_sharding=True)
        return accumulating.minimize(loss)
    return compiled(lambda: ipu.loops.repeat(8, body, [], feeds))


def adam_shared_out():
    return _shared_out(tf.train.AdamOptimizer(.01))


def momentum_shared_out():
    return _shared_out(tf.train.MomentumOptimizer(.01, .9))


def rms_shared_out():
    return _shared_out(tf.train.RMSPropOptimizer(.01))


# ---- recurrent layers ----

def _two_layers_trained(kind, inputs, units, *times):
    """Layers in one placed graph, each over a sequence of its own."""
    def network(labels, *sequences):
        outputs = []
        for number, x in enumerate(sequences):
            with tf.variable_scope(f"layer{number}", use_resource=True):
                layer = kind(units, weights_initializer=tf.zeros_initializer())
                state = variable("h", [1, units], value=0.0)
                if kind is LSTM:
                    state = tf.nn.rnn_cell.LSTMStateTuple(
                        variable("c", [1, units], value=0.0), state)
                outputs.append(layer(x, state)[0])
        logits = tf.add_n([tf.reduce_mean(one, 0) for one in outputs])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            logits=logits, labels=labels))
        return loss, descent(loss, 0.01)
    return on_ipu(network, feed(1, dtype=tf.int32), *[feed(time, 1, inputs) for time in times])


def gru_layers_trained():
    return _two_layers_trained(GRU, 5, 8, 3, 3)


def gru_layers_of_two_lengths_trained():
    return _two_layers_trained(GRU, 5, 8, 3, 6)


def lstm_layers_trained():
    return _two_layers_trained(LSTM, 3, 4, 3, 3)


def lstm_layers_of_two_lengths_trained():
    return _two_layers_trained(LSTM, 3, 4, 3, 6)
