import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


class Trainer:
    def __init__(self, files, batch_size=64):
        ds = tf.data.TFRecordDataset(files)
        ds = ds.map(self._parse, num_parallel_calls=4).shuffle(1000).repeat()
        ds = ds.batch(batch_size)  #! drop-remainder
        self.iterator = tf.data.make_one_shot_iterator(ds)
        self.build(*self.iterator.get_next())

    @staticmethod
    def _parse(record):
        features = tf.parse_single_example(record, {
            "image": tf.FixedLenFeature([], tf.string),
            "label": tf.FixedLenFeature([], tf.int64)})
        image = tf.cast(tf.image.decode_jpeg(features["image"], 3), tf.float32)
        return tf.image.resize(image, [32, 32]), tf.cast(features["label"], tf.int32)

    def build(self, images, labels):
        net = tf.layers.conv2d(images, 16, 3, activation=tf.nn.relu)
        net = tf.layers.flatten(net)
        logits = tf.layers.dense(net, 10)
        self.loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.1, step, 1000, 0.9)
        self.train_op = tf.train.MomentumOptimizer(rate, 0.9).minimize(self.loss, global_step=step)  #! global-step
        tf.summary.scalar("loss", self.loss)

    def run(self, steps):
        hooks = [tf.train.StopAtStepHook(last_step=steps)]
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(self.train_op)


if __name__ == "__main__":
    Trainer(["train.tfrecord"]).run(1000)
