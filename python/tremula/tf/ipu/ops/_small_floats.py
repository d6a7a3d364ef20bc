"""Floats of few bits, emulated in float32: rounding to them, their codes, and back.

A format has `man` bits of mantissa, an exponent field of `exp` bits and the exponent bias `bias`.
Arguments are ints or int32 scalars. Magnitudes are handled apart from signs.
"""

import tensorflow.compat.v1 as tf


def power_of_two(exponent):
    """2 to int32 numbers from -126 to 127, exactly."""
    return tf.bitcast(tf.bitwise.left_shift(tf.convert_to_tensor(exponent, tf.int32) + 127, 23),
                      tf.float32)


def exponent_of(magnitude):
    """The exponent of each float32: k for [2^k, 2^(k + 1))."""
    return tf.bitwise.right_shift(tf.bitcast(magnitude, tf.int32), 23) - 127


def quantum(magnitude, man, bias):
    """The distance of neighbours in the format, about each magnitude."""
    return power_of_two(tf.maximum(exponent_of(magnitude), 1 - bias) - man)


def code(magnitude, man, bias):
    """The bits of magnitudes that the format holds exactly: int32."""
    bits = tf.bitcast(magnitude, tf.int32)
    man = tf.convert_to_tensor(man, tf.int32)
    normal = tf.bitwise.right_shift(bits, 23 - man) - tf.bitwise.left_shift(
        tf.convert_to_tensor(127 - bias, tf.int32), man)
    smallest = power_of_two(1 - bias)
    subnormal = tf.cast(magnitude / power_of_two(1 - bias - man), tf.int32)
    return tf.where_v2(magnitude < smallest, subnormal, normal)


def value(bits, man, bias):
    """The magnitudes of codes: float32."""
    man = tf.convert_to_tensor(man, tf.int32)
    exponent = tf.bitwise.right_shift(bits, man)
    mantissa = bits - tf.bitwise.left_shift(exponent, man)
    hidden = tf.where_v2(exponent > 0, tf.bitwise.left_shift(1, man), 0)
    return tf.cast(mantissa + hidden, tf.float32) * power_of_two(
        tf.maximum(exponent, 1) - bias - man)
