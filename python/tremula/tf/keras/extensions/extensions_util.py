"""Results of queues."""

import numpy as np


def merge_into_batch_dimension(results, replication_factor):
    """An array [steps(, replicas), batch, ...] as [steps * replicas * batch, ...]."""
    lost = 2 if replication_factor > 1 else 1
    results = np.asarray(results)
    shape = results.shape
    return results.reshape((int(np.prod(shape[:lost + 1])), *shape[lost + 1:]))
