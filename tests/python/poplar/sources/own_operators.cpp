// Operators for test_own_operators.py, each written as users write theirs. All are of level 5; the
// tests set the level of copies of the library.
#include <cstdint>
#include <gcl/Collectives.hpp>
#include <map>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplin/MatMul.hpp>
#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Encoding.hpp>
#include <popops/Reduce.hpp>
#include <popops/ScaledAdd.hpp>
#include <popops/Zero.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/Util.hpp>
#include <poputil/VertexTemplates.hpp>
#include <poputil/exceptions.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace poplar;
using namespace poplar::program;
namespace pe = popops::expr;

typedef std::vector<Tensor> Tensors;
typedef const std::string &Text;

#define BUILD(NAME)                                                                               \
  extern "C" Program NAME(Graph &graph, const Tensors &inputs, Tensors &outputs, Text attributes, \
                          Text debug_prefix);                                                     \
  extern "C" Program NAME(Graph &graph, const Tensors &inputs, [[gnu::unused]] Tensors &outputs,  \
                          [[gnu::unused]] Text attributes, [[gnu::unused]] Text debug_prefix)
#define GRAD(NAME)                                                                                 \
  extern "C" Program NAME(Graph &graph, int64_t input_grad_index, const Tensors &gradients,        \
                          const Tensors &fwd_inputs, const Tensors &fwd_outputs, Tensors &outputs, \
                          Text attributes, Text debug_prefix);                                     \
  extern "C" Program NAME(Graph &graph, [[gnu::unused]] int64_t input_grad_index,                  \
                          const Tensors &gradients, [[gnu::unused]] const Tensors &fwd_inputs,     \
                          [[gnu::unused]] const Tensors &fwd_outputs, Tensors &outputs,            \
                          [[gnu::unused]] Text attributes, [[gnu::unused]] Text debug_prefix)
#define METADATA(NAME)                                                                           \
  extern "C" void NAME(std::vector<int64_t> &allocating, std::vector<int64_t> &identical,        \
                       std::map<int64_t, int64_t> &aliasing, bool &elementwise, bool &stateless, \
                       bool &hashable, std::uint32_t num_inputs);                                \
  extern "C" void NAME([[gnu::unused]] std::vector<int64_t> &allocating,                         \
                       [[gnu::unused]] std::vector<int64_t> &identical,                          \
                       [[gnu::unused]] std::map<int64_t, int64_t> &aliasing,                     \
                       [[gnu::unused]] bool &elementwise, [[gnu::unused]] bool &stateless,       \
                       [[gnu::unused]] bool &hashable, [[gnu::unused]] std::uint32_t num_inputs)

extern "C" {
extern int32_t custom_op_api_level;
int32_t custom_op_api_level = 5;
}

// ---- ScaleShift: y = x * a + b, with whole and separate gradients ----

METADATA(ScaleShift_metadata) { stateless = hashable = elementwise = true; }
BUILD(ScaleShift) {
  Sequence program;
  outputs.push_back(
      popops::map(graph, pe::_1 * pe::_2 + pe::_3, inputs, program, debug_prefix + "/map"));
  return program;
}
METADATA(ScaleShift_grad_metadata) { stateless = hashable = true; }
GRAD(ScaleShift_grad) {
  Sequence program;
  std::vector<std::size_t> wanted = {0, 1, 2};
  if (attributes == "separate") wanted = {static_cast<std::size_t>(input_grad_index)};
  if (attributes == "0 and 2") wanted = {0, 2};
  const Tensor &d = gradients[0];
  for (const std::size_t input : wanted) {
    if (input == 0) outputs.push_back(popops::mul(graph, d, fwd_inputs[1], program, debug_prefix));
    if (input == 1) outputs.push_back(popops::mul(graph, d, fwd_inputs[0], program, debug_prefix));
    if (input == 2) outputs.push_back(poputil::duplicate(graph, d, program, debug_prefix));
  }
  return program;
}

// ---- Rotate: a codelet over split regions ----

