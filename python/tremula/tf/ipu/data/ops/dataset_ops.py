"""Datasets for the IPU (`tensorflow.python.ipu.data.ops.dataset_ops`)."""


class BufferDataset:
    """BufferDataset(dataset, size) is the dataset with `size` elements made ahead."""

    def __new__(cls, input_dataset, buffer_size):
        """Returns a tf.data.Dataset. Raises ValueError for a size below 1."""
        if buffer_size < 1:
            raise ValueError(f"buffer_size must be 1 or more, but it is {buffer_size}.")
        return input_dataset.prefetch(buffer_size)
