"""The extension of Keras' Sequential."""

import tensorflow as tf

from tremula.tf.keras.extensions import (
    config, extensions_base, extensions_util, messages, pipeline_stage_assignment,
    stage_assignments)

# SDK 2.2 to 2.6 have it here.
SequentialLayerPipelineStageAssignment = (
    pipeline_stage_assignment.SequentialLayerPipelineStageAssignment)


class SequentialExtension(config.SequentialConfig, stage_assignments.SequentialStages,
                          extensions_base.KerasExtensionBase):
    """The extension of a Sequential in the scope of an IPUStrategy."""

    def _build_supported(self, input_shape=None):
        return any(tf.is_tensor(one) for one in tf.nest.flatten(input_shape))

    def _build_delegate(self, input_shape=None):
        """As Keras' build(), with numbers for tensors in the shape: Keras compares shapes also
        while it traces a function."""
        return self.build(tuple(tf.TensorShape(input_shape).as_list()))

    def _build_for_data(self, element_spec):
        """Makes the weights, for the first element of the data."""
        inputs = extensions_base.inputs_of(element_spec)
        if not isinstance(inputs, tf.TensorSpec):
            raise RuntimeError(messages.SINGLE_INPUT.format(type(inputs), inputs))
        inputs = extensions_util.with_two_dimensions(inputs)
        if not self.built:
            self._build_graph_network_for_inferred_shape(inputs.shape, inputs.dtype)
        self._check_is_graph()
        if not self.built:
            self.build(inputs.shape)
