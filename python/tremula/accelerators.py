"""Where the C library finds an accelerator's plugin (docs/accelerators.md)."""

import os
import sys


def settle(wanted=None):
    """Tells the library the folders of this Python's packages, if an accelerator is wanted. Call
    this before a program is compiled for one."""
    if wanted or os.environ.get("TREMULA_ACCELERATOR"):
        folders = [path for path in sys.path if path and os.path.isdir(path)]
        os.environ.setdefault("TREMULA_PLUGIN_PATH", ":".join(folders))
