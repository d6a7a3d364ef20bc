"""Strategies over processes, which are refused when made (`horovod.ipu_multi_replica_strategy`)."""

from tremula.tf.ipu.horovod import _strategies

IPUMultiReplicaStrategy = _strategies.refuse("horovod.ipu_multi_replica_strategy",
                                             "IPUMultiReplicaStrategy")
IPUMultiReplicaExtended = _strategies.refuse("horovod.ipu_multi_replica_strategy",
                                             "IPUMultiReplicaExtended")
IPUMultiReplicaStrategyV1 = _strategies.refuse("horovod.ipu_multi_replica_strategy",
                                               "IPUMultiReplicaStrategyV1")
