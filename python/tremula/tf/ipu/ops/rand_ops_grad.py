"""What dropout keeps, and its gradient.

The mask is never stored: the gradient is the same operation, with the same seed, on the incoming
gradient.
"""

import dataclasses
import json

import tensorflow.compat.v1 as tf

from tremula import custom_calls
from tremula.tf.inner import graphs
from tremula.tf.ipu.ops import _building
from tremula.tf.runtime.nodes import op_types

TARGET = custom_calls.DROPOUT
_PHILOX = 1


@dataclasses.dataclass
class Mask:
    """rate: probability of dropping. scale: factor for what is kept. noise_shape: for each
    dimension 1, or None where the noise is as large as x; None for all of that."""
    rate: float
    scale: float
    noise_shape: list

    def apply(self, x, seed):
        """x with what the seed (int32 [2]) drops set to zero and the rest scaled. Whether that is
        one custom call or operations of TensorFlow's, the same elements are kept."""
        if _building.in_program() and x.shape.is_fully_defined():
            return self._custom_call(x, seed)
        return self._composed(x, seed)

    def _custom_call(self, x, seed):
        config = {"rate": self.rate, "scale": self.scale}
        if self.noise_shape is not None:
            config["noise_shape"] = [1 if noise == 1 else size for noise, size
                                     in zip(self.noise_shape, x.shape.as_list())]
        result = graphs.apply_op(
            op_types.DROPOUT, name="Dropout", operands=[x, seed], call_target_name=TARGET,
            backend_config=json.dumps(config), has_side_effect=False, result_dtypes=[x.dtype],
            result_shapes=[x.shape]).outputs[0]
        result.set_shape(x.shape)
        return result

    def _composed(self, x, seed):
        shape = tf.shape(x)
        if self.noise_shape is not None:
            shape = tf.stack([shape[i] if one is None else 1
                              for i, one in enumerate(self.noise_shape)])
        bits = tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=shape, key=tf.reshape(tf.bitcast(seed, tf.uint64), [1]),
            counter=tf.zeros([2], tf.uint64), alg=_PHILOX, dtype=tf.uint32)
        threshold = round(self.rate * 2 ** 32)
        kept = x * tf.constant(self.scale, tf.float32) if x.dtype == tf.float32 else tf.cast(
            tf.cast(x, tf.float32) * self.scale, x.dtype)
        if threshold == 0:
            return kept
        keep = tf.greater_equal(tf.cast(bits, tf.int64), tf.constant(threshold, tf.int64))
        result = tf.where_v2(keep, kept, tf.zeros([], x.dtype))
        result.set_shape(x.shape)
        return result


def dropout_grad(grad, seed, mask):
    """Gradients for (x, seed) of what mask.apply(x, seed) gave."""
    with tf.name_scope("IpuDropoutGrad"):
        return mask.apply(grad, seed), None
