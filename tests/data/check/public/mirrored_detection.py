"""An anchor-free detector trained on several GPUs."""
import argparse
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument('--records', default='coco/*.record')
parser.add_argument('--batch', type=int, default=16)
parser.add_argument('--steps', type=int, default=90000)
args = parser.parse_args()

STRIDE = 8
SIZE = 512
CLASSES = 80

strategy = tf.distribute.MirroredStrategy(  #! gpu-only
    cross_device_ops=tf.distribute.NcclAllReduce())


def heatmap(boxes, classes):
    """Class map and box map of a picture."""
    centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    cells = tf.cast(centers * (SIZE // STRIDE), tf.int64)
    where = tf.concat([cells, classes[:, None]], axis=1)
    ones = tf.ones_like(classes, tf.float32)
    map_ = tf.scatter_nd(where, ones, tf.constant([SIZE // STRIDE, SIZE // STRIDE, CLASSES], tf.int64))
    return tf.minimum(map_, 1.0)


def parse(record):
    example = tf.io.parse_single_example(record, {
        'image': tf.io.FixedLenFeature([], tf.string),
        'boxes': tf.io.VarLenFeature(tf.float32),
        'classes': tf.io.VarLenFeature(tf.int64)})
    boxes = tf.reshape(tf.sparse.to_dense(example['boxes']), [-1, 4])
    classes = tf.sparse.to_dense(example['classes'])
    image = tf.image.resize(tf.io.decode_jpeg(example['image'], channels=3), [SIZE, SIZE]) / 255.
    return image, heatmap(boxes, classes)


def network():
    base = tf.keras.applications.ResNet50(include_top=False, weights=None, input_shape=(SIZE, SIZE, 3))
    x = base.output
    for filters in (256, 128):
        x = tf.keras.layers.Conv2DTranspose(filters, 4, 2, 'same', use_bias=False)(x)
        x = tf.keras.layers.BatchNormalization()(x)
        x = tf.keras.layers.ReLU()(x)
    x = tf.keras.layers.Conv2D(CLASSES, 1, bias_initializer=tf.keras.initializers.Constant(-2.19))(x)
    return tf.keras.Model(base.input, x)


def focal_loss(truth, logits):
    p = tf.clip_by_value(tf.sigmoid(logits), 1e-4, 1 - 1e-4)
    positive = tf.cast(tf.equal(truth, 1.0), tf.float32)
    loss = -positive * tf.math.log(p) * (1 - p) ** 2 \
        - (1 - positive) * (1 - truth) ** 4 * tf.math.log(1 - p) * p ** 2
    count = tf.maximum(tf.reduce_sum(positive), 1.0)
    return tf.reduce_sum(loss, axis=[1, 2, 3]) / count


def decode(logits, k=100):
    peaks = tf.nn.max_pool2d(logits, 3, 1, 'SAME')
    kept = tf.where(tf.equal(peaks, logits), tf.sigmoid(logits), 0.0)
    scores, places = tf.math.top_k(tf.reshape(kept, [tf.shape(kept)[0], -1]), k)
    return scores, places


with strategy.scope():
    model = network()
    rate = tf.keras.optimizers.schedules.PiecewiseConstantDecay([60000, 80000], [0.01, 0.001, 0.0001])
    optimizer = tf.keras.optimizers.SGD(rate, momentum=0.9)
    seen = tf.keras.metrics.Mean()


def train_step(images, maps):
    with tf.GradientTape() as tape:
        per_item = focal_loss(maps, model(images, training=True))
        loss = tf.nn.compute_average_loss(per_item, global_batch_size=args.batch)
    grads = tape.gradient(loss, model.trainable_variables)
    grads = [tf.clip_by_norm(g, 10.0) for g in grads]
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    seen.update_state(loss)
    return loss


@tf.function
def distributed_step(batch):
    losses = strategy.run(train_step, args=batch)
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


ds = tf.data.Dataset.list_files(args.records).repeat()
ds = ds.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.shuffle(500).batch(args.batch, drop_remainder=True).prefetch(2)
for number, batch in enumerate(strategy.experimental_distribute_dataset(ds)):
    loss = distributed_step(batch)  #! feed-without-queue
    if number % 100 == 0:
        print(number, float(loss))
    if number == args.steps:
        break
scores, places = decode(model.predict(ds.take(1)))
