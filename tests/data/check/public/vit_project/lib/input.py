import tensorflow as tf


def _parse(proto, size, training):
    spec = {'image/encoded': tf.io.FixedLenFeature([], tf.string),
            'image/class/label': tf.io.FixedLenFeature([], tf.int64, -1)}
    item = tf.io.parse_single_example(proto, spec)
    image = tf.io.decode_jpeg(item['image/encoded'], 3)
    if training:
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.shape(image), tf.zeros([1, 0, 4]), area_range=(0.08, 1.0),
            use_image_if_no_bounding_boxes=True)
        image = tf.slice(image, begin, extent)
        image = tf.image.random_flip_left_right(tf.image.resize(image, [size, size]))
    else:
        image = tf.image.resize(tf.image.central_crop(image, 0.875), [size, size])
    image.set_shape([size, size, 3])
    label = tf.cast(item['image/class/label'], tf.int32) - 1
    return tf.cast(image, tf.bfloat16) / 127.5 - 1.0, label  #! float64


def mixup(images, labels, classes, alpha=0.2):
    rate = tf.random.uniform([])
    one_hot = tf.one_hot(labels, classes)
    return (rate * images + (1 - rate) * images[::-1],
            rate * one_hot + (1 - rate) * one_hot[::-1])


def make(config, training):
    def dataset_fn(context):
        batch = context.get_per_replica_batch_size(
            config.batch_per_replica * context.num_input_pipelines)
        ds = tf.data.Dataset.list_files(config.train, shuffle=training)
        ds = ds.shard(context.num_input_pipelines, context.input_pipeline_id)
        ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=16, deterministic=False)
        ds = ds.map(lambda p: _parse(p, config.image, training), tf.data.AUTOTUNE)
        if training:
            ds = ds.shuffle(10000).repeat()
        return ds.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    return dataset_fn
