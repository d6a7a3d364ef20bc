from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

from datetime import datetime
import os
import time

import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()

FLAGS = tf.app.flags.FLAGS

tf.app.flags.DEFINE_string('train_dir', '/tmp/cifar10_train', """Directory where to write event logs.""")
tf.app.flags.DEFINE_string('data_dir', '/tmp/cifar10_data', """Path to the CIFAR-10 data directory.""")
tf.app.flags.DEFINE_integer('batch_size', 128, """Number of images to process in a batch.""")
tf.app.flags.DEFINE_integer('max_steps', 100000, """Number of batches to run.""")
tf.app.flags.DEFINE_boolean('log_device_placement', False, """Whether to log device placement.""")

IMAGE_SIZE = 24
NUM_CLASSES = 10
DECAY = 0.9999


def read_cifar10(filename_queue):
  class Record(object):
    pass
  result = Record()
  label_bytes = 1
  image_bytes = 32 * 32 * 3
  reader = tf.FixedLengthRecordReader(record_bytes=label_bytes + image_bytes)
  result.key, value = reader.read(filename_queue)
  record_bytes = tf.decode_raw(value, tf.uint8)
  result.label = tf.cast(tf.strided_slice(record_bytes, [0], [label_bytes]), tf.int32)
  depth_major = tf.reshape(
      tf.strided_slice(record_bytes, [label_bytes], [label_bytes + image_bytes]), [3, 32, 32])
  result.image = tf.transpose(depth_major, [1, 2, 0])
  return result


def distorted_inputs():
  filenames = [os.path.join(FLAGS.data_dir, 'data_batch_%d.bin' % i) for i in range(1, 6)]
  with tf.name_scope('data_augmentation'):
    queue = tf.train.string_input_producer(filenames)
    record = read_cifar10(queue)
    image = tf.cast(record.image, tf.float32)
    image = tf.random_crop(image, [IMAGE_SIZE, IMAGE_SIZE, 3])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=63)
    image = tf.image.per_image_standardization(image)
    image.set_shape([IMAGE_SIZE, IMAGE_SIZE, 3])
    record.label.set_shape([1])
    min_after = 5000
    images, labels = tf.train.shuffle_batch(  #! feed-without-queue
        [image, record.label], batch_size=FLAGS.batch_size, num_threads=16,
        capacity=min_after + 3 * FLAGS.batch_size, min_after_dequeue=min_after)
  return images, tf.reshape(labels, [FLAGS.batch_size])


def _variable_with_weight_decay(name, shape, stddev, wd):
  with tf.device('/cpu:0'):
    var = tf.get_variable(name, shape, initializer=tf.truncated_normal_initializer(stddev=stddev))
  if wd is not None:
    tf.add_to_collection('losses', tf.multiply(tf.nn.l2_loss(var), wd, name='weight_loss'))
  return var


def inference(images):
  with tf.variable_scope('conv1') as scope:
    kernel = _variable_with_weight_decay('weights', [5, 5, 3, 64], 5e-2, None)
    conv = tf.nn.conv2d(images, kernel, [1, 1, 1, 1], padding='SAME')
    biases = tf.get_variable('biases', [64], initializer=tf.constant_initializer(0.0))
    conv1 = tf.nn.relu(tf.nn.bias_add(conv, biases), name=scope.name)
    tf.summary.histogram('conv1/activations', conv1)
  pool1 = tf.nn.max_pool(conv1, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding='SAME')
  norm1 = tf.nn.lrn(pool1, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75, name='norm1')
  with tf.variable_scope('local3'):
    flat = tf.reshape(norm1, [FLAGS.batch_size, -1])
    dim = flat.get_shape()[1].value if hasattr(flat.get_shape()[1], 'value') else flat.get_shape()[1]
    weights = _variable_with_weight_decay('weights', [dim, 384], 0.04, 0.004)
    local3 = tf.nn.relu(tf.matmul(flat, weights))
  with tf.variable_scope('softmax_linear'):
    weights = _variable_with_weight_decay('weights', [384, NUM_CLASSES], 1 / 384.0, None)
    return tf.matmul(local3, weights)


def train():
  with tf.Graph().as_default():
    global_step = tf.train.get_or_create_global_step()
    with tf.device('/cpu:0'):
      images, labels = distorted_inputs()
    logits = inference(images)
    xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    tf.add_to_collection('losses', tf.reduce_mean(xent))
    loss = tf.add_n(tf.get_collection('losses'), name='total_loss')
    lr = tf.train.exponential_decay(0.1, global_step, 350 * 390, 0.1, staircase=True)
    tf.summary.scalar('learning_rate', lr)
    opt = tf.train.GradientDescentOptimizer(lr)
    grads = opt.compute_gradients(loss)
    apply_gradient_op = opt.apply_gradients(grads, global_step=global_step)  #! global-step
    for grad, var in grads:
      if grad is not None:
        tf.summary.histogram(var.op.name + '/gradients', grad)
    ema = tf.train.ExponentialMovingAverage(DECAY, global_step)
    with tf.control_dependencies([apply_gradient_op]):
      train_op = ema.apply(tf.trainable_variables())

    class _LoggerHook(tf.train.SessionRunHook):
      def begin(self):
        self._step = -1
        self._start_time = time.time()

      def before_run(self, run_context):
        self._step += 1
        return tf.train.SessionRunArgs(loss)

      def after_run(self, run_context, run_values):
        if self._step % 10 == 0:
          print('%s: step %d, loss = %.2f' % (datetime.now(), self._step, run_values.results))

    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=FLAGS.train_dir,
        hooks=[tf.train.StopAtStepHook(last_step=FLAGS.max_steps), tf.train.NanTensorHook(loss),
               _LoggerHook()],
        config=tf.ConfigProto(log_device_placement=FLAGS.log_device_placement)) as mon_sess:
      while not mon_sess.should_stop():
        mon_sess.run(train_op)


def main(argv=None):
  train()


if __name__ == '__main__':
  tf.app.run()
