"""A place from which the backward pass of a pipeline computes again, as a layer."""

from tremula.tf.ipu.ops import pipelining_ops
from tremula.tf.keras.layers import ipu_layer


@ipu_layer.registered
class RecomputationCheckpoint(ipu_layer.IPULayer):
    """pipelining_ops.recomputation_checkpoint() of its inputs."""

    def call(self, inputs, **kwargs):
        """The inputs, a tensor or a structure of any shapes and types. Raises TypeError for what
        cannot be made a tensor."""
        return pipelining_ops.recomputation_checkpoint(inputs, name=self.name)
