import tensorflow as tf
from tensorflow import keras


class GAN(keras.Model):
    def __init__(self, generator, discriminator):
        super().__init__()
        self.generator, self.discriminator = generator, discriminator

    def compile(self, g_optimizer, d_optimizer, loss_fn):
        super().compile()
        self.g_optimizer, self.d_optimizer, self.loss_fn = g_optimizer, d_optimizer, loss_fn

    def train_step(self, real):  #! own-train-step
        noise = tf.random.normal([tf.shape(real)[0], 64])
        fake = self.generator(noise)
        with tf.GradientTape() as tape:
            guesses = self.discriminator(tf.concat([real, fake], 0))
            loss = self.loss_fn(tf.ones_like(guesses), guesses)
        gradients = tape.gradient(loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply_gradients(zip(gradients, self.discriminator.trainable_weights))
        return {"loss": loss}
