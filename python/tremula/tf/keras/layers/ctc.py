"""Connectionist temporal classification: its loss and its decoders."""

import tensorflow as tf

from tremula.tf.ipu.ops import nn_ops
from tremula.tf.keras.layers import ipu_layer


@ipu_layer.registered
class CTCInferenceLayer(ipu_layer.IPULayer):
    """The most probable label sequences, by a beam search.

    blank_index  the class of the blank
    beam_width   sequences that are kept on the way
    top_paths    sequences that are kept in the end
    from_logits  whether the data are logits and not log probabilities
    """

    def __init__(self, blank_index=0, beam_width=100, top_paths=1, from_logits=False, **kwargs):
        super().__init__(**kwargs)
        self.blank_index = blank_index
        self.beam_width = beam_width
        self.top_paths = top_paths
        self.from_logits = from_logits

    def call(self, data, data_length, **kwargs):
        """(log probabilities [batch, top_paths], int32 lengths [batch, top_paths], int32 labels
        [batch, top_paths, time]).

        `data` is float16 or float32 [time, batch, classes], data_length int32 [batch]. Raises
        ValueError for shapes that are not known, and for more paths than beams.
        """
        search = (nn_ops.ctc_beam_search_decoder if self.from_logits
                  else nn_ops.ctc_beam_search_decoder_with_log_probs)
        return search(data, data_length, beam_width=self.beam_width, top_paths=self.top_paths,
                      blank_index=self.blank_index, name=self.name)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "blank_index": self.blank_index,
                "beam_width": self.beam_width, "top_paths": self.top_paths,
                "from_logits": self.from_logits}


@ipu_layer.registered
class CTCPredictionsLayer(CTCInferenceLayer):
    """The one most probable label sequence; arguments as CTCInferenceLayer's."""

    def call(self, data, data_length, **kwargs):
        """The labels, int32 [batch, time], blanks behind their end.

        `data` is float16 or float32 [time, batch, classes], data_length int32 [batch]. Raises
        ValueError for shapes that are not known.
        """
        _, lengths, labels = super().call(data, data_length)
        lengths, labels = lengths[:, 0], labels[:, 0]  # the most probable comes first
        positions = tf.range(tf.shape(labels)[1])[tf.newaxis]
        return tf.where(positions < lengths[:, tf.newaxis], labels,
                        tf.constant(self.blank_index, labels.dtype))


@ipu_layer.registered
class CTCLoss(ipu_layer.IPULayer):
    """The CTC loss as a layer, for models whose output is their loss.

    blank_index  the class of the blank
    from_logits  whether the data are logits and not log probabilities
    """

    def __init__(self, blank_index=0, from_logits=False, **kwargs):
        super().__init__(**kwargs)
        self.blank_index = blank_index
        self.from_logits = from_logits

    def call(self, labels, data, label_length, data_length, **kwargs):
        """The mean loss, [1] of the type of data.

        `labels` are integers [batch, most labels], `data` is float16 or float32 [time, batch,
        classes], the lengths are integers [batch]. Raises ValueError for shapes that are not known.
        """
        loss = nn_ops.ctc_loss_v2 if self.from_logits else nn_ops.ctc_loss_with_log_probs
        losses = loss(tf.cast(labels, tf.int32), data, tf.cast(label_length, tf.int32),
                      tf.cast(data_length, tf.int32), self.blank_index, name=self.name)
        return tf.reshape(tf.reduce_mean(losses), [1])

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "blank_index": self.blank_index,
                "from_logits": self.from_logits}
