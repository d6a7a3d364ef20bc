"""Classes and operations of tf.data."""


def dataset_class():
    """The class that the datasets of both APIs are of."""
    from tensorflow.python.data.ops import dataset_ops
    return dataset_ops.DatasetV2


def restart_iterator(iterator, dataset):
    """Starts an eager iterator from the beginning of its dataset."""
    from tensorflow.python.ops import gen_dataset_ops
    gen_dataset_ops.make_iterator(dataset._variant_tensor, iterator._iterator_resource)


def dataset_of_variant(variant, types, shapes):
    """The tf.data.Dataset of a variant tensor, whose elements are tuples."""
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops
    spec = tuple(tf.TensorSpec(shape, dtype) for shape, dtype in zip(shapes, types))
    return dataset_ops._VariantDataset(variant, spec)


def prefetched(dataset):
    """How many elements a dataset prefetches at its end, in eager mode: a number, or None."""
    from tensorflow.python.data.ops import prefetch_op
    dataset = getattr(dataset, "_dataset", dataset)
    if not isinstance(dataset, prefetch_op._PrefetchDataset):
        return None
    return int(dataset._buffer_size)


def without_autotuning(dataset):
    """The dataset without tf.data's tuning thread, unless its options ask for one. When an iterator
    ends or starts again, TensorFlow waits for that thread, up to as long as the iterator has
    existed. Parallel maps get as many threads as the tuning would begin with."""
    import tensorflow as tf
    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def iterator(dataset):
    """An iterator of a dataset, for the graph that is built, and the operations that come before
    its first element."""
    import tensorflow.compat.v1 as tf
    if tf.executing_eagerly_outside_functions():
        return iter(dataset), []
    made = tf.data.make_initializable_iterator(dataset)
    return made, [made.initializer]
