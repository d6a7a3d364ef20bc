"""From a configuration's snapshot to the compiler's options (src/exec/options.def)."""

# The versions of an IPU that a configuration may name, and the machine that each is.
_TARGETS = {"ipu1": "mk1", "ipu2": "mk2", "ipu21": "bow"}

_MEMORY_PROPORTION = "availableMemoryProportion"


def lines(snapshot, device, ipus_of_id):
    """The compiler's options for one TF device of a configuration, KEY=VALUE lines.

    `ipus_of_id(id)` says how many IPUs an id stands for. What the compiler has no option for is
    not lost: the snapshot is kept where the configuration is.
    """
    options = snapshot["options"]
    count = device["auto"] if "auto" in device else ipus_of_id(device["id"])
    chosen = {"ipus": count, "target": _target(snapshot)}
    proportion = options.get("convolutions.poplar_options", {}).get(
        _MEMORY_PROPORTION, options.get("matmuls.poplar_options", {}).get(_MEMORY_PROPORTION))
    if proportion is not None:
        chosen["available_memory_proportion"] = proportion
    return "".join(f"{key}={value}\n" for key, value in sorted(chosen.items()))


def _target(snapshot):
    """The machine to plan for: that of the IPU Model, or of the connection, or an MK2."""
    options = snapshot["options"]
    version = (options.get("ipu_model.version") if snapshot["flags"]["use_ipu_model"]
               else options.get("device_connection.version"))
    return _TARGETS.get(version or "ipu2", "mk2")
