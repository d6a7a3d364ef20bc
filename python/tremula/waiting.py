"""How idle threads of the engine wait.

libgomp's threads spin for milliseconds before they sleep. On a machine that others use too, a
spinning thread eats the share of processor time that the next kernel needs: measured on two busy
cores, a ResNeXt-101 step took 2.5 s instead of 0.31 s. A few microseconds of spinning keep what
spinning is good for. libgomp reads its environment once, when it is loaded.
"""

import os

_SPINS = "2000"


def settle():
    """Bounds the spinning, unless the user has said otherwise. Call this before libgomp loads."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
