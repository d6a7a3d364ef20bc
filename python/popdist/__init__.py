"""PopDist: the numbers of the processes that PopRun has started.

Programs of SDK 2.0 and later import this whether PopRun started them or not. Tremula has no PopRun,
so a program is one process (an "instance"): `isPopdistEnvSet` is False, and the numbers are those
of one process. Where PopRun's variables are set all the same, they are read as PopDist reads them,
and functions by which several processes would communicate raise an error (docs/devices.md).

PopDist's own text files and its functions for PyTorch are not here.
"""

import os

_PREFIX = "POPDIST_"


def _number(name, default):
    text = os.environ.get(_PREFIX + name)
    if text is None or not text.strip():
        return default
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise ValueError(f"{_PREFIX}{name} is {text!r}: a whole number of at least 0 is expected "
                         "(PopRun sets it; unset it to run one process).")
    return value


def isPopdistEnvSet():
    """Whether PopRun has started this process: its variables are set."""
    return _PREFIX + "NUM_TOTAL_REPLICAS" in os.environ


def getNumTotalReplicas():
    """The replicas of all processes together."""
    return _number("NUM_TOTAL_REPLICAS", 1)


def getNumLocalReplicas():
    """The replicas of this process."""
    return _number("NUM_LOCAL_REPLICAS", 1)


def getReplicaIndexOffset():
    """The number of this process's first replica among all."""
    return _number("REPLICA_INDEX_OFFSET", 0)


def getNumInstances():
    """The number of processes."""
    return getNumTotalReplicas() // max(getNumLocalReplicas(), 1)


def getInstanceIndex():
    """The number of this process, from 0."""
    return getReplicaIndexOffset() // max(getNumLocalReplicas(), 1)


def getNumIpusPerReplica():
    """The IPUs of each replica."""
    return _number("NUM_IPUS_PER_REPLICA", 1)


def checkNumIpusPerReplica(ipus_per_replica):
    """Raises ValueError where the program wants another number of IPUs than PopRun was told."""
    if isPopdistEnvSet() and getNumIpusPerReplica() != ipus_per_replica:
        raise ValueError(f"The program uses {ipus_per_replica} IPUs for a replica, PopRun was told "
                         f"{getNumIpusPerReplica()} (--ipus-per-replica).")


def getDeviceId(ipus_per_replica=None):
    """Raises NotImplementedError: PopRun has reserved no device, so there is none to name."""
    del ipus_per_replica
    raise NotImplementedError(
        "popdist.getDeviceId: no PopRun has reserved IPUs for this process. Let the system choose: "
        "`config.auto_select_ipus`, or `popdist.tensorflow.set_ipu_config(config, ...)`.")


def init():
    """Starts the communication between processes; in one process there is nothing to start.

    Raises NotImplementedError with more than one.
    """
    require_one_process("popdist.init")


def require_one_process(what):
    """Raises NotImplementedError where PopRun or MPI have started several processes."""
    processes = max([getNumInstances()]
                    + [int(os.environ[name]) for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
                       if os.environ.get(name, "").isdigit()])
    if processes > 1:
        raise NotImplementedError(
            f"{what}: this program was started as {processes} processes, which Tremula does not "
            "connect. Start it as one, with all replicas in it (without poprun or mpirun).")
