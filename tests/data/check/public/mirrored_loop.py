import os
import tensorflow as tf

gpus = tf.config.list_physical_devices('GPU')
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)  #! option-without-effect

strategy = tf.distribute.MirroredStrategy()  #! gpu-only
GLOBAL_BATCH = 64 * strategy.num_replicas_in_sync

x = tf.random.normal([2048, 16])
y = tf.cast(tf.reduce_sum(x, 1) > 0, tf.int32)
train_ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(2048).batch(GLOBAL_BATCH)  #! drop-remainder
train_dist = strategy.experimental_distribute_dataset(train_ds)

with strategy.scope():
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE)
    train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name='train_accuracy')
    inputs = tf.keras.Input(shape=(16,))
    h = tf.keras.layers.Dense(32, activation='relu')(inputs)
    h = tf.keras.layers.Dense(32, activation='relu')(h)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(2)(h))
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)


def compute_loss(labels, predictions):
    per_example_loss = loss_object(labels, predictions)
    return tf.nn.compute_average_loss(per_example_loss, global_batch_size=GLOBAL_BATCH)


def train_step(inputs):
    images, labels = inputs
    with tf.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = compute_loss(labels, predictions)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    train_accuracy.update_state(labels, predictions)
    return loss


@tf.function
def distributed_train_step(dataset_inputs):
    per_replica_losses = strategy.run(train_step, args=(dataset_inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


EPOCHS = 10
writer = tf.summary.create_file_writer('logs/mirrored')
for epoch in range(EPOCHS):
    total_loss, num_batches = 0.0, 0
    for batch in train_dist:
        total_loss += distributed_train_step(batch)  #! feed-without-queue
        num_batches += 1
    with writer.as_default():
        tf.summary.scalar('loss', total_loss / num_batches, step=epoch)
    print(f'Epoch {epoch + 1}, Loss: {total_loss / num_batches}, Accuracy: {train_accuracy.result() * 100}')
    train_accuracy.reset_states() if hasattr(train_accuracy, 'reset_states') else train_accuracy.reset_state()
