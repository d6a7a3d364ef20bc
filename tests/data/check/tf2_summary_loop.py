import tensorflow as tf

writer = tf.summary.create_file_writer("logs")
v = tf.Variable(1.0)


@tf.function
def train(steps):
    for i in tf.range(steps):
        v.assign_sub(0.1 * v)
        with writer.as_default():
            tf.summary.scalar("v", v, step=tf.cast(i, tf.int64))  #! summary-inside int64


def report(step):
    with writer.as_default():
        tf.summary.scalar("outside", v, step=step)


train(10)
report(10)
