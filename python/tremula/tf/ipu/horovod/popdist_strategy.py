"""Strategies over processes, which are refused when made (`horovod.popdist_strategy`)."""

from tremula.tf.ipu.horovod import _strategies

PopDistStrategy = _strategies.refuse("horovod.popdist_strategy", "PopDistStrategy")
PopDistExtendedV1 = _strategies.refuse("horovod.popdist_strategy", "PopDistExtendedV1")
IPUMultiReplicaStrategy = _strategies.refuse("horovod.popdist_strategy", "IPUMultiReplicaStrategy")
IPUMultiReplicaStrategyV1 = _strategies.refuse("horovod.popdist_strategy",
                                               "IPUMultiReplicaStrategyV1")
