"""Strategies over processes, which are refused when made (`horovod.ipu_horovod_strategy`)."""

from tremula.tf.ipu.horovod import _strategies

IPUHorovodStrategy = _strategies.refuse("horovod.ipu_horovod_strategy", "IPUHorovodStrategy")
IPUHorovodExtended = _strategies.refuse("horovod.ipu_horovod_strategy", "IPUHorovodExtended")
IPUHorovodStrategyV1 = _strategies.refuse("horovod.ipu_horovod_strategy", "IPUHorovodStrategyV1")
IPUHorovodExtendedV1 = _strategies.refuse("horovod.ipu_horovod_strategy", "IPUHorovodExtendedV1")
