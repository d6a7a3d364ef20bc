"""Tensors that are equal on all replicas, as a layer."""

from tremula.tf.ipu.ops import cross_replica_ops
from tremula.tf.keras.layers import ipu_layer


@ipu_layer.registered
class AssumeEqualAcrossReplicas(ipu_layer.IPULayer):
    """cross_replica_ops.assume_equal_across_replicas() of its inputs."""

    def __init__(self, inplace=False, **kwargs):
        super().__init__(**kwargs)
        self.inplace = inplace

    def call(self, inputs, **kwargs):
        """The inputs, a tensor or a structure of any shapes and types. Raises TypeError for what
        cannot be made a tensor."""
        return cross_replica_ops.assume_equal_across_replicas(inputs, self.inplace)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "inplace": self.inplace}
