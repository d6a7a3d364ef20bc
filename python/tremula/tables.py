"""What Python hands to the compiler and the plugin, as src/ names and numbers it.

Made of the files that it names by tests/structure/test_tables.py."""

# The options of trm_compile and their defaults: src/base/options.def.
OPTIONS = {
    "optimise": "true",
    "disabled_passes": "",
    "reference": "false",
    "verify": "false",
    "target": "mk2",
    "ipus": "1",
    "selection_order": "auto",
    "available_memory_proportion": "0.6",
    "slice_memory_proportion": "0.6",
    "convolution_options": "",
    "matmul_options": "",
    "invalid": "false",
    "division_by_zero": "false",
    "overflow": "false",
    "halves": "rounded",
    "half_overflow": "infinity",
    "half_products": "auto",
    "casts": "auto",
    "stochastic_rounding": "off",
    "prng_stability": "false",
    "batch_norm_group_size": "1",
    "combined_sums": "0",
    "combined_scatters": "0",
    "combined_gathers": "0",
    "tiles_per_ipu": "0",
    "io_tiles": "0",
    "recompute": "false",
    "place_ops_on_io_tiles": "false",
    "io_tile_memory_proportion": "0.9",
    "synthetic_data": "",
    "fallback_scheduler": "false",
    "post_order_scheduler": "false",
    "compile_ipu_code": "false",
    "ipu_model": "false",
    "minimum_remote_bytes": "128",
    "framework_steps": "auto",
    "solve_block": "0",
    "factor_block": "0",
    "region_cache": "",
    "engine_options": "",
}

# Categories of synthetic data, and their bits: trm_synthetic.
SYNTHETIC = {
    "infeed": 1,
    "outfeed": 2,
    "seed": 4,
    "hostembedding": 8,
    "parameters": 16,
}

# Further bits of DeviceSettings.synthetic: src/tf/settings.h.
SYNTHETIC_MORE = {
    "NULL_FEED": 32,
}

# trm_tf_connection: src/tf/settings.h.
CONNECTIONS = {
    "ALWAYS": 0,
    "ON_DEMAND": 1,
    "PRE_COMPILE": 2,
    "NEVER": 3,
}

# trm_tf_progress_mode: src/tf/watch.h.
PROGRESS = {
    "NEVER": 0,
    "ALWAYS": 1,
    "AUTO": 2,
}

# The bits of trm_tf_events: src/tf/events.h.
EVENTS = {
    "RUNS": 1,
    "TRANSFERS": 2,
    "REPORT": 4,
    "TENSOR_MAP": 8,
    "GRAPH": 16,
    "EXECUTION": 32,
    "PRINT": 64,
}
