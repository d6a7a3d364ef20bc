import tensorflow as tf

slim = tf.contrib.slim
flags = tf.flags
flags.DEFINE_string('train_dir', 'logs/', '')
flags.DEFINE_integer('batch_size', 32, '')
FLAGS = flags.FLAGS


def inception_arg_scope(weight_decay=4e-5):
    with slim.arg_scope([slim.conv2d, slim.fully_connected],
                        weights_regularizer=slim.l2_regularizer(weight_decay)):
        with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm,
                            normalizer_params={'decay': 0.9997, 'epsilon': 0.001}) as scope:
            return scope


def block(net, a, b, c, scope):
    with tf.variable_scope(scope):
        x = slim.conv2d(net, a, [1, 1])
        y = slim.conv2d(slim.conv2d(net, b, [1, 1]), b, [3, 3])
        z = slim.conv2d(slim.max_pool2d(net, [3, 3], stride=1, padding='SAME'), c, [1, 1])
        return tf.concat([x, y, z], 3)


def network(images, num_classes, is_training):
    with slim.arg_scope(inception_arg_scope()):
        with slim.arg_scope([slim.batch_norm, slim.dropout], is_training=is_training):
            net = slim.conv2d(images, 32, [3, 3], stride=2)
            net = block(net, 32, 48, 16, 'mixed_a')
            net = slim.max_pool2d(net, [3, 3], stride=2)
            net = block(net, 64, 96, 32, 'mixed_b')
            net = tf.reduce_mean(net, [1, 2])
            net = slim.dropout(net, 0.8)
            return slim.fully_connected(net, num_classes, activation_fn=None)


def read():
    filenames = tf.gfile.Glob('data/*.tfrecord')
    queue = tf.train.string_input_producer(filenames)
    _, serialized = tf.TFRecordReader().read(queue)
    parsed = tf.parse_single_example(serialized, {
        'image': tf.FixedLenFeature([], tf.string), 'label': tf.FixedLenFeature([], tf.int64)})
    image = tf.cast(tf.reshape(tf.decode_raw(parsed['image'], tf.uint8), [96, 96, 3]), tf.float32)
    label = tf.cast(parsed['label'], tf.int32)
    return tf.train.shuffle_batch([image / 255.0, label], FLAGS.batch_size, 5000, 1000, num_threads=4)


def main(_):
    with tf.Graph().as_default():
        with tf.device('/cpu:0'):
            images, labels = read()
        with tf.device('/gpu:0'):  #! gpu-only
            logits = network(images, 10, True)
            slim.losses.softmax_cross_entropy(logits, slim.one_hot_encoding(labels, 10))
            total = slim.losses.get_total_loss()
        tf.summary.scalar('total', total)
        optimizer = tf.train.RMSPropOptimizer(0.01, decay=0.9, epsilon=1.0)
        train_op = slim.learning.create_train_op(total, optimizer)
        slim.learning.train(train_op, FLAGS.train_dir, number_of_steps=10000,
                            save_summaries_secs=60)


if __name__ == '__main__':
    tf.app.run()
