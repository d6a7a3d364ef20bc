// Operators for test_builds.py.
#include <cstdint>
#include <poplar/Graph.hpp>
#include <popops/ElementWise.hpp>

using namespace poplar;
using namespace poplar::program;

typedef std::vector<Tensor> Tensors;
typedef const std::string &Text;

extern "C" {
extern int32_t custom_op_api_level;
int32_t custom_op_api_level = 5;

Program Product(Graph &graph, const Tensors &inputs, Tensors &outputs, Text attributes, Text name);
Program Product_grad(Graph &graph, int64_t index, const Tensors &gradients, const Tensors &inputs,
                     const Tensors &results, Tensors &outputs, Text attributes, Text name);
Program Machine(Graph &graph, const Tensors &inputs, Tensors &outputs, Text attributes, Text name);
Program Throwing(Graph &graph, const Tensors &inputs, Tensors &outputs, Text attributes, Text name);
Program Endless(Graph &graph, const Tensors &inputs, Tensors &outputs, Text attributes, Text name);
}

// x * y, whose second input has no gradient.
Program Product(Graph &graph, const Tensors &inputs, Tensors &outputs, Text, Text name) {
  Sequence program;
  outputs = {popops::mul(graph, inputs[0], inputs[1], program, name)};
  return program;
}
Program Product_grad(Graph &graph, int64_t, const Tensors &gradients, const Tensors &inputs,
                     const Tensors &, Tensors &outputs, Text, Text name) {
  Sequence program;
  outputs = {popops::mul(graph, gradients[0], inputs[1], program, name), Tensor()};
  return program;
}

// The IPUs, their tiles, and the tiles that input 0 lies on.
Program Machine(Graph &graph, const Tensors &inputs, Tensors &outputs, Text, Text) {
  const Target target = graph.getTarget();
  int tiles = 0;
  for (const std::vector<Interval> &one : graph.getTileMapping(inputs[0])) tiles += !one.empty();
  const std::vector<int> found = {int(target.getNumIPUs()), int(target.getNumTiles()), tiles};
  outputs = {graph.addConstant(INT, {3}, ArrayRef<int>(found))};
  graph.setTileMapping(outputs[0], target.getNumTiles() - 1);
  return Sequence();
}

// As many vertices as elements; those over 10 throw, and those under 0 worse.
Program Throwing(Graph &graph, const Tensors &inputs, Tensors &outputs, Text, Text name) {
  const Tensor result = graph.clone(inputs[0], name);
  const ComputeSet set = graph.addComputeSet(name);
  for (unsigned i = 0; i < result.numElements(); ++i) {
    graph.setTileMapping(graph.addVertex(set, "Throws", {{"x", result.slice(i, i + 1)}}), i);
  }
  outputs = {result};
  return Sequence(Copy(inputs[0], result), Execute(set));
}

Program Endless(Graph &graph, const Tensors &inputs, Tensors &outputs, Text, Text name) {
  const Tensor yes = graph.addVariable(BOOL, {}, VariableMappingMethod::LINEAR, name);
  graph.setInitialValue(yes, true);
  outputs = {graph.clone(inputs[0], name)};
  return RepeatWhileTrue(Sequence(), yes, Copy(inputs[0], outputs[0]));
}
