"""Results of the right types and shapes, for what is not computed."""

import numpy as np


def array(tensor, sizes=()):
    """Zeros for a tensor of a graph, as a session would return them. sizes: what its unknown
    dimensions are, the first ones first; the others are 1."""
    shape = _known(tensor.shape, sizes)
    if not tensor.dtype.is_numpy_compatible or tensor.dtype.name in ("resource", "variant"):
        return None
    kind = tensor.dtype.as_numpy_dtype
    if kind is object:  # texts
        value = np.full(shape, b"", object)
        return value if shape else b""
    value = np.zeros(shape, kind)
    return value if shape else value[()]


def tensors(outputs, size, structure):
    """Eager zeros for the flat results of a function, or None where one has no zeros. size: of
    unknown dimensions; structure: of the results, which tells what Optionals hold."""
    import tensorflow as tf
    specs = tf.nest.flatten(structure)
    specs = specs if len(specs) == len(outputs) else [None] * len(outputs)
    found = []
    for one, spec in zip(outputs, specs):
        inner = getattr(spec, "_element_spec", None)
        if one.dtype.name == "variant" and inner is not None:
            value = tf.nest.map_structure(lambda part: _zeros(part, size), inner)
            found.append(tf.experimental.Optional.from_value(value)._variant_tensor)
        elif one.dtype.name in ("resource", "variant"):
            return None
        else:
            found.append(_zeros(one, size))
    return found


def _zeros(one, size):
    import tensorflow as tf
    shape = _known(one.shape, [size] * (one.shape.rank or 0))
    return tf.fill(shape, "") if one.dtype == tf.string else tf.zeros(shape, one.dtype)


def _known(shape, sizes):
    if shape.rank is None:
        return []
    sizes = iter(sizes)
    return [next(sizes, 1) if one is None else one for one in shape.as_list()]


# name of Keras' data set -> shapes of (images, labels) for training and for testing, and the types
_DATA = {
    "mnist": ((60000, 28, 28), (60000,), (10000, 28, 28), (10000,), "uint8", "uint8"),
    "fashion_mnist": ((60000, 28, 28), (60000,), (10000, 28, 28), (10000,), "uint8", "uint8"),
    "cifar10": ((50000, 32, 32, 3), (50000, 1), (10000, 32, 32, 3), (10000, 1), "uint8", "uint8"),
    "cifar100": ((50000, 32, 32, 3), (50000, 1), (10000, 32, 32, 3), (10000, 1), "uint8", "int64"),
    "boston_housing": ((404, 13), (404,), (102, 13), (102,), "float64", "float64"),
    "imdb": (25000, 25000), "reuters": (8982, 2246),
}
_WORDS = 200  # of a text


def data_set(name):
    """A load_data() that gives zeros in the shapes of Keras' data set."""
    sizes = _DATA[name]

    def load_data(*_, **__):
        if len(sizes) == 2:
            return tuple((_texts(one), np.zeros([one], np.int64)) for one in sizes)
        images, labels, more_images, more_labels, kind, label_kind = sizes
        return ((np.zeros(images, kind), np.zeros(labels, label_kind)),
                (np.zeros(more_images, kind), np.zeros(more_labels, label_kind)))

    return load_data


def _texts(count):
    found = np.empty([count], object)
    words = [1] * _WORDS
    for i in range(count):
        found[i] = list(words)
    return found
