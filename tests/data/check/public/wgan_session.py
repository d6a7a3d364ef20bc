# Wasserstein GAN with gradient penalty on Fashion-MNIST
import argparse
import os
import time

import matplotlib
matplotlib.use('Agg')
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

tf.compat.v1.disable_eager_execution()
tfv1 = tf.compat.v1

parser = argparse.ArgumentParser()
parser.add_argument('--batch_size', type=int, default=64)
parser.add_argument('--z_dim', type=int, default=100)
parser.add_argument('--n_critic', type=int, default=5)
parser.add_argument('--lam', type=float, default=10.)
parser.add_argument('--iters', type=int, default=20000)
parser.add_argument('--out', default='./samples')
args = parser.parse_args()


def lrelu(x, alpha=0.2):
    return tf.maximum(x, alpha * x)


def generator(z, is_training, reuse=False):
    with tfv1.variable_scope('generator', reuse=reuse):
        h = tfv1.layers.dense(z, 7 * 7 * 128, use_bias=False)
        h = tf.reshape(h, [-1, 7, 7, 128])
        h = tfv1.layers.batch_normalization(h, training=is_training)
        h = tf.nn.relu(h)
        h = tfv1.layers.conv2d_transpose(h, 64, 5, strides=2, padding='same', use_bias=False)
        h = tfv1.layers.batch_normalization(h, training=is_training)
        h = tf.nn.relu(h)
        h = tfv1.layers.conv2d_transpose(h, 1, 5, strides=2, padding='same')
        return tf.nn.tanh(h)


def critic(x, reuse=False):
    with tfv1.variable_scope('critic', reuse=reuse):
        for i, filters in enumerate([64, 128, 256]):
            x = lrelu(tfv1.layers.conv2d(x, filters, 5, strides=2, padding='same', name='conv%d' % i))
        return tfv1.layers.dense(tfv1.layers.flatten(x), 1, name='out')


real = tfv1.placeholder(tf.float32, [None, 28, 28, 1], name='real')  #! unknown-shape
z = tfv1.placeholder(tf.float32, [None, args.z_dim], name='z')  #! unknown-shape
is_training = tfv1.placeholder(tf.bool, name='is_training')

fake = generator(z, is_training)
d_real = critic(real)
d_fake = critic(fake, reuse=True)

# losses
g_loss = -tf.reduce_mean(d_fake)
w_dist = tf.reduce_mean(d_real) - tf.reduce_mean(d_fake)
eps = tf.random.uniform([tf.shape(real)[0], 1, 1, 1])
mixed = real + eps * (fake - real)
grad = tf.gradients(critic(mixed, reuse=True), mixed)[0]
slopes = tf.sqrt(tf.reduce_sum(tf.square(grad), axis=[1, 2, 3]) + 1e-12)
penalty = tf.reduce_mean((slopes - 1.) ** 2)
d_loss = -w_dist + args.lam * penalty

g_vars = [v for v in tfv1.trainable_variables() if v.name.startswith('generator')]
d_vars = [v for v in tfv1.trainable_variables() if v.name.startswith('critic')]
global_step = tfv1.train.get_or_create_global_step()
with tf.control_dependencies(tfv1.get_collection(tfv1.GraphKeys.UPDATE_OPS)):
    g_train = tfv1.train.AdamOptimizer(1e-4, beta1=0., beta2=0.9).minimize(
        g_loss, var_list=g_vars, global_step=global_step)  #! global-step
d_train = tfv1.train.AdamOptimizer(1e-4, beta1=0., beta2=0.9).minimize(d_loss, var_list=d_vars)

tfv1.summary.scalar('g_loss', g_loss)
tfv1.summary.scalar('w_dist', w_dist)
tfv1.summary.image('fake', fake, max_outputs=4)
merged = tfv1.summary.merge_all()


def batches(images):
    while True:
        order = np.random.permutation(len(images))
        for i in range(0, len(images) - args.batch_size + 1, args.batch_size):
            yield images[order[i:i + args.batch_size]]


def save_grid(samples, path):
    fig, axes = plt.subplots(8, 8, figsize=(6, 6))
    for ax, sample in zip(axes.flat, samples):
        ax.imshow(sample[:, :, 0], cmap='gray')
        ax.axis('off')
    fig.savefig(path)
    plt.close(fig)


def main():
    if not os.path.isdir(args.out):
        os.makedirs(args.out)
    (x_train, _), _ = tf.keras.datasets.fashion_mnist.load_data()
    x_train = x_train[..., None].astype('float32') / 127.5 - 1.
    data = batches(x_train)
    fixed_z = np.random.normal(size=(64, args.z_dim))

    saver = tfv1.train.Saver(max_to_keep=3)
    config = tfv1.ConfigProto()
    config.gpu_options.allow_growth = True  #! option-without-effect
    with tfv1.Session(config=config) as sess:
        sess.run(tfv1.global_variables_initializer())
        writer = tfv1.summary.FileWriter(os.path.join(args.out, 'logs'), sess.graph)
        start = time.time()
        for it in range(args.iters):
            for _ in range(args.n_critic):
                noise = np.random.normal(size=(args.batch_size, args.z_dim))
                _, wd = sess.run([d_train, w_dist],
                                 feed_dict={real: next(data), z: noise, is_training: True})  #! feed-without-queue
            noise = np.random.normal(size=(args.batch_size, args.z_dim))
            _, gl = sess.run([g_train, g_loss], feed_dict={z: noise, is_training: True})  #! feed-without-queue

            if it % 100 == 0:
                print('iter %d  w_dist %.4f  g_loss %.4f  (%.1fs)' % (it, wd, gl, time.time() - start))
                s = sess.run(merged, {real: x_train[:64], z: fixed_z, is_training: False})
                writer.add_summary(s, it)
            if it % 1000 == 0:
                samples = sess.run(fake, feed_dict={z: fixed_z, is_training: False})
                save_grid(samples, os.path.join(args.out, '%06d.png' % it))
                saver.save(sess, os.path.join(args.out, 'wgan'), global_step=global_step)


if __name__ == '__main__':
    main()
