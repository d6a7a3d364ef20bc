"""Where the C library finds a LAPACK: SciPy's or NumPy's (docs/jax.md)."""

import functools
import glob
import importlib.util
import os

# A package's wheel has its LAPACK in a folder beside the package. Where there is none, the package
# has a module that is linked to one, and that this process can open.
_PLACES = (("scipy", "../scipy.libs/lib*openblas*.so"), ("numpy", "../numpy.libs/lib*openblas*.so"),
           ("scipy", "linalg/cython_lapack*.so"), ("numpy", "linalg/_umath_linalg*.so"))


@functools.cache
def settle():
    """Tells the library which LAPACK to open, should a program need one. TREMULA_LAPACK, where it
    is set, names another. Nothing is imported or opened here."""
    if not os.environ.get("TREMULA_LAPACK"):
        found = [os.path.realpath(path) for place in _PLACES for path in _files(*place)]
        os.environ["TREMULA_LAPACK"] = ":".join([*found, "libopenblas.so.0", "liblapack.so.3"])


def _files(package, pattern):
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return [path for folder in folders or ()
            for path in sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))]
