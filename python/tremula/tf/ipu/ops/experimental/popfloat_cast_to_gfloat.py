"""Floats of any format, emulated
(`tensorflow.python.ipu.ops.experimental.popfloat_cast_to_gfloat`).

A format has `man` bits of mantissa, `exp` bits of exponent and the exponent bias `bias`; denorms,
and a last exponent that stands for infinities and NaN, are choices. Everything is computed in
float32, after rounding to float16 where that is the calculation type. Gradients go straight
through.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _building, _small_floats
from tremula.tf.ipu.ops.experimental import popfloat_ops_grad

cast_to_gfloat16_param_size = 29
cast_to_gfloat32_param_size = 29

__all__ = ["GenericFloat"]

# Rounding of magnitudes in units of the format: (magnitude, is it of a negative number) -> whole.
_ROUNDINGS = {
    "RN": lambda x, negative: tf.round(x),
    "RZ": lambda x, negative: tf.floor(x),
    "RA": lambda x, negative: tf.floor(x + 0.5),
    "RU": lambda x, negative: tf.where_v2(negative, tf.floor(x), tf.math.ceil(x)),
    "RD": lambda x, negative: tf.where_v2(negative, tf.math.ceil(x), tf.floor(x)),
}


class GenericFloat:
    """A format and casts to and from it.

    man, exp, bias   bits of mantissa and exponent, and the exponent's bias
    en_denorm        whether there are denorms; without them numbers below half the smallest one
                     become zero
    en_inf           whether the last exponent stands for infinities and NaN
    calc_type        "auto", "fp32" or "fp16": the type that numbers have before they are cast
    name             is not used

    For example, three bits of mantissa and four of exponent:

        format = GenericFloat(man=3, exp=4, bias=7)
        rounded = format.cast_gfloat_to_native(format.cast_native_to_gfloat(x))

    Raises RuntimeError for a calc_type in which the format cannot be computed.
    """

    def __init__(self, man=10, exp=5, bias=15, en_denorm=True, en_inf=True, calc_type="auto",
                 name=None):
        self._gfloat_calc_spec_dtype = calc_type
        self._man, self._exp, self._bias = man, exp, bias
        self._en_denorm = en_denorm
        self._en_inf = en_inf and exp > 0
        self._packed_bits = exp + man
        self._name = name
        self._is_set = None
        self.set_param()

    def set_param(self):
        """Works out what follows from the format, unless that is done."""
        if self._is_set is not None:
            return
        flags = int(self._en_denorm) | int(self._en_inf) << 1
        self._gfloat_packed_params = (self._man | self._exp << 8 | (self._bias & 255) << 16
                                      | flags << 24)
        self._gfloat_as_int = False
        if self._exp > 5 or self._man > 10 or (self._exp == 5 and self._man == 10):
            self._set_wide()
        else:
            self._set_narrow()
        self._is_set = True
        if self._gfloat_calc_dtype == tf.float32:
            self.calc_quantized_fp32_params()
        else:
            self.calc_quantized_fp16_params()

    def _set_wide(self):
        is_half = self._exp == 5 and self._man == 10
        self._gfloat_storage_dtype = tf.float32
        self._gfloat_native_dtype = tf.float16 if is_half and self._en_inf else tf.float32
        self._format = "quantisedFp32"
        if is_half:
            self._gfloat_storage_dtype, self._format = tf.float16, "ieeeFp16"
        elif self._packed_bits < 8:
            self._gfloat_storage_dtype, self._format = tf.int8, "enDenormGf16"
            self._gfloat_as_int = True
        elif self._packed_bits < 16:
            self._gfloat_storage_dtype, self._gfloat_as_int = tf.int16, True
            self._format = ("bfloat16" if self._exp == 8 else
                            "enDenormGf16" if self._en_denorm else "noDenormGf16")
        if self._gfloat_calc_spec_dtype == "fp16":
            raise RuntimeError("Gfloat format cannot be generated using IEEE FP16")
        if self._gfloat_calc_spec_dtype not in ("auto", "fp32"):
            raise RuntimeError("Gfloat calculation type not supported")
        self._gfloat_calc_dtype = tf.float32

    def _set_narrow(self):
        aligned = self._exp == 5 and not self._en_inf
        self._gfloat_storage_dtype = self._gfloat_native_dtype = tf.float16
        self._format = "maxNormAlignGf8" if aligned else "quantisedFp16"
        if self._packed_bits < 8:
            self._gfloat_as_int, self._gfloat_storage_dtype = True, tf.int8
            if self._exp == 5:
                self._format = "oneFiveTwoGf8" if self._en_inf else "maxNormAlignGf8"
            else:
                self._format = "minNormAlignGf8"
        if self._gfloat_calc_spec_dtype not in ("auto", "fp16", "fp32"):
            raise RuntimeError("Gfloat calculation type not supported")
        self._gfloat_calc_dtype = (tf.float32 if self._gfloat_calc_spec_dtype == "fp32"
                                   else tf.float16)

    def calc_quantized_fp16_params(self):
        """Works out the parameters of casts whose calculation type is float16."""
        self._cast_param_size = cast_to_gfloat16_param_size
        self._cast_to_gfloat_params = self._params()

    def calc_quantized_fp32_params(self):
        """The same for float32."""
        self._cast_param_size = cast_to_gfloat32_param_size
        self._cast_to_gfloat_params = self._params()

    def _params(self):
        return _make_params(self._man, self._exp, self._bias, self._en_denorm, self._en_inf)

    def reset(self):
        """Works everything out again."""
        self._is_set = None
        self.set_param()

    def get_gfloat_storage_dtype(self):
        """The type that casts give: of integers that hold the format's bits, or of floats."""
        return self._gfloat_storage_dtype

    def get_gfloat_calc_dtype(self):
        """The type that numbers have before they are cast."""
        return self._gfloat_calc_dtype

    def get_gfloat_native_dtype(self):
        """The type that casts back give."""
        return self._gfloat_native_dtype

    def get_cast_to_gfloat_params(self):
        """The parameters of casts: int32 [29], of which the first five are man, exp, bias,
        en_denorm and en_inf. (The original's hold masks for its vertices.)"""
        return self._cast_to_gfloat_params

    def get_gfloat_cast_param_size(self):
        """29."""
        return self._cast_param_size

    def get_gfloat_packed_params(self):
        """man, exp and bias, and what is enabled, a byte each from the lowest."""
        return self._gfloat_packed_params

    def get_mantissa_size(self):
        """man"""
        return self._man

    def get_exponent_size(self):
        """exp"""
        return self._exp

    def get_exponent_bias(self):
        """bias"""
        return self._bias

    def get_en_denorms(self):
        """en_denorm"""
        return self._en_denorm

    def get_en_inf(self):
        """Whether there are infinities and NaN."""
        return self._en_inf

    def is_packed_float(self):
        """Whether casts give integers."""
        return self._gfloat_as_int

    @staticmethod
    def get_gfloat_param_size(calc_type):
        """How many parameters casts have. Raises RuntimeError for other types than float32 and
        float16."""
        if calc_type not in (tf.float32, tf.float16):
            raise RuntimeError("Gfloat format calculation type not supported")
        return cast_to_gfloat32_param_size

    def cast_native_to_gfloat(self, inputs, en_nanoo=True, round_mode="RN", sr_density="Invalid",
                              sr_bits=23, sr_norm_offset=0.0, sr_norm_scale=1.0, sr_norm_min=-0.5,
                              sr_norm_max=0.5, sr_prob=1.0, storage_type="auto"):
        """Casts `inputs` to the format. As cast_native_to_gfloat(), the function, for the rest.

        storage_type  "auto", "fp32" or "fp16": of the result

        Raises RuntimeWarning for en_nanoo with a format without NaN, RuntimeError for another
        storage_type."""
        if en_nanoo and not self._en_inf:
            raise RuntimeWarning(
                "Gfloat format's Infs and Nans are not enabled. Input Nans and Infs "
                "will be set to 0. The quantization will clip on-overflow")
        types = {"auto": self._gfloat_storage_dtype, "fp32": tf.float32, "fp16": tf.float16}
        if storage_type not in types:
            raise RuntimeError("Gfloat storage format not supported")
        return cast_native_to_gfloat(
            inputs, self._cast_to_gfloat_params, en_nanoo, round_mode, sr_bits, sr_density,
            sr_norm_offset, sr_norm_scale, sr_norm_min, sr_norm_max, sr_prob, self._format,
            self._gfloat_calc_dtype, types[storage_type])

    def cast_gfloat_to_native(self, inputs, storage_type="auto"):
        """The numbers that a cast has made: a tensor of the shape of `inputs`.

        inputs        what cast_native_to_gfloat() gives. Integers are decoded; floats are numbers
                      already, and come back as they are
        storage_type  "fp32", "fp16" or "auto" (the format's native type): of the result

        Raises RuntimeError for another `storage_type`."""
        if not self._gfloat_as_int:
            return inputs
        types = {"auto": self._gfloat_native_dtype, "fp32": tf.float32, "fp16": tf.float16}
        if storage_type not in types:
            raise RuntimeError("Gfloat storage format not supported")
        return cast_gfloat_to_native(inputs, self._cast_to_gfloat_params, self._format,
                                     self._gfloat_calc_dtype, types[storage_type])

    def get_cast_native_to_gfloat_fun(self, en_nanoo=True, round_mode="RN", sr_bits=23,
                                      sr_density="Invalid", sr_norm_offset=0.0, sr_norm_scale=1.0,
                                      sr_norm_min=-0.5, sr_norm_max=0.5, sr_prob=1.0,
                                      storage_type="auto"):
        """cast_native_to_gfloat() as a function of inputs."""
        return lambda x: self.cast_native_to_gfloat(
            x, en_nanoo, round_mode, sr_density, sr_bits, sr_norm_offset, sr_norm_scale,
            sr_norm_min, sr_norm_max, sr_prob, storage_type)

    def get_cast_gfloat_to_native_fun(self, storage_type="auto"):
        """cast_gfloat_to_native() as a function of inputs."""
        return lambda x: self.cast_gfloat_to_native(x, storage_type)


