# An LSTM and dropout of the IPU's own: which of two numbers comes first in a sequence?
import numpy as np
import tensorflow.compat.v1 as tf

from ipu_tensorflow_addons import layers
from tensorflow.python import ipu

tf.disable_v2_behavior()
tf.set_random_seed(1)  # the same first weights in every run

TIME, BATCH, UNITS, STEPS = 6, 32, 16, 300

random = np.random.RandomState(1)
inputs = random.normal(scale=0.1, size=[TIME, BATCH, 1]).astype(np.float32)
labels = np.arange(BATCH) % 2
inputs[1, :, 0] += 2 * labels - 1  # time first: [time, batch, features]


def network(x, y, training):
    with tf.variable_scope("network", reuse=tf.AUTO_REUSE, use_resource=True):
        lstm = layers.PopnnLSTM(UNITS, name="lstm")
        outputs, _ = lstm(x, training=training)
        last = outputs[-1]
        if training:
            last = ipu.rand_ops.dropout(last, rate=0.2)
        logits = tf.layers.dense(last, 2, name="out")
    right = tf.equal(tf.argmax(logits, -1, output_type=tf.int32), y)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    return loss, tf.reduce_mean(tf.cast(right, tf.float32))


def train(x, y):
    def step(_):
        loss, _ = network(x, y, True)
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    return ipu.loops.repeat(STEPS, step, [0.0])


with tf.device("cpu"):
    x = tf.placeholder(tf.float32, inputs.shape)
    y = tf.placeholder(tf.int32, labels.shape)
with ipu.scopes.ipu_scope("/device:IPU:0"):
    training = ipu.ipu_compiler.compile(train, [x, y])
    inference = ipu.ipu_compiler.compile(lambda x, y: network(x, y, False)[1], [x, y])

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
ipu.utils.move_variable_initialization_to_cpu()

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    feed = {x: inputs, y: labels}
    print("accuracy at first above 0.9:", session.run(inference, feed)[0] > 0.9)
    session.run(training, feed)
    print("accuracy after training above 0.9:", session.run(inference, feed)[0] > 0.9)
