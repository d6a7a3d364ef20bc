"""Configuring TensorFlow's IPU system for the processes of PopDist."""

import os

import popdist


def set_ipu_config(config, ipus_per_replica=1, configure_device=True):
    """Puts into `config` (an `IPUConfig`) what this process is among the others, and with
    `configure_device` the IPUs of its replicas. Returns `config`.

    Raises ValueError where poprun was told another `ipus_per_replica`.
    """
    if not popdist.checkNumIpusPerReplica(ipus_per_replica):
        raise ValueError(popdist._other_number(ipus_per_replica))
    if popdist.getNumInstances() > 1:
        distribution = config.experimental.multi_replica_distribution
        distribution.process_count = popdist.getNumInstances()
        distribution.process_index = popdist.getInstanceIndex()
    if configure_device:
        # Where no one id stands for the reserved IPUs, their number chooses them.
        given = os.environ.get("TREMULA_DEVICE_ID", "")
        if given.isdigit():
            config.auto_select_ipus = []
            config.select_ipus = popdist.getDeviceId(ipus_per_replica)
        else:
            config.auto_select_ipus = popdist.getNumLocalReplicas() * ipus_per_replica
    return config
