"""Operations on images (`tensorflow.python.ipu.ops.image_ops`)."""

import tensorflow.compat.v1 as tf


def normalise_image(image, channel_offsets, channel_scales, scale=1, name=None):
    """(image * scale - channel_offsets) * channel_scales, with a fourth channel of zeros.

    image           uint8, float16 or float32, channels last: 3, or 4 whose last is kept as it is
    channel_offsets, channel_scales   [3]
    scale           a number

    Returns image's shape with 4 channels; float16 for a uint8 image, else image's type. Computed
    in float32. Raises TypeError for other types, ValueError for other shapes.
    """
    image = tf.convert_to_tensor(image)
    if image.dtype not in (tf.float16, tf.float32, tf.uint8):
        raise TypeError("The input `image` to `normalise_image` must be either"
                        " float16, float32 or uint8.")
    dtype = tf.float16 if image.dtype == tf.uint8 else image.dtype
    channels = None if image.shape.rank in (None, 0) else image.shape.as_list()[-1]
    if channels not in (3, 4):
        raise ValueError("The input `image` to `normalise_image` must have 3 or 4 channels in its "
                         f"last dimension, but its shape is {image.shape}.")

    def vector(value):
        value = tf.convert_to_tensor(value)
        return tf.cast(tf.cast(value, dtype), tf.float32)

    with tf.name_scope(name, "NormaliseImage", [image]):
        wide = tf.cast(image[..., :3], tf.float32)
        result = (wide * float(scale) - vector(channel_offsets)) * vector(channel_scales)
        result = tf.cast(result, dtype)
        last = tf.zeros_like(result[..., :1]) if channels == 3 else tf.cast(image[..., 3:], dtype)
        return tf.concat([result, last], -1)
