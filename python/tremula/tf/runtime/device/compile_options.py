"""From a configuration's snapshot to the compiler's options (src/base/options.def)."""

import json

from tremula import flags, tables, xla_flags

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
    has. Settings that are no options of the compiler stay in the snapshot.
    """
    options, values = snapshot["options"], snapshot["flags"]
    synthetic = [category for category in flags.SYNTHETIC_DATA_CATEGORIES
                 if flags.uses_synthetic_data_for(category, values)]
    chosen = {
        "ipus": (device["auto"] if "auto" in device else ipus_of_id(device["id"]))
        * num_processes(snapshot),
        "target": _target(snapshot, architecture),
        "slice_memory_proportion": options.get("slices.poplar_options", {}).get(_MEMORY_PROPORTION),
        "selection_order": options.get("selection_order", "AUTO").lower(),
        "synthetic_data": ",".join(synthetic),
        "casts": "wrap",
        "recompute": options.get("allow_recompute"),
        "minimum_remote_bytes": options.get("optimizations.minimum_remote_tensor_size"),
        "solve_block": options.get("optimizations.triangular_solve_expander_block_size"),
        "factor_block": options.get("optimizations.cholesky_block_size"),
        "combined_sums": options.get("optimizations.maximum_cross_replica_sum_buffer_size"),
        "combined_scatters": options.get("optimizations.maximum_reduce_scatter_buffer_size"),
        "combined_gathers": options.get("optimizations.maximum_all_gather_buffer_size"),
        "batch_norm_group_size": max(1, options.get(
            "norms.experimental.distributed_batch_norm_replica_group_size", 1)),
        "disabled_passes": ",".join(xla_flags.disabled_passes()),
        "verify": values["enable_hlo_verifier"],
        "post_order_scheduler": options.get("scheduling.algorithm") == "POST_ORDER",
        "fallback_scheduler": values["fallback_scheduler"],
        **_io_tile_options(options), **_floating_point_options(snapshot)}
    for name, key in _JSON_OPTIONS.items():
        if options.get(name):
            chosen[key] = json.dumps(options[name], sort_keys=True)
    if values["use_ipu_model"]:
        chosen.update(_model_options(snapshot))
    texts = {key: _text(value) for key, value in chosen.items() if value is not None}
    return "".join(f"{key}={text}\n" for key, text in sorted(texts.items())
                   if text != tables.OPTIONS[key])


def num_processes(snapshot):
    """How many processes have a program's replicas, each as many."""
    return max(1, snapshot["options"].get(
        "experimental.multi_replica_distribution.process_count", 0))


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def _io_tile_options(options):
    count = options.get("io_tiles.num_io_tiles")
    if not count or not options.get("io_tiles.place_ops_on_io_tiles"):
        return {"io_tiles": count}
    return {"io_tiles": count, "place_ops_on_io_tiles": True,
            "io_tile_memory_proportion": options["io_tiles.available_memory_proportion"]}


def _floating_point_options(snapshot):
    options = snapshot["options"]
    category = "floating_point_behaviour."
    chosen = {key: bool(options.get(category + name)) for name, key in _FLOATING_POINT.items()}
    if options.get(category + "nanoo"):
        chosen["half_overflow"] = "nan"
    elif not snapshot["flags"]["use_ipu_model"]:  # an IPU's
        chosen["half_overflow"] = "largest"
    stable = options.get("experimental.enable_prng_stability")
    chosen["prng_stability"] = bool(stable)
    rounding = _ROUNDING.get(options.get(category + "esr"))
    if rounding == "on" or (rounding and stable):  # as in the original
        chosen["stochastic_rounding"] = rounding
    return chosen


def _model_options(snapshot):
    """What only the IPU Model takes."""
    options = snapshot["options"]
    tiles = options.get("ipu_model.tiles_per_ipu") or snapshot["flags"]["ipu_model_tiles"]
    accurate = snapshot["flags"]["ipu_model_accurate_half"]
    return {"ipu_model": True, "halves": "rounded" if accurate else "float",
            "tiles_per_ipu": max(0, tiles),
            "compile_ipu_code": options.get("ipu_model.compile_ipu_code")}


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
