"""What a profile must be like so that everything else here can rely on it.

A profile may come from anywhere, and may be cut short or changed. Each table is checked before it
is read for the first time: its columns, the kinds of their values, and that what refers to
something refers to something that is there. The C side's schema is src/report/schema.h.
"""

import math

# Columns of each table, with the first letter of their kind: i integer, r real, t text, n text or
# nothing.
COLUMNS = {
    "meta": "", "target": "", "totals": "",
    "engine_options": "name:t value:t given:i acts:i",
    "notes": "id:i text:t",
    "ipus": "id:i first_tile:i num_tiles:i",
    "var_categories": "id:i name:t always_live:i",
    "sources": "id:i debug_id:i hlo_name:n opcode:n op_name:n op_type:n layer:n file:n line:i "
               "plan:n note:n",
    "programs": "id:i name:t type:t parent:i end:i source:i compute_set:i ipu:i stage:i "
                "repeat_count:i executions:r cycles:i sync_cycles:i cycles_mean:r active_tiles:i "
                "bytes_in:i bytes_in_worst:i bytes_out:i bytes_out_worst:i flops:i code_bytes:i "
                "live_bytes:i live_worst:i live_worst_tile:i",
    "compute_sets": "compute_set:i name:t source:i ipu:i vertices:i edges:i flops:i cycles:i "
                    "cycles_mean:r active_tiles:i shared_with:i",
    "vertex_types": "id:i name:t code_bytes:i",
    "vertices": "compute_set:i vertex_type:i count:i cycles:i state_bytes:i",
    "variables": "id:i name:t source:i dtype:t elements:i category:i always_live:i ipu:i tiles:i "
                 "worst_bytes:i total_bytes:i is_input:i is_output:i is_weight:i interleaved:i "
                 "first_step:i end_step:i distribution:i",
    "vars_info": "tile:i category:i size_bytes:i always_live:i",
    "memory_by_tile": "tile:i ipu:i total:i total_including_gaps:i gaps:i always_live:i "
                      "not_always_live:i interleaved:i overflowed:i peak_program:i",
    "liveness": "program:i ipu:i not_always_live:i",
    "runs": "id:i name:t cycles_base:i wait_cycles:i load_cycles:i cycles:i start_seconds:r "
            "wait_seconds:r host_seconds:r infeed_wait_seconds:r",
    "trace": "id:i type:t program:i compute_set:i ipu:i stage:i iterations:i cycles_base:i "
             "cycles:i cycles_overlapped:i sync_cycles:i active_tiles:i data_in:i data_out:i "
             "cycles_mean:r",
    "steps": "id:i type:t program:i compute_set:i stage:i run:i iterations:i",
    "steps_by_ipu": "step_id:i ipu:i cycles:i cycles_overlapped:i active_tiles:i cycles_base:i "
                    "active_cycles_from_min:i active_cycles_from_max:i active_cycles_to_min:i "
                    "active_cycles_to_max:i data_in:i data_out:i sync_cycles:i run:i",
}

# What newer profiles have besides: tables, columns of the tables above (which pva reads only where
# they are), and views.
NEWER = {
    "runs": "first_row:i end_row:i",
    "sources": "role:n",
    "programs": "stream:i tile_cycles:i code_by_tile:i",
    "compute_sets": "tile_cycles:i state_by_tile:i",
    "var_categories": "may_interleave:i",
    "trace": "micro_batch:i phase:n",
    "streams": "id:i name:t kind:t direction:t source:i bytes:r",
    "tile_cycles": "distribution:i first_tile:i num_tiles:i cycles:i",
    "tile_bytes": "distribution:i first_tile:i num_tiles:i bytes:i",
    "advice": "id:i text:t worst_tile_bytes:i saved:i fits:i num_ipus:i cycles:i",
    "vars_by_region": "tile:i category:i always_live:i region:t size_bytes:i",
}

_KINDS = {"i": "'integer'", "r": "'real', 'integer'", "t": "'text'", "n": "'text', 'null'"}
VIEWS = ("steps", "steps_by_ipu", "vars_by_region")

