"""The order of reads and writes of a variable in a TensorFlow 1 graph that does not order them.

The original compiled the nodes of a graph in reverse postorder of a search that takes neighbours
by their names, and a read saw the writes that were compiled before it. So names decided whether a
variable is read before or after an update, and programs rely on that order.
"""

import re

from tremula.tf.runtime.base import orders
from tremula.tf.runtime.nodes import rewriting


def of_graph(graph_def, arguments):
    """The names of a GraphDef's nodes in that order.

    `arguments`: {name of a node that is an input of the program: what TensorFlow calls the input}.
    Inputs are no nodes of the GraphDef.
    """
    users, roots = {}, []
    nodes = {node.name for node in graph_def.node}
    for node in graph_def.node:
        needed = {rewriting.node_of(one) for one in node.input}
        for one in needed:
            users.setdefault(one, []).append(node.name)
        if not needed:
            roots.append(node.name)
    called = {name: _argument_name(outside) for name, outside in arguments.items()}

    def by_name(names):
        return sorted(names, key=lambda name: called.get(name, name))

    order = orders.postorder(by_name([*roots, *(set(users) - nodes)]),
                             lambda name: by_name(users.get(name, ())))
    return [name for name in reversed(order) if name in nodes]


def apply(graph_def, names):
    """Puts the nodes of a GraphDef in the order of a list of their names."""
    nodes = {node.name: node for node in graph_def.node}
    assert len(nodes) == len(names), "every node must be in the order once"
    ordered = [nodes[name] for name in names]
    del graph_def.node[:]
    graph_def.node.extend(ordered)


def _argument_name(name):
    """What the function that the original made of the program called an input."""
    return re.sub("[^a-z0-9]", "_", f"{name}_0_arg".lower())
