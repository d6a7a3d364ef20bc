"""Cutting out of a graph what runs on the host.

Operations that were built in an outside_compilation_scope, and operations that print, become a
HostFunction. A custom call in their place calls it. This is the first change of the graph and of
each of its functions. Operations that make strings go along, because a program has no strings.
"""

import re

from tremula import custom_calls
from tremula.tf.inner import eager, errors, graphs, marks, patches
from tremula.tf.runtime.base import feed_arguments
from tremula.tf.runtime.host import host_calls
from tremula.tf.runtime.nodes import node_table, rewriting

ATTRIBUTE = "_xla_outside_compilation"
TARGET = custom_calls.HOST_CALL
FEEDS = ("feed", "host_call")  # what configurations of custom calls name queues and functions by
SECOND_INFEED = (
    "Currently multiple IPUInfeedQueue in the same program are not supported.")

PRINTS = ("Print", "PrintV2")
_STRING = 7  # the type's number in protocol buffers
_GRADIENT = re.compile(r"(.*_grad)/\d+$")


def is_marked(operation):
    """Whether an operation was built to run on the host. Placeholders for tensors outside do not
    count: they are made where the tensor is first used, which may be in the scope."""
    name = marks.operation_attribute(operation, ATTRIBUTE)
    return name is not None and _can_move(
        operation.type, name.decode(), operation.outputs[0].dtype if operation.outputs else None)


def _can_move(op, name, dtype):
    """Whether a marked node runs on the host. These do not: placeholders for tensors outside of the
    graph, which are made where they are first used; constants, which are copied to their users; the
    lists in which gradients of loops find values of the forward pass."""
    return not (op == "Placeholder" or (op == "Const" and dtype != "string")
                or (op.startswith("TensorList") and _GRADIENT.match(name)))


def prints(operation):
    """Whether an operation is a tf.print or a tf.Print."""
    return operation.type in PRINTS


def runs_outside(operation):
    """Whether an operation runs on the host, or is needed there alone (as it prints)."""
    return prints(operation) or is_marked(operation)


def makes_text(operation):
    """Whether an operation gives strings, which only the host can use."""
    return bool(operation.outputs) and all(one.dtype.name == "string" for one in operation.outputs)


def is_used_outside_only(tensor):
    """Whether all users of a tensor run on the host."""
    users = tensor.consumers()
    return bool(users) and all(_is_text_only(one) for one in users)


def _is_text_only(operation):
    if runs_outside(operation):
        return True
    return makes_text(operation) and all(map(is_used_outside_only, operation.outputs))


class Host:
    """The host functions of a program: `trace` numbers and keeps them."""

    def __init__(self, trace):
        self._trace = trace
        self.functions = []

    def add(self, function):
        """What the program calls the function."""
        self.functions.append(function)
        return self._trace.feed(function.id)

    def connect(self, target, config):
        """What the program calls the queues and host functions in the configuration of a custom
        call that a tf.function was traced with."""
        if target == custom_calls.INFEED:
            infeed = feed_arguments.infeed(config["feed"])
            if self._trace.infeed not in (None, infeed):
                raise errors.failed_precondition(SECOND_INFEED)
            self._trace.infeed = infeed
        return {key: self._trace.feed(value) if key in FEEDS else value
                for key, value in config.items()}

    @property
    def graphs(self):
        """What the functions need to be kept alive."""
        return [self._trace.graph]

    def keep(self):
        """Keeps the functions as long as the graph around the program."""
        outer = self._trace.graph.outer_graph
        if not hasattr(outer, "_tremula_host_functions"):
            outer._tremula_host_functions = []
        outer._tremula_host_functions += self.functions


# ---- Cutting ----

def has_any(nodes):
    """Whether there is something to cut."""
    return any(is_marked_node(node) or node.op in PRINTS for node in nodes)


def is_marked_node(node):
    """is_marked() for a NodeDef."""
    if ATTRIBUTE not in node.attr:
        return False
    dtype = "string" if node.op == "Const" and node.attr["dtype"].type == _STRING else None
    return _can_move(node.op, node.attr[ATTRIBUTE].s.decode(), dtype)


