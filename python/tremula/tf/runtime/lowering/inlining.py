"""Puts the functions of calls (op_types.CALLS) in the places of the calls, so that TensorFlow's
bridge sees one graph, whose nodes have the order in which they were built."""

from tremula.tf.runtime.nodes import op_types, rewriting
from tremula.tf.runtime.ops import node_kinds


def inline(graph_def, known):
    """Does that in a GraphDef and its functions, whose operations by the names of nodes are `known`
    by the names of functions. Returns {name of a function, or "" for the graph: {name of a node
    that has come there: its operation}}."""
    functions = {one.signature.name: one for one in graph_def.library.function}
    done = {}

    def expand(name, nodes, function=None):
        done[name] = found = {}
        calls = {}
        for node in nodes:
            for called in rewriting.called([node]):
                if called in functions and called not in done:
                    expand(called, functions[called].node_def, functions[called])
            if node.op in op_types.CALLS:
                calls[node.name] = functions[node.attr["to_apply"].func.name]
        if calls:
            body = _Body(nodes, calls, function is not None, known, done, found)
            kept = body.nodes()
            del nodes[:]
            nodes.extend(kept)
            if function is not None:
                body.return_from(function)

    expand("", graph_def.node)
    return done


class _Names:
    """What tensors of calls are called where the functions are in the places of the calls."""

    def __init__(self, calls, in_function, nodes):
        self._calls, self._in_function, self._nodes = calls, in_function, nodes

    def of(self, text):
        """A tensor's name."""
        call = rewriting.node_of(text)
        if call not in self._calls or text.startswith("^"):
            return text
        number = int(text.rpartition(":")[2]) if ":" in text else 0
        function = self._calls[call]
        return self.inside(call, function.ret[function.signature.output_arg[number].name])

    def inside(self, call, text):
        """The name of a tensor "node:output:number" of a call's function."""
        node, output, number = f"{call}/{text}".rsplit(":", 2)
        if self._in_function:
            return f"{node}:{output}:{number}"
        outputs = [name for name, _ in node_kinds.Kind(self._nodes[node]).outputs]
        return f"{node}:{outputs.index(output) + int(number)}"


class _Body:
    """A list of nodes with calls in it, {name of a call: its FunctionDef}."""

    def __init__(self, nodes, calls, in_function, known, done, found):
        self._nodes, self._calls = nodes, calls
        self._known, self._done, self._found = known, done, found
        self._inner = {call: [self._copy(call, node) for node in function.node_def]
                       for call, function in calls.items()}
        self._names = _Names(calls, in_function, {
            node.name: node for inner in self._inner.values() for node in inner})

    def _copy(self, call, node):
        function = self._calls[call].signature.name
        operation = self._done[function].get(node.name) or self._known.get(
            function, {}).get(node.name)
        copy = type(node).FromString(node.SerializeToString())
        copy.name = f"{call}/{node.name}"
        if operation is not None:
            self._found[copy.name] = operation
        return copy

    def nodes(self):
        """The nodes with the functions in the places of the calls."""
        kept = []
        for node in self._nodes:
            if node.name in self._calls:
                self._connect(node)
                kept += self._inner[node.name]
            else:
                kept.append(node)
        gates = set()  # that have nothing to wait for: they would be among the first nodes
        for node in kept:
            texts = [one for text in node.input for one in self._waits(self._names.of(text))
                     if one not in gates]
            controls = dict.fromkeys(one for one in texts if one.startswith("^"))
            if node.op == "NoOp" and node.input and not texts:
                gates.add("^" + node.name)
            del node.input[:]
            node.input.extend([*(one for one in texts if one not in controls), *controls])
        return kept

    def return_from(self, function):
        """Makes what a FunctionDef with these nodes returns what it is there."""
        for key, one in list(function.ret.items()):
            function.ret[key] = self._names.of(one)
        for key, one in list(function.control_ret.items()):
            if one in self._calls:
                del function.control_ret[key]
                function.signature.control_output.remove(key)
                for effect in self._waits("^" + one):
                    function.control_ret[effect[1:]] = effect[1:]
                    function.signature.control_output.append(effect[1:])

    def _waits(self, text):
        """What waits for a call waits for its function's effects and accesses to variables: a value
        that the function gives may be used before the others are there."""
        call = text[1:]
        if not text.startswith("^") or call not in self._calls:
            return [text]
        effects = {f"{call}/{one}" for one in self._calls[call].control_ret.values()}
        return ["^" + node.name for node in self._inner[call]
                if node.name in effects or node_kinds.is_on_variables(node.op)]

    def _connect(self, call):
        """Gives the nodes of a call's function the inputs of the call."""
        given = [one for one in call.input if not one.startswith("^")]
        controls = [one for one in call.input if one.startswith("^")]
        taken = {argument.name: one for argument, one in zip(
            self._calls[call.name].signature.input_arg, given)}
        for node in self._inner[call.name]:
            texts = [taken[text] if text in taken else
                     f"^{call.name}/{text[1:]}" if text.startswith("^") else
                     self._names.inside(call.name, text) for text in node.input]
            del node.input[:]
            node.input.extend([*texts, *(one for one in controls if one not in texts)])
