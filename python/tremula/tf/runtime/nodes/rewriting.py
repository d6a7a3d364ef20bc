"""Rewriting a GraphDef so that it can be lowered.

Its own nodes and those of its functions are treated alike. A function's nodes name tensors as
"node:output:0", a graph's as "node:0" or "node"; a control input is "^node" in both.
"""

import hashlib
import json

from tremula import custom_calls
from tremula.tf.inner import graphs, protos
from tremula.tf.runtime.nodes import node_marks

# Marks that would change or fail the lowering. The node table has what they say.
_MARKS = (node_marks.SHARDING, node_marks.FRONTEND_ATTRIBUTES, "_XlaCompile", "_XlaScope",
          "_XlaSeparateCompiledGradients", "_class", "_gradient_op_type")

RANDOM_TARGET = custom_calls.RANDOM
ASSERT_TARGET = custom_calls.ASSERT
_INT32, _BOOL = 3, 10  # the types' numbers in protocol buffers
# Ops that call functions: how many inputs come before those that the functions get.
CALLS = {"While": 0, "StatelessWhile": 0, "PartitionedCall": 0, "StatefulPartitionedCall": 0,
         "If": 1, "StatelessIf": 1, "Case": 1, "StatelessCase": 1}
# Stateful random ops and the names of what they draw.
RANDOM_OPS = {"RandomUniform": "uniform", "RandomStandardNormal": "normal",
              "TruncatedNormal": "truncated_normal", "RandomUniformInt": "uniform_int"}


def node_of(tensor):
    """The node's name in the name of an input."""
    return tensor.removeprefix("^").split(":", 1)[0]


def strip(nodes):
    """Takes marks and devices off."""
    for node in nodes:
        node.device = ""
        for mark in _MARKS:
            if mark in node.attr:
                del node.attr[mark]


def replace_checks(nodes, operations):
    """Makes an Assert a custom call of ours, which fails the run; `operations` are the nodes' by
    their names. CheckNumerics checks nothing on an IPU, as in the original."""
    for node in nodes:
        if node.op == "Assert":
            controls = [one for one in node.input if one.startswith("^")]
            custom_call(node, ASSERT_TARGET, {"message": _failure(operations.get(node.name))},
                        [node.input[0]], controls, [_BOOL], [], [])
    elide_checks(nodes)


def elide_checks(nodes):
    """Takes away the checks of nodes: operations that are placed on an IPU without being compiled
    check nothing."""
    for node in nodes:
        if node.op == "Assert":
            controls = [one for one in node.input if one.startswith("^")]
            node.op = "NoOp"
            node.attr.clear()
            del node.input[:]
            node.input.extend(controls)
        elif node.op == "CheckNumerics":
            node.op = "Identity"
            del node.attr["message"]


def _failure(operation):
    """What an Assert says: those of its data that are text. Numbers stay on the IPU."""
    words = []
    for tensor in operation.inputs[1:] if operation is not None else ():
        value = graphs.constant_value(_outside(tensor)) if tensor.dtype.name == "string" else None
        words += [] if value is None else [bytes(value).decode(errors="replace")]
    return f"assertion failed: {' '.join(words) or 'the condition is false'}"


def _outside(tensor):
    """What a tensor in a function is outside of it, where it is one that the function takes."""
    while graphs.is_function_graph(tensor.graph):
        found = [external for external, internal in tensor.graph.captures if internal is tensor]
        if not found:
            break
        tensor = found[0]
    return tensor


def use_plain_ops(nodes):
    """Replaces ops that TensorFlow's bridge lowers for some types only: an IPU has no complex
    numbers to conjugate, and integers are round. Returns the names of nodes whose output was "y"
    and is "output" now: a FunctionDef names outputs."""
    import tensorflow.compat.v1 as tf
    changed = []
    for node in nodes:
        if node.op == "ConjugateTranspose":
            node.op = "Transpose"
        elif node.op == "Round" and tf.dtypes.as_dtype(node.attr["T"].type).is_integer:
            node.op = "Identity"
            changed.append(node.name)
    return changed


