"""PopDist: the numbers of the processes ("instances") that poprun has started.

Programs of SDK 2.0 and later import this whether poprun started them or not. Started by `mpirun` or
Slurm without poprun, each process is an instance with one replica; started by nobody, it is the
only one. The processes talk by MPI, from init() on.

PopDist's own text files and its functions for PyTorch and PopART are not here.
"""

import os
import sys

_PREFIX = "POPDIST_"


def _place():
    from tremula import group
    return group.place()


def _number(name, default):
    text = os.environ.get(_PREFIX + name)
    if text is None or not text.strip():
        return default() if callable(default) else default
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise ValueError(f"{_PREFIX}{name} is {text!r}: a whole number of at least 0 is expected "
                         "(poprun sets it; unset it to run one process).")
    return value


def isPopdistEnvSet() -> bool:
    """Whether poprun has started this process: its variables are set."""
    return _PREFIX + "NUM_TOTAL_REPLICAS" in os.environ


def getNumTotalReplicas() -> int:
    """The replicas of all processes together."""
    return _number("NUM_TOTAL_REPLICAS", lambda: _place().size)


def getNumLocalReplicas() -> int:
    """The replicas of this process."""
    return _number("NUM_LOCAL_REPLICAS", 1)


def getReplicaIndexOffset() -> int:
    """The number of this process's first replica among all."""
    return _number("REPLICA_INDEX_OFFSET",
                   lambda: 0 if isPopdistEnvSet() else _place().rank)


def _require_uniform(what):
    if _number("UNIFORM_REPLICAS_PER_INSTANCE", 1) == 0:
        raise RuntimeError(f"popdist.{what}: the instances have different numbers of replicas.")


def getNumInstances() -> int:
    """The number of processes. Raises RuntimeError where they have different numbers of replicas.
    """
    _require_uniform("getNumInstances")
    return getNumTotalReplicas() // max(getNumLocalReplicas(), 1)


def getInstanceIndex() -> int:
    """The number of this process, from 0. Raises RuntimeError as getNumInstances()."""
    _require_uniform("getInstanceIndex")
    return getReplicaIndexOffset() // max(getNumLocalReplicas(), 1)


def getLocalInstanceIndex() -> int:
    """The number of this process among those of its host, from 0."""
    return _number("LOCAL_INSTANCE_INDEX",
                   lambda: 0 if isPopdistEnvSet() else _place().local_rank)


def getNumIpusPerReplica() -> int:
    """The IPUs of each replica."""
    return _number("NUM_IPUS_PER_REPLICA", 1)


def checkNumIpusPerReplica(ipus_per_replica) -> bool:
    """Whether poprun was told this number of IPUs per replica; True without poprun."""
    return not isPopdistEnvSet() or getNumIpusPerReplica() == ipus_per_replica


def getDeviceId(ipusPerReplica=0) -> int:
    """The id of this process's IPUs, for `select_ipus = [id]`: those that poprun has reserved, or
    the first that fit among the processes of the host. `ipusPerReplica` 0: as poprun was told.

    Raises RuntimeError where poprun has reserved none, or several that no one id stands for,
    ValueError for another number than poprun was told.
    """
    if ipusPerReplica and not checkNumIpusPerReplica(ipusPerReplica):
        raise ValueError(_other_number(ipusPerReplica))
    given = os.environ.get("TREMULA_DEVICE_ID")
    if given == "offline":
        raise RuntimeError("popdist.getDeviceId: poprun was told --offline-mode, so that there are "
                           "no IPUs.")
    num_ipus = getNumLocalReplicas() * (ipusPerReplica or getNumIpusPerReplica())
    found = given
    if given is None:
        from tremula import group
        found = group.device_id(num_ipus, getLocalInstanceIndex())
    if found is None or not str(found).isdigit():
        raise RuntimeError(f"popdist.getDeviceId: no one id stands for {num_ipus} IPUs. Let the "
                           f"system choose: `config.auto_select_ipus = {num_ipus}`.")
    return int(found)


def _other_number(ipus_per_replica):
    return (f"The program uses {ipus_per_replica} IPUs for a replica, poprun was told "
            f"{getNumIpusPerReplica()} (--ipus-per-replica).")


def init():
    """Starts the communication between the processes, and waits until all have called it. Once is
    enough. One process alone needs no MPI.

    Raises RuntimeError where MPI is missing: the message says what to install.
    """
    initializeBackend()


def initializeBackend():
    """The same as init()."""
    from tremula import core, group
    try:
        group.join()
    except core.TremulaError as error:
        raise RuntimeError(f"popdist.init: {error}") from error
    here = group.place()
    if (here.size, here.rank) != (getNumInstances(), getInstanceIndex()):
        raise RuntimeError(
            f"popdist.init: poprun's variables name instance {getInstanceIndex()} of "
            f"{getNumInstances()}, and MPI rank {here.rank} of {here.size}. Start the program with "
            "poprun or mpirun, and not with both.")


def finalizeBackend():
    """Ends the communication: waits until all processes do."""
    from tremula import group
    if group.is_joined():
        group.leave()


def isBackendInitialized() -> bool:
    """Whether the processes can communicate."""
    from tremula import group
    return group.is_joined()


def execute_on_instances(instances, func, *args, **kwargs):
    """func(*args, **kwargs) on these instances, a set of their numbers, where its result is
    returned; None elsewhere. Collectives inside are among these instances only.

    Raises ValueError for a number that no instance has.
    """
    from tremula import group
    instances = set(instances)
    wrong = sorted(one for one in instances if not 0 <= one < getNumInstances())
    if wrong or not instances:
        raise ValueError(f"popdist.execute_on_instances: instances are 0 to {getNumInstances() - 1}"
                         f", not {wrong or instances}.")
    if getInstanceIndex() not in instances:
        return None
    with group.among(instances if getNumInstances() > 1 else None):
        return func(*args, **kwargs)


class _Missing:
    """Says that the PopDist of another framework is not here."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname in ("popdist.poptorch", "popdist.popart"):
            raise ImportError(f"{fullname} is not a part of Tremula, which runs programs of "
                              "TensorFlow.", name=fullname)
        return None


sys.meta_path.append(_Missing())
