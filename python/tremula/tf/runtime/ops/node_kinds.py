"""Properties of ops, for clustering (clusters.py) and lowering: which can be part of a program,
which are worth a program, which inputs must be known when compiled, which are in host memory.
"""

import functools

from tremula.tf.inner import dtypes, registry
from tremula.tf.runtime.nodes import rewriting
from tremula.tf.runtime.ops import kernel_list

# The inputs that TensorFlow's lowering must know the value of, as TensorFlow 2.15 and 2.21 say
# (XlaOpRegistry::CompileTimeConstantInputArgNames).
_KNOWN = {
    "orig_input_shape": "AvgPool3DGrad AvgPoolGrad",
    "axis": "ConcatV2 Cumprod Cumsum CumulativeLogsumexp GatherV2 ReverseV2 Roll UniqueV2",
    "begin": "Slice StridedSlice StridedSliceGrad TensorStridedSliceUpdate",
    "block_shape": "BatchToSpaceND SpaceToBatchND",
    "concat_dim": "Concat ConcatOffset",
    "crops": "BatchToSpace BatchToSpaceND",
    "delta": "Range",
    "depth": "OneHot",
    "dim": "ExpandDims",
    "dimension": "ArgMax ArgMin",
    "dims": "Fill Reverse",
    "end": "StridedSlice StridedSliceGrad TensorStridedSliceUpdate",
    "filter_sizes": "Conv2DBackpropFilter Conv3DBackpropFilterV2 "
                    "DepthwiseConv2dNativeBackpropFilter",
    "indices": "DynamicStitch ParallelDynamicStitch",
    "input_sizes": "Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput",
    "k": "InTopKV2 MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiagV2 "
         "MatrixSetDiagV3 TopKV2",
    "ksize": "MaxPoolGradGradV2 MaxPoolGradV2 MaxPoolV2",
    "limit": "Range",
    "multiples": "Tile",
    "num": "LinSpace",
    "num_cols": "MatrixDiagV2 MatrixDiagV3",
    "num_rows": "MatrixDiagV2 MatrixDiagV3",
    "num_samples": "StatelessMultinomial",
    "num_segments": "SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2 UnsortedSegmentMax "
                    "UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum",
    "padding_value": "MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3",
    "paddings": "MirrorPad MirrorPadGrad Pad PadV2 SpaceToBatch SpaceToBatchND",
    "perm": "ConjugateTranspose Transpose",
    "reduction_indices": "All Any Max Mean Min Prod Sum",
    "s0": "BroadcastArgs BroadcastGradientArgs",
    "s1": "BroadcastArgs BroadcastGradientArgs",
    "shape": "BroadcastTo ConcatOffset Reshape ScatterNd StatelessParameterizedTruncatedNormal "
             "StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomUniform "
             "StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 "
             "StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomUniformV2 "
             "StatelessTruncatedNormal StatelessTruncatedNormalV2 StridedSliceGrad "
             + " ".join(rewriting.RANDOM_OPS),
    "alg": "StatelessRandomNormalV2 StatelessRandomUniformFullIntV2 StatelessRandomUniformIntV2 "
           "StatelessRandomUniformV2 StatelessTruncatedNormalV2 StochasticCastToInt",
    "size": "Bincount DenseBincount ResizeBilinear ResizeNearestNeighbor Slice",
    "size_splits": "SplitV",
    "split_dim": "Split SplitV",
    "output_shape": "SparseToDense",
    "start": "Range",
    "strides": "MaxPoolGradGradV2 MaxPoolGradV2 MaxPoolV2 StridedSlice StridedSliceGrad "
               "TensorStridedSliceUpdate",
}
_KNOWN_BY_OP = {}
for _name, _ops in _KNOWN.items():
    for _op in _ops.split():
        _KNOWN_BY_OP.setdefault(_op, set()).add(_name)

