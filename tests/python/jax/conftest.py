"""tremula.jax, where JAX is installed: `make test` makes an environment that has it."""

import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if str(ROOT / "python") not in sys.path:
    sys.path.insert(0, str(ROOT / "python"))
_found = importlib.util.find_spec("jax")
if _found is None or _found.origin is None:  # this folder, seen as a package
    collect_ignore_glob = ["test_*.py"]
