"""From a configuration's snapshot to the compiler's options (src/exec/options.def)."""

# The versions of an IPU that a configuration may name, and the machine that each is.
_TARGETS = {"ipu1": "mk1", "ipu2": "mk2", "ipu21": "bow"}

_MEMORY_PROPORTION = "availableMemoryProportion"


def lines(snapshot, device, ipus_of_id, architecture):
    """The compiler's options for one TF device of a configuration, KEY=VALUE lines.

    `ipus_of_id(id)` says how many IPUs an id stands for, architecture() which IPUs the inventory
    has. What the compiler has no option for is
    not lost: the snapshot is kept where the configuration is.
    """
    options = snapshot["options"]
    count = device["auto"] if "auto" in device else ipus_of_id(device["id"])
    chosen = {"ipus": count, "target": _target(snapshot, architecture)}
    proportion = options.get("convolutions.poplar_options", {}).get(
        _MEMORY_PROPORTION, options.get("matmuls.poplar_options", {}).get(_MEMORY_PROPORTION))
    if proportion is not None:
        chosen["available_memory_proportion"] = proportion
    if snapshot["flags"]["enable_hlo_verifier"]:
        chosen["verify"] = "true"
    return "".join(f"{key}={value}\n" for key, value in sorted(chosen.items()))


def _target(snapshot, architecture):
    """The machine to plan for: that of the IPU Model, of the connection where none is made, or of
    the inventory."""
    options = snapshot["options"]
    if snapshot["flags"]["use_ipu_model"]:
        version = options.get("ipu_model.version")
    elif options.get("device_connection.type") in ("PRE_COMPILE", "NEVER"):
        version = options.get("device_connection.version")
    else:
        version = architecture()
    return _TARGETS.get(version or "ipu2", "mk2")
