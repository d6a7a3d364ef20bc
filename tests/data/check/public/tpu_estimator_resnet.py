"""ResNet for a Cloud TPU, as of 2018."""
from absl import app
from absl import flags
import tensorflow.compat.v1 as tf

FLAGS = flags.FLAGS
flags.DEFINE_string('model_dir', '/tmp/resnet', 'checkpoints')
flags.DEFINE_integer('train_batch_size', 1024, 'global batch')
flags.DEFINE_bool('use_tpu', True, '')
flags.DEFINE_integer('iterations_per_loop', 100, '')


def batch_norm_relu(inputs, is_training, relu=True):
  inputs = tf.layers.batch_normalization(
      inputs=inputs, axis=3, momentum=0.9, epsilon=1e-5, training=is_training, fused=True)
  return tf.nn.relu(inputs) if relu else inputs


def residual_block(inputs, filters, is_training, strides):
  shortcut = tf.layers.conv2d(inputs, filters, 1, strides, padding='SAME', use_bias=False)
  x = tf.layers.conv2d(inputs, filters, 3, strides, padding='SAME', use_bias=False)
  x = batch_norm_relu(x, is_training)
  x = tf.layers.conv2d(x, filters, 3, 1, padding='SAME', use_bias=False)
  return tf.nn.relu(batch_norm_relu(x, is_training, relu=False) + shortcut)


def resnet_model_fn(features, labels, mode, params):
  is_training = mode == tf.estimator.ModeKeys.TRAIN
  x = tf.layers.conv2d(features, 16, 3, padding='SAME', use_bias=False)
  for filters, strides in ((16, 1), (32, 2), (64, 2)):
    x = residual_block(x, filters, is_training, strides)
  x = tf.reduce_mean(x, [1, 2])
  logits = tf.layers.dense(x, 1000)
  loss = tf.losses.softmax_cross_entropy(tf.one_hot(labels, 1000), logits, label_smoothing=0.1)
  loss += 1e-4 * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()
                           if 'batch_normalization' not in v.name])
  train_op = None
  if is_training:
    global_step = tf.train.get_global_step()
    rate = tf.train.piecewise_constant(global_step, [3000, 6000], [0.1, 0.01, 0.001])
    optimizer = tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True)
    if params['use_tpu']:
      optimizer = tf.tpu.CrossShardOptimizer(optimizer)  #! tpu-only
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
      train_op = optimizer.minimize(loss, global_step)  #! estimator-step

  def metric_fn(labels, logits):
    predictions = tf.argmax(logits, axis=1)
    return {'top_1': tf.metrics.accuracy(labels, predictions)}

  eval_metrics = (metric_fn, [labels, logits]) if mode == tf.estimator.ModeKeys.EVAL else None
  return tf.estimator.tpu.TPUEstimatorSpec(  #! tpu-only
      mode=mode, loss=loss, train_op=train_op, eval_metrics=eval_metrics)


def input_fn(params):
  batch_size = params['batch_size']
  images = tf.zeros([64, 32, 32, 3])
  labels = tf.zeros([64], tf.int32)
  dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().shuffle(64)
  return dataset.batch(batch_size, drop_remainder=True).prefetch(2)


def main(unused_argv):
  config = tf.estimator.tpu.RunConfig(  #! tpu-only
      model_dir=FLAGS.model_dir, save_checkpoints_steps=600,
      tpu_config=tf.estimator.tpu.TPUConfig(iterations_per_loop=FLAGS.iterations_per_loop))  #! tpu-only
  classifier = tf.estimator.tpu.TPUEstimator(  #! tpu-only
      use_tpu=FLAGS.use_tpu, model_fn=resnet_model_fn, config=config,
      train_batch_size=FLAGS.train_batch_size, eval_batch_size=1024)
  classifier.train(input_fn=input_fn, max_steps=10000)
  classifier.evaluate(input_fn=input_fn, steps=10)


if __name__ == '__main__':
  tf.disable_v2_behavior()
  app.run(main)
