"""Updates of variables on an IPU without `compile`: what optimizers and scatter updates add.

A plugin's kernel cannot write to a variable in all versions of TensorFlow. So in a placed graph such
a node becomes reads of its variables, an IpuLaunch that computes their new values (lowered by
TensorFlow's bridge when it runs, as late.py says), and assignments; a NoOp keeps its name.
"""

from tremula.tf.runtime import (clusters_ops, clusters_sources, inside, kernel_list, lowering,
                                rewriting)


def expand(graph_def):
    """Does it for the updates of a placed GraphDef. Returns whether there were any."""
    updates = [node for node in graph_def.node
               if kernel_list.is_update(node.op) and "device:IPU:" in node.device]
    for node in updates:
        graph_def.node.extend(_parts(node))
        handles = [one.name for one in graph_def.node[-_num_assigned(node):]]
        _become_no_op(node, handles)
    return bool(updates)


def _num_assigned(node):
    """How many of the node's resources, the first so many, get new values."""
    if "update_slots" in node.attr and not node.attr["update_slots"].b:
        return 1  # the variable, not its slots
    return sum(inside.dtype_name(number) == "resource"
               for _, number in clusters_ops.Kind(node).inputs)


def _parts(node):
    """Reads, the launch, and assignments, the last ones."""
    kind = clusters_ops.Kind(node)
    data = [text for text in node.input if not text.startswith("^")]
    handles = [i for i, (_, number) in enumerate(kind.inputs)
               if inside.dtype_name(number) == "resource"]
    values = [i for i in range(len(data)) if i not in handles]
    dtype = node.attr["T" if "T" in node.attr else "dtype"].type
    # The reads wait for what the node waits for, its numbers included.
    waits = dict.fromkeys([*(text for text in node.input if text.startswith("^")),
                           *("^" + data[i].partition(":")[0] for i in values)])
    reads = [_node(node, f"read_{i}", "ReadVariableOp", [data[i], *waits], dtype) for i in handles]
    launch = type(node)(name=f"{node.name}/IpuLaunch", op="IpuLaunch", device=node.device)
    launch.input.extend([*(data[i] for i in values), *(one.name for one in reads)])
    assigned = handles[:_num_assigned(node)]
    for attribute, types in (("Thost", [kind.inputs[i][1] for i in values]),
                             ("Tdevice", [dtype] * len(reads)), ("Tresults", []),
                             ("Tupdates", [dtype] * len(assigned))):
        launch.attr[attribute].list.SetInParent()
        launch.attr[attribute].list.type.extend(types)
    launch.attr["feeds"].list.SetInParent()
    launch.attr["variables"].i = len(reads)
    launch.attr["module"].s = b""
    launch.attr["graph"].s = _source(node, kind, handles, values, dtype).serialize()
    return [*reads, launch, *(
        _node(node, f"assign_{i}", "AssignVariableOp",
              [data[i], f"{launch.name}:{number}" if number else launch.name], dtype)
        for number, i in enumerate(assigned))]


def _node(node, name, op, inputs, dtype):
    made = type(node)(name=f"{node.name}/{name}", op=op, device=node.device, input=inputs)
    made.attr["dtype"].type = dtype
    return made


def _source(node, kind, handles, values, dtype):
    """The node as a program; shapes come when it runs."""
    from tensorflow.core.framework import graph_pb2
    graph_def = graph_pb2.GraphDef(versions=inside.graph_versions())
    proto = graph_def.node.add(name="n1", op=node.op,
                               input=[f"input{i}:0" for i in range(len(kind.inputs))])
    for key, value in node.attr.items():
        if not key.startswith("_"):
            proto.attr[key].CopyFrom(value)
    rewriting.strip([proto])
    return lowering.Source(
        graph_def,
        [lowering.Argument(f"input{i}:0", kind.inputs[i][1], None) for i in values],
        [lowering.Argument(f"input{i}:0", dtype, None) for i in handles],
        [], "n1", table={"n1": clusters_sources.describe([node])[node.name]})


def _become_no_op(node, before):
    node.op = "NoOp"
    del node.input[:]
    node.input.extend("^" + name for name in before)
    for key in [key for key in node.attr if not key.startswith("_")]:
        del node.attr[key]
