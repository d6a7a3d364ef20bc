"""Quarter-precision floats, emulated (`tensorflow.python.ipu.ops.f8_ops`).

F143 has 4 bits of exponent (bias 8) and 3 of mantissa, F152 5 (bias 16) and 2. Neither has
infinities or a negative zero: that code, 0x80, is NaN. Metadata, a uint8, says the format in its
highest bit (1: F143) and in its lower six, as a signed number, the scale: numbers are codes' values
times 2 to the scale. Conversions round to nearest, ties to even; what is too large becomes the
largest number.
"""

import enum

import numpy as np
import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _building, _small_floats
from tremula.tf.runtime.base import checks

_NAN = 0x80


class Format(enum.IntEnum):
    """The two formats."""
    F143 = 0
    F152 = 1

    __str__ = enum.Enum.__str__  # the name in every Python


def create_metadata(fmt, scale=0):
    """The metadata of a Format and a scale from -32 to 31: an int. Raises ValueError for others."""
    if fmt not in tuple(Format):
        raise ValueError(f"There is no format {fmt!r}; there are Format.F143 and Format.F152.")
    checks.integer("scale", scale, -32, 31)
    return (128 if fmt == Format.F143 else 0) | (scale & 0x3f)


class QuarterTensor:
    """Codes, uint8 of any shape, with their metadata. Raises TypeError for other codes."""

    def __init__(self, data, metadata):
        self.data = _codes(data)
        self.metadata = metadata

    @property
    def shape(self):
        """The codes' shape."""
        return self.data.shape

    @property
    def dtype(self):
        """The codes' type."""
        return self.data.dtype

    def numpy(self):
        """[codes, metadata] as arrays, in eager mode."""
        metadata = self.metadata
        return [self.data.numpy(),
                metadata.numpy() if hasattr(metadata, "numpy") else np.uint8(metadata)]

    def assign(self, new_values, **kwargs):
        """Sets codes that are a variable, and the metadata, to those of `new_values`, a
        QuarterTensor or [codes, metadata]. Returns what the variable's assign() returns. Raises
        TypeError for codes that are no variable."""
        data, metadata = new_values
        if not hasattr(self.data, "assign"):
            raise TypeError("Only a QuarterTensor whose data is a variable can be assigned to.")
        self.metadata = metadata
        return self.data.assign(_codes(data), **kwargs)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]

    def __iter__(self):
        return iter([self.data, self.metadata])


def _codes(data):
    if isinstance(data, np.ndarray):
        data = tf.Variable(data, use_resource=True)
    if data.dtype != tf.uint8:
        raise TypeError("Trying to set/update QuarterTensor data with a tensor of type "
                        f"{tf.as_dtype(data.dtype).name}, but only uint8 are supported. Check that "
                        "data is a value returned by `convert_to_f8`")
    return data


def _format(metadata):
    """(bits of mantissa, bias, scale, largest magnitude of a code) of a metadata tensor."""
    metadata = tf.cast(tf.convert_to_tensor(metadata), tf.int32)
    is_143 = metadata >= 128
    scale = metadata % 64
    return (tf.where_v2(is_143, 3, 2), tf.where_v2(is_143, 8, 16),
            tf.where_v2(scale < 32, scale, scale - 64), tf.where_v2(is_143, 240.0, 57344.0))


def convert_to_f8(values, metadata, name=None):
    """A QuarterTensor of `values`, of any shape and a type of numbers, which are rounded to float16
    before.

    `metadata` is a scalar uint8, of create_metadata(). Raises TypeError for what cannot be made a
    tensor.
    """
    with tf.name_scope(name, "IpuConvertToF8", [values]), _building.one_op():
        values = tf.cast(tf.cast(tf.convert_to_tensor(values), tf.float16), tf.float32)
        metadata = tf.cast(tf.convert_to_tensor(metadata), tf.uint8)
        man, bias, scale, largest = _format(metadata)
        magnitude = tf.minimum(tf.abs(values) * _small_floats.power_of_two(-scale), largest)
        step = _small_floats.quantum(magnitude, man, bias)
        code = _small_floats.code(tf.round(magnitude / step) * step, man, bias)
        code += tf.where_v2(tf.logical_and(values < 0, code > 0), 128, 0)
        code = tf.where_v2(tf.math.is_nan(values), _NAN, code)
        return QuarterTensor(tf.cast(code, tf.uint8), metadata)


def convert_from_f8(packed_input, dtype=tf.float16, name=None):
    """The numbers of a QuarterTensor, or of (codes, metadata), in the type `dtype`: a tensor of the
    shape of the codes, which are uint8. Raises TypeError or ValueError for what is no such pair."""
    data, metadata = packed_input
    with tf.name_scope(name, "IpuConvertFromF8"), _building.one_op():
        return tf.cast(tf.cast(_decode(data, metadata), tf.float16), dtype)


def _decode(data, metadata):
    man, bias, scale, _ = _format(metadata)
    code = tf.cast(tf.convert_to_tensor(data), tf.int32)
    magnitude = _small_floats.value(code % 128, man, bias) * _small_floats.power_of_two(scale)
    signed = tf.where_v2(code >= 128, -magnitude, magnitude)
    return tf.where_v2(tf.equal(code, _NAN), float("nan"), signed)


