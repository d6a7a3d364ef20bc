"""The nodes that replace a group of ops: an IpuLaunch, reads and assignments of its variables, and
nodes with the names of those that are fetched.
"""

import hashlib
import json

from tremula.tf.inner import versions
from tremula.tf.runtime.clusters import (group_variables, inner_graphs, node_sources,
                                         placed_graph)
from tremula.tf.runtime.launching import launching
from tremula.tf.runtime.lowering import lowering
from tremula.tf.runtime.nodes import node_table, rewriting, wide_ops
from tremula.tf.runtime.ops import kernel_list, node_kinds

_INT32 = 3  # the type's number in protocol buffers


class Launch:
    """The nodes that a group becomes.

    nodes    the NodeDefs
    gone     the numbers of the nodes that they replace
    renamed  {tensor, or "^" and a node: what replaces it}, tuples
    """

    def __init__(self, group, names):
        self._group = group
        self._members = {node.index for node in group}
        self._state = group_variables.Variables(group)
        self._names = names
        self._host, self._device = self._arguments()
        self._results, self._updates = self._outputs()
        self.nodes = []
        self._add_launch()
        self._done = self._add_assignments()
        self.gone = {node.index for node in group if not self._stays(node)}
        self.renamed = {}
        for node in group:
            if node.index in self.gone:
                self._replace(node)

    # ---- What goes in and out ----

    def _is_inside(self, source):
        """Whether the program has a node, or a copy of it."""
        return source.index in self._members or source.is_copied()

    def _inputs(self, node):
        """(node, output) for the tensors that the program's copy of a node takes; None for a
        handle."""
        if node.index in self._state.bases:
            return [self._state.bases[node.index],
                    self._state.value(*node.inputs[group_variables.VALUE])]
        return [None if i in node.variables else self._state.value(*one)
                for i, one in enumerate(node.inputs)]

    def _arguments(self):
        """The tensors (node, output) that come in: from host memory, and from the device's."""
        host, device = {}, {}
        for node in self._state.order:
            if not self._state.is_computed(node):
                continue
            for source, number in filter(None, self._inputs(node)):
                if self._is_inside(source):
                    continue
                if source.kind.outputs is None or number >= len(source.kind.outputs):
                    raise placed_graph.Unusual(f"{node.name} takes {_tensor(source, number)}")
                on_host = not source.on_ipu or number in source.kind.host_outputs
                (host if on_host else device)[source.index, number] = (source, number)
        return list(host.values()), list(device.values())

    def _outputs(self):
        """The tensors that go out, in host memory and in the device's."""
        on_device = {}
        for node in self._group:
            if self._state.stays(node):
                continue
            users = {i: [] for i in range(len(node.kind.outputs)) if node.preserved}
            for user, place, number in node.users:
                if place is not None and user.index not in self._members:
                    users.setdefault(number, []).append(
                        user.on_ipu and place not in user.kind.host_inputs)
            for number in sorted(users):
                end = self._state.value(node, number)
                if end[0].index in self._members:
                    on_device[end] = on_device.get(end, False) or any(users[number])
        filling = {node.inputs[1][0].index for node in self._group if node.fills}
        for end in self._state.assigned.values():
            if end[0].index in self._members | filling:
                on_device[end] = True
        return ([one for one, is_there in on_device.items() if not is_there],
                [one for one, is_there in on_device.items() if is_there])

    def _waits(self):
        """The control inputs: those of the nodes and of the constants that have been taken in."""
        waits = {}
        for node in self._group:
            for one in [node, *(one for one, _ in node.inputs if one.is_copied())]:
                waits.update({f"^{control.name}": None for control in one.controls
                              if control.index not in self._members})
        return list(waits)

    # ---- The nodes ----

    def _add_launch(self):
        state, device = self._state, self._group[0].proto.device
        variables = [state.dtype(one) for one in state.old]
        values = [_tensor(*one) for one in self._host + self._device]
        handles = [_tensor(*state.handles[one]) for one in state.old]
        waits = self._waits()
        program = _Program(self._state, self._inputs, self._host + self._device,
                           self._results + self._updates)
        source = program.source()
        self._first_variable = len(source.outputs)
        launch = type(self._group[0].proto)(device=device, input=[*values, *handles, *waits])
        launching.make_launch(
            launch, source, host=[_type(*one) for one in self._host],
            device=[_type(*one) for one in self._device] + variables,
            results=[_type(*one) for one in self._results] or [_INT32] * program.is_silent,
            updates=[_type(*one) for one in self._updates]
            + [state.dtype(one) for one in state.written])
        launch.attr["variables"].i = len(variables)
        launch.attr["feeds"].list.s.extend(one.encode() for one in program.feeds)
        # A session keeps the kernels of all its graphs by the names of their nodes.
        digest = hashlib.sha256(launch.SerializeToString(deterministic=True)).hexdigest()[:8]
        main = next((one for one in reversed(self._group) if one.kind.weight), self._group[-1])
        launch.name = self._unique(f"{main.name}/IpuLaunch_{digest}")
        self.nodes.append(launch)
        reads = [self._add("ReadVariableOp", variable, [
            handle, *("^" + one.name for one in state.waits(variable))])
            for variable, handle in zip(state.old, handles)]
        launch.input[len(values):len(values) + len(handles)] = reads

    def _add(self, op, variable, inputs):
        launch = self.nodes[0]
        node = type(launch)(name=self._unique(f"{launch.name}/{op}"), op=op, device=launch.device,
                            input=inputs)
        node.attr["dtype"].type = self._state.dtype(variable)
        self.nodes.append(node)
        return node.name

    def _unique(self, name):
        number, unique = 0, name
        while unique in self._names:
            number += 1
            unique = f"{name}_{number}"
        self._names.add(unique)
        return unique

    def _output(self, number):
        name = self.nodes[0].name
        return f"{name}:{number}" if number else name

    def _find(self, end):
        """What gives a tensor (node, output) after the program; None if nothing does."""
        outputs = self._results + self._updates
        if end in outputs:
            return self._output(outputs.index(end))
        return None if end[0].index in self._members else _tensor(*end)

    def _add_assignments(self):
        """Adds the assignments. Returns the name of the node after all effects of the group."""
        state = self._state
        values = {one: self._output(i)
                  for i, one in enumerate(state.written, self._first_variable)}
        values.update((one, self._constant(end[0]) if end[0].is_copied()
                       and end not in self._updates else self._find(end))
                      for one, end in state.assigned.items())
        launch = self.nodes[0]
        waits = ["^" + launch.name] if state.assigned else []
        done = ["^" + self._add("AssignVariableOp", variable,
                                [_tensor(*state.handles[variable]), value, *waits])
                for variable, value in values.items()]
        if not done:
            return launch.name
        self.nodes.append(type(launch)(name=self._unique(f"{launch.name}/done"), op="NoOp",
                                       device=launch.device, input=["^" + launch.name, *done]))
        return self.nodes[-1].name

    def _constant(self, node):
        """A copy of a constant without its control inputs, which may wait for the program."""
        copy = type(node.proto)()
        copy.CopyFrom(node.proto)
        copy.name = self._unique(f"{self.nodes[0].name}/Const")
        del copy.input[:]
        self.nodes.append(copy)
        return copy.name

    def _stays(self, node):
        """Whether a node is needed outside of the program too."""
        return self._state.stays(node) and (node.preserved or any(
            user.index not in self._members for user, _, _ in node.users))

    def _replace(self, node):
        """Corrects the users of a node's results, the nodes that wait for it, and its name."""
        done = "^" + self._done
        # What comes after an assignment makes the run do that.
        waits = [done] if node.index in self._state.after_writes else []
        self.renamed["^" + node.name] = (done,)
        if node.preserved and not node.kind.outputs:
            self.nodes.append(type(node.proto)(name=node.name, op="NoOp", device=node.proto.device,
                                               input=[done]))
        ends = [self._state.value(node, number) for number in range(len(node.kind.outputs))]
        tensors = [self._find(end) for end in ends]
        for number, tensor in enumerate(tensors):
            if tensor is not None:
                self.renamed[_tensor(node, number)] = (tensor, *waits)
        if node.preserved and ends:
            device = node.proto.device
            if not node.runs and all(end in self._results for end in ends):
                device = device[:device.rindex("device:")] + "device:CPU:0"
            identity = type(node.proto)(name=node.name, device=device, input=[*tensors, *waits])
            types = [dtype for _, dtype in node.kind.outputs]
            if len(types) == 1:
                identity.op, identity.attr["T"].type = "Identity", types[0]
            else:
                identity.op = "IdentityN"
                identity.attr["T"].list.type.extend(types)
            self.nodes.append(identity)