def calc_gfloat_params(man=10, exp=5, bias=15, en_denorm=True, en_inf=True,
                       calc_type=tf.float32):
    """The parameters of casts, a tensor int32 [29], as those of GenericFloat."""
    GenericFloat.get_gfloat_param_size(calc_type)
    return tf.constant(_make_params(man, exp, bias, en_denorm, en_inf and exp > 0))


def _make_params(man, exp, bias, en_denorm, en_inf):
    params = np.zeros([cast_to_gfloat32_param_size], np.int32)
    params[:5] = man, exp, bias, int(en_denorm), int(en_inf)
    return params


class _Params:
    """The parameters as scalars."""

    def __init__(self, params):
        params = tf.convert_to_tensor(params)
        self.man, self.exp, self.bias = params[0], params[1], params[2]
        self.en_denorm, self.en_inf = params[3] > 0, params[4] > 0
        field = tf.bitwise.left_shift(1, self.exp) - 1
        self.special = tf.bitwise.left_shift(field, self.man)  # the code of infinity
        top = field - tf.cast(self.en_inf, tf.int32) - self.bias
        self.largest = (2.0 - _small_floats.power_of_two(-self.man)) * _small_floats.power_of_two(
            top)
        self.smallest = _small_floats.power_of_two(1 - self.bias)  # that is no denorm
        self.sign_bit = self.exp + self.man


