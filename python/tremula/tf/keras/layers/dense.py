"""Dense layers that compute their product in slices, or with numbers of eight bits."""

import numpy as np
import tensorflow as tf

from tremula.tf.ipu.ops import f8_ops, math_ops
from tremula.tf.inner import keras as inner
from tremula.tf.keras.layers import ipu_layer

# The layer's name of the dimension that is cut -> that of serialized_matmul().
_DIMENSIONS = {"input_columns": "a_columns", "input_rows_kernel_columns": "a_rows_b_columns",
               "kernel_rows": "b_rows"}


@ipu_layer.registered
class SerialDense(ipu_layer.IPULayer):
    """Keras' Dense with math_ops.serialized_matmul() for the product.

    serialization_factor     number of slices
    serialization_dimension  "input_columns", "input_rows_kernel_columns" or "kernel_rows"

    Other arguments as Keras' Dense's.
    """

    def __init__(self, units, serialization_factor, serialization_dimension, activation=None,
                 use_bias=True, kernel_initializer="glorot_uniform", bias_initializer="zeros",
                 kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None,
                 kernel_constraint=None, bias_constraint=None, **kwargs):
        if "input_shape" not in kwargs and "input_dim" in kwargs:
            kwargs["input_shape"] = (kwargs.pop("input_dim"),)
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if serialization_dimension not in _DIMENSIONS:
            raise ValueError(f"Invalid serialization_dimension={serialization_dimension}, expected "
                             f"one of: {', '.join(map(repr, _DIMENSIONS))}.")
        initializers, regularizers, constraints, activations = map(inner.public, (
            "initializers", "regularizers", "constraints", "activations"))
        self.units = int(units)
        self.serialization_factor = int(serialization_factor)
        self.serialization_dimension = serialization_dimension
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.input_spec = inner.public("layers").InputSpec(min_ndim=2)
        self.supports_masking = True

    def build(self, input_shape):
        """Makes `kernel` [inputs, units] and `bias` [units]. Raises ValueError if the last
        dimension is not known, TypeError if the layer's type is not one of floating point."""
        if not tf.as_dtype(self.dtype or inner.public("backend").floatx()).is_floating:
            raise TypeError("Unable to build `SerialDense` layer with non-floating point dtype "
                            f"{self.dtype}")
        last = tf.TensorShape(input_shape).as_list()[-1]
        if last is None:
            raise ValueError("The last dimension of the inputs to `SerialDense` should be defined. "
                             "Found `None`.")
        self.input_spec = inner.public("layers").InputSpec(min_ndim=2, axes={-1: last})
        self.kernel = self.add_weight(
            "kernel", [last, self.units], initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer, constraint=self.kernel_constraint)
        self.bias = self.add_weight(
            "bias", [self.units], initializer=self.bias_initializer,
            regularizer=self.bias_regularizer, constraint=self.bias_constraint,
        ) if self.use_bias else None
        self.built = True

    def call(self, inputs, **kwargs):
        """activation(inputs x kernel + bias): [..., units] of the type of inputs, which is one of
        floating point, for inputs [..., size].

        Raises TypeError for sparse inputs, ValueError for a serialization_factor that does not fit.
        """
        if isinstance(inputs, tf.SparseTensor):
            raise TypeError("Unable to build `SerialDense` layer with sparse inputs.")
        if self.serialization_factor < 1:
            raise ValueError("serialization_factor has to be at least 1, but was "
                             f"{self.serialization_factor}.")
        outputs = math_ops.serialized_matmul(
            inputs, tf.cast(self.kernel, inputs.dtype), self.serialization_factor,
            _DIMENSIONS[self.serialization_dimension])
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, tf.cast(self.bias, inputs.dtype))
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape):
        """The shape of the inputs with `units` at the end."""
        shape = tf.TensorShape(input_shape).with_rank_at_least(2)
        if shape[-1] is None:
            raise ValueError("The innermost dimension of input_shape must be defined, but saw: "
                             f"{shape}")
        return shape[:-1].concatenate(self.units)

    def get_config(self):
        """The constructor's arguments."""
        initializers, regularizers, constraints, activations = map(inner.public, (
            "initializers", "regularizers", "constraints", "activations"))
        return {
            **super().get_config(), "units": self.units,
            "serialization_factor": self.serialization_factor,
            "serialization_dimension": self.serialization_dimension,
            "activation": activations.serialize(self.activation), "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "activity_regularizer": regularizers.serialize(self.activity_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
            "bias_constraint": constraints.serialize(self.bias_constraint)}


