"""The flags of the environment variable TF_POPLAR_FLAGS.

The variable is read when the IPU system is configured or first used, not when a module is
imported: programs set it after their imports. Needs no TensorFlow.
"""

import dataclasses
import difflib
import os
import shlex
from typing import Any

VARIABLE = "TF_POPLAR_FLAGS"
SYNTHETIC_DATA_CATEGORIES = ("infeed", "outfeed", "seed", "hostembedding", "parameters")


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag: its type is that of its default. `removed` ones are accepted and do nothing."""
    name: str
    default: Any
    help: str
    removed: bool = False


FLAGS = (
    Flag("help", False, "print all flags"),
    Flag("use_ipu_model", False, "run on the IPU Model: no virtual IPU is attached, and running "
         "out of memory is a warning"),
    Flag("ipu_model_tiles", -1, "tiles of an IPU of the IPU Model; -1: all. "
         "IPUConfig.ipu_model.tiles_per_ipu wins over it"),
    Flag("use_synthetic_data", False, "move no data between host and device"),
    Flag("synthetic_data_categories", "", "what is synthetic, a comma-separated list of "
         + ", ".join(SYNTHETIC_DATA_CATEGORIES)),
    Flag("synthetic_data_initializer", "", "values of synthetic data: uniform, normal, random or "
         "a number"),
    Flag("executable_cache_path", "", "folder where compiled programs are kept"),
    Flag("max_compilation_threads", -1, "threads that compile; -1: as many as there are cores"),
    Flag("max_infeed_threads", -1, "threads that feed data; -1: as many as there are cores"),
    Flag("while_loop_brute_force_max_trip_count", 128, "iterations tried to find out how often a "
         "while loop runs"),
    Flag("log_cycle_count", -1, "tile whose cycle count is logged after each run; -1: none"),
    Flag("dump_schedule_as_dot", False, "write the schedule as a graph in the DOT language"),
    Flag("tensor_map_file_path", "", "folder for the tile mapping of every tensor"),
    Flag("fallback_scheduler", False, "use the simple list scheduler"),
    Flag("allow_nans", False, "accept constants that hold NaN"),
    Flag("null_data_feed", False, "give the infeeds no data"),
    Flag("show_progress_bar", "auto", "progress bar while compiling: true, false or auto"),
    Flag("use_on_demand", False, "attach to a device when it is first used"),
    Flag("on_demand_device_poll_time", 1000, "milliseconds between two tries to attach to a "
         "device on demand, 100 or more"),
    Flag("on_demand_device_timeout", 3600000, "milliseconds until attaching on demand gives up"),
    Flag("sync_replica_start", False, "start all replicas at the same time"),
    Flag("enable_hlo_verifier", False, "check the module after every compiler pass"),
    Flag("disable_poplar_version_check", False, "do not compare the versions of the runtime"),
    Flag("save_vertex_graph", "", "folder for the vertex graph", removed=True),
    Flag("save_interval_report", "", "folder for the interval report", removed=True),
    Flag("dump_text_reports_to_stdio", False, "print reports", removed=True),
    Flag("add_all_reduce_copies", False, "copy the operands of all-reduces", removed=True),
    Flag("force_replicated_mode", False, "compile for replication", removed=True),
    Flag("save_oom_profiler", "", "folder for the out-of-memory report", removed=True),
)
_BY_NAME = {flag.name: flag for flag in FLAGS}


def read():
    """The value of every flag, a dict by name, with the environment's values over the defaults.

    Raises ValueError: see parse().
    """
    return parse(os.environ.get(VARIABLE, ""))


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
        note = " (removed: accepted, does nothing)" if flag.removed else ""
        lines.append(f"  --{flag.name}={_text(flag.default)}\t{type(flag.default).__name__}\t"
                     f"{flag.help}{note}")
    return "\n".join(lines)


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
