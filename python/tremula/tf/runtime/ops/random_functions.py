"""Stateful random ops that are built of simpler ones: functions take their places.

HLO's own random numbers do not have TensorFlow's seeds, so these ops use the custom call, too.
"""

import dataclasses
import json

import numpy as np

from tremula.tf.inner import errors, graphs
from tremula.tf.runtime.nodes.rewriting import RANDOM_TARGET


@dataclasses.dataclass
class Function:
    """name, definition: of a FunctionDef. input_types, output_types: numbers of types."""
    name: str
    definition: object
    input_types: list
    output_types: list


def _function(operation, body):
    """body(*inputs) as the function that stands for the operation."""
    import tensorflow as tf
    with tf.Graph().as_default():
        function = tf.function(body, autograph=False).get_concrete_function(
            *[tf.TensorSpec(one.shape, one.dtype) for one in operation.inputs])
    definition = type(function.function_def)()
    definition.CopyFrom(function.function_def)
    return Function(definition.signature.name, definition,
                    [one.dtype.as_datatype_enum for one in operation.inputs],
                    [one.dtype.as_datatype_enum for one in operation.outputs])


def _draw(operation, number, distribution, dtype, shape):
    """A tensor of random numbers with the operation's seeds; `shape` is a list of ints, or of
    tensors too where it depends on what is known only when the program is lowered."""
    import tensorflow as tf
    if all(isinstance(size, int) for size in shape):
        return _custom_draw(operation, number, distribution, dtype, shape)
    seed = _custom_draw(operation, number, "uniform_int", tf.uint32, [2])
    if dtype.is_integer:
        return tf.random.stateless_uniform(shape, tf.bitcast(seed, tf.int32), None, None, dtype)
    return tf.random.stateless_uniform(shape, tf.bitcast(seed, tf.int32), dtype=dtype)


def _custom_draw(operation, number, distribution, dtype, shape):
    config = {"distribution": distribution, "seed": operation.get_attr("seed"),
              "seed2": operation.get_attr("seed2"), "id": number}
    return graphs.apply_op(
        "XlaCustomCallV2", operands=[], call_target_name=RANDOM_TARGET,
        backend_config=json.dumps(config), has_side_effect=True, result_dtypes=[dtype],
        result_shapes=[shape]).outputs[0]


def _sizes(tensor, rank):
    """The sizes of a tensor of that rank: ints, and tensors for those that are not known."""
    import tensorflow as tf
    known = tensor.shape.as_list() if tensor.shape.rank is not None else [None] * rank
    return [tf.shape(tensor)[i] if size is None else size for i, size in enumerate(known)]


def _shuffle(operation, number):
    """Sorts by random keys. Two of 32 bits are equal too seldom to matter."""
    import tensorflow as tf

    def body(value):
        if value.shape.rank == 0:
            return value
        count = _sizes(value, 1)[0]
        keys = _draw(operation, number, "uniform_int", tf.uint32, [count])
        order = graphs.apply_op("XlaKeyValueSort", keys=keys, values=tf.range(count)).outputs[1]
        return tf.gather(value, order)

    return _function(operation, body)


def _multinomial(operation, number):
    """The largest of logits + Gumbel noise."""
    import tensorflow as tf

    def body(logits, num_samples):
        rows, classes = _sizes(logits, 2)
        samples = operation.outputs[0].shape[1] if operation.outputs[0].shape.rank else None
        samples = num_samples if samples is None else samples
        draws = _draw(operation, number, "uniform", tf.float32, [rows, samples, classes])
        noise = -tf.math.log(-tf.math.log(draws))
        return tf.argmax(tf.cast(logits, tf.float32)[:, tf.newaxis] + noise, axis=-1,
                         output_type=operation.outputs[0].dtype)

    return _function(operation, body)


def _uniform_candidates(operation, number):
    return _candidates(operation, number, lambda count: np.full(count, 1.0 / count),
                       lambda draws, count: draws * count)


def _log_uniform_candidates(operation, number):
    import tensorflow as tf
    return _candidates(operation, number,
                       lambda count: np.diff(np.log(np.arange(1, count + 2))) / np.log(count + 1),
                       lambda draws, count: tf.exp(draws * np.float32(np.log(count + 1))) - 1)


def _candidates(operation, number, chances_of, from_uniform):
    """(classes drawn, expected counts of true_classes, expected counts of these). With seeds every
    run draws the same.

    chances_of(count)           the chance of each of `count` classes
    from_uniform(draws, count)  classes from uniform numbers, not rounded down yet

    Where no class may come twice TensorFlow's sampler counts how often it drew; here that is the
    number for which the expected counts add up to those drawn.
    """
    import tensorflow as tf
    count, sampled_count = operation.get_attr("range_max"), operation.get_attr("num_sampled")
    unique = operation.get_attr("unique")
    if unique and sampled_count > count:
        raise errors.error_class(errors.INVALID_ARGUMENT)(operation.node_def, None, (
            f"{operation.name}: num_sampled is {sampled_count}, more than the {count} classes that "
            "there are, and unique is true."))
    chances = chances_of(count)
    if unique:
        counts = -np.expm1(_tries(chances, sampled_count) * np.log1p(-chances))
    else:
        counts = chances * sampled_count
    seeds = [operation.get_attr(one) for one in ("seed", "seed2")]

    def draw(shape):
        if any(seeds):
            return tf.random.stateless_uniform(shape, tf.constant(seeds, tf.int64))
        return _draw(operation, number, "uniform", tf.float32, shape)

    def body(true_classes):
        expected = tf.constant(counts, tf.float32)
        if unique:
            noise = -tf.math.log(-tf.math.log(tf.maximum(draw([count]), 1e-30)))
            _, sampled = tf.math.top_k(tf.constant(np.log(chances), tf.float32) + noise,
                                       sampled_count)
        else:
            sampled = tf.cast(from_uniform(draw([sampled_count]), count), tf.int32)
            sampled = tf.minimum(sampled, count - 1)
        return (tf.cast(sampled, tf.int64), tf.gather(expected, true_classes),
                tf.gather(expected, sampled))

    return _function(operation, body)


def _tries(chances, wanted):
    """How often to draw until `wanted` different classes are expected."""
    low, high = float(wanted), 1e12
    for _ in range(200):
        middle = (low * high) ** 0.5
        if -np.expm1(middle * np.log1p(-chances)).sum() < wanted:
            low = middle
        else:
            high = middle
    return high


# Op -> what makes the Function for an operation and its number among the program's random ops.
MAKERS = {"RandomShuffle": _shuffle, "Multinomial": _multinomial,
          "UniformCandidateSampler": _uniform_candidates,
          "LogUniformCandidateSampler": _log_uniform_candidates}
