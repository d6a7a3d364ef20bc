"""Ops that are placed on an IPU without `compile`, put together into programs.

The plugin's graph optimiser calls back with a graph whose nodes have been placed, in a session or
in a tf.function. Ops that can be compiled together become one IpuLaunch, which is lowered when it
runs, as soon as the shapes are known (late.py). What it gives is what the ops one by one would
have given; who has no Python, or turns off `use_plugin_optimizers`, gets them one by one.

A node on an IPU stays as it is if it has side effects, calls functions or handles resources, if
the shape of its result depends on values, if it must know a value that is no constant, or if it
would be alone. See clusters_graph.py for what can be put together.
"""

import ctypes
import hashlib
import itertools

from tremula.tf.runtime import (clusters_graph, clusters_ops, clusters_sources, clusters_updates,
                                inside, launching, lowering, plugin)

_SCOPE = b"jit_scope_ipu_"  # of scopes.ipu_jit_scope

_callback = None  # kept from being collected while the plugin has it


class Request(ctypes.Structure):
    """A graph to optimise: trm_tf_optimize_request in src/tf/optimizer.h."""
    _fields_ = [("graph", ctypes.c_void_p), ("graph_size", ctypes.c_uint64),
                ("preserved", ctypes.c_void_p), ("preserved_size", ctypes.c_uint64),
                ("fetched", ctypes.c_void_p), ("fetched_size", ctypes.c_uint64),
                ("reply", ctypes.c_void_p)]


_OptimizeFunction = ctypes.CFUNCTYPE(None, ctypes.POINTER(Request))


def install():
    """Tells the plugin whom to call."""
    global _callback
    _callback = _OptimizeFunction(_answer)
    library = plugin.library()
    library.trm_tf_set_optimize.restype = None
    library.trm_tf_set_optimize.argtypes = [_OptimizeFunction]
    library.trm_tf_reply_graph.restype = None
    library.trm_tf_reply_graph.argtypes = [ctypes.POINTER(Request), ctypes.c_char_p,
                                           ctypes.c_uint64]
    clusters_sources.remember_graphs()
    library.trm_tf_set_optimize(_callback)


def _answer(request):
    """Called by the plugin. A graph that gets no reply stays as it is."""
    try:
        from tensorflow.core.framework import graph_pb2
        asked = request.contents
        graph_def = graph_pb2.GraphDef.FromString(
            ctypes.string_at(asked.graph, asked.graph_size))
        preserved = ctypes.string_at(asked.preserved, asked.preserved_size).decode().split("\n")
        fetched = ctypes.string_at(asked.fetched, asked.fetched_size).decode().split("\n")
        # An operation that is fetched itself may be one whose result is fed.
        fetched = (name.rpartition(":")[0] for name in fetched)
        changed = clusters_updates.expand(graph_def)
        changed |= cluster(graph_def, frozenset(preserved), frozenset(fetched))
        if _leave_to_kernels(graph_def) or changed:
            data = graph_def.SerializeToString()
            plugin.library().trm_tf_reply_graph(request, data, len(data))
    except clusters_graph.Unusual as error:
        plugin.log(f"The ops of a graph run one by one, because {error}.")
    except Exception as error:  # pylint: disable=broad-except
        plugin.log(f"The ops of a graph run one by one, because clustering failed: {error!r}")


def cluster(graph_def, preserved=frozenset(), fetched=frozenset()):
    """Puts the ops of a placed GraphDef together. `preserved` are names of nodes that must stay,
    `fetched` of those among them that something else may stand for under their names. Returns
    whether anything has changed."""
    if not _may_have_groups(graph_def):
        return False
    ordered = clusters_graph.read(graph_def, preserved, fetched)
    needed = _needed(ordered)
    members = [_trim(group) for group in clusters_graph.groups(ordered)]
    members = [group for group in members if sum(one.kind.weight for one in group) > 1
               and any(one.index in needed for one in group)]
    if not members:
        return False
    names = {node.name for node in ordered}
    launches, gone, renamed = [], set(), {}
    for group in members:
        group = [one for one in group if one.index in needed]
        launches.append(_launch(group, names, renamed))
        gone.update(one.index for one in group)
    kept = [proto for i, proto in enumerate(graph_def.node) if i not in gone]
    kept += [proto for protos in launches for proto in protos]
    for proto in kept:
        _rename_inputs(proto, renamed)
    new_nodes = [type(proto).FromString(proto.SerializeToString()) for proto in kept]
    del graph_def.node[:]
    graph_def.node.extend(new_nodes)
    return True


def _leave_to_kernels(graph_def):
    """Takes the mark of what is to be compiled from nodes of an ipu_scope that are not on an IPU,
    such as initializers of optimizer slots beside a variable on the CPU: TensorFlow would compile
    each of them for the CPU. Returns whether there were any."""
    changed = False
    for node in graph_def.node:
        if ("_XlaCompile" in node.attr and "device:IPU:" not in node.device
                and node.attr["_XlaScope"].s.startswith(_SCOPE)):
            del node.attr["_XlaCompile"]
            changed = True
    return changed


def _may_have_groups(graph_def):
    """Whether two nodes on an IPU would be programs of their own: a quick look, since reading a
    large graph takes long. One whose programs were all compiled as such has none."""
    weights = (clusters_ops.Kind(node).weight for node in graph_def.node
               if clusters_ops.may_have_weight(node.op) and "device:IPU:" in node.device)
    return sum(itertools.islice(filter(None, weights), 2)) > 1


def _needed(ordered):
    """The numbers of the nodes that something comes of: in a function there may be others."""
    needed = set()
    for node in reversed(ordered):
        if (node.preserved or node.index in needed or not node.kind.can_join):
            needed.add(node.index)
            needed.update(one.index for one in node.before())
    return needed


