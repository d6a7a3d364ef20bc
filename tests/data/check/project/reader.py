import tensorflow as tf


def decode(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(tf.cast(image, tf.float32), [64, 64]), tf.strings.length(path)


def dataset(split, batch):
    files = tf.data.Dataset.list_files(f"{split}/*.jpg")
    files = files.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return finished(files, batch)


def finished(ds, batch):
    return ds.shuffle(100).batch(batch).prefetch(1)  #! drop-remainder
