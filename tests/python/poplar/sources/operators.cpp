/* Operators whose tests are in test_operators.py. */
#include <poplar/Graph.hpp>
#include <poplar/Tensor.hpp>
#include <poplin/MatMul.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Zero.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/Util.hpp>
#include <poputil/VertexTemplates.hpp>
#include <poputil/exceptions.hpp>

#include <cstdlib>
#include <string>
#include <vector>

namespace pe = popops::expr;
using poplar::program::Program;
using poplar::program::Sequence;
typedef std::vector<poplar::Tensor> Tensors;

extern "C" {
int32_t custom_op_api_level = 5;

/* a1: x * scale + y by popops alone, with its gradients together and one by one. */
void Scaled_metadata(std::vector<int64_t> &, std::vector<int64_t> &, std::map<int64_t, int64_t> &,
                     bool &is_elementwise, bool &is_stateless, bool &is_hashable, uint32_t) {
  is_elementwise = is_stateless = is_hashable = true;
}
Program Scaled(poplar::Graph &graph, const Tensors &inputs, Tensors &outputs,
               const std::string &attributes, const std::string &debug) {
  Sequence program;
  const float scale = std::strtof(attributes.c_str(), nullptr);
  outputs.push_back(popops::map(graph, pe::_1 * pe::Const(scale) + pe::_2, {inputs[0], inputs[1]},
                                program, debug + "/map"));
  return program;
}
Program Scaled_grad(poplar::Graph &graph, int input_grad_index, const Tensors &gradients,
                    const Tensors &fwd_inputs, const Tensors &, Tensors &outputs,
                    const std::string &attributes, const std::string &debug) {
  Sequence program;
  const float scale = std::strtof(attributes.c_str(), nullptr);
  if (fwd_inputs.size() != 2) throw poputil::poplibs_error("two inputs");
  if (input_grad_index == 0) {
    outputs.push_back(popops::mul(graph, gradients[0], scale, program, debug));
  }
  if (input_grad_index == 1 || attributes.find("both") != std::string::npos) {
    outputs.push_back(poputil::duplicate(graph, gradients[0], program, debug));
  }
  return program;
}

/* a2: a codelet over the regions of each tile. */
Program Rotate(poplar::Graph &graph, const Tensors &inputs, Tensors &outputs,
               const std::string &attributes, const std::string &debug) {
  Sequence program;
  poplar::Tensor x = inputs[0].flatten(), y = inputs[1].flatten();
  poplar::Tensor result = graph.clone(inputs[0]);
  poplar::Tensor flat = result.flatten();
  poplar::ComputeSet set = graph.addComputeSet(debug + "/rotate");
  const auto mapping = graph.getTileMapping(x);
  const auto grain = graph.getTarget().getVectorWidth(x.elementType());
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    if (mapping[tile].empty()) continue;
    for (const auto &regions :
         poputil::splitRegionsBetweenWorkers(graph.getTarget(), mapping[tile], grain)) {
      poplar::VertexRef v = graph.addVertex(
          set, poputil::templateVertex("Rotate", x.elementType()),
          {{"x", x.slices(regions)}, {"y", y.slices(regions)}, {"out", flat.slices(regions)}});
      graph.setInitialValue(v["angle"], 0.5f);
      if (attributes != "unknown") graph.setPerfEstimate(v, 20);
      graph.setTileMapping(v, tile);
    }
  }
  program.add(poplar::program::Execute(set));
  outputs.push_back(result);
  return program;
}

/* a4: the second input is laid out by its allocator; b counts. */
void Product_metadata(std::vector<int64_t> &allocating, std::vector<int64_t> &,
                      std::map<int64_t, int64_t> &, bool &, bool &is_stateless, bool &, uint32_t) {
  allocating.push_back(1);
  is_stateless = true;
}
poplar::Tensor Product_allocator(poplar::Graph &graph, uint32_t operand,
                                 const std::vector<size_t> &shape, poplar::Type type,
                                 const std::string &attributes, const std::string &debug) {
  if (operand != 1 || attributes != "left first") throw poplar::poplar_error("wrong allocator call");
  return poplin::createMatMulInputRHS(graph, type, {4, shape[0]}, shape, debug);
}
Program Product(poplar::Graph &graph, const Tensors &inputs, Tensors &outputs, const std::string &,
                const std::string &debug) {
  Sequence program;
  outputs.push_back(poplin::matMul(graph, inputs[0], inputs[1], program, debug));
  return program;
}

/* a5: a counter that keeps its value from run to run. */
Program Count(poplar::Graph &graph, const Tensors &inputs, Tensors &outputs, const std::string &,
              const std::string &debug) {
  Sequence program;
  poplar::Tensor count = graph.addVariable(poplar::FLOAT, {1}, debug + "/count");
  graph.setTileMapping(count, 0);
  graph.setInitialValue(count[0], 0.0f);
  popops::addInPlace(graph, count, inputs[0], program, debug);
  outputs.push_back(poputil::duplicate(graph, count, program, debug));
  return program;
}
}
