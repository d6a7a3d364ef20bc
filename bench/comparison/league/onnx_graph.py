"""A network as a graph of ONNX, for ONNX Runtime and OpenVINO."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

_TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32}


class Value:
    """A tensor of the graph."""

    def __init__(self, graph, name):
        self.graph, self.name = graph, name

    def __add__(self, other):
        return self.graph.op("Add", self, other)

    def __mul__(self, other):
        return self.graph.op("Mul", self, other)


class Graph:
    """The operations of the networks; images are NCHW."""

    def __init__(self):
        self.nodes, self.initialisers, self.inputs = [], [], []

    def constant(self, array):
        name = f"c{len(self.initialisers)}"
        self.initialisers.append(numpy_helper.from_array(np.asarray(array), name))
        return Value(self, name)

    def weight(self, array, kind):
        return self.constant(np.ascontiguousarray(array.transpose(3, 2, 0, 1))
                             if kind == "kernel" else array)

    def input(self, array):
        name = f"i{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, _TYPES[array.dtype], array.shape))
        return Value(self, name)

    def op(self, kind, *operands, outputs=1, **attributes):
        names = ["" if one is None else one.name if isinstance(one, Value) else
                 self.constant(np.float32(one) if isinstance(one, float) else one).name
                 for one in operands]
        results = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, names, results, **attributes))
        values = [Value(self, name) for name in results]
        return values[0] if outputs == 1 else values

    def model(self, results):
        results = results if isinstance(results, tuple) else (results,)
        outputs = [helper.make_tensor_value_info(one.name, TensorProto.FLOAT, None)
                   for one in results]
        graph = helper.make_graph(self.nodes, "net", self.inputs, outputs, self.initialisers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        model.ir_version = 9
        return model

    def image(self, x):
        return self.op("Transpose", x, perm=[0, 3, 1, 2])

    def conv(self, x, kernel, stride, groups=1):
        return self.op("Conv", x, kernel, strides=[stride, stride], group=groups,
                       auto_pad="SAME_UPPER")

    def scale_channels(self, x, gain, offset):
        shape = np.array([-1, 1, 1])
        return x * self.op("Reshape", gain, shape) + self.op("Reshape", offset, shape)

    def max_pool(self, x, size, stride):
        return self.op("MaxPool", x, kernel_shape=[size, size], strides=[stride, stride],
                       auto_pad="SAME_UPPER")

    def mean_of_image(self, x):
        return self.op("ReduceMean", x, np.array([2, 3]), keepdims=0)

    def relu(self, x):
        return self.op("Relu", x)

    def tanh(self, x):
        return self.op("Tanh", x)

    def gelu(self, x):
        return self.op("Gelu", x)

    def softmax(self, x):
        return self.op("Softmax", x, axis=-1)

    def layer_norm(self, x, gain, offset):
        return self.op("LayerNormalization", x, gain, offset, epsilon=1e-5)

    def matmul(self, x, y):
        return self.op("MatMul", x, y)

    def transpose(self, x, order):
        return self.op("Transpose", x, perm=list(order))

    def reshape(self, x, shape):
        return self.op("Reshape", x, np.array(shape))

    def take(self, table, indices):
        return self.op("Gather", table, indices)

    def mean(self, x, axis):
        return self.op("ReduceMean", x, np.array([axis]), keepdims=0)

    def sum(self, x, axis):
        return self.op("ReduceSum", x, np.array([axis]), keepdims=0)

    def max(self, x, axis):
        return self.op("ReduceMax", x, np.array([axis]), keepdims=0)

    def cumsum(self, x, axis):
        return self.op("CumSum", x, np.array(axis))

    def sort(self, x):
        return self.op("TopK", x, np.array([1 << 20]), outputs=2, largest=0)[0]

    def lstm(self, xs, w, u):
        """The order of the gates is i, o, f, g there."""
        def gates(matrix):
            i, f, g, o = self.op("Split", matrix, outputs=4, axis=1, num_outputs=4)
            joined = self.op("Concat", i, o, f, g, axis=1)
            return self.op("Unsqueeze", self.op("Transpose", joined, perm=[1, 0]), np.array([0]))
        h = self.op("LSTM", xs, gates(w), gates(u), outputs=2, hidden_size=256)[1]
        return self.op("Squeeze", h, np.array([0]))
