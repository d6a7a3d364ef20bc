"""From a graph to HLO, with TensorFlow's own bridge."""

import dataclasses
import json
import struct

from tremula import core
from tremula.tf.inner import bridge, eager, graphs, handles
from tremula.tf.runtime.lowering import known_values, messages
from tremula.tf.runtime.nodes import node_table

_MAGIC = b"TRMGRAPH"


@dataclasses.dataclass
class Argument:
    """An input of a graph: the tensor's name in it, its type's number and its shape (a list of
    ints with None for what is not known, or None)."""
    tensor: str
    dtype: int
    shape: list


@dataclasses.dataclass
class Source:
    """What can be lowered: a graph whose inputs have been cut off.

    arguments  what comes from the CPU, in order
    variables  what is read and written as a variable: the tensors are handles, type and shape
               are the variables'
    outputs    names of the results; empty for "all outputs of the node `outputs_of`"
    table      node table entries
    state      as `variables`: what is zeros when a run begins and dropped when it ends
    names      of the arguments, then the variables: what TensorFlow calls them (None: nothing), for
               reports; or empty
    """
    graph_def: object
    arguments: list
    variables: list
    outputs: list
    outputs_of: str = ""
    table: dict = dataclasses.field(default_factory=dict)
    state: list = dataclasses.field(default_factory=list)
    names: list = dataclasses.field(default_factory=list)

    def serialize(self):
        """Bytes that a node of a graph can carry."""
        header = json.dumps({
            "arguments": [dataclasses.astuple(one) for one in self.arguments],
            "variables": [dataclasses.astuple(one) for one in self.variables],
            "state": [dataclasses.astuple(one) for one in self.state],
            "outputs": self.outputs, "outputs_of": self.outputs_of, "table": self.table,
            "names": self.names}).encode()
        return (_MAGIC + struct.pack("<Q", len(header)) + header
                + self.graph_def.SerializeToString(deterministic=True))

    @classmethod
    def parse(cls, data):
        """What serialize() wrote. Raises ValueError for anything else."""
        import tensorflow.compat.v1 as tf
        start = len(_MAGIC) + 8
        if not data.startswith(_MAGIC) or len(data) < start:
            raise ValueError("This is not a graph that Tremula has written.")
        size, = struct.unpack("<Q", data[len(_MAGIC):start])
        header = json.loads(data[start:start + size])
        return cls(tf.GraphDef.FromString(data[start + size:]),
                   [Argument(*one) for one in header["arguments"]],
                   [Argument(*one) for one in header["variables"]],
                   header["outputs"], header["outputs_of"], header["table"],
                   [Argument(*one) for one in header["state"]], header.get("names", []))

    def is_static(self):
        """Whether every shape is known."""
        return all(_is_static(one.shape) for one in self.arguments)


def _is_static(shape):
    return shape is not None and None not in shape


@dataclasses.dataclass
class Lowered:
    """module: HloModuleProto bytes. updates: for each result after the outputs, the number of the
    variable that it is the new value of. shapes: the outputs' shapes."""
    module: bytes
    updates: list
    shapes: list


def lower(source, shapes=None, constants=None, side_table=None, updates=()):
    """Lowers a graph.

    shapes      the arguments' shapes, where the source does not know them
    constants   {number of an argument: array}: these become part of the program
    side_table  a dict: what the module's side table says (src/ipu/program/entry.c) in the place of
                the source's names
    updates     pairs (number of an output, number of the argument that it is the new value of)

    Raises LoweringError for what is not static, for shapes that do not fit and for what
    TensorFlow's bridge refuses.
    """
    table = node_table.NodeTable(source.table)
    constants = constants or {}
    refusal = known_values.refusal(source, constants)
    if refusal:
        raise bridge.LoweringError(messages.explain(refusal, table), refusal)
    try:
        data, output_types = _lower(source, shapes, constants)
    except (bridge.LoweringError, ValueError) as error:
        raise bridge.LoweringError(messages.explain(str(error), table), str(error)) from None
    num_arguments = len(source.arguments) - len(constants)
    # The name has no number: the same graph gives the same module in every process.
    notes = {"nodes": source.table, "name": "program", "aliases": list(updates),
             "first_state": num_arguments + len(source.variables),
             "side_table": json.dumps(side_table or _side_table(source, constants))}
    try:
        module = core.Module.read_lowered(data, notes)
    except core.TremulaError as error:
        raise bridge.LoweringError(str(error)) from None
    return _finish(source, module, num_arguments, output_types)


def _lower(source, shapes, constants):
    """The HloModuleProto in bytes, and its outputs' types. Its parameters are the arguments that
    are no constants, the variables, then the state."""
    import tensorflow as tf
    shapes = shapes or [one.shape for one in source.arguments]
    taken = [i for i in range(len(source.arguments)) if i not in constants]
    with eager.eagerly_on_cpu(), eager.functions_of(source.graph_def):
        variables = [*source.variables, *source.state]
        handles = [_variable(one) for one in variables]

        def program(*values):
            feeds = {source.arguments[i].tensor: value for i, value in zip(taken, values)}
            for i, value in constants.items():
                feeds[source.arguments[i].tensor] = tf.constant(
                    value, tf.dtypes.as_dtype(source.arguments[i].dtype))
            for variable, handle in zip(variables, eager.capture(handles)):
                feeds[variable.tensor] = handle
            return graphs.import_graph(source.graph_def, feeds, source.outputs, source.outputs_of)

        function = tf.function(program, jit_compile=True, autograph=False)
        concrete = function.get_concrete_function(*[
            tf.TensorSpec(shapes[i], tf.dtypes.as_dtype(source.arguments[i].dtype))
            for i in taken])
        return bridge.hlo(concrete), [one.dtype for one in concrete.outputs]


def _variable(argument):
    """The handle of a variable to lower with. Nobody reads or writes its value, so that takes no
    memory."""
    import tensorflow as tf
    dtype = tf.dtypes.as_dtype(argument.dtype)
    handle = handles.new_handle(dtype, argument.shape)
    value = tf.raw_ops.Empty(shape=tf.constant(argument.shape, tf.int32), dtype=dtype)
    tf.raw_ops.AssignVariableOp(resource=handle, value=value)
    return handle


def _side_table(source, constants):
    """How many of the first inputs come from the CPU for each run, and what TensorFlow calls all of
    them."""
    table = {"arguments": len(source.arguments) - len(constants)}
    names = [name for i, name in enumerate(source.names) if i not in constants]
    if any(names):
        table["inputs"] = names
    return table


def _finish(source, module, num_arguments, output_types):
    """Reads results and aliases off the module. Raises LoweringError for a result of another type
    than TensorFlow expects: its bytes would not fit where they go."""
    import tensorflow as tf
    outputs = module.outputs()
    num_outputs = len(output_types)
    updates = [alias - num_arguments for _, alias in outputs[num_outputs:]]
    variables = [*source.variables, *source.state]
    expected = output_types + [tf.dtypes.as_dtype(variables[i].dtype) for i in updates]
    for (info, _), dtype in zip(outputs, expected):
        if info.dtype != dtype.as_numpy_dtype:
            raise bridge.LoweringError(
                f"TensorFlow's bridge to XLA makes {info.dtype} of a result that is {dtype.name}. "
                "Compute it in float32, and cast it.")
    shapes = [list(info.shape) for info, _ in outputs[:num_outputs]]
    return Lowered(module.serialize(), updates, shapes)
