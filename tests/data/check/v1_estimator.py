import functools

import numpy as np
import tensorflow.compat.v1 as tf

FLAGS = tf.app.flags.FLAGS
tf.app.flags.DEFINE_integer("batch_size", 32, "Items in a batch.")


def make_input(is_training, batch_size):
    data = np.random.rand(500, 20).astype("float32"), np.random.randint(0, 2, 500)  #! int64
    dataset = tf.data.Dataset.from_tensor_slices(data)
    if is_training:
        dataset = dataset.shuffle(500).repeat()
    return dataset.batch(batch_size, drop_remainder=is_training)


def iterator_input():
    dataset = make_input(False, FLAGS.batch_size)
    features, labels = dataset.make_one_shot_iterator().get_next()  #! iterator-input
    return features, labels


def network(features, training):
    net = tf.layers.dense(features, 64, activation=tf.nn.relu)
    net = tf.layers.batch_normalization(net, training=training)
    return tf.layers.dense(net, 2)


def model_fn(features, labels, mode, params):
    training = mode == tf.estimator.ModeKeys.TRAIN
    logits = network(features, training)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"p": tf.nn.softmax(logits)})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    tf.logging.info("built the model")
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, -1))}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = tf.train.AdamOptimizer(params["rate"])
    update = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(update):
        train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())  #! estimator-step
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main(_):
    estimator = tf.estimator.Estimator(model_fn=model_fn, model_dir="/tmp/model",
                                       params={"rate": 1e-3})
    train = functools.partial(make_input, True, FLAGS.batch_size)
    for _ in range(3):
        estimator.train(input_fn=train, steps=100)
        print(estimator.evaluate(input_fn=iterator_input))


if __name__ == "__main__":
    tf.app.run()
