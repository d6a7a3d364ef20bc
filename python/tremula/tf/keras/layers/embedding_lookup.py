"""An embedding."""

import tensorflow as tf

from tremula.tf.ipu.ops import embedding_ops
from tremula.tf.inner import keras as inner
from tremula.tf.keras.layers import ipu_layer


@ipu_layer.registered
class Embedding(ipu_layer.IPULayer):
    """embedding_ops.embedding_lookup() in a variable `embeddings` [input_dim, output_dim].

    Arguments as those of Keras' Embedding, of which embeddings_regularizer, activity_regularizer,
    embeddings_constraint, mask_zero and input_length raise NotImplementedError, and
    serialization_factor as embedding_lookup()'s.
    """

    def __init__(self, input_dim, output_dim, embeddings_initializer="uniform",
                 embeddings_regularizer=None, activity_regularizer=None,
                 embeddings_constraint=None, mask_zero=False, input_length=None,
                 serialization_factor=1, **kwargs):
        kwargs["autocast"] = False  # the inputs are integers
        if not inner.module("engine.base_layer_utils").v2_dtype_behavior_enabled():
            # TensorFlow 1's layers have the type of their inputs.
            kwargs.setdefault("dtype", inner.public("backend").floatx())
        super().__init__(**kwargs)
        for name, value in (("embeddings_regularizer", embeddings_regularizer),
                            ("activity_regularizer", activity_regularizer),
                            ("embeddings_constraint", embeddings_constraint),
                            ("mask_zero", mask_zero), ("input_length", input_length)):
            self._check_unsupported(value, name)
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.embeddings_initializer = inner.public("initializers").get(embeddings_initializer)
        self.serialization_factor = serialization_factor

    def build(self, input_shape):
        """Makes the table. Raises ValueError unless the inputs have two dimensions."""
        if len(tf.TensorShape(input_shape)) != 2:
            raise ValueError("The input shape should be a tensor of shape [batch, input_length]")
        self.embeddings = self.add_weight(
            "embeddings", (self.input_dim, self.output_dim),
            initializer=self.embeddings_initializer, experimental_autocast=False)
        self.built = True

    def call(self, inputs, inputs_are_sorted=False, training=None):
        """The rows of the table that the inputs, integers [batch, length], name: [batch, length,
        output_dim] of the layer's type. Raises ValueError for a serialization_factor that does not
        fit."""
        del training
        inputs = tf.convert_to_tensor(inputs)
        if inputs.dtype not in (tf.int32, tf.int64):
            inputs = tf.cast(inputs, tf.int32)
        rows = embedding_ops.embedding_lookup(
            self.embeddings, inputs, serialization_factor=self.serialization_factor,
            indices_are_sorted=inputs_are_sorted, name=self.name)
        return tf.cast(rows, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        """[batch, length, output_dim]."""
        return tf.TensorShape([*tf.TensorShape(input_shape).as_list(), self.output_dim])

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "input_dim": self.input_dim,
                "output_dim": self.output_dim,
                "embeddings_initializer": inner.public("initializers").serialize(
                    self.embeddings_initializer),
                "serialization_factor": self.serialization_factor}