def cast_native_to_gfloat(inputs, params, en_nanoo=True, round_mode="RN", sr_bits=23,
                          sr_density="Invalid", sr_norm_offset=0.0, sr_norm_scale=1.0,
                          sr_norm_min=-0.5, sr_norm_max=0.5, sr_prob=1.0, gfloat_format="Invalid",
                          calc_type=tf.float32, out_type=tf.float32):
    """`inputs`, of any shape and a type of numbers, rounded to the format that `params` are of: a
    tensor of the same shape.

    params      int32 [29], of calc_gfloat_params()
    en_nanoo    whether what is too large becomes NaN, where the format has it, instead of the
                largest number
    round_mode  "RN" to nearest, ties to even; "RA" ties away from zero; "RZ" towards zero; "RU" up;
                "RD" down; "SR" and "SX" at random
    sr_density  of "SR": "Uniform" (also "Invalid"), with `sr_bits` random bits; "Normal" and
                "TruncatedNormal" noise, times sr_norm_scale plus sr_norm_offset, kept between
                sr_norm_min and sr_norm_max; "Bernoulli": down with the probability sr_prob
    gfloat_format   is not needed
    calc_type   float32 or float16: the type that numbers have before
    out_type    float32, float16, or int8 or int16 for the format's bits, the sign highest

    Raises ValueError for other modes, densities and types.
    """
    del gfloat_format
    out_type = tf.as_dtype(out_type)
    if out_type not in (tf.float32, tf.float16, tf.int8, tf.int16):
        raise ValueError(f"A cast gives float32, float16, int8 or int16, not {out_type.name}.")
    format_ = _Params(params)

    def cast(x):
        wide = tf.cast(tf.cast(x, calc_type), tf.float32)
        negative = wide < 0
        rounding = _rounding(round_mode, sr_density, sr_bits, sr_norm_offset, sr_norm_scale,
                             sr_norm_min, sr_norm_max, sr_prob)
        magnitude = _quantize(tf.abs(wide), negative, format_, rounding)
        too_large = magnitude > format_.largest
        is_special = tf.logical_not(tf.math.is_finite(wide))
        is_nan = tf.math.is_nan(wide)
        if en_nanoo:
            is_nan = tf.logical_or(is_nan, tf.logical_or(too_large, is_special))
        is_nan = tf.logical_and(is_nan, format_.en_inf)
        is_zero = tf.logical_and(is_special, tf.logical_not(format_.en_inf))
        magnitude = tf.where_v2(too_large, format_.largest, magnitude)
        magnitude = tf.where_v2(is_zero, 0.0, magnitude)
        if out_type.is_integer:
            return _pack(magnitude, negative, is_nan, format_, out_type)
        signed = tf.where_v2(negative, -magnitude, magnitude)
        return tf.cast(tf.where_v2(is_nan, float("nan"), signed), out_type)

    @tf.custom_gradient
    def straight_through(x):
        return cast(x), lambda d: popfloat_ops_grad.cast_grad(d, x.dtype)

    with tf.name_scope("CastNativeToGfloat"), _building.one_op():
        inputs = tf.convert_to_tensor(inputs)
        return cast(inputs) if out_type.is_integer else straight_through(inputs)


