"""Mathematical operations (`tensorflow.python.ipu.ops.math_ops`)."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _building, op_util

_DIMENSIONS = ("a_columns", "a_rows_b_columns", "b_rows")


def serialized_matmul(a, b, serialization_factor, serialization_dimension, transpose_a=False,
                      transpose_b=False, name=None):
    """The product of the matrices in the last two dimensions of `a` and `b`, done in slices, and
    so are its gradients.

    serialization_factor     number of slices; it divides the dimension that is cut
    serialization_dimension  after transposing, a is [..., m, k] and b is [..., k, n]. "a_columns"
                             cuts m, "a_rows_b_columns" k (their products are added), "b_rows" n

    Each slice has a product of its own in the program. Raises ValueError for arguments that do
    not fit.
    """
    factor = int(serialization_factor)
    if factor < 1:
        raise ValueError(f"serialization_factor has to be at least 1, but was {factor}.")
    a, b = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
    for letter, tensor in (("a", a), ("b", b)):
        if tensor.shape.rank is None or tensor.shape.rank < 2:
            raise ValueError(f"Expected tensor '{letter}' to have a minimum rank of 2")
    if serialization_dimension not in _DIMENSIONS:
        raise ValueError(f"Invalid serialization_dimension={serialization_dimension}, expected one "
                         f"of: {', '.join(repr(one) for one in _DIMENSIONS)}.")
    _check_sizes(a, b, factor, serialization_dimension, transpose_a, transpose_b)
    cut = {"a_columns": "m", "a_rows_b_columns": "k", "b_rows": "n"}[serialization_dimension]

    @tf.custom_gradient
    def multiply(a, b):
        def gradient(d):
            # Of the gradients' products, the dimension that the forward one cuts is cut.
            with tf.name_scope("Grad"):
                d_a = _cut_product(d, b, factor, {"m": "m", "k": "n", "n": "k"}[cut], False,
                                   not transpose_b, op_util.SetOpAsBwd)
                d_b = _cut_product(a, d, factor, {"m": "k", "k": "m", "n": "n"}[cut],
                                   not transpose_a, False, op_util.SetOpAsWU)
            d_a = _swap(d_a) if transpose_a else d_a
            d_b = _swap(d_b) if transpose_b else d_b
            return _sum_to(d_a, a), _sum_to(d_b, b)

        return _cut_product(a, b, factor, cut, transpose_a, transpose_b, lambda one: one), gradient

    with tf.name_scope(name, "serialized_matmul", [a, b]), _building.marked(
            serialization_factor=factor):
        return multiply(a, b)


def _check_sizes(a, b, factor, dimension, transpose_a, transpose_b):
    m, k = a.shape.as_list()[-2:][::-1 if transpose_a else 1]
    rows, n = b.shape.as_list()[-2:][::-1 if transpose_b else 1]
    if None not in (k, rows) and k != rows:
        raise ValueError(f"Expected the number of columns in 'a' ({k}) to match the number of rows "
                         f"in 'b' ({rows}).")
    word, letter, size = {"a_columns": ("columns", "a", m), "a_rows_b_columns": ("rows", "a", k),
                          "b_rows": ("rows", "b", n)}[dimension]
    if size is None:
        raise ValueError(f"The {word} dimension of '{letter}' must be known to be serialized.")
    if size % factor != 0:
        raise ValueError(f"Expected 'serialization_factor' ({factor}) to divide the {word} "
                         f"dimension of '{letter}' ({size}).")


def _cut_product(a, b, factor, cut, transpose_a, transpose_b, mark):
    """a x b with m, k or n cut in `factor` slices."""
    first = {"m": -1 if transpose_a else -2, "k": -2 if transpose_a else -1}.get(cut)
    second = {"k": -1 if transpose_b else -2, "n": -2 if transpose_b else -1}.get(cut)
    slices_a = [a] * factor if first is None else tf.split(a, factor, first)
    slices_b = [b] * factor if second is None else tf.split(b, factor, second)
    products = []
    for one, other in zip(slices_a, slices_b):
        product = mark(tf.matmul(one, other, transpose_a, transpose_b))
        products.append(products.pop() + product if cut == "k" and products else product)
    return products[0] if cut == "k" else tf.concat(products, -2 if cut == "m" else -1)


def _swap(tensor):
    return tf.linalg.matrix_transpose(tensor)


def _sum_to(gradient, like):
    """Adds up where `like` was broadcast over batches."""
    if gradient.shape.is_fully_defined() and gradient.shape.as_list() == like.shape.as_list():
        return gradient
    shape = tf.shape(like)
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=shape, s1=tf.shape(gradient))
    return tf.reshape(tf.reduce_sum(gradient, axes), shape)


def segment_sum(data, segment_ids, num_segments, name=None):
    """The sums of the slices of `data` along its first dimension that have equal `segment_ids`.

    segment_ids   int32, as many as slices, sorted upwards
    num_segments  the result's first dimension, an int; segments without slices are zero, and
                  slices with ids that are not below it are dropped

    Raises ValueError for shapes that are not known or do not fit, and for a `num_segments` below 1.
    """
    with tf.name_scope(name, "segment_sum", [data, segment_ids]):
        data, segment_ids = tf.convert_to_tensor(data), tf.convert_to_tensor(segment_ids)
        for label, tensor in (("data", data), ("segment_ids", segment_ids)):
            if not tensor.shape.is_fully_defined():
                raise ValueError(f"Shape of {label} must be fully defined, but it is "
                                 f"{tensor.shape}.")
        data.shape.with_rank_at_least(1)
        segment_ids.shape.with_rank(1)
        if data.shape[:1].as_list() != segment_ids.shape.as_list():
            raise ValueError(f"segment_ids (shape {segment_ids.shape}) must have same length as "
                             f"axis 0 of data (shape {data.shape}).")
        if num_segments <= 0:
            raise ValueError(f"num_segments must be greater than 0; got {num_segments}.")
        segment_ids = tf.where_v2(segment_ids < num_segments, segment_ids, -1)
        return tf.math.unsorted_segment_sum(data, segment_ids, num_segments)
