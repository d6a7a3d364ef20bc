"""Random operations (`tensorflow.python.ipu.ops.rand_ops`)."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _generations, rand_ops_grad

_OPTIONS = {"ref", "scale", "seed_modifier", "keep_prob"}


@_generations.older_order(
    ("x", "seed", "rate", "seed_modifier", "noise_shape", "scale", "name"),
    lambda arguments: len(arguments) > 1 and not _generations.is_number(arguments[1]))
def dropout(x, rate=0.5, noise_shape=None, seed=None, name=None, **kwargs):
    """Sets elements of `x` to zero with the probability `rate` and scales the others.

    x            float16 or float32, any shape
    rate         a number of Python's from 0 up to but not 1
    noise_shape  as many sizes as x has dimensions, each x's or 1: elements along a dimension of
                 1 are kept or dropped together. None or an empty list: x's shape
    seed         two 32-bit integers; equal seeds drop equal elements. Without it every run, loop
                 iteration and replica draws its own, from the seeds of the graph and of
                 utils.reset_ipu_seed
    name         of the operations
    **kwargs     ref: no difference here, masks are never stored. From older releases: scale, the
                 factor for what is kept (1 / (1 - rate)); seed_modifier, an int that changes the
                 seed; keep_prob, 1 - rate.

    What is dropped follows from the seed, and the gradient drops the same elements: between the
    two passes only the seed is kept. Returns a tensor like x.

    Raises ValueError for a rate, noise_shape or seed that does not fit, TypeError for other types.
    """
    unknown = sorted(set(kwargs) - _OPTIONS)
    if unknown:
        raise TypeError(f"dropout() got an unexpected keyword argument '{unknown[0]}'.")
    if kwargs.get("keep_prob") is not None:
        rate = 1.0 - kwargs["keep_prob"]
    if not _generations.is_number(rate):
        raise TypeError(f"The rate must be a number of Python's, but it is {rate!r}.")
    rate = float(rate)
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"The rate must be in the range [0, 1), but was {rate}")
    with tf.name_scope(name, "IpuDropout", [x]):
        x = tf.convert_to_tensor(x)
        if x.dtype.base_dtype not in (tf.float16, tf.float32):
            raise TypeError(f"dropout takes float16 or float32, but x is {x.dtype.name}.")
        noise_shape = _check_noise_shape(x.shape, noise_shape)
        scale = kwargs.get("scale")
        mask = rand_ops_grad.Mask(rate, 1.0 / (1.0 - rate) if scale is None else float(scale),
                                  noise_shape)
        return _dropout(x, _seed(seed, kwargs.get("seed_modifier", 1)), mask)


def _dropout(x, seed, mask):
    @tf.custom_gradient
    def drop(x, seed):
        return mask.apply(x, seed), lambda dy: rand_ops_grad.dropout_grad(dy, seed, mask)
    return drop(x, seed)


def _check_noise_shape(shape, noise_shape):
    """noise_shape as a list of ints with None for x's own size; None where that is all."""
    if isinstance(noise_shape, tf.TensorShape):
        noise_shape = noise_shape.as_list()
    if noise_shape is None or isinstance(noise_shape, (list, tuple)) and not noise_shape:
        return None
    if isinstance(noise_shape, str) or not hasattr(noise_shape, "__len__"):
        raise TypeError(f"noise_shape must be a list of ints, but it is {noise_shape!r}.")
    sizes = [None if one is None or int(one) == -1 else int(one) for one in noise_shape]
    if shape.rank != len(sizes):
        raise ValueError("The length of noise_shape must equal the rank of x.")
    for mine, noise in zip(shape.as_list(), sizes):
        if noise not in (1, None) and mine is not None and mine != noise:
            raise ValueError(f"Dimension mismatch, {mine} != {noise}.")
    sizes = [1 if one == 1 else None for one in sizes]
    return sizes if 1 in sizes else None


def _seed(seed, modifier):
    """The seed as int32 [2]: the user's, or one that is drawn."""
    if seed is None:
        seed = tf.random.uniform([2], -2 ** 31, 2 ** 31 - 1, tf.int32)
    else:
        seed = tf.convert_to_tensor(seed)
        if seed.shape.as_list() != [2]:
            raise ValueError(f"Expected the seed to have a shape [2], but got {seed.shape}.")
        seed = tf.cast(seed, tf.int32) if seed.dtype != tf.uint32 else tf.bitcast(seed, tf.int32)
    if modifier != 1:
        seed = tf.bitwise.bitwise_xor(seed, tf.constant([0, int(modifier) - 1]))
    return tf.stop_gradient(seed)
