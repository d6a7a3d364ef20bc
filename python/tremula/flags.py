"""The flags of the environment variable TF_POPLAR_FLAGS.

The variable is read when the IPU system is configured or first used, not when a module is
imported: programs set it after their imports. Needs no TensorFlow.
"""

import dataclasses
import difflib
import os
import shlex
import sys
from typing import Any

from tremula import tables

VARIABLE = "TF_POPLAR_FLAGS"
SYNTHETIC_DATA_CATEGORIES = tuple(tables.SYNTHETIC)


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag: its type is that of its default.

    `acts` is what it does in Tremula, as text; empty where it does nothing, and then `why` says
    why. `removed` ones were gone from later SDKs.
    """
    name: str
    default: Any
    help: str
    acts: str = ""
    why: str = ""
    removed: bool = False


_REMOVED = "The original dropped it; it is accepted for old programs."

FLAGS = (
    Flag("help", False, "print all flags",
         acts="Prints on the standard error when the system is configured."),
    Flag("use_ipu_model", False, "run on the IPU Model: no virtual IPU is attached, and running "
         "out of memory is a warning",
         acts="No device attaches. A program that does not fit runs, with a warning."),
    Flag("ipu_model_tiles", -1, "tiles of an IPU of the IPU Model; -1: all. "
         "IPUConfig.ipu_model.tiles_per_ipu wins over it",
         acts="With --use_ipu_model: the tiles of the machine that the estimate is for."),
    Flag("ipu_model_accurate_half", False, "with --use_ipu_model: round every float16, as an IPU "
         "does",
         acts="Tremula's own. Without it the IPU Model stores float16 as float32, as the "
         "original's does: see [numbers.md](numbers.md)."),
    Flag("use_synthetic_data", False, "move no data between host and device",
         acts="The same as all categories of `synthetic_data_categories`."),
    Flag("synthetic_data_categories", "", "what is synthetic, a comma-separated list of "
         + ", ".join(SYNTHETIC_DATA_CATEGORIES),
         acts="infeed: all elements have the same synthetic values, and the dataset is not read. "
         "outfeed: no element comes out; the mode ALL gives no element, LAST fails. parameters: a "
         "program's inputs, variables too, have synthetic values; the results are computed from "
         "these. seed: `reset_ipu_seed` does nothing. hostembedding: lookups in host embeddings "
         "give synthetic values, updates are dropped, and no table need be registered. A profile "
         "has no streams of synthetic data."),
    Flag("synthetic_data_initializer", "", "values of synthetic data: uniform, normal, random or "
         "a number", acts="uniform, random: from 0 to 1; integers are 0 or 1. normal: mean 0, "
         "variance 1; integers are rounded, unsigned integers lose the sign. Without the flag: "
         "zeros. The values are the same in every process."),
    Flag("executable_cache_path", "", "folder where compiled programs are kept",
         acts="See [cache.md](cache.md)."),
    Flag("max_compilation_threads", -1, "threads that compile; -1: as many as there are cores",
         why="The thread that needs a program compiles it, in milliseconds."),
    Flag("max_infeed_threads", -1, "threads that feed data; -1: as many as there are cores",
         why="TensorFlow's own threads feed data; tf.data's options say how many."),
    Flag("while_loop_brute_force_max_trip_count", 128, "iterations tried to find out how often a "
         "while loop runs", why="Tremula tries no iterations to find a trip count."),
    Flag("log_cycle_count", -1, "tile whose cycle count is logged after each run; -1: none",
         acts="Logs `Cycle count: N` after each run. N is the cycles of the whole run, for any "
         "tile, because the tiles wait for each other at every step."),
    Flag("dump_schedule_as_dot", False, "write the schedule as a graph in the DOT language",
         acts="Writes the schedule of every compiled program into the folder of XLA_FLAGS' "
         "`--xla_dump_to`, or to the standard error. See [dumps.md](dumps.md)."),
    Flag("tensor_map_file_path", "", "folder for the tile mapping of every tensor",
         acts="Writes `NAME.tensor_map.json` for every compiled program. See "
         "[dumps.md](dumps.md)."),
    Flag("fallback_scheduler", False, "use the simple list scheduler",
         acts="The estimate takes the module's own order, instead of the one of three orders that "
         "needs the least memory."),
    Flag("allow_nans", False, "accept constants that hold NaN",
         why="Constants that hold NaN are always accepted."),
    Flag("null_data_feed", False, "give the infeeds no data",
         acts="The elements of infeeds are zeros, and the dataset is not read."),
    Flag("show_progress_bar", "auto", "progress bar while compiling: true, false or auto",
         acts="Draws the bar on the standard error. auto: when the standard error is a terminal, "
         "no detailed log is on, and the program has five or more of the operations that take an "
         "IPU's compiler long. See [dumps.md](dumps.md)."),
    Flag("use_on_demand", False, "attach to a device when it is first used",
         acts="DeviceConnectionType.ALWAYS counts as ON_DEMAND."),
    Flag("on_demand_device_poll_time", 1000, "milliseconds between two tries to attach to a "
         "device on demand, 100 or more", acts="The same."),
    Flag("on_demand_device_timeout", 3600000, "milliseconds until attaching on demand gives up",
         acts="The same."),
    Flag("sync_replica_start", False, "start all replicas at the same time",
         why="The replicas of a process always start together."),
    Flag("enable_hlo_verifier", False, "check the module after every compiler pass",
         acts="When a pass breaks the module, an error names the pass."),
    Flag("disable_poplar_version_check", False, "do not compare the versions of the runtime",
         why="There is no second runtime, and the cache never gives a file of another build."),
    Flag("save_vertex_graph", "", "folder for the vertex graph", why=_REMOVED, removed=True),
    Flag("save_interval_report", "", "folder for the interval report", why=_REMOVED, removed=True),
    Flag("dump_text_reports_to_stdio", False, "print reports",
         acts="With `profiling` ([events.md](events.md)), text reports of each compilation and of "
         "each program's first run go to the standard output."),
    Flag("add_all_reduce_copies", False, "copy the operands of all-reduces", why=_REMOVED,
         removed=True),
    Flag("force_replicated_mode", False, "compile for replication", why=_REMOVED, removed=True),
    Flag("save_oom_profiler", "", "folder for the out-of-memory report", why=_REMOVED,
         removed=True),
)
_BY_NAME = {flag.name: flag for flag in FLAGS}


def read():
    """The value of every flag, a dict by name, with the environment's values over the defaults. The
    folder that poprun was told for the cache is one of these defaults.

    Raises ValueError: see parse().
    """
    values = parse(os.environ.get(VARIABLE, ""))
    values["executable_cache_path"] = (values["executable_cache_path"]
                                       or os.environ.get("POPDIST_EXECUTABLE_CACHE_PATH", ""))
    return values


def parse(text):
    """The value of every flag, a dict by name, with the values in `text` over the defaults.

    `text` is flags separated by spaces, as `--name=value` or, for a bool, `--name`; values may be
    quoted. Text that does not start with a dash names a file that holds the flags.

    Raises ValueError for an unknown flag (naming the nearest known one), a value of the wrong type
    and for values that do not go together; OSError where the file cannot be read.
    """
    text = text.strip()
    if text and not text.startswith("-"):
        with open(text, encoding="utf-8") as file:
            text = file.read()
    values = {flag.name: flag.default for flag in FLAGS}
    for word in shlex.split(text):
        name, equals, value = word.partition("=")
        flag = _find(name)
        values[flag.name] = _value(flag, value if equals else None)
    _check(values)
    return values


def help_text():
    """One line a flag, for people."""
    lines = []
    for flag in FLAGS:
        note = "" if flag.acts else " (accepted, does nothing)"
        lines.append(f"  --{flag.name}={_text(flag.default)}\t{type(flag.default).__name__}\t"
                     f"{flag.help}{note}")
    return "\n".join(lines)


def markdown():
    """The flags as a document."""
    lines = ["# TF_POPLAR_FLAGS", "",
             "This page lists the flags of the environment variable `TF_POPLAR_FLAGS`, and what",
             "each does in Tremula. For example:", "",
             "    TF_POPLAR_FLAGS='--use_ipu_model --executable_cache_path=/tmp/cache' python "
             "program.py", "",
             "A flag is `--name=value`, or `--name` for a bool; spaces separate flags. A text that",
             "does not begin with a dash names a file that holds the flags. Tremula reads the",
             "variable when the IPU system is configured or first used. An unknown flag is an",
             "error that names the nearest known flag.", "",
             "In the last column, \"—\" means that the flag is accepted and has no effect; the",
             "reason follows.", "",
             "`python -m tremula.flags --markdown` writes this page from the table in",
             "`python/tremula/flags.py`.", "",
             "| flag | default | meaning | in Tremula |", "|---|---|---|---|"]
    for flag in FLAGS:
        default = f"`{_text(flag.default)}`" if flag.default != "" else ""
        effect = flag.acts or f"— {flag.why}"
        lines.append(f"| `{flag.name}` | {default} | {flag.help} | {effect} |")
    return "\n".join(lines) + "\n"


def _find(word):
    name = word[2:] if word.startswith("--") else word
    if word.startswith("--") and name in _BY_NAME:
        return _BY_NAME[name]
    near = difflib.get_close_matches(name.lstrip("-"), _BY_NAME, n=1, cutoff=0)[0]
    raise ValueError(f"Unknown flag {word!r} in {VARIABLE}. Did you mean '--{near}'?")


def _value(flag, text):
    kind = type(flag.default)
    if text is None:
        if kind is bool:
            return True
        raise ValueError(f"The flag '--{flag.name}' in {VARIABLE} needs a value: "
                         f"--{flag.name}=<{kind.__name__}>.")
    if kind is str:
        return text
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return kind(text)
    except (KeyError, ValueError):
        raise ValueError(f"The flag '--{flag.name}' in {VARIABLE} has the value {text!r}, but it "
                         f"must be of type {kind.__name__}.") from None


def _check(values):
    for category in filter(None, values["synthetic_data_categories"].split(",")):
        if category.strip().lower() not in SYNTHETIC_DATA_CATEGORIES:
            raise ValueError(f"Using an unknown synthetic data category {category!r} in "
                             f"'--synthetic_data_categories' in {VARIABLE}: the categories are "
                             + ", ".join(SYNTHETIC_DATA_CATEGORIES) + ".")
    initializer = values["synthetic_data_initializer"]
    if initializer:
        if not (values["use_synthetic_data"] or values["synthetic_data_categories"]):
            raise ValueError(f"'--synthetic_data_initializer' in {VARIABLE} needs "
                             "'--use_synthetic_data' or '--synthetic_data_categories'.")
        if initializer not in ("uniform", "normal", "random") and not _is_number(initializer):
            raise ValueError(f"'--synthetic_data_initializer' in {VARIABLE} is {initializer!r}, "
                             "but it must be uniform, normal, random or a number.")
    if values["show_progress_bar"] not in ("true", "false", "auto"):
        raise ValueError(f"'--show_progress_bar' in {VARIABLE} is "
                         f"{values['show_progress_bar']!r}, but it must be true, false or auto.")
    if values["on_demand_device_poll_time"] < 100:
        raise ValueError(f"'--on_demand_device_poll_time' in {VARIABLE} must be 100 milliseconds "
                         "or more.")


def uses_synthetic_data_for(category, values):
    """Whether data of `category` (one of SYNTHETIC_DATA_CATEGORIES) is synthetic."""
    chosen = [name.strip().lower() for name in values["synthetic_data_categories"].split(",")]
    return values["use_synthetic_data"] or category in chosen


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def _main(arguments):
    import argparse
    parser = argparse.ArgumentParser(prog="python -m tremula.flags")
    parser.add_argument("--markdown", action="store_true", required=True,
                        help="print the flags as a Markdown document")
    parser.parse_args(arguments)
    print(markdown(), end="")


if __name__ == "__main__":
    _main(sys.argv[1:])