def cut(part, library, host):
    """Cuts a Part; `library` has the functions that its nodes call, which are left as they are."""
    part.separate_prints()
    for number, cluster in enumerate(part.clusters()):
        _cut_cluster(part, cluster, number, library, host)
    part.order()


class Part:
    """A graph or a function of one.

    nodes       its NodeDefs, to which and from which some are added and taken
    graph       where they came from
    operations  {node name: operation}; gets an entry for each new node
    function    the FunctionDef, or None for a graph
    """

    def __init__(self, nodes, graph, operations, function=None):
        self.nodes, self.graph, self.operations = nodes, graph, operations
        self.function = function
        self.arguments = {} if function is None else {
            one.name: tensor for one, tensor in zip(function.signature.input_arg, graph.inputs)}
        self._positions = {node.name: i for i, node in enumerate(nodes)}
        self._results = {}  # new node -> the tensors whose place its outputs take
        self._spans = {}  # new node -> (first, last) position of what it stands for

    def index(self, tensor):
        """(node, number of the output) of a data input's name."""
        name, *rest = tensor.split(":")
        if len(rest) < 2 or name in self._results:
            return name, int(rest[-1]) if rest else 0
        operation, (output, number) = self.operations[name], rest
        position = 0
        for argument in operation.op_def.output_arg:
            if argument.name == output:
                return name, position + int(number)
            if argument.number_attr:
                position += operation.get_attr(argument.number_attr)
            elif argument.type_list_attr:
                position += len(operation.get_attr(argument.type_list_attr))
            else:
                position += 1
        raise KeyError(tensor)

    def tensor(self, name):
        """The graph's tensor of a data input's name."""
        node, number = self.index(name)
        if node in self.arguments:
            return self.arguments[node]
        return (self._results.get(node) or self.operations[node].outputs)[number]

    def separate_prints(self):
        """A tf.Print returns its input: only the printing is cut out."""
        for node in [one for one in self.nodes if one.op == "Print" and not is_marked_node(one)]:
            printing = self.nodes.add()
            printing.CopyFrom(node)
            printing.name = f"{node.name}/print"
            printing.attr[ATTRIBUTE].s = printing.name.encode()
            self.operations[printing.name] = self.operations[node.name]
            self._positions[printing.name] = self._positions[node.name]
            dtype = node.attr["T"].type
            first = node.input[0]
            node.op = "Identity"
            node.attr.clear()
            node.attr["T"].type = dtype
            del node.input[:]
            node.input.extend([first, "^" + printing.name])
        for node in self.nodes:
            if node.op == "PrintV2" and not is_marked_node(node):
                node.attr[ATTRIBUTE].s = node.name.encode()

    def clusters(self):
        """Lists of nodes; each list becomes one call. The gradients of a scope are one, unless
        something between them needs the program."""
        found = {}
        for node in self.nodes:
            if is_marked_node(node):
                found.setdefault(node.attr[ATTRIBUTE].s.decode(), []).append(node)
        merged = {}
        for name, nodes in found.items():
            gradient = _GRADIENT.match(name)
            merged.setdefault(gradient.group(1) if gradient else name, []).append(nodes)
        result = []
        for parts in merged.values():
            together = [node for nodes in parts for node in nodes]
            result += parts if len(parts) > 1 and self._needs_itself(together) else [together]
        return result

    def _needs_itself(self, cluster):
        """Whether a path leads out of a cluster and in again."""
        members = {node.name for node in cluster}
        nodes = {node.name: node for node in self.nodes}
        waiting = [name for node in cluster for name in map(rewriting.node_of, node.input)
                   if name not in members]
        seen = set()
        while waiting:
            name = waiting.pop()
            if name in members:
                return True
            if name not in seen and name in nodes:
                seen.add(name)
                waiting += map(rewriting.node_of, nodes[name].input)
        return False

    def replace(self, cluster, call, outputs, results):
        """Removes the nodes of a cluster. Users of a tensor in `outputs`, {(node, number): number
        of the call's output}, take the call's instead; `results` are these tensors."""
        self.operations[call.name] = self.operations[cluster[0].name]
        self._results[call.name] = results
        members = {node.name for node in cluster}
        output = "{}:results:{}" if self.function is not None else "{}:{}"

        def renamed(one):
            if one.startswith("^"):
                return "^" + call.name if one[1:] in members else one
            if rewriting.node_of(one) not in members:
                return one
            return output.format(call.name, outputs[self.index(one)])

        for node in self.nodes:
            if node.name not in members and any(
                    rewriting.node_of(one) in members for one in node.input):
                inputs = list(dict.fromkeys(map(renamed, node.input))) if all(
                    one.startswith("^") for one in node.input) else [
                        renamed(one) for one in node.input]
                del node.input[:]
                node.input.extend(_once_controlled(inputs))
        if self.function is not None:
            for key, one in list(self.function.ret.items()):
                self.function.ret[key] = renamed(one)
            for key, one in list(self.function.control_ret.items()):
                if one in members:
                    self.function.control_ret[key] = call.name
        places = [self._positions[name] for name in members]
        self._spans[call.name] = (min(places), max(places))
        for node in [one for one in self.nodes if one.name in members]:
            self.nodes.remove(node)

    def uses(self, cluster):
        """The (node, number) of the cluster's outputs that others take, in order."""
        members = {node.name for node in cluster}
        taken = [one for node in self.nodes if node.name not in members for one in node.input
                 if not one.startswith("^")]
        if self.function is not None:
            taken += self.function.ret.values()
        return list(dict.fromkeys(self.index(one) for one in taken
                                  if rewriting.node_of(one) in members))

    def order(self):
        """Makes side effects happen in the order in which they were built: a call comes after the
        effects that were complete before its first operation."""
        spans = dict(self._spans)
        for node in self.nodes:
            if node.op == "XlaCustomCallV2" and node.attr["has_side_effect"].b:
                place = self._positions.get(node.name)
                if place is not None:
                    spans[node.name] = (place, place)
        nodes = {node.name: node for node in self.nodes}
        effects = sorted(spans.items(), key=lambda one: one[1])
        for (before, (_, end)), (after, (begin, _)) in zip(effects, effects[1:]):
            if end < begin and (before in self._spans or after in self._spans):
                node = nodes[after]
                node.input.extend([f"^{before}"] if f"^{before}" not in node.input else [])


