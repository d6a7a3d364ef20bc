"""Ops that are placed on an IPU without `compile`, put together into programs.

The plugin's graph optimiser calls back with a graph whose nodes have been placed, in a session or
in a tf.function. Ops that can be compiled together become one IpuLaunch, which is lowered when it
runs and the shapes are known (late.py). Its results are those of the single ops, except for random
numbers. Without Python, or with `use_plugin_optimizers` off, the ops run one by one.

A node on an IPU stays as it is if it calls functions or has side effects that a program cannot
have, if the shape of its result depends on values, if an input must be a constant and is none, or
if it would be alone in its program. placed_graph.py finds the groups, group_variables.py follows
their variables.
"""

import ctypes

from tremula.tf.inner import eager
from tremula.tf.runtime.clusters import group_launch, node_sources, placed_graph
from tremula.tf.runtime.device import plugin, settings
from tremula.tf.runtime.ops import node_kinds

_SCOPE = b"jit_scope_ipu_"  # of scopes.ipu_jit_scope

# TensorFlow leaves graphs of fewer than four nodes as they are, unless an option says otherwise.
LEAST_NODES = -1

_callback = None  # kept from being collected while the plugin has it


class Request(ctypes.Structure):
    """A graph to optimise: trm_tf_optimize_request in src/tf/ops.h."""
    _fields_ = [("graph", ctypes.c_void_p), ("graph_size", ctypes.c_uint64),
                ("preserved", ctypes.c_void_p), ("preserved_size", ctypes.c_uint64),
                ("fetched", ctypes.c_void_p), ("fetched_size", ctypes.c_uint64),
                ("reply", ctypes.c_void_p)]


_OptimizeFunction = ctypes.CFUNCTYPE(None, ctypes.POINTER(Request))


def install():
    """Gives the plugin the function to call."""
    global _callback
    _callback = _OptimizeFunction(_answer)
    library = plugin.library()
    library.trm_tf_set_optimize.restype = None
    library.trm_tf_set_optimize.argtypes = [_OptimizeFunction]
    library.trm_tf_reply_graph.restype = None
    library.trm_tf_reply_graph.argtypes = [ctypes.POINTER(Request), ctypes.c_char_p,
                                           ctypes.c_uint64]
    node_sources.remember_graphs()
    eager.set_function_options({"min_graph_nodes": LEAST_NODES})
    library.trm_tf_set_optimize(_callback)


def _answer(request):
    """Called by the plugin. A graph that gets no reply stays as it is."""
    try:
        import tensorflow.compat.v1 as tf
        asked = request.contents
        graph_def = tf.GraphDef.FromString(
            ctypes.string_at(asked.graph, asked.graph_size))
        preserved = ctypes.string_at(asked.preserved, asked.preserved_size).decode().split("\n")
        fetched = ctypes.string_at(asked.fetched, asked.fetched_size).decode().split("\n")
        # An operation that is fetched itself may be one whose result is fed.
        fetched = (name.rpartition(":")[0] for name in fetched)
        changed = cluster(graph_def, frozenset(preserved), frozenset(fetched))
        if _leave_to_kernels(graph_def) or changed:
            data = graph_def.SerializeToString()
            plugin.library().trm_tf_reply_graph(request, data, len(data))
    except placed_graph.Unusual as error:
        plugin.log(f"The ops of a graph run one by one, because {error}.")
    except Exception as error:  # pylint: disable=broad-except
        plugin.log(f"The ops of a graph run one by one, because clustering failed: {error!r}")


def cluster(graph_def, preserved=frozenset(), fetched=frozenset()):
    """Puts the ops of a placed GraphDef together. `preserved` names the nodes that
    must stay, `fetched` those of them that another node of the same name may replace. Returns
    whether anything has changed."""
    if not _may_have_groups(graph_def):
        return False
    ordered = placed_graph.read(graph_def, preserved, fetched)
    needed = _needed(ordered)
    members = [_trim([one for one in group if one.index in needed])
               for group in placed_graph.groups(ordered)]
    members = [group for group in members if _is_worth(group)]
    if not members:
        return False
    names = {node.name for node in ordered}
    launches = [group_launch.Launch(group, names) for group in members]
    gone = set().union(*(one.gone for one in launches))
    renamed = {old: new for one in launches for old, new in one.renamed.items()}
    kept = [proto for i, proto in enumerate(graph_def.node) if i not in gone]
    kept += [proto for one in launches for proto in one.nodes]
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
    """Whether nodes on an IPU may be worth a program together. This look is quick, because reading
    a large graph takes long; most graphs have compiled programs only."""
    kinds = (node_kinds.Kind(node) for node in graph_def.node
             if node_kinds.may_have_weight(node.op) and "device:IPU:" in node.device)
    weight = 0
    least = 1 if settings.records_transfers() else 2
    for kind in kinds:
        weight += kind.weight
        if kind.is_program or weight >= least:
            return True
    return settings.writes_reports() and any(
        node.op == node_kinds.ASSIGN and "device:IPU:" in node.device for node in graph_def.node)


def _is_worth(group):
    """Whether a group becomes a program; otherwise its nodes run one by one."""
    weight = sum(node.kind.weight for node in group)
    return (weight > 1 or any(node.kind.is_program or node.fills for node in group)
            or weight == 1 and settings.records_transfers()
            and any(node.variables for node in group))


def _needed(ordered):
    """The numbers of the nodes that something comes of: in a function there may be others, and what
    has effects is needed there."""
    is_function = placed_graph.is_function(ordered)
    needed = set()
    for node in reversed(ordered):
        if (node.preserved or node.index in needed or not node.kind.can_join
                or is_function and not node.kind.is_pure and not node.users):
            needed.add(node.index)
            needed.update(one.index for one in node.before())
    return needed


# ---- What belongs to a program ----

def _trim(group):
    """Leaves out nodes that cost nothing outside and whose results would have to leave the
    program."""
    inside_group = {node.index for node in group}

    def users(node):
        return [user.index in inside_group for user, _, _ in node.users] + [False] * node.preserved

    for node in group:  # at the beginning: a name or a shape of what comes in
        enough = any if node.op in node_kinds.READS else all
        if not node.kind.weight and not node.fills and not enough(users(node)) and not any(
                one.index in inside_group for one in node.earlier):
            inside_group.discard(node.index)
    for node in reversed(group):  # at the end: another name or shape of what goes out
        if node.index in inside_group and node.op in node_kinds.RENAMES and (
                not node.kind.weight and not any(users(node)) and not any(
                    one.index in inside_group for one, _ in node.inputs[1:])):
            inside_group.discard(node.index)
    return [node for node in group if node.index in inside_group]


def _rename_inputs(proto, renamed):
    """Makes a node take the programs' results."""
    inputs, controls = [], {}
    for text in proto.input:
        new, *waits = renamed.get(text.removesuffix(":0"), (text,))
        if new.startswith("^"):
            controls[new] = None
        else:
            inputs.append(new)
        controls.update(dict.fromkeys(waits))
    del proto.input[:]
    proto.input.extend([*inputs, *controls])
