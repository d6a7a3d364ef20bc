"""PopDistStrategy under its name before SDK 2.4 (`ipu.horovod.ipu_multi_replica_strategy`)."""

from tremula.tf.ipu.distributed.popdist_strategy import (
    IPUMultiReplicaStrategy, IPUMultiReplicaStrategyV1, PopDistExtendedV1)

IPUMultiReplicaExtended = IPUMultiReplicaExtendedV1 = PopDistExtendedV1

__all__ = ["IPUMultiReplicaExtended", "IPUMultiReplicaExtendedV1", "IPUMultiReplicaStrategy",
           "IPUMultiReplicaStrategyV1"]
