"""From a configuration's snapshot to the compiler's options (src/exec/options.def)."""

import json

from tremula import flags, xla_flags

# The versions of an IPU that a configuration may name, and the machine that each is.
_TARGETS = {"ipu1": "mk1", "ipu2": "mk2", "ipu21": "bow"}

_MEMORY_PROPORTION = "availableMemoryProportion"

# Options that the compiler takes as JSON: a configuration's name and the compiler's.
_JSON_OPTIONS = {"compilation_poplar_options": "engine_options",
                 "convolutions.poplar_options": "convolution_options",
                 "matmuls.poplar_options": "matmul_options"}

# Floating-point behaviour that is on or off, in the compiler's words.
_FLOATING_POINT = {"inv": "invalid", "div0": "division_by_zero", "oflo": "overflow"}
_ROUNDING = {"ON": "on", "REPLICA_IDENTICAL_ONLY": "replica-identical"}


def lines(snapshot, device, ipus_of_id, architecture):
    """The compiler's options for one TF device of a configuration, KEY=VALUE lines.

    `ipus_of_id(id)` says how many IPUs an id stands for, architecture() which IPUs the inventory
    has. What the compiler has no option for is not lost: the snapshot is kept where the
    configuration is.
    """
    options = snapshot["options"]
    count = device["auto"] if "auto" in device else ipus_of_id(device["id"])
    chosen = {"ipus": count, "target": _target(snapshot, architecture)}
    for name, key in _JSON_OPTIONS.items():
        if options.get(name):
            chosen[key] = json.dumps(options[name], sort_keys=True)
    proportion = options.get("slices.poplar_options", {}).get(_MEMORY_PROPORTION)
    if proportion is not None:
        chosen["slice_memory_proportion"] = proportion
    if options.get("io_tiles.num_io_tiles"):
        chosen["io_tiles"] = options["io_tiles.num_io_tiles"]
        if options.get("io_tiles.place_ops_on_io_tiles"):
            chosen["place_ops_on_io_tiles"] = "true"
            chosen["io_tile_memory_proportion"] = options["io_tiles.available_memory_proportion"]
    if options.get("selection_order", "AUTO") != "AUTO":
        chosen["selection_order"] = options["selection_order"].lower()
    synthetic = [category for category in flags.SYNTHETIC_DATA_CATEGORIES
                 if flags.uses_synthetic_data_for(category, snapshot["flags"])]
    if synthetic:
        chosen["synthetic_data"] = ",".join(synthetic)
    if options.get("allow_recompute"):
        chosen["recompute"] = "true"
    smallest = options.get("optimizations.minimum_remote_tensor_size", 128)
    if smallest != 128:
        chosen["minimum_remote_bytes"] = smallest
    group = options.get("norms.experimental.distributed_batch_norm_replica_group_size", 1)
    if group > 1:
        chosen["batch_norm_group_size"] = group
    chosen.update(_floating_point_options(options))
    disabled = xla_flags.disabled_passes()
    if disabled:
        chosen["disabled_passes"] = ",".join(disabled)
    if snapshot["flags"]["use_ipu_model"]:
        chosen.update(_model_options(snapshot))
    else:  # an IPU's arithmetic; the IPU Model computes as the CPU does
        chosen.setdefault("half_overflow", "largest")
    if snapshot["flags"]["enable_hlo_verifier"]:
        chosen["verify"] = "true"
    if options.get("scheduling.algorithm") == "POST_ORDER":
        chosen["post_order_scheduler"] = "true"
    if snapshot["flags"]["fallback_scheduler"]:
        chosen["fallback_scheduler"] = "true"
    return "".join(f"{key}={value}\n" for key, value in sorted(chosen.items()))


def _floating_point_options(options):
    """What is not as it is by default."""
    category = "floating_point_behaviour."
    chosen = {key: "true" for name, key in _FLOATING_POINT.items() if options.get(category + name)}
    if options.get(category + "nanoo"):
        chosen["half_overflow"] = "nan"
    stable = options.get("experimental.enable_prng_stability")
    if stable:
        chosen["prng_stability"] = "true"
    rounding = _ROUNDING.get(options.get(category + "esr"))
    if rounding == "on" or (rounding and stable):  # as in the original
        chosen["stochastic_rounding"] = rounding
    return chosen


def _model_options(snapshot):
    """What only the IPU Model takes."""
    options = snapshot["options"]
    chosen = {"ipu_model": "true"}
    tiles = options.get("ipu_model.tiles_per_ipu") or snapshot["flags"]["ipu_model_tiles"]
    if tiles > 0:
        chosen["tiles_per_ipu"] = tiles
    if options.get("ipu_model.compile_ipu_code"):
        chosen["compile_ipu_code"] = "true"
    return chosen


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