def _random_codes(shape, dtype=None, **kwargs):
    """Codes of random numbers, without the code for NaN."""
    del dtype, kwargs
    codes = np.random.randint(0, 256, size=tuple(shape), dtype=np.uint8)
    return tf.constant(np.where(codes == 0x80, 0, codes).astype(np.uint8))


@ipu_layer.registered
class Dense(inner.public("layers").Dense):
    """Keras' Dense; for inputs [codes, metadata] of eight bits, such as ConvertToF8 gives, with a
    kernel of eight bits and results in float16. For a QuarterTensor, such as convert_to_f8() gives,
    the layer has Keras' weights, whose kernel is rounded to eight bits in each call.

    kernel_format            the f8_ops.Format of the kernel
    kernel_scale             its scale, from -32 to 31
    kernel_data_initializer  of the kernel's codes; by default random

    Raises ValueError for another scale.
    """

    def __init__(self, units, kernel_format=f8_ops.Format.F143, kernel_scale=0,
                 kernel_data_initializer=None, **kwargs):
        super().__init__(units, **kwargs)
        if not -32 <= kernel_scale <= 31:
            raise ValueError("`kernel_scale` should be in the range [-32, 31]. The passed scale "
                             f"was {kernel_scale}.")
        self.kernel_format = f8_ops.Format(kernel_format)
        self.kernel_scale = kernel_scale
        self.kernel_data_initializer = kernel_data_initializer
        self._is_quarter = False
        self.input_spec = None  # until the kind of the inputs is known

    def build(self, input_shape):
        """Makes the weights: `kernel` and `bias`, or `kernel_data`, `kernel_metadata`, `bias`."""
        if not isinstance(input_shape, list):
            super().build(input_shape)
            return
        self._is_quarter = True
        last = tf.TensorShape(input_shape[0]).as_list()[-1]
        initializer = self.kernel_data_initializer
        self.kernel_data = self.add_weight(
            "kernel_data", [last, self.units], tf.uint8, trainable=False,
            initializer=_random_codes if initializer is None else initializer)
        metadata = f8_ops.create_metadata(self.kernel_format, self.kernel_scale)
        self.kernel_metadata = self.add_weight(
            "kernel_metadata", [], tf.uint8, trainable=False,
            initializer=lambda shape, dtype=None, **kwargs: tf.constant(metadata, tf.uint8))
        self.bias = self.add_weight(
            "bias", [self.units], tf.float16, initializer=self.bias_initializer,
            regularizer=self.bias_regularizer, constraint=self.bias_constraint,
        ) if self.use_bias else None
        self.built = True

    @property
    def weights(self):
        """The weights; with a kernel of eight bits that kernel first, as any Dense has it, though
        it is not trained."""
        found = super().weights
        return [*found[1:], found[0]] if self._is_quarter and self.use_bias else found

    def call(self, inputs, **kwargs):
        """activation(inputs x kernel + bias): [..., units], as Keras' Dense gives it for a tensor.

        For a QuarterTensor or [codes, metadata], uint8 [rows, size] or [groups, rows, size] and a
        scalar, the result is float16. Raises an Exception for shapes that are not known, ValueError
        for others.
        """
        if self._is_quarter:
            kernel = f8_ops.QuarterTensor(tf.convert_to_tensor(self.kernel_data),
                                          tf.convert_to_tensor(self.kernel_metadata))
        elif isinstance(inputs, f8_ops.QuarterTensor):
            kernel = f8_ops.convert_to_f8(
                self.kernel, f8_ops.create_metadata(self.kernel_format, self.kernel_scale))
        else:
            return super().call(inputs)
        outputs = f8_ops.f8_matmul(f8_ops.QuarterTensor(*inputs), kernel)
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, tf.cast(self.bias, outputs.dtype))
        return outputs if self.activation is None else self.activation(outputs)

    def get_config(self):
        """The constructor's arguments."""
        initializers = inner.public("initializers")
        initializer = self.kernel_data_initializer
        return {**super().get_config(), "kernel_format": int(self.kernel_format),
                "kernel_scale": self.kernel_scale,
                "kernel_data_initializer": None if initializer is None
                else initializers.serialize(initializers.get(initializer))}