def _once_controlled(inputs):
    data = [one for one in inputs if not one.startswith("^")]
    return data + list(dict.fromkeys(one for one in inputs if one.startswith("^")))


def _cut_cluster(part, cluster, number, library, host):
    first = part.operations[cluster[0].name]
    members = {node.name: node for node in cluster}
    copies = _with_text(part, members)
    inputs, resources, operands = {}, {}, []
    graph_def = graphs.new_graph_def(library)
    for node in copies.values():
        copy = graph_def.node.add()
        copy.CopyFrom(node)
        _clean(copy)
        del copy.input[:]
        for one in node.input:
            if one.startswith("^"):
                copy.input.extend([one] if one[1:] in copies else [])
                continue
            name, output = part.index(one)
            if name in copies:
                copy.input.append(f"{name}:{output}")
                continue
            tensor = part.tensor(one)
            taken = resources if tensor.dtype.name in ("resource", "string", "variant") else inputs
            if (name, output) not in taken:
                stem = "resource" if taken is resources else "input"
                taken[name, output] = (f"{stem}_{len(taken)}:0", tensor)
                operands += [one] if taken is inputs else []
            copy.input.append(taken[name, output][0])
        copy.input[:] = _once_controlled(list(copy.input))
    rewriting.order_functions(graph_def)
    outputs = part.uses(cluster)
    results = [part.operations[name].outputs[output] for name, output in outputs]
    function = host_calls.HostFunction(
        graph_def,
        [(name, one.dtype.as_datatype_enum, _shape(one)) for name, one in inputs.values()],
        [(name, _outside(part.graph, one, first)) for name, one in resources.values()],
        [(f"{name}:{output}", tensor.dtype.as_datatype_enum, _static(tensor))
         for (name, output), tensor in zip(outputs, results)],
        first.name, host.graphs)
    call = part.nodes.add(name=f"{cluster[0].name}/host_call_{number}")
    controls = dict.fromkeys(one for node in cluster for one in node.input
                             if one.startswith("^") and one[1:] not in members)
    rewriting.custom_call(
        call, TARGET, {"host_call": host.add(function)}, operands, controls,
        [one.dtype.as_datatype_enum for _, one in inputs.values()],
        [one.dtype.as_datatype_enum for one in results], [_static(one) for one in results])
    part.replace(cluster, call, {one: i for i, one in enumerate(outputs)}, results)