def rename(nodes, new_names):
    """Gives nodes new names, {old: new}; what is not in there keeps its name."""
    for node in nodes:
        node.name = new_names.get(node.name, node.name)
        renamed = [rename_input(one, new_names) for one in node.input]
        del node.input[:]
        node.input.extend(renamed)


def rename_input(tensor, new_names):
    """The same for the name of a tensor or of a control input."""
    old = node_of(tensor)
    control = "^" if tensor.startswith("^") else ""
    return control + new_names.get(old, old) + tensor[len(control) + len(old):]


def rename_function(function, new_names):
    """The same for a FunctionDef and what it returns. Its arguments get names by their numbers:
    TensorFlow's hold numbers that depend on what else the process has done."""
    new_names = dict(new_names)
    for i, argument in enumerate(function.signature.input_arg):
        new_names[argument.name] = argument.name = f"argument{i}"
    rename(function.node_def, new_names)
    for returned in (function.ret, function.control_ret):
        for key, one in list(returned.items()):
            returned[key] = rename_input(one, new_names)


def replace_random(node, number, shape, bounds=None):
    """Makes a stateful random op a custom call of ours, because HLO's own forgets the seeds.

    `number` tells the program's random ops apart; `shape` is the result's, a list of ints;
    `bounds` are minval and maxval of an op that draws integers, where they are known.
    """
    config = {"distribution": RANDOM_OPS[node.op], "seed": node.attr["seed"].i,
              "seed2": node.attr["seed2"].i, "id": number}
    ranged = node.op == "RandomUniformInt"
    dtype = node.attr["Tout" if ranged else "dtype"].type
    operands = [one for one in node.input if not one.startswith("^")][1:] if ranged else []
    controls = [one for one in node.input if one.startswith("^")]
    if bounds is not None:
        config["minval"], config["maxval"] = bounds
        operands = []
    custom_call(node, RANDOM_TARGET, config, operands, controls, [dtype] * len(operands), [dtype],
                [shape])


# The ops that draw the same from a seed that is an input.
_STATELESS = {"RandomUniform": "StatelessRandomUniform",
              "RandomStandardNormal": "StatelessRandomNormal",
              "TruncatedNormal": "StatelessTruncatedNormal",
              "RandomUniformInt": "StatelessRandomUniformInt"}


def seed_random(nodes, node, number, in_function):
    """The same for a node of `nodes` whose result's shape is not known, which a custom call must
    know: one draws a seed, from which a stateless op draws the rest."""
    config = {"distribution": "uniform_int", "seed": node.attr["seed"].i,
              "seed2": node.attr["seed2"].i, "id": number,
              "minval": -2 ** 31, "maxval": 2 ** 31 - 1}
    seed = nodes.add(name=f"{node.name}/seed")
    custom_call(seed, RANDOM_TARGET, config, [],
                [one for one in node.input if one.startswith("^")], [], [_INT32], [[2]])
    shape, *rest = list(node.input)
    shape_type = node.attr["T"].type
    dtype = node.attr["Tout" if node.op == "RandomUniformInt" else "dtype"].type
    node.op = _STATELESS[node.op]
    node.attr.clear()
    node.attr["T"].type, node.attr["Tseed"].type, node.attr["dtype"].type = (
        shape_type, _INT32, dtype)
    del node.input[:]
    node.input.extend([shape, seed.name + (":results:0" if in_function else ":0"), *rest])


def call_function(node, function, input_types, output_types):
    """Makes a node a call of the function, with the same inputs."""
    node.op = "StatefulPartitionedCall"
    node.attr.clear()
    node.attr["f"].func.name = function
    node.attr["Tin"].list.type.extend(input_types)
    node.attr["Tout"].list.type.extend(output_types)


