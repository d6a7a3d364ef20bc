import csv

import tensorflow as tf


def read(path):
    with open(path, newline='') as file:
        for row in csv.DictReader(file):
            yield row['text'], int(row['label'])


def dataset(path, batch, training):
    ds = tf.data.Dataset.from_generator(
        lambda: read(path), output_types=(tf.string, tf.int64), output_shapes=((), ()))  #! int64
    ds = ds.cache()
    if training:
        ds = ds.shuffle(5000)
    ds = ds.batch(batch)  #! drop-remainder
    return ds.prefetch(tf.data.AUTOTUNE)
