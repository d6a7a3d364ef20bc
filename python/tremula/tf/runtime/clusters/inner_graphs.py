"""Launches that are part of a group's program (launching.launch_part): their graphs among the
group's nodes.
"""

from tremula.tf.runtime.lowering import lowering
from tremula.tf.runtime.nodes import rewriting


def insert(graph_def, proto, inputs, table):
    """Adds the graph of a launch, a NodeDef that takes the tensors `inputs` (names in `graph_def`),
    to a GraphDef whose NodeTable is `table`. Returns the names of the tensors that it gives.

    The caller gives the functions their last names (rewriting.rename_functions)."""
    source = lowering.Source.parse(proto.attr["graph"].s)
    given = {one.tensor: name for one, name in zip(source.arguments, inputs)}
    heads = {}

    def renamed(old):
        head, slash, rest = old.partition("/")
        if head not in heads:
            heads[head] = table.add(source.table.get(
                head, {"name": head, "file": None, "line": 0}))
        return heads[head] + slash + rest

    inner = source.graph_def
    for function in inner.library.function:
        rewriting.rename_function(
            function, {one.name: renamed(one.name) for one in function.node_def})
    new_names = {one.name: renamed(one.name) for one in inner.node}
    for node in inner.node:
        taken = [given.get(one if ":" in one else one + ":0")
                 or rewriting.rename_input(one, new_names) for one in node.input]
        node.name = new_names[node.name]
        del node.input[:]
        node.input.extend(taken)
    first = len(graph_def.library.function)
    rewriting.rename_called(inner, {
        function.signature.name: f"inner{first + i}"
        for i, function in enumerate(inner.library.function)})
    graph_def.node.extend(inner.node)
    graph_def.library.function.extend(inner.library.function)
    return [given.get(one) or rewriting.rename_input(one, new_names) for one in source.outputs]
