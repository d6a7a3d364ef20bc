"""Activations and their gradients, which need the input only, and multi_conv's operation.

An activation is computed in float32 and rounded once: the powers in their gradients overflow in
float16.
"""

import contextlib
import json
import math

import tensorflow.compat.v1 as tf

from tremula.tf.inner import graphs
from tremula.tf.ipu.ops import _building
from tremula.tf.runtime.nodes import op_types

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715


def activation(name, forward, derivative, function=None):
    """A function of x and a name that returns forward(x); its gradient is dy * derivative(x).
    function: what popnn calls it, where one of its vertices computes it."""
    def marked(word, scope):
        if function is None:
            return contextlib.nullcontext()
        return _building.marked(popnn_function=word, popnn_scope=_building.scope_of(scope))

    @tf.autograph.experimental.do_not_convert  # it cannot read lambdas
    def apply(x, scope=None):
        @tf.custom_gradient
        def run(x):
            def gradient(dy):
                with tf.name_scope(name + "Grad") as own, _building.one_op(), \
                        marked(f"{function}-grad", own):
                    return tf.cast(tf.cast(dy, tf.float32) * derivative(_wide(x)), x.dtype)
            return tf.cast(forward(_wide(x)), x.dtype), gradient

        with tf.name_scope(scope, name, [x]) as own, _building.one_op(), marked(function, own):
            x = tf.convert_to_tensor(x)
            if x.dtype.base_dtype not in (tf.float16, tf.float32):
                raise TypeError(f"{name} takes float16 or float32, not {x.dtype.name}.")
            return run(x)
    return apply


def _wide(x):
    return tf.cast(x, tf.float32)


def _tanh_part(x):
    return tf.tanh(_SQRT_2_OVER_PI * (x + _CUBIC * x * x * x))


def _gelu_grad(x):
    part = _tanh_part(x)
    slope = (1.0 - part * part) * _SQRT_2_OVER_PI * (1.0 + 3.0 * _CUBIC * x * x)
    # Where part is 1 the slope is 0, but computed it may be 0 * infinity.
    slope = tf.where_v2(tf.equal(part * part, 1.0), tf.zeros_like(x), slope)
    return 0.5 * (1.0 + part) + 0.5 * x * slope


def _normal_below(x):
    """How much of the normal distribution lies below x."""
    return 0.5 * tf.math.erfc(-x * math.sqrt(0.5))


def _gelu_erf_grad(x):
    density = tf.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return _normal_below(x) + x * density


def _swish_grad(x):
    gate = tf.sigmoid(x)
    return gate * (1.0 + x * (1.0 - gate))


gelu = activation("IpuGelu", lambda x: 0.5 * x * (1.0 + _tanh_part(x)), _gelu_grad,
                  "gelu")
gelu_erf = activation("IpuGeluErf", lambda x: x * _normal_below(x), _gelu_erf_grad)
swish = activation("IpuSwish", lambda x: x * tf.sigmoid(x), _swish_grad, "swish")
hard_sigmoid = activation(
    "IpuHardSigmoid", lambda x: tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0),
    lambda x: tf.where_v2(tf.abs(x) <= 2.5, 0.2, 0.0))


# ---- The results of convolutions that run at the same time ----

def multi_conv(results, options):
    """`results`, a structure of tensors, out of an operation that holds the options as JSON of a
    PoplarOptionFlags. Their gradients go through another one."""
    flags = [{"option": str(option), "value": str(value)} for option, value in options.items()]
    tensors = [one for one in tf.nest.flatten(results) if tf.is_tensor(one)]
    made = iter(_multi_conv(tensors, json.dumps({"flags": flags}) if flags else "{}"))
    return tf.nest.map_structure(lambda one: next(made) if tf.is_tensor(one) else one, results)


def _multi_conv(tensors, flags):
    operation = graphs.apply_op(
        op_types.MULTI_CONV, name="MultiConv", inputs=tensors, option_flags=flags,
        Tout=[one.dtype for one in tensors], output_shapes=[one.shape for one in tensors])
    for result, tensor in zip(operation.outputs, tensors):
        result.set_shape(tensor.shape)
    graphs.record(operation, option_flags=flags)
    return operation.outputs


@tf.RegisterGradient(op_types.MULTI_CONV)
def _multi_conv_grad(op, *gradients):
    given = [tf.convert_to_tensor(one) for one in gradients if one is not None]
    if not given:
        return gradients
    made = iter(_multi_conv(given, op.get_attr("option_flags")))
    return [None if one is None else next(made) for one in gradients]