def _with_text(part, members):
    """The nodes of a cluster, in their order, with constants and what makes text for them."""
    nodes = {node.name: node for node in part.nodes}
    wanted = dict(members)
    waiting = list(members.values())
    while waiting:
        node = waiting.pop()
        for one in node.input:
            name = rewriting.node_of(one)
            if one.startswith("^") or name in wanted or name not in nodes:
                continue
            if nodes[name].op == "Const" or (
                    nodes[name].op != "Placeholder" and part.tensor(one).dtype.name == "string"):
                wanted[name] = nodes[name]
                waiting.append(nodes[name])
    return {node.name: wanted[node.name] for node in part.nodes if node.name in wanted}


def _clean(node):
    """Takes marks off, and the IPU that is around."""
    device = "" if "ipu" in node.device.lower() else node.device
    rewriting.strip([node])
    node.device = device
    if ATTRIBUTE in node.attr:
        del node.attr[ATTRIBUTE]


def _shape(tensor):
    return None if tensor.shape.rank is None else tensor.shape.as_list()


def _static(tensor):
    """The sizes of what a program gets from the host."""
    if tensor.dtype.name in ("resource", "string", "variant"):
        raise _refusal(tensor.op, f"gives {tensor.dtype.name} to the compiled program around it, "
                       "which has no such values. Use it in the scope.")
    if not tensor.shape.is_fully_defined():
        raise _refusal(tensor.op, f"gives a tensor of the shape {tensor.shape} to the compiled "
                       "program around it. An IPU program is static: its shape must be known. Set "
                       "it with set_shape() or tf.ensure_shape() inside the scope.")
    return tensor.shape.as_list()


def _refusal(operation, what):
    file, line = node_table.user_frame(operation)
    where = f" (defined at {file}:{line})" if file else ""
    return errors.error_class(errors.INVALID_ARGUMENT)(None, None, (
        f"{operation.name}{where}, which runs on the host, {what}"))


def _outside(graph, tensor, operation):
    """The tensor outside of the program that a resource in it stands for."""
    while not eager.is_eager(tensor) and graphs.is_function_graph(tensor.graph):
        found = [external for external, internal in tensor.graph.captures if internal is tensor]
        if not found:
            raise _refusal(operation, f"takes {tensor.name}, a {tensor.dtype.name} that is made in "
                           "the compiled program. Make it inside the scope, or outside of the "
                           "program.")
        tensor = found[0]
    if "ipu" in tensor.device.lower():
        raise _refusal(operation, f"uses the variable {tensor.name} of an IPU. Read it before the "
                       "scope and use its value, or put it on the CPU.")
    return tensor


# ---- Gradients ----

def install():
    """Makes the gradients of what runs on the host run there too."""
    import itertools
    numbers = itertools.count()

    def marked(value):
        name = value.decode() if isinstance(value, bytes) else value
        return marks.graph_attributes({
            ATTRIBUTE: _GRADIENT.sub(r"\1", name) + f"_grad/{next(numbers)}"})

    def enter(operation):
        import contextlib
        value = marks.operation_attribute(operation, ATTRIBUTE)
        return contextlib.nullcontext() if value is None else marked(value)

    patches.wrap_gradients(enter)
    patches.wrap_tape_gradients(ATTRIBUTE, marked)