# The results of these ops are known as soon as the shapes are.
SHAPE_OPS = frozenset(("Shape", "ShapeN", "Size", "Rank"))

# These only give a tensor another name or shape: TensorFlow's kernels do not copy it.
RENAMES = frozenset(("Identity", "StopGradient", "PreventGradient", "Snapshot", "Reshape",
                     "Squeeze", "ExpandDims", "EnsureShape"))

# Results whose shapes depend on values: these fail, with an error of their own.
_DYNAMIC = frozenset(("Where", "Unique", "UniqueV2", "ListDiff", "NonMaxSuppressionV3",
                      "DynamicPartition"))
_CONTROL_FLOW = frozenset(("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"))
_NEVER = _DYNAMIC | _CONTROL_FLOW | frozenset((
    "Const", "ControlTrigger", "Placeholder", "PlaceholderWithDefault", "FakeParam",
    "DeviceIndex", "SymbolicGradient"))

# Ops on variables, beside the updates of kernel_list.py.
READS = frozenset(("ReadVariableOp", "ResourceGather", "ResourceGatherNd"))
ASSIGN, ADDS = "AssignVariableOp", frozenset(("AssignAddVariableOp", "AssignSubVariableOp"))

# Ops that may wait for what another part of the same step does, without an edge that says so.
_BLOCKING = ("Queue", "Barrier", "Stage", "Unstage", "Map", "OrderedMap", "Stack", "Tensor",
             "Collective", "Recv", "_Recv", "_HostRecv", "Send", "_Send", "_HostSend", "PyFunc",
             "EagerPyFunc", "Rpc", "IpuStart",
             "IpuFinish", "ConditionalAccumulator", "Accumulator")


# Of a launch whose graph may become a part of the program around it (launching.launch_part).
PART = "_tremula_part"


def is_part(node):
    """Whether a NodeDef is such a launch."""
    return node.op == "IpuLaunch" and PART in node.attr


def control_flow(op):
    """The name of a control flow op without its mark for references ("Ref"), or None."""
    plain = op.removeprefix("_").removeprefix("Ref").removesuffix("N")
    return plain if plain in _CONTROL_FLOW else None


def may_block(op):
    """Whether an op may wait for another part of the step."""
    if not op.startswith(_BLOCKING) and "Dequeue" not in op:
        return False
    definition = _definition(op)
    return definition is None or definition.is_stateful


@functools.cache
def _definition(op):
    return registry.op_definition(op)


@functools.cache
def _kernels():
    """{op: [KernelDef]} that nodes on an IPU may use: ours, then TensorFlow's for every device."""
    ours, everywhere = {}, {}
    for kernel in registry.registered_kernels().kernel:
        if kernel.label:
            continue
        if kernel.device_type == "IPU":
            ours.setdefault(kernel.op, []).append(kernel)
        elif kernel.device_type == "DEFAULT":
            everywhere.setdefault(kernel.op, []).append(kernel)
    return {op: ours.get(op, []) + everywhere.get(op, []) for op in {*ours, *everywhere}}


def is_on_variables(op):
    """Whether an op reads or writes variables, in a way that a program can."""
    return op in READS or op == ASSIGN or op in ADDS or kernel_list.needs_variables(op)


@functools.cache
def may_join(op):
    """Whether nodes of an op may be part of a program, as far as the op itself says."""
    definition = _definition(op)
    if op in kernel_list.IPU_OPS or op in rewriting.RANDOM_OPS or is_on_variables(op):
        return True
    return (definition is not None and not definition.is_stateful and op not in _NEVER
            and not op.startswith(("_", "Ipu", "Xla", "TensorList"))
            and not any(one.type in ("func", "list(func)") for one in definition.attr))


@functools.cache
def may_have_weight(op):
    """Whether a node of an op may be worth a program."""
    return op in ADDS or op == "IpuLaunch" or may_join(op) and any(
        one.device_type == "IPU" for one in _kernels().get(op, []))


