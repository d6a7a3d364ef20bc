import tensorflow as tf
from tensorflow.contrib import slim
from tensorflow.examples.tutorials.mnist import input_data


def lenet(images, num_classes=10, is_training=False, dropout_keep_prob=0.5, scope='LeNet'):
    with tf.variable_scope(scope, 'LeNet', [images]):
        net = slim.conv2d(images, 32, [5, 5], scope='conv1')
        net = slim.max_pool2d(net, [2, 2], 2, scope='pool1')
        net = slim.conv2d(net, 64, [5, 5], scope='conv2')
        net = slim.max_pool2d(net, [2, 2], 2, scope='pool2')
        net = slim.flatten(net)
        net = slim.fully_connected(net, 1024, scope='fc3')
        net = slim.dropout(net, dropout_keep_prob, is_training=is_training, scope='dropout3')
        return slim.fully_connected(net, num_classes, activation_fn=None, scope='fc4')


def arg_scope(weight_decay=0.0):
    with slim.arg_scope([slim.conv2d, slim.fully_connected],
                        weights_regularizer=slim.l2_regularizer(weight_decay),
                        weights_initializer=tf.truncated_normal_initializer(stddev=0.1),
                        activation_fn=tf.nn.relu) as sc:
        return sc


mnist = input_data.read_data_sets("MNIST_data/", one_hot=True)
x = tf.placeholder("float", [64, 28, 28, 1])
y = tf.placeholder("float", [64, 10])
with slim.arg_scope(arg_scope(5e-4)):
    logits = lenet(x, is_training=True)
tf.losses.softmax_cross_entropy(y, logits)
total_loss = tf.losses.get_total_loss()
train_op = slim.learning.create_train_op(total_loss, tf.train.RMSPropOptimizer(1e-3))

sess = tf.Session(config=tf.ConfigProto(gpu_options=tf.GPUOptions(allow_growth=True)))  #! option-without-effect
sess.run(tf.global_variables_initializer())
for step in xrange(2000) if False else range(2000):
    bx, by = mnist.train.next_batch(64)
    l = sess.run(train_op, {x: bx.reshape(-1, 28, 28, 1), y: by})  #! feed-without-queue
    if step % 100 == 0:
        print(step, l)
