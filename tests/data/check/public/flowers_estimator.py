"""Flower photos with a pre-made CNN and tf.estimator (TensorFlow 1.13 style).

    python flowers_estimator.py --data_dir=/data/flowers --batch_size=64
"""
from __future__ import absolute_import, division, print_function

import os

import tensorflow as tf

tf.app.flags.DEFINE_string('data_dir', '/tmp/flowers', 'TFRecord shards')
tf.app.flags.DEFINE_string('model_dir', '/tmp/flowers_model', 'checkpoints')
tf.app.flags.DEFINE_integer('batch_size', 64, 'images a batch')
tf.app.flags.DEFINE_integer('max_steps', 20000, 'steps')
FLAGS = tf.app.flags.FLAGS

IMAGE_SIZE = 160
NUM_CLASSES = 5


def _parse(record):
  features = tf.parse_single_example(record, {
      'image/encoded': tf.FixedLenFeature((), tf.string),
      'image/class/label': tf.FixedLenFeature((), tf.int64),
      'image/height': tf.FixedLenFeature((), tf.int64),
  })
  image = tf.image.decode_jpeg(features['image/encoded'], channels=3)
  image = tf.image.resize_images(image, [IMAGE_SIZE, IMAGE_SIZE])
  image = tf.subtract(image / 127.5, 1.0)
  label = features['image/class/label']
  return {'image': image}, label  #! int64


def make_input_fn(pattern, is_training):
  def input_fn():
    files = tf.data.Dataset.list_files(os.path.join(FLAGS.data_dir, pattern))
    dataset = files.apply(tf.data.experimental.parallel_interleave(
        tf.data.TFRecordDataset, cycle_length=4))
    if is_training:
      dataset = dataset.shuffle(2000).repeat()
    dataset = dataset.map(_parse, num_parallel_calls=8)
    dataset = dataset.batch(FLAGS.batch_size)  #! drop-remainder
    return dataset.prefetch(2)
  return input_fn


def conv_net(images, is_training):
  net = images
  for i, filters in enumerate([32, 64, 128]):
    net = tf.layers.conv2d(net, filters, 3, padding='same', name='conv%d' % i, use_bias=False)
    net = tf.layers.batch_normalization(net, training=is_training)
    net = tf.nn.relu(net)
    net = tf.layers.max_pooling2d(net, 2, 2)
  net = tf.reduce_mean(net, [1, 2])
  net = tf.layers.dropout(net, 0.4, training=is_training)
  return tf.layers.dense(net, NUM_CLASSES)


def model_fn(features, labels, mode, params):
  is_training = mode == tf.estimator.ModeKeys.TRAIN
  logits = conv_net(features['image'], is_training)
  predictions = {
      'classes': tf.argmax(logits, axis=1),
      'probabilities': tf.nn.softmax(logits),
  }
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(mode, predictions=predictions)

  loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
  tf.summary.image('images', features['image'], max_outputs=4)  #! summary-inside
  if is_training:
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(params['learning_rate'], step, 5000, 0.5)
    optimizer = tf.train.MomentumOptimizer(rate, 0.9)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
      train_op = optimizer.minimize(loss, global_step=step)  #! estimator-step
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
  accuracy = tf.metrics.accuracy(labels, predictions['classes'])
  return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={'accuracy': accuracy})


def main(_):
  tf.logging.set_verbosity(tf.logging.INFO)
  config = tf.estimator.RunConfig(FLAGS.model_dir, save_checkpoints_steps=500)
  estimator = tf.estimator.Estimator(model_fn, config=config, params={'learning_rate': 0.01})
  train_spec = tf.estimator.TrainSpec(make_input_fn('train-*', True), max_steps=FLAGS.max_steps)
  eval_spec = tf.estimator.EvalSpec(make_input_fn('validation-*', False), steps=50)
  tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)


if __name__ == '__main__':
  tf.app.run()
