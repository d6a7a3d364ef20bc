import numpy as np
import tensorflow as tf
from absl import app, flags, logging

flags.DEFINE_string("tpu", None, "Name of the TPU.")
flags.DEFINE_integer("seq_len", 128, "Tokens per example.")
flags.DEFINE_integer("global_batch", 32, "")
flags.DEFINE_integer("steps", 100, "")
FLAGS = flags.FLAGS
VOCAB, WIDTH, HEADS, LAYERS = 1000, 64, 4, 2


class EncoderBlock(tf.keras.layers.Layer):
  def __init__(self, width, heads, **kw):
    super().__init__(**kw)
    self.attention = tf.keras.layers.MultiHeadAttention(heads, width // heads)
    self.ffn = tf.keras.Sequential([
        tf.keras.layers.Dense(4 * width, activation=tf.nn.gelu), tf.keras.layers.Dense(width)])
    self.norm1 = tf.keras.layers.LayerNormalization(epsilon=1e-6)
    self.norm2 = tf.keras.layers.LayerNormalization(epsilon=1e-6)
    self.drop = tf.keras.layers.Dropout(0.1)

  def call(self, x, training=False):
    x = self.norm1(x + self.drop(self.attention(x, x), training=training))
    return self.norm2(x + self.drop(self.ffn(x), training=training))


class MaskedLM(tf.keras.Model):
  def __init__(self):
    super().__init__()
    self.tokens = tf.keras.layers.Embedding(VOCAB, WIDTH)
    self.positions = tf.keras.layers.Embedding(512, WIDTH)
    self.blocks = [EncoderBlock(WIDTH, HEADS, name=f"block_{i}") for i in range(LAYERS)]
    self.head = tf.keras.layers.Dense(VOCAB)

  def call(self, ids, training=False):
    x = self.tokens(ids) + self.positions(tf.range(tf.shape(ids)[1]))
    for block in self.blocks:
      x = block(x, training=training)
    return self.head(x)


def get_strategy():
  try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=FLAGS.tpu)
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)
  except (ValueError, KeyError):
    logging.info("no TPU, using the default strategy")
    return tf.distribute.get_strategy()


def dataset(context):
  batch = context.get_per_replica_batch_size(FLAGS.global_batch) if context else FLAGS.global_batch
  rng = np.random.RandomState(0)
  ids = rng.randint(1, VOCAB, size=(1024, FLAGS.seq_len)).astype(np.int32)
  ds = tf.data.Dataset.from_tensor_slices(ids).repeat().shuffle(1024)

  def mask(x):
    hide = tf.random.uniform(tf.shape(x)) < 0.15
    return tf.where(hide, 0, x), x, tf.cast(hide, tf.float32)
  return ds.map(mask).batch(batch, drop_remainder=True).prefetch(2)


def main(_):
  strategy = get_strategy()
  with strategy.scope():
    model = MaskedLM()
    opt = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.PolynomialDecay(1e-3, FLAGS.steps))
    xent = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

  def replica_step(inputs):
    ids, targets, weights = inputs
    with tf.GradientTape() as tape:
      logits = model(ids, training=True)
      loss = tf.reduce_sum(xent(targets, logits) * weights) / (tf.reduce_sum(weights) + 1e-5)
    grads = tape.gradient(loss, model.trainable_variables)
    grads, _ = tf.clip_by_global_norm(grads, 1.0)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss

  @tf.function
  def train_step(iterator):
    per_replica = strategy.run(replica_step, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.MEAN, per_replica, axis=None)

  iterator = iter(strategy.distribute_datasets_from_function(dataset))
  for step in range(FLAGS.steps):
    loss = train_step(iterator)
    if step % 20 == 0:
      logging.info("step %d loss %.4f", step, loss.numpy())


if __name__ == "__main__":
  app.run(main)
