"""Numbers to and from eight bits."""

import tensorflow as tf

from tremula.tf.ipu.ops import f8_ops
from tremula.tf.keras.layers import ipu_layer


@ipu_layer.registered
class ConvertToF8(ipu_layer.IPULayer):
    """f8_ops.convert_to_f8() as a layer."""

    def __init__(self, **kwargs):
        kwargs["autocast"] = False  # the metadata are integers
        super().__init__(**kwargs)

    def call(self, data, metadata, **kwargs):
        """[codes, metadata] of the numbers `data`, of any shape: codes uint8 of that shape,
        metadata, a scalar uint8, as f8_ops.create_metadata() gives it. Raises TypeError for what
        cannot be made a tensor."""
        quarter = f8_ops.convert_to_f8(data, metadata, name=self.name)
        return [quarter.data, tf.cast(tf.convert_to_tensor(quarter.metadata), tf.uint8)]


@ipu_layer.registered
class ConvertFromF8(ipu_layer.IPULayer):
    """f8_ops.convert_from_f8() as a layer; the numbers are of the layer's `dtype`, float16 by
    default."""

    def __init__(self, dtype=tf.half, **kwargs):
        kwargs["autocast"] = False
        super().__init__(dtype=dtype, **kwargs)

    def call(self, inputs, **kwargs):
        """The numbers of [codes, metadata], uint8 of any shape and a scalar: a tensor of the shape
        of codes in the layer's type. Raises TypeError or ValueError for what is no such pair."""
        return f8_ops.convert_from_f8(tuple(inputs), tf.as_dtype(self.dtype), name=self.name)