METADATA(Rotate_metadata) { stateless = true; }
BUILD(Rotate) {
  if (inputs.size() != 3) throw poputil::poplibs_error("Rotate takes x, y and the angle.");
  const Tensor x = inputs[0].flatten(), y = inputs[1].flatten();
  const Tensor outX = graph.clone(inputs[0], debug_prefix + "/x");
  const Tensor outY = graph.clone(inputs[1], debug_prefix + "/y");
  const ComputeSet set = graph.addComputeSet(debug_prefix + "/rotate");
  const Target target = graph.getTarget();
  const auto mapping = graph.getTileMapping(inputs[0]);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    if (mapping[tile].empty()) continue;
    const auto sorted = graph.getSortedContiguousRegions(x, mapping[tile]);
    for (const auto &regions : poputil::splitRegionsBetweenWorkers(
             target, sorted, target.getVectorWidth(x.elementType()), 1)) {
      const auto flat = [&] {
        std::vector<Interval> result;
        for (const auto &sequence : regions)
          result.insert(result.end(), sequence.begin(), sequence.end());
        return result;
      }();
      const VertexRef vertex = graph.addVertex(
          set, poputil::templateVertex("Rotate", x.elementType()), {{"angle", inputs[2]}});
      graph.connect(vertex["x"], x.slices(flat));
      graph.connect(vertex["y"], y.slices(flat));
      graph.connect(vertex["outX"], outX.flatten().slices(flat));
      graph.connect(vertex["outY"], outY.flatten().slices(flat));
      graph.setTileMapping(vertex, tile);
      graph.setPerfEstimate(vertex, 10 * regions.size());
    }
  }
  outputs = {outX, outY};
  return Execute(set);
}

// ---- AddTo: the variable in place ----

METADATA(AddTo_metadata) { aliasing[0] = 0; }
BUILD(AddTo) {
  Sequence program;
  popops::scaledAddTo(graph, inputs[0], inputs[1], 2.0f, program, debug_prefix);
  outputs.push_back(inputs[0]);
  return program;
}

// ---- Placed: a layout of its own, and the tile where its elements lie ----

METADATA(Placed_metadata) { allocating = {0}; }
extern "C" Tensor Placed_allocator(Graph &graph, std::uint32_t operand,
                                   const std::vector<std::size_t> &shape, Type type,
                                   Text attributes, Text debug_prefix);
extern "C" Tensor Placed_allocator(Graph &graph, std::uint32_t,
                                   const std::vector<std::size_t> &shape, Type type,
                                   Text attributes, Text debug_prefix) {
  const Tensor made = graph.addVariable(type, shape, debug_prefix);
  const unsigned first = static_cast<unsigned>(std::stoul(attributes));
  for (unsigned i = 0; i < made.dim(0); ++i) graph.setTileMapping(made[i], first + i);
  return made;
}
BUILD(Placed) {
  std::vector<int> tiles(inputs[0].dim(0));
  for (unsigned i = 0; i < tiles.size(); ++i) {
    const auto mapping = graph.getTileMapping(inputs[0][i]);
    for (unsigned tile = 0; tile < mapping.size(); ++tile) {
      if (!mapping[tile].empty()) tiles[i] = static_cast<int>(tile);
    }
  }
  const Tensor constant = graph.addConstant(INT, {tiles.size()}, ArrayRef<int>(tiles));
  graph.setTileMapping(constant, 0);
  Sequence program;
  outputs.push_back(poputil::duplicate(graph, constant, program, debug_prefix));
  return program;
}

// ---- Counter: state that outlives a run ----

BUILD(Counter) {
  Sequence program;
  const Tensor count = graph.addVariable(INT, {}, debug_prefix + "/count");
  graph.setTileMapping(count, 0);
  graph.setInitialValue(count, 40);
  const Tensor step = inputs.empty() ? graph.addConstant(INT, {}, 1) : inputs[0];
  if (inputs.empty()) graph.setTileMapping(step, 0);
  popops::addInPlace(graph, count, step, program, debug_prefix);
  outputs.push_back(poputil::duplicate(graph, count, program, debug_prefix));
  return program;
}

// ---- History: the last three inputs in a remote buffer, and their sum; a stream, which nobody can
// connect ----

