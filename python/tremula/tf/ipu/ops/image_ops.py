"""Operations on images (`tensorflow.python.ipu.ops.image_ops`)."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _building


def normalise_image(image, channel_offsets, channel_scales, scale=1, name=None):
    """(image * scale - channel_offsets) * channel_scales, with a fourth channel of zeros.

    image           uint8, float16 or float32, channels last: 3, or 4 whose last is kept as it is
    channel_offsets, channel_scales   [3]
    scale           a number

    Returns image's shape with 4 channels; float16 for a uint8 image, else image's type. Computed
    in float32. Raises TypeError for other types, InvalidArgumentError for other shapes.
    """
    image = tf.convert_to_tensor(image)
    if image.dtype not in (tf.float16, tf.float32, tf.uint8):
        raise TypeError("The input `image` to `normalise_image` must be either"
                        " float16, float32 or uint8.")
    dtype = tf.float16 if image.dtype == tf.uint8 else image.dtype
    channels = None if image.shape.rank in (None, 0) else image.shape.as_list()[-1]
    if channels not in (3, 4):
        raise tf.errors.InvalidArgumentError(None, None, (
            f"The image has {channels} channels, expected 3." if channels is not None else
            f"The image's channels must be known, but its shape is {image.shape}."))

    def vector(name, value):
        value = tf.convert_to_tensor(value)
        if not value.shape.is_compatible_with([3]):
            raise tf.errors.InvalidArgumentError(None, None, (
                f"The {name} must be the same size as the number of image channels 3, but was "
                f"{value.shape}."))
        return tf.cast(tf.cast(value, dtype), tf.float32)

    with tf.name_scope(name, "NormaliseImage", [image]), _building.one_op():
        wide = tf.cast(image[..., :3], tf.float32)
        result = ((wide * float(scale) - vector("channel_offsets", channel_offsets))
                  * vector("channel_scales", channel_scales))
        result = tf.cast(result, dtype)
        last = tf.zeros_like(result[..., :1]) if channels == 3 else tf.cast(image[..., 3:], dtype)
        return tf.concat([result, last], -1)
