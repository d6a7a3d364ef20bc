"""A step that is fed by names of names, and an input function behind another."""
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [8, 4])
with tf.device("/gpu:0" if tf.test.is_gpu_available() else "/cpu:0"):  #! gpu-only
    loss = tf.reduce_mean(tf.layers.dense(x, 2))
step = tf.train.get_or_create_global_step()
train = tf.train.AdamOptimizer().minimize(loss, step)  #! global-step


def feed_of(batch):
    return {x: batch}


def model_fn(features, labels, mode):
    loss = tf.reduce_mean(tf.layers.dense(features, 2))

    def summarise(value):
        tf.summary.scalar("loss", tf.reduce_mean(value))

    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.tpu.TPUEstimatorSpec(  #! tpu-only
            mode, loss=loss, host_call=(summarise, [loss]))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def input_fn(size):
    data = tf.data.Dataset.from_tensors(tf.zeros([4])).repeat().batch(size, drop_remainder=True)
    return tf.data.make_one_shot_iterator(data).get_next()  #! iterator-input


class Input:
    def __call__(self):
        return tf.data.make_one_shot_iterator(self.data()).get_next()  #! iterator-input

    def data(self):
        return tf.data.Dataset.from_tensors(tf.zeros([8, 4])).repeat()


def optimizer(strategy: tf.distribute.TPUStrategy, make=tf.train.AdamOptimizer):
    if isinstance(strategy, tf.distribute.TPUStrategy):
        make = tf.tpu.CrossShardOptimizer  #! tpu-only
    if strategy.__class__ == tf.distribute.MirroredStrategy:
        raise ValueError("one device, please")
    return make


estimator = tf.estimator.Estimator(model_fn)
estimator.train(lambda: input_fn(8), steps=10)
estimator.evaluate(Input(), steps=10)
image, label = tf.train.shuffle_batch([tf.zeros([4]), 1], 8, 100, 50)  #! feed-without-queue
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    run = session.run
    for number in range(100):
        feed = feed_of(np.full([8, 4], number))
        run([train, loss], feed)  #! feed-without-queue
        session.run(train, **{"feed_dict": feed})  #! feed-without-queue