def _numbers(value):
    return [value.type] if value.type else list(value.list.type)


class Kind:
    """What a node is.

    inputs, outputs  (argument's name, type's number) for each tensor, or None where it cannot be
                     told
    host_inputs, host_outputs  the tensors that the node's kernel has in host memory, on an IPU
    can_join         whether it may be part of a program, as far as the node itself says
    weight           1 if on its own it is a program that must be launched, else 0
    resources        the inputs that are handles
    is_pure          whether its results follow from its inputs
    is_program       whether it must be part of a program, even if it is alone in that: no kernel
                     can do what it does
    has_effects      whether it does something that its results do not show, beside what it does to
                     variables
    """

    def __init__(self, node):
        definition = _definition(node.op)
        self.inputs = self.outputs = None
        self.host_inputs = self.host_outputs = frozenset()
        self.can_join, self.weight = False, 0
        self.resources = []
        self.is_pure = definition is not None and not definition.is_stateful and (
            node.op not in kernel_list.IPU_OPS)
        self.has_effects = node.op == kernel_list.EFFECT or (
            node.op == kernel_list.CALL and node.attr["has_side_effect"].b)
        self.is_program = self.has_effects or kernel_list.needs_variables(node.op)
        if definition is None:
            return
        self.inputs = _expand(definition.input_arg, node)
        self.outputs = _expand(definition.output_arg, node)
        if self.inputs is None or self.outputs is None:
            self.inputs = self.outputs = None
            return
        self.resources = [i for i, (_, number) in enumerate(self.inputs)
                          if dtypes.dtype_name(number) == "resource"]
        kernel = next((one for one in _kernels().get(node.op, []) if _fits(node, one)), None)
        if kernel is not None:
            host = set(kernel.host_memory_arg)
            self.host_inputs = {i for i, (name, _) in enumerate(self.inputs) if name in host}
            self.host_outputs = {i for i, (name, _) in enumerate(self.outputs) if name in host}
        self.can_join = (
            kernel is not None and (may_join(node.op) or is_part(node))
            and bool(self.resources) == is_on_variables(node.op)
            and all(is_value(number) for i, (_, number) in enumerate(self.inputs + self.outputs)
                    if i not in self.resources)
            and (is_part(node) or any(
                _allows(node, constraints) for constraints in kernel_list.lowered().get(
                    kernel_list.CALL if node.op == kernel_list.EFFECT else node.op, []))))
        self.weight = int(self.can_join and (kernel.device_type == "IPU" or node.op in ADDS))

    def known_inputs(self, op):
        """The inputs whose values must be known when the op is compiled."""
        names = _KNOWN_BY_OP.get(op, ())
        return [i for i, (name, _) in enumerate(self.inputs) if name in names]


@functools.cache
def is_value(number):
    """Whether tensors of this type hold values that a program can take."""
    return number < 100 and dtypes.dtype_name(number) in kernel_list.TYPES[:-2]


def _fits(node, kernel):
    for constraint in kernel.constraint:
        if constraint.name not in node.attr:
            return False
        if not set(_numbers(node.attr[constraint.name])) <= set(
                constraint.allowed_values.list.type):
            return False
    return True


def _allows(node, constraints):
    return all({dtypes.dtype_name(number) for number in _numbers(node.attr[name])} <= set(names)
               for name, names in constraints.items() if name in node.attr)


def _expand(arguments, node):
    """[(name, type's number)] for the tensors of an op's inputs or outputs, or None."""
    found = []
    for argument in arguments:
        if argument.is_ref:
            return None
        if argument.type_list_attr:
            found += [(argument.name, number)
                      for number in node.attr[argument.type_list_attr].list.type]
            continue
        number = argument.type or node.attr[argument.type_attr].type
        count = node.attr[argument.number_attr].i if argument.number_attr else 1
        found += [(argument.name, number)] * count
    return found
