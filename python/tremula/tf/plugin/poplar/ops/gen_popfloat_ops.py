"""Casts to small floating-point formats (`gen_popfloat_ops`)."""

# The original's names of arguments.  pylint: disable=redefined-builtin

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops.experimental import popfloat_cast_to_gfloat as casts
from tremula.tf.plugin.poplar.ops import _refused


def __getattr__(name):
    _refused.attribute(__name__, name)


def calc_gfloat_params(shape, mantissa=10, exponent=5, bias=15, en_denorm=True, en_inf=True,
                       calc_type=tf.float32, name=None):
    """The parameters of a format; `shape` makes no difference."""
    del shape, name
    return casts.calc_gfloat_params(mantissa, exponent, bias, en_denorm, en_inf, calc_type)


def cast_native_to_gfloat(input, params, out_type=None, name=None, **options):
    """`input` rounded to the format of `params`; the options are keywords. See
    ipu.popfloat_cast_to_gfloat.cast_native_to_gfloat()."""
    del name
    if out_type is not None:
        options["out_type"] = out_type
    return casts.cast_native_to_gfloat(input, params, **options)


def cast_gfloat_to_native(input, params, out_type=tf.float32, gfloat_format="Invalid",
                          calc_type=tf.float32, name=None):
    """The numbers whose bits are `input`. See ipu.popfloat_cast_to_gfloat.cast_gfloat_to_native().
    """
    del name
    return casts.cast_gfloat_to_native(input, params, gfloat_format, calc_type, out_type)
