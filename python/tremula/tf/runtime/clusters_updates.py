"""Updates of variables on an IPU without `compile`: what optimizers and scatter updates add.

A plugin's kernel cannot write to a variable in all versions of TensorFlow. So in a placed graph such
a node becomes reads of its variables, what computes their new values, and assignments; a NoOp keeps
its name. The usual optimizers are computed by plain operations, which become part of the program
that computes the gradients (clusters.py); any other update is an IpuLaunch of its own, lowered by
TensorFlow's bridge when it runs (late.py).
"""

from tremula.tf.runtime import (clusters_ops, clusters_sources, inside, kernel_list, launching,
                                lowering, rewriting)


def expand(graph_def):
    """Does it for the updates of a placed GraphDef. Returns whether there were any."""
    updates = [node for node in graph_def.node
               if kernel_list.is_update(node.op) and "device:IPU:" in node.device]
    if not updates:
        return False
    handles = _handles(graph_def)
    written = _written(graph_def, handles)
    names = {node.name for node in graph_def.node}
    for node in updates:
        parts = _Parts(node, handles, written, names)
        formula = _FORMULAS.get(node.op)
        if formula is not None and parts.updates_slots:
            new = formula(parts)
        else:
            new = parts.launch()
        parts.assign(new)
        graph_def.node.extend(parts.nodes)
        node.op = "NoOp"
        del node.input[:]
        node.input.extend("^" + name for name in parts.assignments)
        for key in [key for key in node.attr if not key.startswith("_")]:
            del node.attr[key]
    return True


def _handles(graph_def):
    """{name of a node that is a handle: the variable}."""
    return {node.name: (node.device, node.attr["container"].s,
                        node.attr["shared_name"].s or node.name.encode())
            for node in graph_def.node if node.op == "VarHandleOp"}


def _written(graph_def, handles):
    """{variable: how many nodes may write to it}."""
    count = {}
    for node in graph_def.node:
        if node.op == "ReadVariableOp":
            continue
        for text in node.input:
            variable = handles.get(text.partition(":")[0])
            if variable is not None:
                count[variable] = count.get(variable, 0) + 1
    return count


class _Parts:
    """What a node becomes. Inputs and nodes are texts, as in a NodeDef.

    node, nodes    the update, and what stands for it
    assignments    the names of those of the nodes that are to be waited for
    updates_slots  whether all its variables get new values, not only the first
    """

    def __init__(self, node, handles, written, names):
        self.node, self.nodes, self.assignments = node, [], []
        self._names = names
        self.kind = clusters_ops.Kind(node)
        self.updates_slots = "update_slots" not in node.attr or node.attr["update_slots"].b
        self.dtype = node.attr["T" if "T" in node.attr else "dtype"].type
        self._data = [text for text in node.input if not text.startswith("^")]
        self._controls = [text for text in node.input if text.startswith("^")]
        self._resources = [i for i, (_, number) in enumerate(self.kind.inputs)
                           if inside.dtype_name(number) == "resource"]
        self._reads = {i: self._read(i, handles, written) for i in self._resources}

    def __getitem__(self, name):
        """The value of an argument, a variable's old value for a variable."""
        i = next(i for i, (one, _) in enumerate(self.kind.inputs) if one == name)
        return self._reads.get(i, self._data[i])

    def flag(self, name):
        """The value of an attribute that is a bool."""
        return self.node.attr[name].b

    def compute(self, op, *inputs):
        """Adds an operation on values of the variables' type; returns its result."""
        return self._add(op, inputs, "T")

    def one(self):
        """The number one."""
        import tensorflow as tf
        name = self._add("Const", [], "dtype")
        value = tf.make_tensor_proto(1, tf.dtypes.as_dtype(self.dtype), [])
        self.nodes[-1].attr["value"].tensor.CopyFrom(value)
        return name

    def _add(self, op, inputs, attribute):
        made = self._node(op, inputs)
        made.attr[attribute].type = self.dtype
        return made.name

    def _node(self, op, inputs):
        """Adds a node; the optimizer has nodes of its own below the update's name."""
        number = len(self.nodes)
        while f"{self.node.name}/{op}_{number}" in self._names:
            number += 1
        name = f"{self.node.name}/{op}_{number}"
        self._names.add(name)
        self.nodes.append(type(self.node)(name=name, op=op, device=self.node.device,
                                          input=inputs))
        return self.nodes[-1]

    def _read(self, i, handles, written):
        """A read that gives what the node would have seen: where others write to the variable, it
        waits for all that the node waits for; where nobody does, it may be early, so that the new
        value is computed where the gradient is."""
        waits = {}
        variable = handles.get(self._data[i].partition(":")[0])
        if variable is None or written[variable] > 1:
            waits = dict.fromkeys([*self._controls, *(
                "^" + text.partition(":")[0]
                for k, text in enumerate(self._data) if k not in self._resources)])
        return self._add("ReadVariableOp", [self._data[i], *waits], "dtype")

    def launch(self):
        """The new values, {argument: value}, by a program that is this node alone."""
        values = [i for i in range(len(self._data)) if i not in self._resources]
        assigned = self._resources if self.updates_slots else self._resources[:1]
        made = self._node("IpuLaunch", [*(self._data[i] for i in values), *self._reads.values()])
        launching.make_launch(made, self._source(values),
                              host=[self.kind.inputs[i][1] for i in values],
                              device=[self.dtype] * len(self._reads), results=[],
                              updates=[self.dtype] * len(assigned))
        made.attr["variables"].i = len(self._reads)
        return {self.kind.inputs[i][0]: f"{made.name}:{number}" if number else made.name
                for number, i in enumerate(assigned)}

    def _source(self, values):
        """The node as a program; shapes come when it runs."""
        from tensorflow.core.framework import graph_pb2
        graph_def = graph_pb2.GraphDef(versions=inside.graph_versions())
        proto = graph_def.node.add(name="n1", op=self.node.op,
                                   input=[f"input{i}:0" for i in range(len(self._data))])
        for key, value in self.node.attr.items():
            if not key.startswith("_"):
                proto.attr[key].CopyFrom(value)
        rewriting.strip([proto])
        return lowering.Source(
            graph_def,
            [lowering.Argument(f"input{i}:0", self.kind.inputs[i][1], None) for i in values],
            [lowering.Argument(f"input{i}:0", self.dtype, None) for i in self._resources],
            [], "n1", table={"n1": clusters_sources.describe([self.node])[self.node.name]})

    def assign(self, new):
        """Adds the assignments of new values, {argument: value}."""
        for i in self._resources:
            name = self.kind.inputs[i][0]
            if name in new:
                self.assignments.append(
                    self._add("AssignVariableOp", [self._data[i], new[name], *self._controls],
                              "dtype"))