# What no row may be like, and the words for it. Real numbers are small enough to be multiplied.
_NONE_MAY = {
    "var_categories": [("name = '' OR name GLOB '*[^a-zA-Z0-9]*'", "a category's name is no name")],
    "programs": [
        ("id NOT BETWEEN 0 AND (SELECT count(*) FROM programs) - 1", "programs are missing"),
        ("end <= id OR end > (SELECT count(*) FROM programs)", "a program ends where none is"),
        ("parent NOT BETWEEN -1 AND id - 1", "a program is inside one that comes after it"),
        ("parent >= 0 AND end > (SELECT end FROM programs AS outer WHERE "
         "outer.id = programs.parent)", "a program ends after the one that it is inside"),
        ("compute_set NOT BETWEEN -1 AND (SELECT count(*) FROM compute_sets) - 1",
         "a program has a compute set that is not there"),
        ("active_tiles < 0 OR abs(executions) > 1e200 OR abs(cycles_mean) > 1e200",
         "a number of a program is out of bounds")],
    "compute_sets": [
        ("compute_set NOT BETWEEN 0 AND (SELECT count(*) FROM compute_sets) - 1",
         "compute sets are missing"),
        ("shared_with >= 0 AND NOT EXISTS (SELECT 1 FROM compute_sets AS other WHERE "
         "other.compute_set = compute_sets.shared_with AND other.shared_with < 0)",
         "a compute set is shared with one that is not there"),
        ("active_tiles < 0 OR abs(cycles_mean) > 1e200",
         "a number of a compute set is out of bounds")],
    "vertices": [
        ("compute_set NOT IN (SELECT compute_set FROM compute_sets)",
         "vertices are of a compute set that is not there"),
        ("count < 0", "a number of vertices is out of bounds")],
    "vars_info": [("category NOT IN (SELECT id FROM var_categories)",
                   "bytes are of a category that is not there")],
    "liveness": [("ipu NOT BETWEEN 0 AND (SELECT value FROM target WHERE "
                  "key = 'ipus_per_replica') - 1", "an IPU is not there")],
    "memory_by_tile": [("tile NOT BETWEEN 0 AND (SELECT count(*) FROM memory_by_tile) - 1",
                        "tiles are missing")],
    "tile_cycles": [("first_tile < 0 OR num_tiles NOT BETWEEN 1 AND 65536",
                     "tiles are out of bounds")],
    "tile_bytes": [("first_tile < 0 OR num_tiles NOT BETWEEN 1 AND 65536",
                    "tiles are out of bounds")],
    "runs": [("max(abs(start_seconds), abs(wait_seconds), abs(host_seconds)) > 1e200",
              "a run's time is out of bounds")],
    "steps": [("program NOT BETWEEN -2 AND (SELECT count(*) FROM programs) - 1",
               "a step is of a program that is not there")],
    "steps_by_ipu": [("active_tiles < 0", "a number of tiles is out of bounds")],
}
_NEEDS = {"programs": ("compute_sets",), "vertices": ("compute_sets", "vertex_types"),
          "vars_info": ("var_categories",), "steps": ("programs",)}

_COUNT, _REAL = (1, 1 << 16), (0., 1e200)
# Keys that are read, with the bounds of numbers; None for texts.
_KEYS = {
    "meta": {"producer": None, "timestamp": None},
    "target": {
        "type": None, "architecture": None, "num_ipus": (1, 1 << 26), "ipus_per_replica": _COUNT,
        "num_replicas": _COUNT, "tiles_per_ipu": _COUNT, "num_tiles": (1, 1 << 42),
        "bytes_per_tile": (1, 1 << 30), "bytes_per_ipu": (1, 1 << 46), "clock_frequency": _REAL,
        "min_sync_delay": (0, 1 << 32), "num_worker_contexts": (1, 1 << 16)},
    "totals": dict.fromkeys(("num_compute_sets", "num_vertices", "num_variables", "num_edges"),
                            (0, 1 << 63)),
}


class DamagedError(ValueError):
    """A profile is damaged, or none of Tremula's."""


def check(database, table):
    """Raises DamagedError for a table that is not sound. `database`: a pva.database.Database."""
    for other in _NEEDS.get(table, ()):
        database.check(other)
    if table in _KEYS:
        _check_keys(database, table)
        return
    columns = [one.split(":") for one in (COLUMNS.get(table) or NEWER[table]).split()]
    there = {row["name"] for row in database.execute(f"PRAGMA table_info({table})")}
    for name, _ in columns:
        if name not in there:
            raise DamagedError(f"{database.path} is damaged: its table {table} has no column "
                               f"{name}")
    wrong = " OR ".join(f"typeof({name}) NOT IN ({_KINDS[kind]})" for name, kind in columns)
    for condition, words in [(wrong, "a value is of a wrong kind"), *_NONE_MAY.get(table, ())]:
        if database.execute(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1"):
            raise DamagedError(f"{database.path} is damaged: in its table {table} {words}")


def _check_keys(database, table):
    values = {}
    for row in database.execute(f"SELECT key, value FROM {table}"):
        if not isinstance(row["key"], str):
            raise DamagedError(f"{database.path} is damaged: a key of its table {table} is no text")
        values[row["key"]] = row["value"]
    for key, bounds in _KEYS[table].items():
        value = values.get(key)
        if bounds is None:
            good = isinstance(value, str)
        else:
            kinds = (int, float) if isinstance(bounds[0], float) else int
            good = isinstance(value, kinds) and math.isfinite(value) and (
                bounds[0] <= value <= bounds[1])
        if not good:
            raise DamagedError(f"{database.path} is damaged: its {table} says {value!r} for {key}")
