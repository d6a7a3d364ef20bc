"""How many replicas a program will have, as far as that is known when it is traced.

The plugin decides it when the program first runs (src/compile/replication.c): IPUs of the device
over shards of the program.
"""

from tremula.tf.inner import graphs, marks
from tremula.tf.runtime.device import device_names, settings
from tremula.tf.runtime.nodes import node_marks


def factor(trace):
    """The number of replicas of a finished Trace, or of what holds an operation; None if no
    configuration says how many IPUs its device has, or if that is not a multiple of its shards."""
    try:
        ipus = settings.num_ipus(device_names.ordinal(trace.device))
    except (RuntimeError, ValueError):
        return None
    if ipus == 1:
        return 1
    count = shards(trace.graph)
    return ipus // count if ipus % count == 0 else None


def shards(graph):
    """On how many IPUs the operations of a graph, and of the functions that it calls, are: the
    highest that one is marked with and those below it, rounded up to a power of two."""
    highest = 0
    for one in [graph, *graphs.function_graphs(graph).values()]:
        for operation in one.get_operations():
            sharding = marks.operation_attribute(operation, node_marks.SHARDING)
            highest = max([highest, *(node_marks.decode_sharding(sharding) if sharding else []),
                           *_pipeline_devices(operation)])
    return 1 << highest.bit_length()


def _pipeline_devices(operation):
    """The IPUs of a pipeline's stages, if `operation` is its loop."""
    import json
    import tensorflow.compat.v1 as tf
    known = marks.operation_attribute(operation, node_marks.FRONTEND_ATTRIBUTES)
    description = node_marks.decode_attributes(known).get("pipeline") if known else None
    return tf.nest.flatten(json.loads(description)["device_mapping"]) if description else []
