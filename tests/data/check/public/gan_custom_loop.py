"""DCGAN with a hand-written loop, absl flags."""
import os
import time

from absl import app, flags, logging
import tensorflow as tf

FLAGS = flags.FLAGS
flags.DEFINE_integer('epochs', 50, 'epochs')
flags.DEFINE_integer('batch', 256, 'batch')
flags.DEFINE_string('out', 'out', 'where images go')


def make_generator():
    return tf.keras.Sequential([
        tf.keras.layers.Dense(7 * 7 * 128, use_bias=False, input_shape=(100,)),
        tf.keras.layers.BatchNormalization(),
        tf.keras.layers.LeakyReLU(),
        tf.keras.layers.Reshape((7, 7, 128)),
        tf.keras.layers.Conv2DTranspose(64, 5, 2, 'same', use_bias=False),
        tf.keras.layers.BatchNormalization(),
        tf.keras.layers.LeakyReLU(),
        tf.keras.layers.Conv2DTranspose(1, 5, 2, 'same', activation='tanh')])


def make_discriminator():
    return tf.keras.Sequential([
        tf.keras.layers.Conv2D(64, 5, 2, 'same', input_shape=[28, 28, 1]),
        tf.keras.layers.LeakyReLU(), tf.keras.layers.Dropout(0.3),
        tf.keras.layers.Conv2D(128, 5, 2, 'same'),
        tf.keras.layers.LeakyReLU(), tf.keras.layers.Dropout(0.3),
        tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])


bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)


class Trainer:
    def __init__(self):
        self.generator, self.discriminator = make_generator(), make_discriminator()
        self.opt_g, self.opt_d = tf.optimizers.Adam(1e-4), tf.optimizers.Adam(1e-4)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)

    @tf.function
    def train(self, images):
        noise = tf.random.normal([FLAGS.batch, 100])
        with tf.GradientTape() as tape_g, tf.GradientTape() as tape_d:
            fake = self.generator(noise, training=True)
            real_out = self.discriminator(images, training=True)
            fake_out = self.discriminator(fake, training=True)
            loss_g = bce(tf.ones_like(fake_out), fake_out)
            loss_d = bce(tf.ones_like(real_out), real_out) + bce(tf.zeros_like(fake_out), fake_out)
        grads = tape_g.gradient(loss_g, self.generator.trainable_variables)
        self.opt_g.apply_gradients(zip(grads, self.generator.trainable_variables))
        grads = tape_d.gradient(loss_d, self.discriminator.trainable_variables)
        self.opt_d.apply_gradients(zip(grads, self.discriminator.trainable_variables))
        if tf.reduce_any(tf.math.is_nan(loss_d)):
            tf.print('the discriminator is lost', loss_d)
        return loss_g, loss_d


def save_images(generator, epoch, seed):
    images = generator(seed, training=False) * 127.5 + 127.5
    for i, image in enumerate(tf.cast(images, tf.uint8)):
        tf.io.write_file(os.path.join(FLAGS.out, '%d_%d.png' % (epoch, i)), tf.io.encode_png(image))


def main(_):
    (images, _), _ = tf.keras.datasets.mnist.load_data()
    images = (images.reshape(-1, 28, 28, 1).astype('float32') - 127.5) / 127.5
    dataset = tf.data.Dataset.from_tensor_slices(images).shuffle(60000).batch(FLAGS.batch)  #! drop-remainder
    trainer = Trainer()
    seed = tf.random.normal([16, 100])
    for epoch in range(FLAGS.epochs):
        begin = time.time()
        for batch in dataset:
            g, d = trainer.train(batch)  #! feed-without-queue
            trainer.step.assign_add(1)
        save_images(trainer.generator, epoch, seed)
        logging.info('epoch %d: %.3f %.3f, %.1f s', epoch, g, d, time.time() - begin)


if __name__ == '__main__':
    app.run(main)
