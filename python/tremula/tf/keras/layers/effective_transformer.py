"""Attention between sequences of different lengths."""

import tensorflow as tf

from tremula.tf.ipu.ops import rand_ops
from tremula.tf.inner import keras as inner
from tremula.tf.keras.layers import ipu_layer, normalization


@ipu_layer.registered
class EffectiveTransformer(ipu_layer.IPULayer):
    """Attention of the tokens of one batch of sequences to those of another.

    output_layer_size       size of the output
    max_batch_size          most sequences that the original handled at once
    use_scale               whether a weight `scale` multiplies the scores
    num_attention_heads, attention_head_size
    sequences_per_iter      like max_batch_size, it changes no number
    qkv_activation          of the queries, keys and values
    attention_dropout_prob, output_dropout_prob   dropout in training, or None
    output_activation       of the output layer
    layer_norm_output       whether the output is normalized
    ..._initializer         of the layers that give queries, keys and values, and of the output's

    A token is one number. Padding gives zeros for query, key and value. Raises ValueError if
    max_batch_size is smaller than sequences_per_iter.
    """

    def __init__(self, output_layer_size, max_batch_size, use_scale=False, num_attention_heads=1,
                 attention_head_size=1, sequences_per_iter=1, qkv_activation=None,
                 attention_dropout_prob=None, output_activation=None, output_dropout_prob=None,
                 layer_norm_output=True, embedding_initializer="glorot_uniform",
                 embedding_bias_initializer="zeros", output_initializer="glorot_uniform",
                 output_bias_initializer="zeros", **kwargs):
        kwargs.setdefault("autocast", False)  # the inputs are of several types
        super().__init__(**kwargs)
        if max_batch_size < sequences_per_iter:
            raise ValueError("max_batch_size must be greater than sequences_per_iter")
        self.output_layer_size = output_layer_size
        self.max_batch_size = max_batch_size
        self.use_scale = use_scale
        self.num_attention_heads = num_attention_heads
        self.attention_head_size = attention_head_size
        self.sequences_per_iter = sequences_per_iter
        self.qkv_activation = qkv_activation
        self.attention_dropout_prob = attention_dropout_prob
        self.output_activation = output_activation
        self.output_dropout_prob = output_dropout_prob
        self.layer_norm_output = layer_norm_output
        self.embedding_initializer = embedding_initializer
        self.embedding_bias_initializer = embedding_bias_initializer
        self.output_initializer = output_initializer
        self.output_bias_initializer = output_bias_initializer

    def build(self, input_shape):
        """Makes the layers inside. Raises ValueError for another number of inputs."""
        if len(input_shape) not in (4, 5):
            raise ValueError("EffectiveTransformer must be built with either four or five input "
                             "shapes.")
        dense = inner.public("layers").Dense
        width = self.num_attention_heads * self.attention_head_size
        self.query_layer, self.key_layer, self.value_layer = (
            dense(width, self.qkv_activation, kernel_initializer=self.embedding_initializer,
                  bias_initializer=self.embedding_bias_initializer, name=name, dtype=self.dtype)
            for name in ("query_layer", "key_layer", "value_layer"))
        for layer in (self.query_layer, self.key_layer, self.value_layer):
            layer.build([None, 1])
        self.output_layer = dense(
            self.output_layer_size, self.output_activation,
            kernel_initializer=self.output_initializer,
            bias_initializer=self.output_bias_initializer, name="output_layer", dtype=self.dtype)
        batch, length = tf.TensorShape(input_shape[0]).as_list()[:2]
        self.output_layer.build([batch, length * width])
        if self.layer_norm_output:
            self.layer_norm = normalization.LayerNormalization(dtype=self.dtype)
            self.layer_norm.build([batch, self.output_layer_size])
        self.scale = self.add_weight("scale", (1,), initializer="glorot_uniform",
                                     dtype=self.dtype) if self.use_scale else None
        self.built = True

    def call(self, inputs, training=True):
        """inputs: from_sequences [batch, N], from_lengths [batch], to_sequences [batch, M],
        to_lengths [batch], and optionally q_mask, bool [batch, heads]: which heads count.

        Returns (output [batch, output_layer_size], context [batch, N, heads, head size] in
        float32). Raises ValueError for inputs that do not fit each other."""
        if len(inputs) not in (4, 5):
            raise ValueError("EffectiveTransformer must take either four or five inputs.")
        sources, source_lengths, targets, target_lengths, *mask = map(
            tf.convert_to_tensor, inputs)
        mask = self._check(sources, source_lengths, targets, target_lengths, mask)
        with tf.name_scope("EffectiveTransformer"):
            query = self._embed(sources, source_lengths, self.query_layer)
            key = self._embed(targets, target_lengths, self.key_layer)
            value = self._embed(targets, target_lengths, self.value_layer)
            scores = tf.einsum("bnhd,bmhd->bhnm", query, key)
            if self.use_scale:
                scores *= tf.cast(self.scale, scores.dtype)
            scores = self._drop(tf.nn.softmax(scores), self.attention_dropout_prob, training)
            context = tf.einsum("bhnm,bmhd->bnhd", scores, value)
            context *= tf.cast(mask, context.dtype)[:, tf.newaxis, :, tf.newaxis]
            flat = tf.reshape(context, [-1, context.shape[1] * context.shape[2]
                                        * context.shape[3]])
            output = self._drop(self.output_layer(flat), self.output_dropout_prob, training)
            if self.layer_norm_output:
                output = self.layer_norm(output)
        return output, tf.cast(context, tf.float32)

    def _check(self, sources, source_lengths, targets, target_lengths, mask):
        if sources.shape.rank != targets.shape.rank:
            raise ValueError("from_sequences and to_sequences must be equal rank")
        if sources.shape[0] != targets.shape[0]:
            raise ValueError("from_sequences and to_sequences must contain an equal number of "
                             "sequences")
        if any(one.shape[0] != sources.shape[0] for one in (source_lengths, target_lengths)):
            raise ValueError("from_sequence_lengths and to_sequence_lengths must have lengths "
                             "equal to the number of sequences provided.")
        for name, one in (("from_sequences", sources), ("to_sequences", targets)):
            if one.shape.rank != 2:
                raise ValueError(f"{name} must have the shape [num_sequences, tokens], with one "
                                 f"number for each token, but its shape is {one.shape}.")
        if sources.dtype != targets.dtype:
            raise ValueError("from_sequences and to_sequences must be equal types")
        batch = tf.shape(sources)[0]
        if not mask:
            return tf.ones([batch, self.num_attention_heads], tf.bool)
        if mask[0].shape.as_list() != [sources.shape[0], self.num_attention_heads]:
            raise ValueError("q_mask must have shape [num_sequences, num_attention_heads]")
        return mask[0]

    def _embed(self, sequences, lengths, layer):
        """The outputs of `layer` by token: [batch, tokens, heads, head size]; 0 for padding."""
        count = sequences.shape[1]
        tokens = layer(tf.cast(sequences[..., tf.newaxis], self.compute_dtype))
        tokens = tf.reshape(tokens, [-1, count, self.num_attention_heads,
                                     self.attention_head_size])
        is_token = tf.range(count)[tf.newaxis] < tf.cast(tf.reshape(lengths, [-1, 1]), tf.int32)
        return tf.where(is_token[:, :, tf.newaxis, tf.newaxis], tokens, tf.zeros_like(tokens))

    def _drop(self, values, probability, training):
        if probability is None:
            return values
        return inner.choose(inner.is_training(training),
                            lambda: rand_ops.dropout(values, rate=probability),
                            lambda: tf.identity(values))

    def get_config(self):
        """The constructor's arguments."""
        config = super().get_config()
        for name in ("output_layer_size", "max_batch_size", "use_scale", "num_attention_heads",
                     "attention_head_size", "sequences_per_iter", "attention_dropout_prob",
                     "output_dropout_prob", "layer_norm_output"):
            config[name] = getattr(self, name)
        activations, initializers = inner.public("activations"), inner.public("initializers")
        for name in ("qkv_activation", "output_activation"):
            given = getattr(self, name)
            config[name] = given and activations.serialize(activations.get(given))
        for name in ("embedding_initializer", "embedding_bias_initializer", "output_initializer",
                     "output_bias_initializer"):
            config[name] = initializers.serialize(initializers.get(getattr(self, name)))
        return config
