// Operators for test_slices.py.
#include <cstdint>
#include <poplar/Graph.hpp>
#include <popnn/Loss.hpp>
#include <popops/DynamicSlice.hpp>
#include <popops/Zero.hpp>
#include <string>

using namespace poplar;
using namespace poplar::program;

typedef std::vector<Tensor> Tensors;
typedef const std::string &Text;
#define BUILD(NAME)                                                                         \
  extern "C" Program NAME(Graph &graph, const Tensors &inputs, Tensors &outputs, Text text, \
                          Text name);                                                       \
  extern "C" Program NAME(Graph &graph, const Tensors &inputs, Tensors &outputs,            \
                          [[gnu::unused]] Text text, Text name)

extern "C" {
extern int32_t custom_op_api_level;
int32_t custom_op_api_level = 5;
Tensor Gather_allocator(Graph &graph, std::uint32_t operand, const std::vector<std::size_t> &shape,
                        Type type, Text, Text name);
void Gather_metadata(std::vector<int64_t> &allocating, std::vector<int64_t> &,
                     std::map<int64_t, int64_t> &, bool &, bool &, bool &, std::uint32_t);
Program Gather_grad(Graph &graph, int64_t, const Tensors &gradients, const Tensors &inputs,
                    const Tensors &, Tensors &outputs, Text, Text name);
}

// Rows of grouped tables: inputs [groups, entries, width] and [groups, lookups].
BUILD(Gather) {
  Sequence program;
  const auto plan =
      popops::embedding::plan(graph, inputs[0].elementType(), inputs[0].dim(0), inputs[0].dim(1),
                              inputs[0].dim(2), {inputs[1].dim(1)}, {});
  const Tensor rows = popops::groupedMultiSlice(graph, inputs[0], inputs[1].expand({2}), {0}, {1},
                                                program, plan, {}, name);
  outputs = {rows.squeeze({2})};
  return program;
}
void Gather_metadata(std::vector<int64_t> &allocating, std::vector<int64_t> &,
                     std::map<int64_t, int64_t> &, bool &, bool &, bool &, std::uint32_t) {
  allocating = {0, 1};
}
Tensor Gather_allocator(Graph &graph, std::uint32_t operand, const std::vector<std::size_t> &shape,
                        Type type, Text, Text name) {
  if (operand == 0) {
    return popops::createGroupedSliceableTensor(graph, type, shape[0], {shape[1], shape[2]}, {0},
                                                {1}, {}, {}, name);
  }
  return popops::createGroupedIndicesTensor(graph, shape[0], {0}, shape[1], {}, {}, name)
      .squeeze({2})
      .reinterpret(type);
}
Program Gather_grad(Graph &graph, int64_t, const Tensors &gradients, const Tensors &inputs,
                    const Tensors &, Tensors &outputs, Text, Text name) {
  Sequence program;
  const Tensor sum = popops::createGroupedSliceableTensor(
      graph, inputs[0].elementType(), inputs[0].dim(0), {inputs[0].dim(1), inputs[0].dim(2)}, {0},
      {1}, {}, {}, name);
  popops::zero(graph, sum, program, name);
  const Tensor one = graph.addConstant(FLOAT, {}, 1.0f);
  graph.setTileMapping(one, 0);
  popops::groupedMultiUpdateAdd(graph, sum, gradients[0].expand({2}), inputs[1].expand({2}), one,
                                {0}, {1}, program, {}, {}, name);
  outputs = {sum, Tensor()};
  return program;
}

// Updates of [entries, width] at [lookups], as the attributes say.
BUILD(Update) {
  Sequence program;
  const Tensor table = graph.clone(inputs[0], name);
  program.add(Copy(inputs[0], table));
  const Tensor slices = inputs[1].expand({1}), at = inputs[2].expand({1});
  const Tensor two = graph.addConstant(FLOAT, {}, 2.0f);
  graph.setTileMapping(two, 0);
  const std::vector<std::size_t> dims = {0}, sizes = {1};
  if (text == "set") popops::multiUpdate(graph, table, slices, at, dims, sizes, program, {}, {});
  if (text == "max") popops::multiUpdateMax(graph, table, slices, at, dims, sizes, program, {}, {});
  if (text == "add") {
    popops::multiUpdateAdd(graph, table, slices, at, two, dims, sizes, program, {}, {});
  }
  outputs = {table};
  return program;
}

// A window of 2 x 3 at inputs[1], which then gets its negative, and extremes of rows.
BUILD(Window) {
  Sequence program;
  const Tensor window =
      popops::dynamicSlice(graph, inputs[0], inputs[1], {0, 1}, {2, 3}, program, name);
  const Tensor table = graph.clone(inputs[0], name);
  program.add(Copy(inputs[0], table));
  popops::dynamicUpdate(graph, table, popops::neg(graph, window, program), inputs[1], {0, 1},
                        {2, 3}, program, name);
  const auto most = popnn::maxAndArgMax(graph, table, program, name);
  outputs = {window, table, most.first, most.second, popnn::argMin(graph, table, program, name)};
  return program;
}

// Shapes that do not fit, by number.
BUILD(Wrong) {
  Sequence program;
  const Tensor t = inputs[0];
  const Tensor at = graph.addVariable(INT, {2, 1}, VariableMappingMethod::LINEAR, name);
  const Tensor row = graph.addVariable(FLOAT, {2, 1, 9}, VariableMappingMethod::LINEAR, name);
  if (text == "dims") popops::multiSlice(graph, t, at, {7}, {1}, program, {}, {});
  if (text == "size") popops::multiSlice(graph, t, at, {0}, {99}, program, {}, {});
  if (text == "indices") popops::multiSlice(graph, t, t, {0}, {1}, program, {}, {});
  if (text == "slices") popops::multiUpdate(graph, t, row, at, {0}, {1}, program, {}, {});
  outputs = {t};
  return program;
}
