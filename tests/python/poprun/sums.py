"""Meets the others many times (the first argument), and says when it has begun. Needs no
TensorFlow."""

import sys

import numpy as np

from tremula import group

group.join()
place, count = group.place(), int(sys.argv[1])
# In one write: where Python does not buffer, print makes two, and MPICH's mpirun marks each.
sys.stdout.write(f"{group.describe(place.rank)}, {place.local_size} on it: here\n")
sys.stdout.flush()
for step in range(count):
    total = group.all_reduce(f"sum {step % 7}", np.full(1000, place.rank + step, np.float32))
    assert total[0] == sum(range(place.size)) + place.size * step
sys.stdout.write("done\n")
