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


def prefetch_depth(dataset):
    """How many elements an eager dataset holds ready as its last step; None if it does not."""
    from tensorflow.python.data.ops import dataset_ops, prefetch_op
    if isinstance(dataset, dataset_ops.DatasetV1Adapter):
        dataset = dataset._dataset
    is_prefetching = isinstance(dataset, prefetch_op._PrefetchDataset)
    return int(dataset._buffer_size) if is_prefetching else None
