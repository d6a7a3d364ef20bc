"""Datasets for the IPU (`tensorflow.python.ipu.data.ops.dataset_ops`)."""


class BufferDataset:
    """BufferDataset(dataset, size) is the dataset with `size` elements made ahead: a whole buffer
    or none, so the elements that are left over at the end are dropped, as in the original."""

    def __new__(cls, input_dataset, buffer_size):
        """Returns a tf.data.Dataset. Raises ValueError for a size below 1."""
        import tensorflow as tf
        if buffer_size < 1:
            raise ValueError(f"buffer_size must be 1 or more, but it is {buffer_size}.")
        count = tf.get_static_value(tf.data.experimental.cardinality(input_dataset))  # or None
        if count is not None and count >= 0:
            input_dataset = input_dataset.take(count // buffer_size * buffer_size)
        elif count != tf.data.INFINITE_CARDINALITY:
            is_tuple = isinstance(input_dataset.element_spec, tuple)
            input_dataset = input_dataset.window(buffer_size, drop_remainder=True).flat_map(
                lambda *parts: tf.data.Dataset.zip(parts if is_tuple else parts[0]))
        return input_dataset.prefetch(buffer_size)
