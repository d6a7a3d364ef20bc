"""Types of operations by the original's names, which programs look for in a graph.

Each is an op of ours (src/tf/ops.c) with the inputs and attributes of the op of TensorFlow's as
which it is lowered, or, where it calls a function, with those of the original: so only its name and
its attributes change before that.
"""

PIPELINE, DROPOUT, ACCUMULATE, MULTI_CONV = (
    "Pipeline", "IpuDropoutWithSeedAndReference", "GradientAccumulatorAddWithScale", "MultiConv")
FUNCTION, STAGE, STAGE_BACKWARD, UPDATE = (
    "Function", "PipelineStage", "PipelineStageBackward", "ResourceUpdate")
CALLS = (FUNCTION, STAGE, STAGE_BACKWARD, UPDATE)
_LOWERED = {PIPELINE: "While", DROPOUT: "XlaCustomCallV2", ACCUMULATE: "AssignAddVariableOp",
            MULTI_CONV: "IdentityN", **dict.fromkeys(CALLS, "StatefulPartitionedCall")}

_OF_LOOPS = ("T", "cond", "body", "output_shapes", "parallel_iterations")


def three_state(value, default=None):
    """The name of a ThreeState, as attributes have it: for None the default, or that of what is not
    defined."""
    if value is None:
        return default or "THREESTATE_UNDEFINED"
    return "THREESTATE_ON" if value else "THREESTATE_OFF"


def lowered(op_type):
    """The op as which one of that type is lowered."""
    return _LOWERED.get(op_type, op_type)


def lower(nodes):
    """Makes nodes those that are lowered."""
    for node in nodes:
        if node.op == PIPELINE:
            _keep(node, _OF_LOOPS)
        elif node.op == MULTI_CONV:
            node.attr["T"].CopyFrom(node.attr["Tout"])
            _keep(node, ("T",))
        if node.op not in CALLS:  # inlining.py
            node.op = lowered(node.op)


def _keep(node, attributes):
    """Drops the other attributes of a node's op."""
    for name in [one for one in node.attr if one not in attributes and not one.startswith("_")]:
        del node.attr[name]
