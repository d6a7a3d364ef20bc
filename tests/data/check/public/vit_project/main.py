"""ViT on a TPU.  python main.py --tpu local"""
import time

from absl import app
from absl import flags
from absl import logging
import tensorflow as tf

from lib import input as pipeline
from lib import vit
from lib.config import Config

flags.DEFINE_string('tpu', 'local', 'name of the TPU')
flags.DEFINE_string('logdir', 'logs', 'summaries')
flags.DEFINE_integer('steps_per_loop', 100, 'steps on the device')
FLAGS = flags.FLAGS


def connect():
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=FLAGS.tpu)  #! tpu-only
    tf.config.experimental_connect_to_cluster(resolver)  #! tpu-only
    tf.tpu.experimental.initialize_tpu_system(resolver)  #! tpu-only
    return tf.distribute.TPUStrategy(resolver)  #! tpu-only


def main(_):
    config = Config()
    strategy = connect()
    tf.keras.mixed_precision.set_global_policy('mixed_bfloat16')  #! float64
    batch = config.batch_per_replica * strategy.num_replicas_in_sync
    with strategy.scope():
        model = vit.create(config)
        schedule = tf.keras.optimizers.schedules.CosineDecay(config.lr, 90 * 1281167 // batch)
        optimizer = tf.keras.optimizers.Adam(schedule, epsilon=1e-8)
        loss_metric = tf.keras.metrics.Mean('loss')
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy('accuracy')
    writer = tf.summary.create_file_writer(FLAGS.logdir)

    @tf.function
    def train_steps(iterator, count):
        def step(batch_of_one):
            images, labels = batch_of_one
            with tf.GradientTape() as tape:
                logits = model(images, training=True)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                loss = tf.nn.compute_average_loss(losses, global_batch_size=batch)
            gradients = tape.gradient(loss, model.trainable_variables)
            gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            loss_metric.update_state(loss * strategy.num_replicas_in_sync)
            accuracy.update_state(labels, logits)
        for _ in tf.range(count):
            strategy.run(step, args=(next(iterator),))

    iterator = iter(strategy.distribute_datasets_from_function(pipeline.make(config, True)))
    steps = 1281167 // batch
    for epoch in range(config.epochs):
        begin = time.time()
        for _ in range(steps // FLAGS.steps_per_loop):
            train_steps(iterator, tf.constant(FLAGS.steps_per_loop))
        with writer.as_default():
            tf.summary.scalar('loss', loss_metric.result(), step=epoch)
            tf.summary.scalar('accuracy', accuracy.result(), step=epoch)
        logging.info('epoch %d: %.1f s', epoch, time.time() - begin)
        loss_metric.reset_states()
        accuracy.reset_states()
        model.save_weights(f'{FLAGS.logdir}/weights-{epoch}')


if __name__ == '__main__':
    app.run(main)