# ---- The usual optimizers: the new values of a node's variables ----

def _gradient_descent(v):
    step = v.compute("Mul", v["alpha"], v["delta"])
    return {"var": v.compute("Sub", v["var"], step)}


def _momentum(v):
    accum = v.compute("AddV2", v.compute("Mul", v["accum"], v["momentum"]), v["grad"])
    step = accum
    if v.flag("use_nesterov"):
        step = v.compute("AddV2", v["grad"], v.compute("Mul", accum, v["momentum"]))
    step = v.compute("Mul", step, v["lr"])
    return {"var": v.compute("Sub", v["var"], step), "accum": accum}


def _toward(v, old, new, rate):
    """old + (new - old) (1 - rate)."""
    share = v.compute("Sub", v.one(), rate)
    return v.compute("AddV2", old, v.compute("Mul", v.compute("Sub", new, old), share))


def _adam(v):
    grad = v["grad"]
    m = _toward(v, v["m"], grad, v["beta1"])
    second = _toward(v, v["v"], v.compute("Square", grad), v["beta2"])
    root = v.compute("Sqrt", v.compute("Sub", v.one(), v["beta2_power"]))
    rate = v.compute("RealDiv", v.compute("Mul", v["lr"], root),
                     v.compute("Sub", v.one(), v["beta1_power"]))
    ahead = _toward(v, m, grad, v["beta1"]) if v.flag("use_nesterov") else m
    step = v.compute("RealDiv", v.compute("Mul", ahead, rate),
                     v.compute("AddV2", v.compute("Sqrt", second), v["epsilon"]))
    return {"var": v.compute("Sub", v["var"], step), "m": m, "v": second}


def _rms_prop(v):
    ms = _toward(v, v["ms"], v.compute("Square", v["grad"]), v["rho"])
    new, size = {"ms": ms}, ms
    if v.node.op == "ResourceApplyCenteredRMSProp":
        new["mg"] = _toward(v, v["mg"], v["grad"], v["rho"])
        size = v.compute("Sub", ms, v.compute("Square", new["mg"]))
    scale = v.compute("Rsqrt", v.compute("AddV2", size, v["epsilon"]))
    step = v.compute("Mul", v.compute("Mul", v["grad"], v["lr"]), scale)
    new["mom"] = v.compute("AddV2", v.compute("Mul", v["mom"], v["momentum"]), step)
    new["var"] = v.compute("Sub", v["var"], new["mom"])
    return new


def _adagrad(v):
    accum = v.compute("AddV2", v["accum"], v.compute("Square", v["grad"]))
    step = v.compute("Mul", v.compute("Mul", v["grad"], v["lr"]), v.compute("Rsqrt", accum))
    return {"var": v.compute("Sub", v["var"], step), "accum": accum}


_FORMULAS = {
    "ResourceApplyGradientDescent": _gradient_descent,
    "ResourceApplyMomentum": _momentum,
    "ResourceApplyAdam": _adam,
    "ResourceApplyRMSProp": _rms_prop,
    "ResourceApplyCenteredRMSProp": _rms_prop,
    "ResourceApplyAdagrad": _adagrad,
}