def canonicalise_input(inp, expected_rank=3, name="MatMulCanonicalise"):
    """[tensor of the rank `expected_rank`, metadata] of a QuarterTensor or a tensor of any type,
    which gets a first dimension of 1 if it lacks one dimension, and metadata of no meaning. Raises
    an Exception for shapes that are not known, ValueError for other ranks."""
    if isinstance(inp, QuarterTensor):
        data, metadata = tf.convert_to_tensor(inp.data), inp.metadata
    else:
        data, metadata = tf.convert_to_tensor(inp), tf.constant(0, tf.uint8)
    if not data.shape.is_fully_defined():
        raise Exception(  # pylint: disable=broad-exception-raised
            f"Input shape must be fully defined: {data}")
    if data.shape.rank == expected_rank - 1:
        data = tf.expand_dims(data, 0, name=name)
    data.shape.assert_has_rank(expected_rank)
    return [data, metadata]


def canonicalise_output(output, lhs):
    """output[0], of any type, without its first dimension if `lhs`, a QuarterTensor or a tensor, is
    a matrix. Raises ValueError if that dimension is not 1."""
    data = lhs.data if isinstance(lhs, QuarterTensor) else lhs
    return tf.squeeze(output[0], 0) if len(data.shape) == 2 else output[0]


def _wide(tensor):
    """The numbers of a QuarterTensor or a tensor, in float32."""
    if isinstance(tensor, QuarterTensor):
        return tf.cast(tf.cast(_decode(tensor.data, tensor.metadata), tf.float16), tf.float32)
    return tf.cast(tf.convert_to_tensor(tensor), tf.float32)


def f8_matmul(lhs, rhs, name="f8_matmul"):
    """The product of matrices, or of groups of them ([groups, rows, columns]), each a QuarterTensor
    or a tensor of a type of numbers; summed in float32: float16. Raises an Exception for shapes
    that are not known, ValueError for ranks and sizes that do not fit."""
    with tf.name_scope(name, "f8_matmul"), _building.one_op():
        sides = [QuarterTensor(*canonicalise_input(one)) if isinstance(one, QuarterTensor)
                 else canonicalise_input(one)[0] for one in (lhs, rhs)]
        product = tf.matmul(*map(_wide, sides))
        return canonicalise_output([tf.cast(product, tf.float16)], lhs)


def f8_conv_1d(inputs, filters, strides, padding, data_format="NWC", dilations=1,
               name="f8_conv_1d"):
    """A convolution over one dimension; arguments as tf.nn.conv1d's, with a QuarterTensor or a
    tensor for `inputs` and `filters`; summed in float32: float16.

    inputs         [batch, width, channels], for "NCW" [batch, channels, width]
    filters        [width, channels, channels of the result]
    strides, dilations   an integer, or a list of 1 or 3 of them

    Raises ValueError for another data_format, and for shapes and strides that do not fit.
    """
    if data_format not in ("NWC", "NCW"):
        raise ValueError("`data_format` must be 'NWC' or 'NCW'. "
                         f"Received: data_format={data_format}")
    return _convolution(inputs, filters, strides, padding, data_format, dilations, name, 1)


def f8_conv_2d(inputs, filters, strides, padding, data_format="NHWC", dilations=(1, 1, 1, 1),
               name="f8_conv_2d"):
    """f8_conv_1d() over two dimensions: inputs [batch, height, width, channels], for "NCHW" [batch,
    channels, height, width], filters [height, width, channels, channels of the result], lists of 1,
    2 or 4 integers. The result is float16. Raises ValueError for shapes and strides that do not
    fit."""
    return _convolution(inputs, filters, strides, padding, data_format, dilations, name, 2)


def f8_conv_3d(inputs, filters, strides, padding, data_format="NDHWC",
               dilations=(1, 1, 1, 1, 1), name="f8_conv_3d"):
    """f8_conv_1d() over three dimensions: inputs [batch, depth, height, width, channels], for
    "NCDHW" [batch, channels, depth, height, width], filters [depth, height, width, channels,
    channels of the result], lists of 1, 3 or 5 integers. The result is float16. Raises ValueError
    for shapes and strides that do not fit."""
    return _convolution(inputs, filters, strides, padding, data_format, dilations, name, 3)


def _convolution(inputs, filters, strides, padding, data_format, dilations, name, rank):
    with tf.name_scope(name, "f8_conv"), _building.one_op():
        channels_first = data_format[1] == "C"
        result = tf.nn.convolution(
            _wide(inputs), _wide(filters), padding=padding, data_format=data_format,
            strides=_sequence(strides, rank, channels_first, "strides"),
            dilation_rate=_sequence(dilations, rank, channels_first, "dilations"))
        return tf.cast(result, tf.float16)


def _sequence(value, rank, channels_first, name):
    """One number for each dimension of space, from one, from those, or from those of all
    dimensions."""
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(value) == 1:
        return value * rank
    if len(value) == rank + 2:
        return value[2:] if channels_first else value[1:-1]
    if len(value) != rank:
        raise ValueError(f"{name} should be of length 1, {rank} or {rank + 2} but was {len(value)}")
    return value