BUILD(History) {
  const RemoteBuffer rows = graph.addRemoteBuffer("rows", FLOAT, inputs[0].numElements(), 3);
  const Tensor at = graph.addVariable(UNSIGNED_INT, {1}, VariableMappingMethod::LINEAR, "at");
  const Tensor all = graph.addVariable(FLOAT, {3, inputs[0].numElements()}, "all");
  poputil::mapTensorLinearly(graph, all);
  graph.setInitialValue(at, 0u);
  Sequence program{Copy(inputs[0], rows, at), Copy(rows, all)};
  popops::mapInPlace(graph, (pe::_1 + 1u) % 3u, {at}, program);
  if (attributes == "stream") {
    program.add(Copy(graph.addHostToDeviceFIFO("in", FLOAT, all.numElements()), all));
  }
  outputs.push_back(popops::reduce(graph, all, {0}, {popops::Operation::ADD}, program));
  return program;
}

// ---- Root: a loop until a vertex says that it is done ----

METADATA(Root_metadata) { stateless = true; }
BUILD(Root) {
  Sequence program, condition, body;
  const Tensor low = graph.addVariable(FLOAT, {}, "low"),
               high = graph.addVariable(FLOAT, {}, "high");
  const Tensor goesOn = graph.addVariable(BOOL, {}, "goesOn");
  const Tensor steps = graph.addVariable(UNSIGNED_INT, {}, "steps");
  for (const Tensor &one : {low, high, goesOn, steps}) graph.setTileMapping(one, 0);
  popops::zero(graph, low, program);
  popops::zero(graph, steps, program);
  program.add(Copy(popops::add(graph, inputs[0], 1.0f, program), high));
  const Tensor always = graph.addConstant(BOOL, {}, true);
  graph.setTileMapping(always, 0);
  program.add(Copy(always, goesOn));
  const ComputeSet set = graph.addComputeSet({debug_prefix, "bisect"});
  const VertexRef vertex = graph.addVertex(set, "Bisect",
                                           {{"target", inputs[0]},
                                            {"most", std::size_t(100)},
                                            {"low", low},
                                            {"high", high},
                                            {"goesOn", goesOn},
                                            {"steps", steps}});
  graph.setTileMapping(vertex, 0);
  body.add(Execute(set));
  program.add(RepeatWhileTrue(condition, goesOn, body));
  outputs = {low, steps};
  return program;
}

// ---- Kinds: every kind of field ----

BUILD(Kinds) {
  const Tensor &a = inputs[0], &rows = inputs[1];
  const Tensor shorts = graph.addConstant<unsigned short>(UNSIGNED_SHORT, {4}, {1, 2, 3, 65535});
  const Tensor out = graph.addVariable(FLOAT, {4}, "out"), any = graph.addVariable(BOOL, {}, "any");
  const Tensor workers = graph.addVariable(INT, {8}, "workers");
  for (const Tensor &one : {shorts, out, any, workers}) graph.setTileMapping(one, 1);
  const ComputeSet set = graph.addComputeSet("kinds");
  const VertexRef vertex = graph.addVertex(set, "Kinds");
  graph.connect(vertex["a"], a);
  graph.setFieldSize(vertex["rows"], 2);
  graph.connect(vertex["rows"][0], rows[0]);
  graph.connect(vertex["rows"][1], rows.dimShuffle({1, 0}).slice(1, 2, 1).flatten());
  graph.connect(vertex["shorts"], shorts);
  graph.connect(vertex["out"], out);
  graph.connect(vertex["any"], any);
  graph.setInitialValue(vertex["count"], 4);
  graph.setInitialValue(vertex["table"], std::vector<int>{10, 20, 30, 40});
  graph.setInitialValue(vertex["on"], true);
  graph.setTileMapping(vertex, 1);
  const VertexRef other = graph.addVertex(set, "PerWorker", {{"out", workers}});
  graph.setTileMapping(other, 1);
  outputs = {out, any, workers};
  return Execute(set);
}

// ---- Views: chains of views by words: the flattened results one after the other ----

