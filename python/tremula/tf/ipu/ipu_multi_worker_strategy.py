"""Strategies over processes, which are refused when made (`ipu_multi_worker_strategy`).

Programs import them always, to ask whether the present strategy is one.
"""

from tremula.tf.ipu import _planned
from tremula.tf.ipu.horovod import _strategies

IPUMultiWorkerStrategy = _strategies.refuse("ipu_multi_worker_strategy", "IPUMultiWorkerStrategy")
IPUMultiWorkerStrategyV1 = _strategies.refuse("ipu_multi_worker_strategy",
                                              "IPUMultiWorkerStrategyV1")


def __getattr__(name):
    return _planned.attribute(__name__, name)
