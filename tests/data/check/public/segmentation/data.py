"""Records -> crops."""
import tensorflow as tf

FEATURES = {
    'image': tf.io.FixedLenFeature([], tf.string),
    'label': tf.io.FixedLenFeature([], tf.string),
}


def parse(record):
    example = tf.io.parse_single_example(record, FEATURES)
    image = tf.io.decode_jpeg(example['image'], channels=3)
    label = tf.io.decode_png(example['label'], channels=1)
    return image, label


def random_crop(image, label, size):
    both = tf.concat([image, label], axis=-1)
    both = tf.image.random_crop(both, [size, size, 4])
    both = tf.image.random_flip_left_right(both)
    return both[..., :3], both[..., 3:]


def center_crop(image, label, size):
    image = tf.image.resize_with_crop_or_pad(image, size, size)
    label = tf.image.resize_with_crop_or_pad(label, size, size)
    return image, label


def to_float(image, label):
    image = tf.cast(image, tf.float32) / 127.5 - 1.0
    return image, tf.cast(tf.squeeze(label, -1), tf.int64)  #! int64


def pipeline(pattern, config, training):
    files = tf.data.Dataset.list_files(pattern, shuffle=training)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=8, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.map(parse, tf.data.AUTOTUNE)
    crop = random_crop if training else center_crop
    ds = ds.map(lambda image, label: crop(image, label, config['crop']), tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(512).repeat()
    ds = ds.map(to_float, tf.data.AUTOTUNE)
    ds = ds.batch(config['batch'], drop_remainder=training)
    return ds.prefetch(tf.data.AUTOTUNE)