BUILD(Views) {
  Sequence program;
  std::vector<Tensor> results;
  std::istringstream chains(attributes);
  std::string chain, word;
  while (std::getline(chains, chain, ';')) {
    Tensor view = inputs[0];
    std::istringstream words(chain);
    while (words >> word) {
      std::size_t count;
      words >> count;
      std::vector<std::size_t> numbers(count);
      for (std::size_t &one : numbers) words >> one;
      const std::vector<unsigned> small(numbers.begin(), numbers.end());
      if (word == "slice") view = view.slice(numbers[1], numbers[2], small[0]);
      if (word == "shuffle") view = view.dimShuffle(small);
      if (word == "reshape") view = view.reshape(numbers);
      if (word == "broadcast") view = view.broadcast(small[1], small[0]);
      if (word == "concat") view = concat(view, view.reverse(small[0]), small[0]);
      if (word == "expand") view = view.expand(numbers);
      if (word == "squeeze") view = view.squeeze(numbers);
      if (word == "index") view = view[numbers[0]];
      if (word == "roll") view = view.dimRoll(small[0], small[1]);
      if (word == "sample") view = view.subSample(small[1], small[0]);
    }
    results.push_back(view.flatten());
  }
  outputs.push_back(poputil::duplicate(graph, concat(results), program, debug_prefix));
  return program;
}

// ---- Overlap: two vertices that write the same elements ----

BUILD(Overlap) {
  const Tensor out = graph.clone(inputs[0], "data");
  const ComputeSet set = graph.addComputeSet("both");
  for (unsigned i = 0; i < 2; ++i) {
    const VertexRef vertex = graph.addVertex(set, "Write", {{"out", out.flatten()}});
    graph.setInitialValue(vertex["value"], 1.0f);
    graph.setTileMapping(vertex, i);
  }
  outputs.push_back(out);
  return Execute(set);
}

// ---- Shapes of signatures ----

// Without attributes: the attributes arrive as the prefix.
extern "C" Program Short(Graph &graph, Tensors inputs, Tensors &outputs, Text prefix);
extern "C" Program Short(Graph &graph, Tensors inputs, Tensors &outputs, Text prefix) {
  Sequence program;
  const Tensor length = graph.addConstant(INT, {}, static_cast<int>(prefix.size()));
  graph.setTileMapping(length, 0);
  outputs.push_back(popops::add(graph, inputs[0], length, program));
  return program;
}
extern "C" void Short_metadata(std::vector<int64_t> &, std::map<int64_t, int64_t> &, bool &, bool &,
                               bool &hashable, std::uint32_t);
extern "C" void Short_metadata(std::vector<int64_t> &, std::map<int64_t, int64_t> &, bool &, bool &,
                               bool &hashable, std::uint32_t) {
  hashable = true; // of level 4: at level 5 this is is_stateless
}
extern "C" void Older_metadata(std::vector<int64_t> &, std::uint32_t &in_place, bool &,
                               bool &stateless, std::uint32_t);
extern "C" void Older_metadata(std::vector<int64_t> &, std::uint32_t &in_place, bool &,
                               bool &stateless, std::uint32_t num_inputs) {
  in_place = num_inputs;
  stateless = true;
}
BUILD(Older) {
  Sequence program;
  outputs.push_back(popops::neg(graph, inputs[0], program));
  return program;
}

// ---- What fails ----

BUILD(Fails) {
  if (attributes == "poplar") throw poplar_error("a poplar error");
  if (attributes == "poplibs") throw poputil::poplibs_error("a poplibs error");
  if (attributes == "standard") throw std::out_of_range("a standard error");
  if (attributes == "other") throw 42;
  if (attributes == "view") inputs[0].slice(0, 100);
  if (attributes == "vertex") graph.addVertex(graph.addComputeSet("x"), "NoSuchVertex");
  if (attributes == "codelets") graph.addCodelets("nowhere.gp");
  return Sequence(); // and no outputs
}

// ---- Dense: a product by poplin, with a gradient, options as JSON ----

METADATA(Dense_metadata) {
  stateless = true;
  allocating = {1};
}
extern "C" Tensor Dense_allocator(Graph &graph, std::uint32_t operand,
                                  const std::vector<std::size_t> &shape, Type type, Text attributes,
                                  Text debug_prefix);
