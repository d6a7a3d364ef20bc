import time

import numpy as np
import tensorflow as tf


class CVAE(tf.keras.Model):
  """Convolutional variational autoencoder."""

  def __init__(self, latent_dim):
    super().__init__()
    self.latent_dim = latent_dim
    self.encoder = tf.keras.Sequential([
        tf.keras.layers.InputLayer((28, 28, 1)),
        tf.keras.layers.Conv2D(32, 3, strides=(2, 2), activation='relu'),
        tf.keras.layers.Conv2D(64, 3, strides=(2, 2), activation='relu'),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(latent_dim + latent_dim),
    ])
    self.decoder = tf.keras.Sequential([
        tf.keras.layers.InputLayer((latent_dim,)),
        tf.keras.layers.Dense(7 * 7 * 32, activation=tf.nn.relu),
        tf.keras.layers.Reshape((7, 7, 32)),
        tf.keras.layers.Conv2DTranspose(64, 3, strides=2, padding='same', activation='relu'),
        tf.keras.layers.Conv2DTranspose(1, 3, strides=2, padding='same'),
    ])

  @tf.function
  def sample(self, eps=None):
    if eps is None:
      eps = tf.random.normal(shape=(100, self.latent_dim))
    return self.decode(eps, apply_sigmoid=True)

  def encode(self, x):
    mean, logvar = tf.split(self.encoder(x), num_or_size_splits=2, axis=1)
    return mean, logvar

  def reparameterize(self, mean, logvar):
    eps = tf.random.normal(shape=mean.shape)
    return eps * tf.exp(logvar * .5) + mean

  def decode(self, z, apply_sigmoid=False):
    logits = self.decoder(z)
    return tf.sigmoid(logits) if apply_sigmoid else logits


def log_normal_pdf(sample, mean, logvar, raxis=1):
  log2pi = tf.math.log(2. * np.pi)
  return tf.reduce_sum(
      -.5 * ((sample - mean) ** 2. * tf.exp(-logvar) + logvar + log2pi), axis=raxis)


def compute_loss(model, x):
  mean, logvar = model.encode(x)
  z = model.reparameterize(mean, logvar)
  x_logit = model.decode(z)
  cross_ent = tf.nn.sigmoid_cross_entropy_with_logits(logits=x_logit, labels=x)
  logpx_z = -tf.reduce_sum(cross_ent, axis=[1, 2, 3])
  logpz = log_normal_pdf(z, 0., 0.)
  logqz_x = log_normal_pdf(z, mean, logvar)
  return -tf.reduce_mean(logpx_z + logpz - logqz_x)


optimizer = tf.keras.optimizers.Adam(1e-4)


@tf.function
def train_step(model, x, optimizer):
  with tf.GradientTape() as tape:
    loss = compute_loss(model, x)
  gradients = tape.gradient(loss, model.trainable_variables)
  optimizer.apply_gradients(zip(gradients, model.trainable_variables))


(train_images, _), (test_images, _) = tf.keras.datasets.mnist.load_data()


def preprocess_images(images):
  images = images.reshape((images.shape[0], 28, 28, 1)) / 255.
  return np.where(images > .5, 1.0, 0.0).astype('float32')


train_dataset = tf.data.Dataset.from_tensor_slices(preprocess_images(train_images)).shuffle(60000).batch(32)  #! drop-remainder
test_dataset = tf.data.Dataset.from_tensor_slices(preprocess_images(test_images)).shuffle(10000).batch(32)  #! drop-remainder

model = CVAE(2)
for epoch in range(1, 11):
  start_time = time.time()
  for train_x in train_dataset:
    train_step(model, train_x, optimizer)  #! feed-without-queue
  end_time = time.time()
  loss = tf.keras.metrics.Mean()
  for test_x in test_dataset:
    loss(compute_loss(model, test_x))  #! feed-without-queue
  elbo = -loss.result()
  print('Epoch: {}, Test set ELBO: {}, time elapse: {}'.format(epoch, elbo, end_time - start_time))
