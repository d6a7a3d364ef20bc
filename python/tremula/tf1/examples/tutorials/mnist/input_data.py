"""`tensorflow.examples.tutorials.mnist.input_data`: the images of MNIST as TensorFlow 1's tutorials
read them."""

import collections
import gzip
import os
import struct

import numpy
import tensorflow.compat.v1 as tf

Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])

_CLASSES = 10
_TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
_TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def read_data_sets(train_dir, fake_data=False, one_hot=False, dtype=tf.float32, reshape=True,
                   validation_size=5000, seed=None, source_url=None):
    """Datasets of the four files of MNIST in the folder `train_dir`, with or without ".gz".

    Where the folder has none, they are those of `tf.keras.datasets.mnist`, which fetches them
    once. With `fake_data` nothing is read, and every image is white. `source_url` makes no
    difference.

    Raises ValueError for a file that is none of MNIST's and for a `validation_size` that is not
    within the number of training images.
    """
    del source_url
    if fake_data:
        one = DataSet([], [], fake_data=True, one_hot=one_hot, dtype=dtype, seed=seed)
        return Datasets(one, one, one)
    if any(_path(train_dir, name) for name in _TRAIN + _TEST):
        train, test = ([_read(train_dir, name) for name in names] for names in (_TRAIN, _TEST))
    else:
        train, test = tf.keras.datasets.mnist.load_data()
    (images, labels), (test_images, test_labels) = train, test
    if one_hot:
        labels, test_labels = _one_hot(labels), _one_hot(test_labels)
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"validation_size must be from 0 to {len(images)}, but it is "
                         f"{validation_size}.")
    parts = ((images[validation_size:], labels[validation_size:]),
             (images[:validation_size], labels[:validation_size]), (test_images, test_labels))
    return Datasets(*(DataSet(some.reshape(*some.shape[:3], 1), their, dtype=dtype,
                              reshape=reshape, seed=seed) for some, their in parts))


class DataSet:
    """Images, uint8 [count, rows, columns, 1], with their labels, in batches.

    With `reshape` images are [count, rows * columns]; with `dtype` float32 they are from 0 to 1.
    """

    def __init__(self, images, labels, fake_data=False, one_hot=False, dtype=tf.float32,
                 reshape=True, seed=None):
        """Raises TypeError for a `dtype` other than uint8 and float32, ValueError for as many
        labels as there are not images."""
        dtype = tf.as_dtype(dtype).base_dtype
        if dtype not in (tf.uint8, tf.float32):
            raise TypeError(f"Images are uint8 or float32, not {dtype.name}.")
        self._random = numpy.random.RandomState(seed)
        self._fake, self._one_hot = fake_data, one_hot
        self.num_examples = 10000 if fake_data else len(images)
        if not fake_data:
            if len(images) != len(labels):
                raise ValueError(f"There are {len(images)} images, but {len(labels)} labels.")
            if reshape:
                images = images.reshape(len(images), -1)
            if dtype == tf.float32:
                images = images.astype(numpy.float32) / numpy.float32(255)
        self.images, self.labels = images, labels
        self.epochs_completed = 0
        self._order = None
        self._next = 0

    def next_batch(self, batch_size, fake_data=False, shuffle=True):
        """(images, labels) of the next `batch_size` examples, at most as many as there are.

        Past the last example it goes on with the first of a new epoch, in another order where
        `shuffle` is set.
        """
        if fake_data or self._fake:
            label = [1] + [0] * (_CLASSES - 1) if self._one_hot else 0
            return [[1] * 784] * batch_size, [label] * batch_size
        if self._order is None:
            self._order = self._new_order(shuffle)
        chosen = self._order[self._next:self._next + batch_size]
        self._next += batch_size
        if self._next > self.num_examples:
            self.epochs_completed += 1
            self._order = self._new_order(shuffle)
            self._next -= self.num_examples
            chosen = numpy.concatenate([chosen, self._order[:self._next]])
        return self.images[chosen], self.labels[chosen]

    def _new_order(self, shuffle):
        order = numpy.arange(self.num_examples)
        if shuffle:
            self._random.shuffle(order)
        return order


def _path(folder, name):
    """The path of the file `name` of MNIST, or None."""
    for path in (os.path.join(folder, name + ".gz"), os.path.join(folder, name)):
        if os.path.exists(path):
            return path
    return None


def _read(folder, name):
    """The array of a file: a header of big-endian numbers, then bytes."""
    path = _path(folder, name)
    if path is None:
        raise ValueError(f"{folder} has a part of MNIST only: {name}.gz is missing.")
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        content = file.read()
    dimensions = 3 if "images" in name else 1
    size = 4 * (1 + dimensions)
    if len(content) < size:
        raise ValueError(f"{path} is too short for a file of MNIST.")
    magic, *shape = struct.unpack(f">{1 + dimensions}I", content[:size])
    if magic != 0x800 + dimensions or numpy.prod(shape, dtype=object) != len(content) - size:
        raise ValueError(f"{path} is no file of MNIST: its header does not fit.")
    return numpy.frombuffer(content, numpy.uint8, offset=size).reshape(shape)


def _one_hot(labels):
    return numpy.eye(_CLASSES)[labels]
