"""Configuring TensorFlow's IPU system for the processes of PopDist."""

import popdist


def set_ipu_config(config, ipus_per_replica=1, configure_device=True):
    """Puts into `config` (an `IPUConfig`) what this process is among the
    others, and with `configure_device` the IPUs of its replicas. Returns `config`.

    Raises NotImplementedError with more than one process, ValueError where PopRun was told another
    `ipus_per_replica`.
    """
    popdist.require_one_process("popdist.tensorflow.set_ipu_config")
    popdist.checkNumIpusPerReplica(ipus_per_replica)
    if configure_device:
        config.auto_select_ipus = popdist.getNumLocalReplicas() * ipus_per_replica
    return config