extern "C" Tensor Dense_allocator(Graph &graph, std::uint32_t,
                                  const std::vector<std::size_t> &shape, Type type, Text,
                                  Text debug_prefix) {
  return poplin::createMatMulInputRHS(graph, type, type, {1, shape[0]}, shape, debug_prefix);
}
BUILD(Dense) {
  OptionFlags options;
  readJSON(attributes, options);
  Sequence program;
  const Tensor product = poplin::matMul(graph, inputs[0], inputs[1], program,
                                        inputs[0].elementType(), debug_prefix + "/matMul");
  const float scale = std::stof(options.at("scale"));
  popops::mulInPlace(graph, product, scale, program, debug_prefix + "/scale");
  if (options.at("relu") == "true") popops::reluInPlace(graph, product, program);
  outputs.push_back(product);
  return program;
}
GRAD(Dense_grad) {
  OptionFlags options;
  readJSON(attributes, options);
  Sequence program;
  const float scale = std::stof(options.at("scale"));
  const Tensor d = popops::map(graph, pe::Select(pe::_1 * scale, pe::Const(0), pe::_2 > 0),
                               {gradients[0], fwd_outputs[0]}, program);
  outputs.push_back(poplin::matMul(graph, d, fwd_inputs[1].transpose(), program));
  outputs.push_back(poplin::matMul(graph, fwd_inputs[0].transpose(), d, program));
  return program;
}

// ---- Sum: a reduction, and a value of another type ----

METADATA(Mean_metadata) { stateless = true; }
BUILD(Mean) {
  Sequence program;
  const Tensor wide = popops::cast(graph, inputs[0], FLOAT, program);
  Tensor sum = popops::reduce(graph, wide, {0}, {popops::Operation::ADD}, program, debug_prefix);
  popops::mulInPlace(graph, sum, 1.0f / static_cast<float>(wide.dim(0)), program);
  outputs.push_back(sum);
  return program;
}

// ---- Elementwise: operations by their numbers, on the inputs of the kinds f, i and b ----

METADATA(Elementwise_metadata) { stateless = true; }
BUILD(Elementwise) {
  Sequence program;
  std::istringstream words(attributes);
  unsigned count, number, kind;
  words >> count;
  while (words >> number >> kind) {
    const Tensor &a = inputs[2 * kind], &b = inputs[2 * kind + 1];
    outputs.push_back(
        count == 1
            ? popops::map(graph, static_cast<pe::UnaryOpType>(number), a, program, debug_prefix)
            : popops::map(graph, static_cast<pe::BinaryOpType>(number), a, b, program));
  }
  return program;
}

// ---- Encodings and collectives ----

METADATA(Encoded_metadata) { stateless = true; }
BUILD(Encoded) {
  Sequence program;
  const Tensor row = graph.addVariable(INT, {5}, VariableMappingMethod::LINEAR, "row");
  popops::iota(graph, row, 3, program);
  std::vector<std::size_t> shape = inputs[0].shape();
  shape.push_back(4);
  const Tensor ones = graph.addVariable(HALF, shape, VariableMappingMethod::LINEAR, "ones");
  const Tensor own = graph.addVariable(FLOAT, shape, VariableMappingMethod::LINEAR, "own");
  popops::encodeOneHot(graph, inputs[0], ones, program, debug_prefix);
  popops::encodeOneHot(graph, inputs[0], own, program, inputs[1], inputs[2], debug_prefix);
  outputs = {row, ones, own};
  for (const auto op : {gcl::CollectiveOperator::ADD, gcl::CollectiveOperator::MEAN,
                        gcl::CollectiveOperator::MAX}) {
    outputs.push_back(gcl::allReduceWithinReplica(graph, inputs[3], op, program, debug_prefix));
  }
  return program;
}

// ---- A host callback in a source of Poplar's ----

extern "C" void Callback(const std::vector<const void *> &data,
                         const std::vector<std::uint32_t> &number_of_elements,
                         const std::vector<void *> &outputs, Text attributes, Text name);
extern "C" void Callback(const std::vector<const void *> &data,
                         const std::vector<std::uint32_t> &number_of_elements,
                         const std::vector<void *> &outputs, Text attributes, Text) {
  for (std::uint32_t i = 0; i < number_of_elements[0]; ++i) {
    static_cast<float *>(outputs[0])[i] =
        static_cast<const float *>(data[0])[i] * std::stof(attributes);
  }
}
