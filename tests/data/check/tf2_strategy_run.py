import tensorflow as tf
from tensorflow.python import ipu

strategy = ipu.ipu_strategy.IPUStrategy()
total = tf.Variable(0.0)
calls = 0


def metric(x):
    return tf.math.bincount(tf.cast(x, tf.int32), minlength=4)


@tf.function(jit_compile=True)
def step(x):
    global calls
    calls += 1  #! python-side-effect
    rows = tf.where(x > 0)  #! value-dependent-shape
    y = tf.unique(x)[0]  #! value-dependent-shape
    total.assign_add(tf.reduce_sum(x))
    return rows, y, metric(x), x.numpy()  #! python-side-effect


@tf.function(experimental_compile=True)  #! older-api
def with_signature(x):
    return x


@tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])  #! unknown-shape
def open_ended(x):
    return tf.py_function(lambda a: a, [x], tf.float32)  #! host-call


with strategy.scope():
    ds = tf.data.Dataset.from_tensor_slices([1.0, 2.0]).batch(1, drop_remainder=True)
    for batch in ds:
        strategy.run(step, args=(batch,))
strategy.experimental_run_v2(step, args=(tf.zeros([1]),))  #! older-api