# ---- What belongs to a program ----

def _trim(group):
    """Leaves out what costs nothing outside, but would have to be passed out of the program."""
    inside_group = {node.index for node in group}

    def users(node):
        return [user.index in inside_group for user, _, _ in node.users] + [False] * node.preserved

    for node in group:  # at the beginning: a name or a shape of what comes in
        if not node.kind.weight and not all(users(node)) and not any(
                one.index in inside_group for one in node.earlier):
            inside_group.discard(node.index)
    for node in reversed(group):  # at the end: another name or shape of what goes out
        if node.index in inside_group and node.op in clusters_ops.RENAMES and (
                not node.kind.weight and not any(users(node)) and not any(
                    one.index in inside_group for one, _ in node.inputs[1:])):
            inside_group.discard(node.index)
    return [node for node in group if node.index in inside_group]


# ---- The node that runs it ----

def _launch(group, names, renamed):
    """The nodes that stand for a group. Adds to `renamed` what is to be used instead of its
    tensors and of waiting for its nodes."""
    members = {node.index for node in group}
    arguments = _arguments(group, members)
    results, updates = _outputs(group, members)
    main = next(node for node in reversed(group) if node.kind.weight)
    proto = type(main.proto)(device=main.proto.device)
    proto.input.extend(_tensor(*one) for one in arguments[0] + arguments[1])
    proto.input.extend(_waits(group, members))
    launching.make_launch(
        proto, _source(group, arguments[0] + arguments[1], results + updates),
        *([node.kind.outputs[number][1] for node, number in tensors]
          for tensors in (*arguments, results, updates)))
    # A session keeps the kernels of all its graphs by the names of their nodes.
    digest = hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest()[:8]
    proto.name = name = _unique(f"{main.name}/IpuLaunch_{digest}", names)
    protos = [proto]
    for node in group:
        renamed["^" + node.name] = "^" + name
    on_host = set(range(len(results)))
    for i, (node, number) in enumerate(results + updates):
        new = f"{name}:{i}" if i else name
        renamed[_tensor(node, number)] = new
        if node.preserved:
            device = node.proto.device
            if i in on_host and not node.runs:
                device = device[:device.rindex("device:")] + "device:CPU:0"
            identity = type(proto)(name=node.name, op="Identity", device=device, input=[new])
            identity.attr["T"].type = node.kind.outputs[number][1]
            protos.append(identity)
    return protos


def _unique(name, names):
    number, unique = 0, name
    while unique in names:
        number += 1
        unique = f"{name}_{number}"
    names.add(unique)
    return unique


def _tensor(node, number):
    return f"{node.name}:{number}" if number else node.name


def _arguments(group, members):
    """The tensors (node, output) that come in: from host memory, and from the device's."""
    host, device = {}, {}
    for node in group:
        for source, number in node.inputs:
            if source.index in members or source.is_copied():
                continue
            if source.kind.outputs is None or number >= len(source.kind.outputs):
                raise clusters_graph.Unusual(f"{node.name} takes {_tensor(source, number)}")
            on_host = not source.on_ipu or number in source.kind.host_outputs
            (host if on_host else device)[source.index, number] = (source, number)
    return list(host.values()), list(device.values())


def _outputs(group, members):
    """The tensors that go out, in host memory and in the device's."""
    results, updates = [], []
    for node in group:
        users = {}
        for user, place, number in node.users:
            if place is not None and user.index not in members:
                users.setdefault(number, []).append((user, place))
        if node.preserved:
            users.setdefault(0, [])
        for number in sorted(users):
            on_device = any(user.on_ipu and place not in user.kind.host_inputs
                            for user, place in users[number])
            (updates if on_device else results).append((node, number))
    return results, updates


def _waits(group, members):
    """The control inputs: those of the nodes and of the constants that have been taken in."""
    waits = {}
    for node in group:
        absorbed = [one for one, _ in node.inputs if one.is_copied()]
        for one in [node, *absorbed]:
            waits.update({f"^{control.name}": None for control in one.controls
                          if control.index not in members})
    return list(waits)


def _source(group, arguments, outputs):
    """The program, as something that can be lowered."""
    from tensorflow.core.framework import graph_pb2
    taken_in = {}
    for node in group:
        taken_in.update({one.index: one for one, _ in node.inputs if one.is_copied()})
    nodes = [*taken_in.values(), *group]
    new_names = {node.name: f"n{i}" for i, node in enumerate(nodes, 1)}
    places = {(node.index, number): f"input{i}:0" for i, (node, number) in enumerate(arguments)}
    entries = clusters_sources.describe(nodes)
    graph_def = graph_pb2.GraphDef(versions=inside.graph_versions())
    for node in nodes:
        proto = graph_def.node.add(name=new_names[node.name], op=node.op)
        for key, value in node.proto.attr.items():
            if not key.startswith("_"):
                proto.attr[key].CopyFrom(value)
        for one, number in node.inputs:
            proto.input.append(places.get((one.index, number))
                               or f"{new_names[one.name]}:{number}")
    return lowering.Source(
        graph_def,
        [lowering.Argument(places[node.index, number], node.kind.outputs[number][1], None)
         for node, number in arguments],
        [], [f"{new_names[node.name]}:{number}" for node, number in outputs],
        table={new_names[node.name]: entries[node.name] for node in nodes})


def _rename_inputs(proto, renamed):
    """Makes a node take the programs' results."""
    inputs, controls = [], {}
    for text in proto.input:
        new = renamed.get(text.removesuffix(":0"), text)
        if text.startswith("^"):
            controls[new] = None
        else:
            inputs.append(new)
    del proto.input[:]
    proto.input.extend([*inputs, *controls])
