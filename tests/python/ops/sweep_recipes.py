"""Inputs and attributes for an op that is known by its OpDef only.

Most ops take tensors of one shape and attributes that have defaults; names say the rest (an
"axis" is 0, a "padding" is "SAME"). What that does not fit has a recipe of its own.
"""

import numpy as np

# How the inputs of an op that no recipe names are shaped; the first that TensorFlow takes.
SHAPES = [(2, 3), (3, 3), (2, 4, 4, 2), (2, 4, 4, 4, 2), (3,), (), (2, 3, 3)]


class T:
    """An input of the op's main type: `shape`, or these values."""

    def __init__(self, *shape, values=None):
        self.shape, self.values = shape, values

    def array(self, dtype, rng):
        if self.values is not None:
            return np.array(self.values, dtype)
        return numbers(self.shape, dtype, rng)


class Variable(T):
    """A resource that holds such a value."""


def numbers(shape, dtype, rng):
    """Within (0, 1), where most functions are defined; small integers; bools."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return rng.uniform(.1, .9, shape).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 5, shape).astype(dtype)


def i32(*values):
    return np.array(values[0] if len(values) == 1 else values, np.int32)


def f32(*values):
    return np.array(values[0] if len(values) == 1 else values, np.float32)


_SEED, _KEY, _COUNTER = i32(3, 5), np.array([7], np.uint64), np.array([1, 2], np.uint64)
_ALG = i32(1)
_SCALARS = ("lr", "l1", "l2", "rho", "epsilon", "momentum", "alpha", "beta1", "beta2",
            "beta1_power",
            "beta2_power", "lr_power", "l2_shrinkage", "logbase", "sign_decay", "beta",
            "scale_factor",
            "contrast_factor", "scale", "delta", "start", "limit", "input_min", "input_max",
            "padding_value", "clip_value_min", "clip_value_max", "on_value", "off_value")
_BY_NAME = {  # integers
    "axis": 0, "reduction_indices": [0], "dim": 0, "dimension": 0, "concat_dim": 0, "split_dim": 0,
    "shape": [2, 3], "dims": [2, 3], "perm": [1, 0], "multiples": [1, 2], "begin": [0, 1],
    "paddings": [[1, 1], [1, 0]], "seed": [3, 5], "indices": [0, 1], "segment_ids": [0, 1],
    "num_segments": 2, "k": 1, "size": [2, 2], "num_samples": 4, "shift": 1, "block_shape": [2],
    "crops": [[0, 0]], "end": [2, 3], "strides": [1, 1], "num_bits": 8, "num": 4,
    "counter": [1, 2], "key": [7], "alg": 1, "minval": 0, "maxval": 9, "delta": 3}
_ATTRIBUTES = {
    "padding": "SAME", "strides": [1, 1, 1, 1], "ksize": [1, 2, 2, 1], "N": 2, "num_split": 2,
    "num": 2,
    "block_size": 2, "k": 1, "index": 0, "num_partitions": 2, "seq_dim": 1, "mode": "REFLECT",
    "dimension_numbers": "", "precision_config": ""}
_5D = {"strides": [1] * 5, "ksize": [1, 2, 2, 2, 1]}

# op: (inputs, attributes). Inputs are in the order of the OpDef; a list is a list of tensors.
_I, _F = T(2, 4, 4, 2), T(2, 2, 2, 3)
_SAME = {"padding": "SAME", "strides": [1, 1, 1, 1]}
_POOL = {**_SAME, "ksize": [1, 2, 2, 1]}
_SAME3, _POOL3 = {"padding": "SAME", "strides": [1] * 5}, {"padding": "SAME", **_5D}
_I3, _F3 = T(1, 3, 3, 3, 2), T(2, 2, 2, 2, 3)
_PAIRS = [[1, 0], [2, 1]]
_QUANT = {"min": -1., "max": 1.}
_SYM = T(values=[[2., .5, .1], [.5, 3., .2], [.1, .2, 1.]])
_BN = [_I, f32([1., 2.]), f32([0., 1.])]
_BNG = [_I, _I, f32([1., 2.]), f32([.1, .2]), f32([1.5, 2.5])]
_SLICE = [i32([0, 1]), i32([2, 3]), i32([1, 1])]
_GN = {"epsilon": 1e-3}
RECIPES = {
    "AdjustContrastv2": ([T(1, 3, 3, 3), f32(2.)], {}), "AdjustHue": ([T(1, 3, 3, 3), f32(.2)], {}),
    "AdjustSaturation": ([T(1, 3, 3, 3), f32(.5)], {}),
    "ApproxTopK": ([T(2, 8)], {"k": 2}),
    "Assert": ([np.array(True), [T(2)]], {}),
    "AvgPool": ([_I], _POOL), "MaxPool": ([_I], _POOL), "AvgPool3D": ([_I3], _POOL3),
    "MaxPool3D": ([_I3], _POOL3), "MaxPoolV2": ([_I, i32(1, 2, 2, 1), i32(1, 1, 1, 1)],
                                                {"padding": "SAME"}),
    "AvgPoolGrad": ([i32(2, 4, 4, 2), _I], _POOL),
    "AvgPool3DGrad": ([i32(1, 3, 3, 3, 2), _I3], _POOL3),
    "MaxPoolGrad": ([_I, "MaxPool", _I], _POOL), "MaxPool3DGrad": ([_I3, "MaxPool3D", _I3], _POOL3),
    "MaxPoolGradV2": ([_I, "MaxPool", _I, i32(1, 2, 2, 1), i32(1, 1, 1, 1)], {"padding": "SAME"}),
    "MaxPoolGradGradV2": ([_I, "MaxPool", _I, i32(1, 2, 2, 1), i32(1, 1, 1, 1)],
                          {"padding": "SAME"}),
    "BatchMatMul": ([T(2, 2, 3), T(2, 3, 2)], {}), "BatchMatMulV2": ([T(2, 2, 3), T(2, 3, 2)], {}),
    "BatchMatMulV3": ([T(2, 2, 3), T(2, 3, 2)], {}), "MatMul": ([T(2, 3), T(3, 4)], {}),
    "SparseMatMul": ([T(2, 3), T(3, 4)], {}),
    "BatchToSpace": ([T(4, 2, 2, 1), i32([[0, 0], [0, 0]])], {"block_size": 2}),
    "BatchToSpaceND": ([T(4, 2, 2, 1), i32(2, 2), i32([[0, 0], [0, 0]])], {}),
    "SpaceToBatch": ([T(1, 4, 4, 1), i32([[0, 0], [0, 0]])], {"block_size": 2}),
    "SpaceToBatchND": ([T(1, 4, 4, 1), i32(2, 2), i32([[0, 0], [0, 0]])], {}),
    "DepthToSpace": ([T(1, 2, 2, 4)], {"block_size": 2}),
    "BiasAdd": ([T(2, 3), T(3)], {}), "BiasAddV1": ([T(2, 3), T(3)], {}),
    "Bincount": ([i32(0, 2, 2), i32(4), T(3)], {}),
    "DenseBincount": ([i32(0, 2, 2), i32(4), T(3)], {}),
    "Bitcast": ([T(2, 2)], {"type": "=int32"}),
    "Bucketize": ([T(2, 3)], {"boundaries": [.3, .6, 2.]}),
    "BroadcastArgs": ([i32(2, 1), i32(1, 3)], {}),
    "BroadcastGradientArgs": ([i32(2, 1), i32(1, 3)], {}),
    "BroadcastTo": ([T(1, 3), i32(2, 3)], {}), "Betainc": ([T(2, 3), T(2, 3), T(2, 3)], {}),
    "Cast": ([T(2, 3)], {"DstT": "=float32"}), "Cholesky": ([_SYM], {}),
    "Concat": ([i32(0), [T(2, 3), T(1, 3)]], {}), "ConcatV2": ([[T(2, 3), T(1, 3)], i32(0)], {}),
    "ConcatOffset": ([i32(0), [i32(2, 3), i32(1, 3)]], {}), "Const": ([], {"value": "=tensor"}),
    "Conv": ([_I, _F], _SAME), "Conv2D": ([_I, _F], _SAME), "Conv3D": ([_I3, _F3], _SAME3),
    "Conv2DBackpropFilter": ([_I, i32(2, 2, 2, 3), T(2, 4, 4, 3)], _SAME),
    "Conv2DBackpropInput": ([i32(2, 4, 4, 2), _F, T(2, 4, 4, 3)], _SAME),
    "Conv3DBackpropFilterV2": ([_I3, i32(2, 2, 2, 2, 3), T(1, 3, 3, 3, 3)], _SAME3),
    "Conv3DBackpropInputV2": ([i32(1, 3, 3, 3, 2), _F3, T(1, 3, 3, 3, 3)], _SAME3),
    "DepthwiseConv2dNative": ([_I, T(2, 2, 2, 2)], _SAME),
    "DepthwiseConv2dNativeBackpropFilter": ([_I, i32(2, 2, 2, 2), T(2, 4, 4, 4)], _SAME),
    "DepthwiseConv2dNativeBackpropInput": ([i32(2, 4, 4, 2), T(2, 2, 2, 2), T(2, 4, 4, 4)], _SAME),
    "Cross": ([T(2, 3), T(2, 3)], {}), "DataFormatDimMap": ([i32(0, 3)], {}),
    "DataFormatVecPermute": ([i32(1, 2, 3, 4)], {}),
    "DynamicPartition": ([T(4, 3), i32(0, 1, 0, 1)], {"num_partitions": 2}),
    "DynamicStitch": ([[i32(0, 2), i32(1)], [T(2, 3), T(3)]], {}),
    "ParallelDynamicStitch": ([[i32(0, 2), i32(1)], [T(2, 3), T(3)]], {}),
    "Einsum": ([[T(2, 3), T(3, 4)]], {"equation": "ij,jk->ki"}),
    "EnsureShape": ([T(2, 3)], {"shape": [2, 3]}), "ExpandDims": ([T(2, 3), i32(1)], {}),
    "ExtractImagePatches": ([_I], {"ksizes": [1, 2, 2, 1], "strides": [1, 1, 1, 1],
                                   "rates": [1, 1, 1, 1], "padding": "SAME"}),
    "FakeParam": ([], {"shape": [2, 3]}), "Empty": ([i32(2, 3)], {"init": True}),
    "FakeQuantWithMinMaxVarsPerChannel": ([T(2, 3), f32(-1, 0, 0), f32(1, 1, 2)], {}),
    "FakeQuantWithMinMaxVarsPerChannelGradient":
        ([T(2, 3), T(2, 3), f32(-1, 0, 0), f32(1, 1, 2)], {}),
    "FakeQuantWithMinMaxVars": ([T(2, 3), f32(-1.), f32(1.)], {}),
    "FakeQuantWithMinMaxVarsGradient": ([T(2, 3), T(2, 3), f32(-1.), f32(1.)], {}),
    "Fill": ([i32(2, 3), T()], {}), "FusedBatchNorm": ([*_BN, f32([]), f32([])], {}),
    "FusedBatchNormV2": ([*_BN, f32([]), f32([])], {}),
    "FusedBatchNormV3": ([*_BN, f32([]), f32([])], {}),
    "_FusedBatchNormEx": ([T(1, 2, 2, 4), f32(1, 2, 3, 4), f32(0, 0, 1, 1), f32([]), f32([]),
                             []], {"activation_mode": "Relu"}),
    "FusedBatchNormGrad": (_BNG, {}), "FusedBatchNormGradV2": (_BNG, {}),
    "FusedBatchNormGradV3": ([*_BNG, f32([])], {}),
    "_FusedConv2D": ([_I, _F, [T(3)], []], {**_SAME, "fused_ops": ["BiasAdd"]}),
    "_UnaryOpsComposition": ([T(2, 3)], {"op_names": ["Abs", "Sqrt"]}),
    "Gather": ([T(4, 3), i32(2, 0)], {}), "GatherV2": ([T(4, 3), i32(2, 0), i32(0)], {}),
    "GatherNd": ([T(4, 3), i32(_PAIRS)], {}),
    "InTopKV2": ([f32([[.1, .9], [.8, .3]]), i32(0, 0), i32(1)],
                                                         {}),
    "IdentityN": ([[T(2, 3), T(3)]], {}), "InvertPermutation": ([i32(2, 0, 1)], {}),
    "LRNGrad": ([_I, _I, "LRN"], {}), "ListDiff": ([T(values=[1, 2, 3]), T(values=[2])], {}),
    "LinSpace": ([T(values=0), T(values=1), i32(5)], {}),
    "LogicalNot": ([np.array([True, False])], {}),
    "LowerBound": ([T(values=[[1, 2, 3]]), T(values=[[0, 2]])], {}),
    "UpperBound": ([T(values=[[1, 2, 3]]), T(values=[[0, 2]])], {}),
    "LeftShift": ([T(2, 3), T(2, 3)], {}), "RightShift": ([T(2, 3), T(2, 3)], {}),
    "MatrixBandPart": ([T(3, 3), i32(1), i32(0)], {}), "MatrixDiag": ([T(2, 3)], {}),
    "MatrixDiagV2": ([T(3), i32(0), i32(3), i32(3), T()], {}),
    "MatrixDiagV3": ([T(3), i32(0), i32(3), i32(3), T()], {}),
    "MatrixDiagPartV2": ([T(3, 3), i32(0), T()], {}),
    "MatrixDiagPartV3": ([T(3, 3), i32(0), T()], {}),
    "MatrixSetDiag": ([T(3, 3), T(3)], {}), "MatrixSetDiagV2": ([T(3, 3), T(3), i32(0)], {}),
    "MatrixSetDiagV3": ([T(3, 3), T(3), i32(0)], {}), "MatrixInverse": ([_SYM], {}),
    "MatrixSolve": ([_SYM, T(3, 2)], {}), "MatrixTriangularSolve": ([_SYM, T(3, 2)], {}),
    "MirrorPad": ([T(2, 3), i32([[1, 1], [0, 1]])], {"mode": "REFLECT"}),
    "MirrorPadGrad": ([T(4, 4), i32([[1, 1], [0, 1]])], {"mode": "REFLECT"}),
    "Pad": ([T(2, 3), i32([[1, 1], [0, 1]])], {}),
    "PadV2": ([T(2, 3), i32([[1, 1], [0, 1]]), T()], {}),
    "NonMaxSuppressionV3": ([T(values=[[0, 0, 1, 1], [0, 0, 1, .9], [2, 2, 3, 3]]), T(3), i32(2),
                             f32(.5), f32(0.)], {}),
    "OneHot": ([i32(0, 2), i32(3), T(), T()], {}), "Pack": ([[T(2, 3), T(2, 3)]], {}),
    "Multinomial": ([T(2, 3), i32(4)], {}), "StatelessMultinomial": ([T(2, 3), i32(4), _SEED], {}),
    "ParameterizedTruncatedNormal": ([i32(2, 3), T(), T(), T(values=-1.), T(values=1.)], {}),
    "StatelessParameterizedTruncatedNormal": ([i32(2, 3), _SEED, T(), T(), T(values=-1.),
                                               T(values=1.)], {}),
    "PlaceholderWithDefault": ([T(2, 3)], {"shape": [2, 3]}),
    "Polygamma": ([T(values=1.), T(2, 3)], {}),
    "QuantizeAndDequantizeV2": ([T(2, 3), T(values=-1.), T(values=1.)], {}),
    "QuantizeAndDequantizeV3": ([T(2, 3), T(values=-1.), T(values=1.), i32(8)], {}),
    "QuantizeAndDequantizeV4": ([T(2, 3), T(values=-1.), T(values=1.)], {}),
    "RGBToHSV": ([T(2, 3)], {}), "HSVToRGB": ([T(2, 3)], {}),
    "RandomUniformInt": ([i32(2, 3), T(values=0), T(values=9)], {}),
    "Range": ([T(values=0), T(values=5), T(values=1)], {}), "Reshape": ([T(2, 3), i32(3, 2)], {}),
    "ResizeBilinear": ([_I, i32(6, 8)], {}), "ResizeNearestNeighbor": ([_I, i32(6, 8)], {}),
    "ResizeBilinearGrad": ([f32(np.ones((2, 6, 8, 2))), _I], {}),
    "Reverse": ([T(2, 3), np.array([True, False])], {}), "ReverseV2": ([T(2, 3), i32([1])], {}),
    "ReverseSequence": ([T(2, 3), i32(2, 3)], {"seq_dim": 1, "batch_dim": 0}),
    "Roll": ([T(2, 3), i32([1]), i32([1])], {}),
    "ScatterNd": ([i32(_PAIRS), T(2), i32(4, 3)], {}),
    "Select": ([np.array([[True, False, True]] * 2), T(2, 3), T(2, 3)], {}),
    "SelectV2": ([np.array([True, False, True]), T(2, 3), T(2, 3)], {}),
    "ShapeN": ([[T(2, 3), T(3)]], {}), "Slice": ([T(2, 3), i32(0, 1), i32(2, 2)], {}),
    "SparseSoftmaxCrossEntropyWithLogits": ([T(2, 3), i32(0, 2)], {}),
    "SparseToDense": ([i32(_PAIRS), i32(4, 3), T(2), T()], {}),
    "Split": ([i32(0), T(4, 3)], {"num_split": 2}),
    "SplitV": ([T(4, 3), i32(1, 3), i32(0)], {"num_split": 2}),
    "Squeeze": ([T(1, 3, 1)], {}), "StridedSlice": ([T(2, 3), *_SLICE], {}),
    "StridedSliceGrad": ([i32(2, 3), *_SLICE, T(2, 2)], {}),
    "TensorStridedSliceUpdate": ([T(2, 3), *_SLICE, T(2, 2)], {}),
    "ResourceStridedSliceAssign": ([Variable(2, 3), *_SLICE, T(2, 2)], {}),
    "SelfAdjointEigV2": ([_SYM], {}), "Qr": ([_SYM], {}), "Svd": ([_SYM], {}),
    "Tile": ([T(2, 3), i32(1, 2)], {}), "TopKV2": ([T(2, 5), i32(2)], {}),
    "Transpose": ([T(2, 3), i32(1, 0)], {}), "ConjugateTranspose": ([T(2, 3), i32(1, 0)], {}),
    "TridiagonalMatMul": ([T(1, 3), T(1, 3), T(1, 3), T(3, 2)], {}),
    "TridiagonalSolve": ([T(values=[[1, 1, 0], [4, 5, 6], [0, 1, 1]]), T(3, 2)], {}),
    "Unpack": ([T(2, 3)], {"num": 2}), "Unique": ([T(values=[1, 2, 1])], {}),
    "UniqueV2": ([T(values=[1, 2, 1]), i32([0])], {}),
    "Where": ([np.array([[True, False, True]])], {}),
    "ToBool": ([T()], {}),
    "NextAfter": ([T(2, 3), T(2, 3)], {}), "Xlog1py": ([T(2, 3), T(2, 3)], {}),
    "Zeta": ([T(values=[2.5, 3.]), T(values=[.5, 1.])], {}), "Acosh": ([T(values=[1.5, 2.])], {}),
    "FloorDiv": ([T(values=[7, 3, 9]), T(values=[2, 5, 3])], {}),
    "FloorMod": ([T(values=[7, 3, 9]), T(values=[2, 5, 3])], {}),
    "Mod": ([T(values=[7, 3, 9]), T(values=[2, 5, 3])], {}),
    "RealDiv": ([T(values=[7, 3, 9]), T(values=[2, 5, 3])], {}),
    "Div": ([T(values=[7, 3, 9]), T(values=[2, 5, 3])], {}),
    "TruncateDiv": ([T(values=[7, 3, 9]), T(values=[2, 5, 3])], {}),
    "TruncateMod": ([T(values=[7, 3, 9]), T(values=[2, 5, 3])], {}),
    "RngReadAndSkip": ([Variable(values=[1, 2, 3]), _ALG, np.array(4, np.uint64)], {"of": "int64"}),
    "RngSkip": ([Variable(values=[1, 2, 3]), np.array(1, np.int64), np.array(4, np.int64)],
                {"of": "int64"}),
    "VariableShape": ([Variable(2, 3)], {}), "VarIsInitializedOp": ([Variable(2, 3)], {}),
    "ReadVariableOp": ([Variable(2, 3)], {}),
    "ResourceGather": ([Variable(4, 3), i32(2, 0)], {}),
    "ResourceApplyGradientDescent": ([Variable(2, 3), T(), T(2, 3)], {}),
    "ResourceApplyProximalGradientDescent": ([Variable(2, 3), T(), T(), T(), T(2, 3)], {}),
    "AssignVariableXlaConcatND": ([Variable(2, 3), [T(1, 3), T(1, 3)]], {"num_concats": [2, 1]}),
    "ReadVariableXlaSplitND": ([Variable(2, 4)], {"num_splits": [1, 2], "N": 2}),
    "XlaConcatND": ([[T(2, 3), T(2, 3)]], {"num_concats": [1, 2]}),
    "XlaSplitND": ([T(2, 4)], {"num_splits": [1, 2], "N": 2}),
    "XlaBroadcastHelper": ([T(2, 3), T(3), np.array([1], np.int64)], {}),
    "XlaDynamicSlice": ([T(4, 3), i32(1, 0), i32(2, 2)], {}),
    "XlaDynamicUpdateSlice": ([T(4, 3), T(2, 2), i32(1, 0)], {}),
    "XlaEinsum": ([T(2, 3), T(3, 4)], {"equation": "ij,jk->ik"}),
    "XlaKeyValueSort": ([T(5), T(5)], {}), "XlaSort": ([T(5)], {}),
    "XlaPad": ([T(2, 3), T(), i32(1, 0), i32(0, 1), i32(0, 1)], {}),
    "XlaOptimizationBarrier": ([[T(2, 3), T(3)]], {}),
    "XlaReducePrecision": ([T(2, 3)], {"exponent_bits": 5, "mantissa_bits": 4}),
    "XlaSelfAdjointEig": ([_SYM], {"lower": True, "max_iter": 20, "epsilon": 1e-5}),
    "XlaSvd": ([_SYM], {"max_iter": 20, "epsilon": 1e-5, "precision_config": ""}),
    "XlaSharding": ([T(2, 3)], {}), "XlaReplicaId": ([], {}),
    "XlaSetBound": ([i32(2), i32(3)], {}),
    "XlaSetDynamicDimensionSize": ([T(2, 3), i32(0), i32(1)], {}),
    "XlaRemoveDynamicDimensionSize": ([T(2, 3), i32(0)], {}),
    "XlaSpmdFullToShardShape": ([T(2, 3)], {"manual_sharding": ""}),
    "XlaSpmdShardToFullShape": ([T(2, 3)], {"manual_sharding": "", "full_shape": [2, 3]}),
    "ClipByValue": ([T(2, 3), T(values=0), T(values=3)], {}),
    "LRN": ([T(1, 2, 2, 4)], {}),
    "ResourceApplyProximalAdagrad":
        ([Variable(2, 3), Variable(2, 3), T(), T(), T(), T(2, 3)], {}),
    "ResourceApplyAdagradDA": ([Variable(2, 3), Variable(2, 3), Variable(2, 3), T(2, 3), T(), T(),
                                T(),
                                np.array(3, np.int64)], {}),
    "StochasticCastToInt": ([f32(.2, 1.7), _KEY, _COUNTER, _ALG],
                            {"Tout": "int32", "of": "float32"}),
    "XlaDequantize": ([np.array([[1, 2]], np.uint32)],
                      {"min_range": 0., "max_range": 1., "mode": "MIN_COMBINED",
                       "transpose_output": False}),
    "StatelessRandomGetKeyCounter": ([_SEED], {}), "StatelessRandomGetAlg": ([], {}),
    "StatelessRandomGetKeyCounterAlg": ([_SEED], {}),
    "StatelessRandomUniformFullInt": ([i32(2, 3), _SEED], {}),
    "StatelessRandomUniformInt": ([i32(2, 3), _SEED, T(values=0), T(values=9)], {}),
    "StatelessRandomUniformIntV2": ([i32(2, 3), _KEY, _COUNTER, _ALG, T(values=0), T(values=9)],
                                    {}),
    "DeviceIndex": ([], {"device_names": ["GPU"]}), "NoOp": ([], {}), "ControlTrigger": ([], {}),
}
for _name in ("StatelessRandomNormal", "StatelessRandomUniform", "StatelessTruncatedNormal"):
    RECIPES[_name] = ([i32(2, 3), _SEED], {})
for _name in ("StatelessRandomNormalV2", "StatelessRandomUniformV2", "StatelessTruncatedNormalV2",
              "StatelessRandomUniformFullIntV2"):
    RECIPES[_name] = ([i32(2, 3), _KEY, _COUNTER, _ALG], {})
for _name in ("Add", "Sub", "Min", "Max", "Update"):
    RECIPES["TensorScatter" + _name] = ([T(4, 3), i32(_PAIRS), T(2)], {})
for _name in ("Add", "Sub", "Update"):
    RECIPES["ResourceScatterNd" + _name] = ([Variable(4, 3), i32(_PAIRS), T(2)], {})
for _name in ("Add", "Sub", "Min", "Max", "Update", "Mul", "Div"):
    RECIPES["ResourceScatter" + _name] = (
        [Variable(4, 3), i32(2, 0), T(values=[[1, 2, 3], [4, 5, 6]])], {})
for _name in ("Sum", "Prod", "Min", "Max"):
    RECIPES[f"Segment{_name}V2"] = ([T(4, 3), i32(0, 0, 1, 1), i32(2)], {})
    RECIPES[f"UnsortedSegment{_name}"] = ([T(4, 3), i32(0, 1, 1, 0), i32(2)], {})
for _name in ("StandardNormalV2", "TruncatedNormal", "Uniform", "UniformFullInt", "UniformInt"):
    _bounds = [T(values=0), T(values=9)] if _name == "UniformInt" else []
    RECIPES["Stateful" + _name] = (
        [Variable(values=[1, 2, 3]), np.array(1, np.int64), np.array([2, 3], np.int64), *_bounds],
        {"of": "int64"})


# What stock TensorFlow does not compute right: the results, from the inputs. (2.21's kernel of
# Round leaves zeros for integers, as does XLA's lowering of them, which folds the kernel's result.
# Grappler makes of a division by constants a product with their reciprocals, which for integers
# are zeros.)
ANSWERS = {("Round", "int32"): lambda inputs: [inputs["x"]],
           ("RealDiv", "int32"): lambda inputs: [inputs["x"] // inputs["y"]]}

# What stock TensorFlow does not compute at all, and why.
UNANSWERED = dict.fromkeys([("Svd", "float16"), ("XlaSvd", "float16")],
                           "XLA's steps overflow, and its result is no number")


def _largest_positive(results):
    """Eigenvectors, the columns of result 1, with the sign that makes the largest number positive:
    any sign is right, and TensorFlow and XLA have others on another CPU."""
    values, vectors = results
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(-2)[..., None, :], -2)
    return [values, vectors * np.sign(largest)]


# Of several right results one, from any.
ONE_OF_SEVERAL = dict.fromkeys(["SelfAdjointEigV2", "XlaSelfAdjointEig"], _largest_positive)


def by_name(argument, shape, fixed_type):
    """An input that no recipe names: T(...) or an array. `fixed_type` is the type of an input that
    has not the op's main type, or None."""
    if fixed_type is not None and np.dtype(fixed_type).kind in "iu" and argument in _BY_NAME:
        return np.array(_BY_NAME[argument], fixed_type)
    if argument in _SCALARS:
        return T() if fixed_type is None else np.array(.5).astype(fixed_type)
    if fixed_type is not None:
        return numbers(shape, fixed_type, np.random.default_rng(4))
    return T(*shape)


def attribute(definition):
    """The value of an attribute without a default, by its name or type; None for a function."""
    if definition.name in _ATTRIBUTES:
        return _ATTRIBUTES[definition.name]
    return {"int": 2, "float": .5, "bool": False, "string": "", "shape": [2, 3],
            "list(int)": [1, 1, 1, 1], "list(float)": [.5], "list(string)": [],
            "list(shape)": [[2, 3]]}.get(definition.type)
