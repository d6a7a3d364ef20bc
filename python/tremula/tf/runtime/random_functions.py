"""Stateful random ops that are drawn by way of simpler ones: as functions that stand for them.

HLO's own random numbers have lost TensorFlow's seeds, so these too go by the custom call.
"""

import dataclasses
import json

from tremula.tf.runtime import inside
from tremula.tf.runtime.rewriting import RANDOM_TARGET


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
    return inside.apply_op(
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
        order = inside.apply_op("XlaKeyValueSort", keys=keys, values=tf.range(count)).outputs[1]
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


# Op -> what makes the Function for an operation and its number among the program's random ops.
MAKERS = {"RandomShuffle": _shuffle, "Multinomial": _multinomial}