def custom_call(node, target, config, inputs, controls, operand_types, result_types,
                result_shapes):
    """Makes a node a custom call with side effects."""
    node.op = "XlaCustomCallV2"
    node.attr.clear()
    del node.input[:]
    node.input.extend(inputs)
    node.input.extend(controls)
    node.attr["call_target_name"].s = target.encode()
    node.attr["backend_config"].s = json.dumps(config).encode()
    node.attr["has_side_effect"].b = True
    node.attr["operand_dtypes"].list.type.extend(operand_types)
    node.attr["operand_dtypes"].list.SetInParent()
    node.attr["result_dtypes"].list.type.extend(result_types)
    node.attr["result_dtypes"].list.SetInParent()
    node.attr["result_shapes"].list.SetInParent()
    for shape in result_shapes:
        node.attr["result_shapes"].list.shape.append(protos.TensorShapeProto(
            dim=[protos.TensorShapeProto.Dim(size=size) for size in shape]))


def use_custom_calls(nodes, connect):
    """Makes the IpuEffects of a traced function custom calls; connect(target, configuration) gives
    the configuration for the program."""
    for node in nodes:
        if node.op == "IpuEffect":
            target = node.attr["call_target_name"].s.decode()
            config = connect(target, json.loads(node.attr["backend_config"].s))
            controls = [one for one in node.input if one.startswith("^")]
            shapes = [[dim.size for dim in shape.dim]
                      for shape in node.attr["result_shapes"].list.shape]
            custom_call(node, target, config,
                        [one for one in node.input if not one.startswith("^")], controls,
                        list(node.attr["T"].list.type),
                        list(node.attr["result_dtypes"].list.type), shapes)


def redirect_output(function, name, old_output, new_output, first=0):
    """In a FunctionDef: users of "name:old_output:i" become users of "name:new_output:first + i".
    """
    old, new = f"{name}:{old_output}:", f"{name}:{new_output}:"
    for node in function.node_def:
        for i, one in enumerate(node.input):
            if one.startswith(old):
                node.input[i] = f"{new}{first + int(one[len(old):])}"
    for key, one in list(function.ret.items()):
        if one.startswith(old):
            function.ret[key] = f"{new}{first + int(one[len(old):])}"


def order_functions(graph_def):
    """Puts the graph's functions in the order in which its nodes call them, and drops those that
    nothing calls. TensorFlow's order changes from process to process."""
    functions = {function.signature.name: function for function in graph_def.library.function}
    ordered, waiting = {}, [graph_def.node]
    while waiting:
        for name in called(waiting.pop(0)):
            if name in functions and name not in ordered:
                ordered[name] = functions[name]
                waiting.append(functions[name].node_def)
    kept = list(ordered.values())
    del graph_def.library.function[:]
    graph_def.library.function.extend(kept)


def called(nodes):
    """The names of the functions that nodes call, and of ops."""
    for node in nodes:
        yield node.op
        for _, value in sorted(node.attr.items()):
            for one in _calls(value):
                yield one.name


def rename_functions(graph_def):
    """Gives the graph's functions names that tell their contents.

    TensorFlow keeps one function for a name in a process. Under its old name, that would be the
    function before it was rewritten. TensorFlow's names also hold numbers that depend on what the
    process did before.
    """
    names = dict.fromkeys(function.signature.name for function in graph_def.library.function)
    rename_called(graph_def, {name: f"f{i}" for i, name in enumerate(names)})
    # Gradients are not asked for any more, and these entries have the functions' old names.
    del graph_def.library.gradient[:]
    del graph_def.library.registered_gradients[:]
    for function in graph_def.library.function:
        for key in ("forward_function_name", "backward_function_name"):
            function.attr.pop(key, None)
    digest = hashlib.sha256(graph_def.SerializeToString(deterministic=True)).hexdigest()[:16]
    rename_called(graph_def, {f"f{i}": f"f{i}_{digest}" for i in range(len(names))})


def rename_called(graph_def, new_names):
    """Gives the graph's functions new names, {old: new}."""
    for function in graph_def.library.function:
        function.signature.name = new_names[function.signature.name]
        _rename_calls(function.node_def, new_names)
    _rename_calls(graph_def.node, new_names)


def _rename_calls(nodes, new_names):
    for node in nodes:
        node.op = new_names.get(node.op, node.op)
        for value in node.attr.values():
            for one in _calls(value):
                one.name = new_names.get(one.name, one.name)


def _calls(value):
    """The functions that an attribute names."""
    if value.HasField("func"):
        return [value.func]
    return value.list.func if value.HasField("list") else []