def _quantize(magnitude, negative, format_, rounding):
    finite = tf.where_v2(tf.math.is_finite(magnitude), magnitude, 0.0)
    step = _small_floats.quantum(finite, format_.man, format_.bias)
    rounded = rounding(finite / step, negative) * step
    flushed = tf.where_v2(finite > format_.smallest / 2, format_.smallest, 0.0)
    rounded = tf.where_v2(tf.logical_or(format_.en_denorm, finite >= format_.smallest), rounded,
                          flushed)
    return tf.where_v2(tf.math.is_finite(magnitude), rounded, float("inf"))


def _rounding(mode, density, bits, offset, scale, low, high, probability):
    """A function (magnitude in units, whether of a negative number) -> whole numbers."""
    if mode in _ROUNDINGS:
        return _ROUNDINGS[mode]
    if mode not in ("SR", "SX"):
        raise ValueError(f"The round_mode must be one of {', '.join(_ROUNDINGS)}, SR and SX, but "
                         f"it is {mode}.")

    def uniform(x, negative):
        del negative
        return tf.floor(x + tf.floor(tf.random.uniform(tf.shape(x)) * 2.0 ** bits) / 2.0 ** bits)

    def noisy(draw):
        return lambda x, negative: tf.maximum(0.0, tf.round(x + tf.clip_by_value(
            draw(tf.shape(x)) * scale + offset, low, high)))

    def bernoulli(x, negative):
        del negative
        down = tf.random.uniform(tf.shape(x)) < probability
        return tf.where_v2(down, tf.floor(x), tf.math.ceil(x))

    densities = {"Uniform": uniform, "Invalid": uniform, "Normal": noisy(tf.random.normal),
                 "TruncatedNormal": noisy(tf.random.truncated_normal), "Bernoulli": bernoulli}
    if density not in densities:
        raise ValueError(f"The sr_density must be one of {', '.join(densities)}, but it is "
                         f"{density}.")
    return densities[density]


def _pack(magnitude, negative, is_nan, format_, out_type):
    code = _small_floats.code(magnitude, format_.man, format_.bias)
    nan = format_.special + tf.maximum(tf.bitwise.left_shift(1, format_.man) // 2, 1)
    code = tf.where_v2(is_nan, nan, code)
    code += tf.where_v2(negative, tf.bitwise.left_shift(1, format_.sign_bit), 0)
    bits = 8 * out_type.size
    return tf.cast(tf.where_v2(code >= 1 << bits - 1, code - (1 << bits), code), out_type)


def cast_gfloat_to_native(inputs, params, gfloat_format="Invalid", calc_type=tf.float32,
                          out_type=tf.float32):
    """The numbers whose bits in the format are `inputs`, int8 or int16 of any shape: a tensor of
    that shape in `out_type`, float32 or float16.

    `params` is int32 [29], of calc_gfloat_params(). Raises TypeError for an `out_type` that is no
    type.
    """
    del gfloat_format, calc_type
    format_ = _Params(params)
    with tf.name_scope("CastGfloatToNative"), _building.one_op():
        code = tf.cast(tf.convert_to_tensor(inputs), tf.int32)
        sign = tf.bitwise.bitwise_and(code, tf.bitwise.left_shift(1, format_.sign_bit)) > 0
        code = tf.bitwise.bitwise_and(code, tf.bitwise.left_shift(1, format_.sign_bit) - 1)
        magnitude = _small_floats.value(code, format_.man, format_.bias)
        special = tf.logical_and(format_.en_inf, code >= format_.special)
        magnitude = tf.where_v2(special, tf.where_v2(
            tf.equal(code, format_.special), float("inf"), float("nan")), magnitude)
        return tf.cast(tf.where_v2(sign, -magnitude, magnitude), out_type)
