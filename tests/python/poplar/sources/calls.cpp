// Calls of the headers in the forms that public operators use. Compiled, not run.
#include <cstdint>
#include <sstream>

using namespace poplar;
using namespace poplar::program;
namespace pe = popops::expr;

static void views(Graph &graph, Tensor t, Sequence &program) {
  Tensor u = concat({t, t}, 1).dimShuffle({1, 0}).expand({0}).squeeze({0});
  u = concat(t, u).slice(0, 2).slice({0, 1}, {2, 3}).slice(Interval(0, 1), 1)[0];
  u = concat(t.slices({Interval(0, 1), Interval(2, 3)})).reshape({t.dim(0), 2}).transpose();
  u = u.reshapePartial(0, 1, {2, 1}).dimShufflePartial({0}, {1}).dimRoll(1).flatten(0, 2);
  u = u.broadcast(2, 0).reinterpret(UNSIGNED_INT).reverse(0).subSample(2, 0).upsample(2, 0);
  std::vector<std::size_t> shape = u.shape();
  if (!u.valid() || u.rank() != shape.size() || u == t || u.elementType() != FLOAT) return;
  program.add(Copy(u.flatten(), t.flatten()));
  program.add(Copy(u, t, false, "named"));
  program.add(PrintTensor(u.getDebugStr(), t));
  program.add(PrintTensor(t));
  program.add(WriteUndef(t));
  graph.setTileMapping(u, graph.getTileMapping(t));
  graph.reorderToSimplify(&u, {&t}, false);
}

static void vertices(Graph &graph, Tensor t, Sequence &program, const std::string &name) {
  const Target target = graph.getTarget();
  const ComputeSet set = graph.addComputeSet({name, "set"});
  const auto mapping = graph.getTileMapping(t);
  for (unsigned tile = 0; tile < target.getNumTiles(); ++tile) {
    for (const auto &regions : poputil::splitRegionsBetweenWorkers(
             target, mapping[tile], target.getVectorWidth(t.elementType()), 4)) {
      const VertexRef vertex =
          graph.addVertex(set, poputil::templateVertex("Rotate", t.elementType(), true, 3u),
                          {{"x", concat(t.flatten().slices(regions))}});
      graph.connect(vertex["rows"], t.flatten().slices(regions));
      graph.connect(vertex["list"][0], t[0]);
      graph.setFieldSize(vertex["list"], 2);
      graph.setInitialValue(vertex["scale"], 1.5f);
      graph.setInitialValue(vertex["on"], true);
      graph.setInitialValue(vertex["table"], std::vector<int>{1, 2});
      graph.addVertex(set, "A", {{"x", t}, {"n", t.dim(0)}, {"scale", 0.5f}, {"list", {t, t}}});
      graph.connect(vertex["count"], 3u);
      graph.setInitialValue(vertex["table"], ArrayRef<int>({1, 2}));
      graph.setInitialValue<unsigned>(vertex["table"], {1, 2});
      graph.setInitialValue<float>(vertex["table"], std::vector<float>{1, 2});
      graph.setInitialValue<float>(vertex["scale"], 1);
      graph.setTileMapping(vertex, tile);
      graph.setPerfEstimate(vertex, 12);
      graph.setCycleEstimate(vertex, 12);
    }
  }
  program.add(Execute(set));
  std::stringstream text("class A {};");
  graph.addCodelets(text);
  graph.addCodelets("file.gp");
  graph.addCodelets({"file.cpp", "other.cpp"}, "-O3 -I include");
  graph.registerPerfEstimator(
      "A", [](const VertexIntrospector &vertex, const Target &) -> VertexPerfEstimate {
        return {vertex.getFieldInfo("x").size(), 3};
      });
}

