"""Custom operators in C++ beside TensorFlow's operations and beside plain C: milliseconds a call,
and their ratio.

    python bench/operators.py
"""

import ctypes
import os
import pathlib
import subprocess
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tremula.poplar import paths

ROUNDS, CALLS = 7, 20
TILES = 1472

CODELET = """
#include <poplar/Vertex.hpp>
class Rotate : public poplar::Vertex {
 public:
  poplar::Input<poplar::Vector<float, poplar::VectorLayout::ONE_PTR>> x, y;
  poplar::Output<poplar::Vector<float>> u, v;
  float c, s;
  void compute() {
    for (unsigned i = 0; i < u.size(); ++i) {
      u[i] = c * x[i] - s * y[i];
      v[i] = s * x[i] + c * y[i];
    }
  }
};
"""

OPERATORS = """
#include <poplar/Graph.hpp>
#include <popops/ElementWise.hpp>
using namespace poplar;
using namespace poplar::program;
namespace pe = popops::expr;
typedef std::vector<Tensor> Tensors;
extern "C" {
int32_t custom_op_api_level = 5;
Program Scale(Graph &graph, const Tensors &inputs, Tensors &outputs, const std::string &,
              const std::string &name) {
  Sequence program;
  outputs = {popops::map(graph, pe::_1 * 0.5f + pe::_2, inputs, program, name)};
  return program;
}
Program Rotation(Graph &graph, const Tensors &inputs, Tensors &outputs, const std::string &,
                 const std::string &name) {
  const Tensor x = inputs[0], y = inputs[1];
  outputs = {graph.clone(x, name), graph.clone(y, name)};
  const ComputeSet set = graph.addComputeSet(name);
  const auto mapping = graph.getTileMapping(x);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const Interval &part : mapping[tile]) {
      const VertexRef vertex = graph.addVertex(set, "Rotate", {{"x", x.slice(part)},
          {"y", y.slice(part)}, {"u", outputs[0].slice(part)}, {"v", outputs[1].slice(part)}});
      graph.setInitialValue(vertex["c"], 0.6f);
      graph.setInitialValue(vertex["s"], 0.8f);
      graph.setTileMapping(vertex, tile);
    }
  }
  return Execute(set);
}
}
"""

PLAIN = """
void rotate(const float *restrict x, const float *restrict y, float *restrict u,
            float *restrict v, long n) {
  for (long i = 0; i < n; ++i) {
    u[i] = 0.6f * x[i] - 0.8f * y[i];
    v[i] = 0.8f * x[i] + 0.6f * y[i];
  }
}
"""


def build(folder):
    """Compiles the library, the codelet's source and the plain function."""
    for name, text in ("op.cpp", OPERATORS), ("codelet.cpp", CODELET), ("plain.c", PLAIN):
        (folder / name).write_text(text)
    subprocess.run(["g++", "-O2", "-shared", "-fPIC", f"-I{paths.INCLUDE}",
                    f"-I{paths.table_headers()}", "op.cpp", "-o", "libop.so"], cwd=folder,
                   check=True)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "plain.c", "-o", "libplain.so"], cwd=folder,
                   check=True)


def on_ipu(body, values):
    """Milliseconds a call of a body that maps a pair of arrays to a pair."""
    with tf.Graph().as_default(), tf.Session() as session:
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            result = ipu.ipu_compiler.compile(
                lambda: ipu.loops.repeat(CALLS, body, [tf.constant(one) for one in values]))
        fetched = [tf.reduce_sum(one) for one in result]
        session.run(fetched)
        return fastest(lambda: session.run(fetched)) / CALLS


def fastest(call):
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return 1000 * min(taken)


def operator(folder, name, inputs):
    return ipu.custom_ops.precompiled_user_op(
        inputs, str(folder / "libop.so"), op_name=name,
        gp_path=str(folder / "codelet.cpp") if name == "Rotation" else "",
        outs={"output_types": [tf.float32] * (2 if name == "Rotation" else 1),
              "output_shapes": [inputs[0].shape] * (2 if name == "Rotation" else 1)})


def plain(folder, values):
    rotate = ctypes.CDLL(str(folder / "libplain.so")).rotate
    arrays = [*values, *map(np.empty_like, values)]
    places = [ctypes.c_void_p(one.ctypes.data) for one in arrays]
    count = ctypes.c_long(values[0].size)
    return fastest(lambda: [rotate(*places, count) for _ in range(CALLS)]) / CALLS


def main():
    random = np.random.default_rng(0)
    many = [random.standard_normal(1 << 22).astype("f4") for _ in range(2)]
    parts = [random.standard_normal(TILES * 1024).astype("f4") for _ in range(2)]
    what = f"milliseconds a call, the fastest of {ROUNDS}"
    print(f"{what:40} operator    other   ratio  at most")
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        os.environ["TREMULA_CODELET_CACHE"] = str(folder / "cache")
        build(folder)
        rows = [("popops on 4 M floats beside TensorFlow's",
                 on_ipu(lambda x, y: (operator(folder, "Scale", [x, y])[0], y), many),
                 on_ipu(lambda x, y: (x * 0.5 + y, y), many), 1.5),
                (f"a rotation on {TILES} tiles beside C",
                 on_ipu(lambda x, y: tuple(operator(folder, "Rotation", [x, y])), parts),
                 plain(folder, parts), 3.0)]
        for name, ours, other, most in rows:
            print(f"{name:40} {ours:8.2f} {other:8.2f} {ours / other:7.2f} {most:8.1f}")


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
