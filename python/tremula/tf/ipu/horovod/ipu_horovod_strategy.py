"""IPUHorovodStrategy (`ipu.horovod.ipu_horovod_strategy`)."""

from tremula.tf.ipu.distributed.ipu_horovod_strategy import (
    IPUHorovodExtended, IPUHorovodExtendedV1, IPUHorovodStrategy, IPUHorovodStrategyV1)

__all__ = ["IPUHorovodExtended", "IPUHorovodExtendedV1", "IPUHorovodStrategy",
           "IPUHorovodStrategyV1"]