static void variables(Graph &graph, Sequence &program) {
  Tensor a = graph.addVariable(FLOAT, {2, 3}, "a");
  a = graph.addVariable(HALF, {2}, VariableMappingMethod::LINEAR, {"b"});
  const std::vector<float> values(6);
  a = graph.addConstant<float>(FLOAT, {2}, {1.0f, 2.0f});
  a = graph.addConstant(FLOAT, {6}, values.data(), "c");
  a = graph.addConstant(FLOAT, {6}, ArrayRef<float>(values));
  a = graph.addConstant(UNSIGNED_INT, {}, 0);
  graph.setTileMapping(a, 0);
  graph.setInitialValue(a, ArrayRef<float>(values));
  a = graph.clone(INT, a, "clone");
  a = graph.cloneN(a, 2);
  poputil::mapTensorLinearly(graph, a);
  poputil::mapTensorLinearly(graph, a, 1, 2);
  a = poputil::duplicate(graph, a, program, "copy");
  Sequence body, inner{Execute(graph.addComputeSet("x")), body};
  program.add(RepeatWhileTrue(body, a, inner));
  program.add(If(a, body, inner));
  program.add(Switch(a, {{1, body}, {2, inner}}, body));
  program.add(Switch(a, body, "switch").add(1, body).add(2, inner));
  program.add(Switch(a).add(1, body));
  program.add(Repeat(3, Sequence(body, inner)));
  OptionFlags flags{{"a", "b"}};
  readJSON(R"({"x": "y", "n": 2.5})", flags);
}

static Tensor libraries(Graph &graph, Tensor t, Sequence &program, const DebugContext &context) {
  poputil::PoplibsOpDebugInfo info(context, DI_ARGS(t));
  popops::addInPlace(graph, t, 2.0f, program, {info});
  popops::mulInPlace(graph, t, t, program, {info, "x"});
  popops::zero(graph, t, program, "zero");
  popops::fill(graph, t, program, 1.0f);
  popops::scaledAddTo(graph, t, t, 0.5f, program);
  popops::scaledAddTo(graph, t, t, t, program, "scaled");
  popops::scaledSubtractFrom(graph, t, 2.0f, t, 0.5f, program);
  Tensor u = popops::map(graph, pe::_1 * 2 + pe::Exp(-pe::_2), {t, t}, program, "map");
  u = popops::map(graph, pe::Select(pe::Const(0), pe::_1, pe::_2 > 0.5f && !pe::_3), {u, u, u},
                  program, {context, "y"});
  u = popops::map(graph, pe::Cast(pe::Gte(pe::_1, pe::Const(1)), INT), {u}, program);
  pe::Any sum = pe::_1;
  for (unsigned i = 2; i < 4; ++i) sum = sum + pe::PlaceHolder(i);
  popops::mapInPlace(graph, sum, {u, u, u}, program);
  popops::mapWithOutput(graph, sum, {u, u, u}, t, program);
  u = popops::sub(graph, 1.0f, u, program);
  u = popops::select(graph, u, 0, u, program);
  u = popops::clamp(graph, u, 0.0f, 1.0f, program);
  popops::selectInPlace(graph, u, 0.0f, u, program);
  u = popops::cast(graph, u, HALF, program, "cast");
  program.add(popops::cast(graph, u, t));
  u = popops::reduce(graph, u, {0}, popops::Operation::MAX, program, "reduce");
  u = popops::reduce(graph, u, FLOAT, {0, 1}, {popops::Operation::ADD}, program);
  popops::reduceWithOutput(graph, u, t, {0}, {popops::Operation::ADD, true}, program);
  u = poplin::matMul(graph, t, u, program, "matMul");
  u = poplin::matMul(graph, t, u, program, FLOAT, {info, "m"}, {{"availableMemory", "0.6"}});
  u = poplin::createMatMulInputLHS(graph, FLOAT, FLOAT, t.shape(), u.shape(), "left");
  u = poplin::createMatMulInputRHS(graph, FLOAT, t.shape(), u.shape());
  if (u.numElements() == 0) throw poputil::poplibs_error("none");
  poputil::broadcastToMatch(t, u);
  info.addOutput(u);
  return u;
}

extern "C" {
int32_t custom_op_api_level = 5;
void Build_metadata(std::vector<std::int64_t> &, std::vector<std::int64_t> &,
                    std::map<std::int64_t, std::int64_t> &, bool &, bool &, bool &, std::uint32_t) {
}
Tensor Build_allocator(Graph &graph, std::uint32_t, const std::vector<std::size_t> &shape,
                       Type type, const std::string &, const std::string &prefix) {
  return graph.addVariable(type, shape, prefix);
}
Program Build(Graph &graph, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs,
              const std::string &attributes, const std::string &prefix) {
  Sequence program;
  if (inputs.empty()) throw poplar_error("no inputs: " + attributes);
  views(graph, inputs[0], program);
  vertices(graph, inputs[0], program, prefix);
  variables(graph, program);
  outputs.push_back(libraries(graph, inputs[0], program, {prefix + "/libraries"}));
  return program;
}
}
