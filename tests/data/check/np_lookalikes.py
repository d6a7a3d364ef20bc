"""Names that look like TensorFlow's and are not."""
import argparse
import random
import sqlite3

import numpy as np


class Queue:
    def batch(self, size):
        return [size]

    def run(self, work, feed_dict=None):
        return work, feed_dict

    def numpy(self):
        return np.zeros([3], np.float64)


class tf:  # noqa: N801
    float64 = "no"

    @staticmethod
    def unique(x):
        return set(x)


def train_step(model, data):
    print(model, data)
    return random.random()


queue = Queue()
for i in range(3):
    queue.run(train_step, feed_dict={"x": i})
    queue.batch(4)
    queue.numpy()
table = sqlite3.connect(":memory:").execute("select 1").fetchall()
wide = np.zeros([2], dtype=np.float64).astype(np.int64)
print(tf.unique([1, 1]), tf.float64, np.unique(wide), np.where(wide > 0), argparse.SUPPRESS)
