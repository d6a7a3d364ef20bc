"""Types of operations by the original's names, which programs look for in a graph.

Each is an op of ours (src/tf/ops.c) with the inputs and attributes of the op of TensorFlow's as
which it is lowered: so only its name changes before that.
"""

PIPELINE, DROPOUT, ACCUMULATE, MULTI_CONV = (
    "Pipeline", "IpuDropoutWithSeedAndReference", "GradientAccumulatorAddWithScale", "MultiConv")
_LOWERED = {PIPELINE: "While", DROPOUT: "XlaCustomCallV2", ACCUMULATE: "AssignAddVariableOp",
            MULTI_CONV: "IdentityN"}


def lowered(op_type):
    """The op as which one of that type is lowered."""
    return _LOWERED.get(op_type, op_type)


def lower(nodes):
    """Makes nodes those that are lowered."""
    for node in nodes:
        if node.op == PIPELINE:
            del node.attr["to_apply"]  # the body again
        elif node.op == MULTI_CONV:
            node.attr["T"].CopyFrom(node.attr["Tout"])
            for attribute in ("Tin", "Tout", "output_shapes", "option_flags"):
                del node.attr[attribute]
        node.op = lowered(node.op)
