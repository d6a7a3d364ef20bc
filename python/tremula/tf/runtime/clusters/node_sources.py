"""Where in the program the nodes of an optimised graph come from.

TensorFlow's optimised graphs do not have Python's tracebacks, so the nodes are looked up in the
graphs that Python has.
"""

import itertools
import threading
import weakref

from tremula.tf.inner import patches
from tremula.tf.runtime.nodes import node_table

_lock = threading.Lock()
_graphs = weakref.WeakSet()
_order = itertools.count()
_MOST_SAMPLES = 8  # nodes by which a graph is chosen


def remember_graphs():
    """Remembers every graph that the program makes, as long as it lives."""
    patches.after_new_graph(_remember)


def _remember(graph):
    with _lock:
        graph._tremula_order = next(_order)
        _graphs.add(graph)


def describe(nodes):
    """{name: node table entry} for nodes with a `name` and an `op`. The file, the line and the
    marks are those of the latest graph that has such nodes; None, 0 and none where it does not have
    one. A node of another type has what was called so before TensorFlow's optimisers rewrote it."""
    with _lock:
        graphs = sorted(_graphs, key=lambda one: one._tremula_order, reverse=True)
    samples = nodes[::max(1, len(nodes) // _MOST_SAMPLES)]
    graph = max(graphs, default=None,
                key=lambda one: sum(_has(one, node) for node in samples))
    known = {}
    return {node.name: _entry(node, graph and _find(graph, node), known) for node in nodes}


def _find(graph, node):
    try:
        return graph.get_operation_by_name(node.name)
    except (KeyError, ValueError):
        return None


def _has(graph, node):
    operation = _find(graph, node)
    return operation is not None and operation.type == node.op


def _entry(node, operation, known):
    if operation is None:
        return {"name": node.name, "file": None, "line": 0}
    return node_table.describe(operation, known)
