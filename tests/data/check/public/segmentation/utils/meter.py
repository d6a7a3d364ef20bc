import tensorflow as tf


class AverageMeter:
    def __init__(self):
        self.total, self.count = 0., 0

    def add(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def mean(self):
        return self.total / max(self.count, 1)


class IoU:
    def __init__(self, classes):
        self.matrix = tf.Variable(tf.zeros([classes, classes]), trainable=False)

    def update(self, labels, predictions):
        valid = labels < self.matrix.shape[0]
        weights = tf.cast(valid, tf.float32)
        labels = tf.where(valid, labels, tf.zeros_like(labels))
        self.matrix.assign_add(tf.math.confusion_matrix(
            tf.reshape(labels, [-1]), tf.reshape(predictions, [-1]), self.matrix.shape[0],
            weights=tf.reshape(weights, [-1]), dtype=tf.float32))

    def result(self):
        m = self.matrix.numpy()
        diagonal = m.diagonal()
        return float((diagonal / (m.sum(0) + m.sum(1) - diagonal + 1e-9)).mean())

    def reset(self):
        self.matrix.assign(tf.zeros_like(self.matrix))