def _tensor(node, number):
    return f"{node.name}:{number}" if number else node.name


def _type(node, number):
    """The number of a tensor's type. What adds to a variable gives nothing outside of a program."""
    return node.kind.outputs[number][1] if node.kind.outputs else group_variables.dtype(node)


class _Program:
    """The program of a group, as something that can be lowered.

    feeds      the ids of the queues that it writes to
    is_silent  whether it has effects, but no results; it gives a zero then
    """

    def __init__(self, state, inputs, arguments, outputs):
        self._state, self._inputs = state, inputs
        self._arguments, self._outputs = arguments, outputs
        self.feeds = []
        self._effect = None  # the last node that has effects: they happen in their order
        computed = [node for node in state.order if state.is_computed(node)]
        taken_in = {node.index: node for node, _ in outputs if node.is_copied()}
        places = {(node.index, number) for node, number in arguments}
        for node in computed:
            taken_in.update({one[0].index: one[0] for one in filter(None, inputs(node))
                             if one[0].is_copied() and (one[0].index, one[1]) not in places})
        self.is_silent = not outputs and any(node.kind.has_effects for node in computed)
        self._nodes = [*taken_in.values(), *computed]
        self._table = node_table.NodeTable()
        entries = node_sources.describe(self._nodes)
        self._names = {node.index: self._table.add(entries[node.name]) for node in self._nodes}
        self._inner = {}  # {number of a launch: the names of what its graph gives}

    def source(self):
        """The lowering.Source."""
        import tensorflow.compat.v1 as tf
        graph_def = tf.GraphDef(versions=versions.graph_versions())
        for node in self._nodes:
            if node_kinds.is_part(node.proto):
                self._inner[node.index] = inner_graphs.insert(
                    graph_def, node.proto, [self._tensor(*one) for one in self._inputs(node)],
                    self._table)
            else:
                self._add(graph_def.node.add(), node)
        rewriting.rename_functions(graph_def)
        rewriting.elide_checks(graph_def.node)
        rewriting.use_plain_ops(graph_def.node)
        wide_ops.use_wide_ops(graph_def.node, self._table.entries)
        variables = [lowering.Argument(self._handle(one), self._state.dtype(one), None)
                     for one in self._state.old]
        return lowering.Source(
            graph_def,
            [lowering.Argument(self._tensor(*one), _type(*one), None) for one in self._arguments],
            variables, self._wanted(graph_def),
            table=self._table.entries,
            names=[*(node.name for node, _ in self._arguments),
                   *(self._state.name(one) for one in self._state.old)])

    def _add(self, proto, node):
        proto.name, proto.op = self._names[node.index], node.op
        for key, value in node.proto.attr.items():
            if not key.startswith("_"):
                proto.attr[key].CopyFrom(value)
        if node.index in self._state.bases:
            proto.op = "AddV2" if "Add" in node.op else "Sub"
            proto.attr.clear()
            proto.attr["T"].type = group_variables.dtype(node)
        for i, one in enumerate(self._inputs(node)):
            proto.input.append(self._handle(node.variables[i]) if one is None
                               else self._tensor(*one))
        if node.op == kernel_list.EFFECT:
            rewriting.custom_call(
                proto, proto.attr["call_target_name"].s.decode(),
                json.loads(proto.attr["backend_config"].s), list(proto.input), [],
                list(proto.attr["T"].list.type), [], [])
        if node.kind.has_effects:
            self._connect(proto)
            if self._effect:
                proto.input.append("^" + self._effect)
            self._effect = proto.name

    def _connect(self, proto):
        """Calls a queue by its number, as a program does."""
        config = json.loads(proto.attr["backend_config"].s or "{}")
        if "feed" in config:
            if config["feed"] not in self.feeds:
                self.feeds.append(config["feed"])
            config["feed"] = str(self.feeds.index(config["feed"]))
            proto.attr["backend_config"].s = json.dumps(config).encode()

    def _wanted(self, graph_def):
        """The names of the results. The first one also waits for the effects."""
        wanted = [self._tensor(*one) for one in self._outputs]
        if self._effect is None:
            return wanted
        dtype = _INT32 if self.is_silent else _type(*self._outputs[0])
        if self.is_silent:
            zero = graph_def.node.add(name="zero", op="Const")
            zero.attr["dtype"].type = zero.attr["value"].tensor.dtype = _INT32
            zero.attr["value"].tensor.int_val.append(0)
            zero.attr["value"].tensor.tensor_shape.SetInParent()
        first = graph_def.node.add(name="first", op="Identity",
                                   input=[*(wanted[:1] or ["zero:0"]), "^" + self._effect])
        first.attr["T"].type = dtype
        return ["first:0", *wanted[1:]]

    def _tensor(self, node, number):
        if (node, number) in self._arguments:
            return f"input{self._arguments.index((node, number))}:0"
        if node.index in self._inner:
            return self._inner[node.index][number]
        return f"{self._names[node.index]}:{number}"

    def _handle(self, variable):
        return f"input{len(self._arguments) + self._state.old.index(variable)}:0"
