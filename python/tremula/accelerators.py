"""Where the C library finds an accelerator's plugin (docs/accelerators.md)."""

import importlib.metadata
import importlib.util
import os
import sys

GROUP = "jax_plugins"  # of entry points, by which JAX finds plugins


def settle(wanted=None):
    """Tells the library the folders of this Python's packages, if an accelerator is wanted. Call
    this before a program is compiled for one."""
    wanted = wanted or os.environ.get("TREMULA_ACCELERATOR")
    if wanted and "TREMULA_PLUGIN_PATH" not in os.environ:
        folders = [path for path in sys.path if path and os.path.isdir(path)]
        os.environ["TREMULA_PLUGIN_PATH"] = ":".join(dict.fromkeys(folders + _entry_folders()))


def _entry_folders():
    """The folders of the packages that entry points name: also of those that are installed in place
    (pip install --editable), whose folders sys.path need not have."""
    points = importlib.metadata.entry_points()
    named = points.select(group=GROUP) if hasattr(points, "select") else points.get(GROUP, ())
    folders = []
    for point in named:
        module = point.value.partition(":")[0].strip()
        try:
            spec = importlib.util.find_spec(module)
        except Exception:  # noqa: BLE001 of a package above the module: it finds nothing
            continue
        for place in (spec and spec.submodule_search_locations) or ():
            for _ in module.split("."):
                place = os.path.dirname(place)
            folders.append(place)
    return folders
