#include <cstdint>
#include <poplar/Graph.hpp>
#include <poplar/Tensor.hpp>
#include <popops/ElementWise.hpp>
#include <poputil/exceptions.hpp>

extern "C" {
int32_t custom_op_api_level = 5;
poplar::program::Program Build(poplar::Graph &graph, const std::vector<poplar::Tensor> &inputs,
                               std::vector<poplar::Tensor> &outputs, const std::string &,
                               const std::string &debug_prefix) {
  if (inputs.size() != 1) throw poputil::poplibs_error("Scale takes one input.");
  poplar::program::Sequence program;
  const poplar::Tensor &in = inputs[0];
  poplar::Tensor out = graph.clone(in, debug_prefix + "/out");
  poplar::ComputeSet set = graph.addComputeSet(debug_prefix + "/scale");
  const auto mapping = graph.getTileMapping(in);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const auto &region : mapping[tile]) {
      auto vertex = graph.addVertex(set, "Scale");
      graph.connect(vertex["in"], in.flatten().slice(region));
      graph.connect(vertex["out"], out.flatten().slice(region));
      graph.setInitialValue(vertex["factor"], 2.5f);
      graph.setTileMapping(vertex, tile);
      graph.setPerfEstimate(vertex, 10);
    }
  }
  program.add(poplar::program::Execute(set));
  outputs.push_back(popops::add(graph, out, 1.0f, program, debug_prefix + "/add"));
  return program;
}
}
