// A plain Poplar program, with a main() of its own: test_engine.py compiles and runs it.
//   plain CODELETS     prints a line a check
//   plain x forever    runs until it is interrupted
//   plain FILE saved   runs the executable that the first wrote to "saved"
#include <fstream>
#include <iostream>
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/Graph.hpp>
#include <poplar/IPUModel.hpp>
#include <poplin/MatMul.hpp>
#include <poplin/codelets.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Reduce.hpp>
#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>
#include <sstream>
#include <stdexcept>
#include <vector>

using namespace poplar;
using namespace poplar::program;

static void print(const char *name, const std::vector<float> &values) {
  std::cout << name;
  for (const float value : values) std::cout << ' ' << value;
  std::cout << '\n';
}

// Host reads and writes, a vertex and a constant.
static void variables(const Device &device, const char *codelets) {
  Graph graph(device.getTarget());
  graph.addCodelets(codelets);
  Tensor v1 = graph.addVariable(FLOAT, {4}, "v1");
  Tensor v2 = graph.addVariable(FLOAT, {4}, "v2");
  for (unsigned i = 0; i < 4; ++i) graph.setTileMapping(v1[i], i);
  graph.setTileMapping(v2, 1);
  const Tensor c1 = graph.addConstant<float>(FLOAT, {4}, {1.0, 1.5, 2.0, 2.5});
  graph.setTileMapping(c1, 0);
  ComputeSet set = graph.addComputeSet("running");
  VertexRef vertex = graph.addVertex(set, "Running", {{"in", v1}, {"out", v2}});
  graph.setTileMapping(vertex, 1);
  graph.createHostWrite("v1-write", v1);
  graph.createHostRead("v2-read", v2);
  Sequence ones(Copy(c1, v1), Execute(set)), given;
  given.add(Execute(set));
  Engine engine(graph, {ones, given});
  engine.load(device);
  std::vector<float> found(4), values = {1, 2, 3, 4};
  engine.run(0);
  engine.readTensor("v2-read", found.data(), found.data() + found.size());
  print("constant", found);
  engine.writeTensor("v1-write", values.data(), values.data() + values.size());
  engine.run(1);
  engine.readTensor("v2-read", found.data());
  print("written", found);
  std::ostringstream profile;
  graph.setPerfEstimate(vertex, 100);
  engine.printProfileSummary(profile, {{"showExecutionSteps", "true"}, {"showVarStorage", "true"}});
  for (const char *line :
       {"Number of vertices: 1\n", "Program 1, run 1 times",
        "    OnTileExecute: 'running', 1 times", "Variable 'v2': 16 B on 1 intervals"}) {
    if (profile.str().find(line) == std::string::npos) std::cout << "no " << line << profile.str();
  }
}

// A callback as an object.
class Last : public LegacyStreamCallback {
 public:
  Last(std::vector<float> &last, int &transfers) : last_(last), transfers_(transfers) {}
  void fetch(void *data) override {
    const float *values = static_cast<const float *>(data);
    last_.assign(values, values + 4);
    ++transfers_;
  }

 private:
  std::vector<float> &last_;
  int &transfers_;
};

// Streams: a ring in, a callback out; a product of matrices; state from run to run.
static void streams(const Device &device) {
  Graph graph(device);
  popops::addCodelets(graph);
  poplin::addCodelets(graph);
  const Tensor matrix = graph.addVariable(FLOAT, {2, 2}, VariableMappingMethod::LINEAR, "m");
  const Tensor total = graph.addVariable(FLOAT, {2, 2}, VariableMappingMethod::LINEAR, "total");
  graph.setInitialValue(total, ArrayRef<float>({0, 0, 0, 1000}));
  const DataStream in = graph.addHostToDeviceFIFO("in", FLOAT, 4);
  const DataStream out = graph.addDeviceToHostFIFO("out", FLOAT, 4);
  Sequence body;
  body.add(Copy(in, matrix));
  popops::addInPlace(graph, total, poplin::matMul(graph, matrix, matrix, body, FLOAT), body);
  body.add(Copy(total, out));
  Engine engine(graph, Repeat(3, body));
  std::vector<float> ring = {1, 0, 0, 1, 2, 0, 0, 2}, last;
  int transfers = 0;
  engine.connectStream("in", ring.data(), ring.data() + ring.size());
  engine.connectStreamToCallback("out", std::unique_ptr<StreamCallback>(new Last(last, transfers)));
  engine.loadAndRun(device);
  print("streamed", last);
  engine.run();
  print("again", last);
  std::cout << "transfers " << transfers << '\n';
}

template <class Action>
static void fails(const char *what, const Action &call) {
  try {
    call();
    std::cout << what << " did not fail\n";
  } catch (const std::exception &thrown) {
    std::cout << what << ": " << thrown.what() << '\n';
  }
}

// A function that is called for each row of a remote buffer, and copies of several rows.
static void remote(const Device &device) {
  Graph graph(device);
  popops::addCodelets(graph);
  const RemoteBuffer rows = graph.addRemoteBuffer("rows", FLOAT, 2, 3);
  const Tensor row = graph.addVariable(FLOAT, {2}, VariableMappingMethod::LINEAR, "row");
  const Tensor number = graph.addVariable(UNSIGNED_INT, {1}, VariableMappingMethod::LINEAR, "n");
  const Tensor two = graph.addVariable(FLOAT, {2, 2}, VariableMappingMethod::LINEAR, "two");
  graph.createHostRead("two", two);
  graph.createHostRead("row", row);
  graph.setInitialValue(number, 0u);
  Sequence times;
  popops::mulInPlace(graph, row, 10.0f, times);
  const Function function = graph.addFunction(times);
  Sequence each{Copy(rows, row, number), Call(function), Copy(row, rows, number)};
  popops::addInPlace(graph, number, 1u, each);
  const Tensor last = graph.addConstant<unsigned>(UNSIGNED_INT, {2}, {2, 0});
  graph.setTileMapping(last, 0);
  Sequence ends{Copy(rows, two, last), Copy(two[0], rows)};
  Engine engine(compileGraph(graph, {Repeat(3, each), ends, Copy(rows, two),
                                     Switch(number).add(0, ends).add(3, Call(function))}));
  engine.load(device);
  for (int i = 0; i < 3; ++i) {
    const float values[] = {float(i), float(-i)};
    engine.copyToRemoteBuffer(values, "rows", i);
  }
  std::vector<float> found(4);
  engine.run(0);
  engine.copyFromRemoteBuffer("rows", found.data(), 1);
  print("row 1", {found[0], found[1]});
  engine.run(1);
  engine.readTensor("two", found.data());
  print("rows 2 and 0", found);
  engine.run(2);
  engine.readTensor("two", found.data());
  print("first rows", found);
  engine.run(3);
  engine.readTensor("row", found.data());
  print("switched", {found[0], found[1]});
  fails("row", [&] { engine.copyFromRemoteBuffer("rows", found.data(), 3); });
  fails("shape", [&] { Copy(rows, number); });
}

// A loop without an end, which tells when it has begun.
static void forever(const Device &device) {
  Graph graph(device);
  const Tensor on = graph.addConstant(BOOL, {}, true);
  graph.setTileMapping(on, 0);
  const Tensor none = graph.addVariable(FLOAT, {1}, VariableMappingMethod::LINEAR, "none");
  const DataStream out = graph.addDeviceToHostFIFO("out", FLOAT, 1);
  Engine engine(graph, RepeatWhileTrue(Sequence(), on, Copy(none, out)));
  engine.connectStreamToCallback("out", [](void *) { std::cout << "begun" << std::endl; });
  engine.run();
}

// Numbers of the host's as halves, and back.
static void halves(const Device &device) {
  Graph graph(device);
  const Tensor h = graph.addVariable(HALF, {3}, VariableMappingMethod::LINEAR, "h");
  graph.createHostWrite("in", h);
  graph.createHostRead("out", h);
  Sequence body;
  popops::mulInPlace(graph, h, 3.0f, body);
  Engine engine(graph, body);
  const float given[] = {0.5f, -2.0f, 1.0f / 3};
  std::vector<float> found(3);
  std::uint16_t bits[3];
  copyFloatToDeviceHalf(device.getTarget(), given, bits, 3);
  engine.writeTensor("in", bits, bits + 3);
  engine.loadAndRun(device);
  engine.readTensor("out", bits, bits + 3);
  copyDeviceHalfToFloat(device.getTarget(), bits, found.data(), 3);
  print("halves", found);
}

// An executable with all that one can have: vertices and their estimate, a constant, initial
// values, library steps, a loop, a stream, a host read, a remote buffer.
static Executable compiled(const Device &device, const char *codelets) {
  Graph graph(device);
  graph.addCodelets(codelets);
  popops::addCodelets(graph);
  const Tensor v = graph.addVariable(FLOAT, {4}, VariableMappingMethod::LINEAR, "v");
  const Tensor turns = graph.addVariable(INT, {}, VariableMappingMethod::LINEAR, "turns");
  const Tensor weights = graph.addConstant<float>(FLOAT, {4}, {1, 10, 100, 1000});
  poputil::mapTensorLinearly(graph, weights);
  graph.setInitialValue(turns, 2);
  const ComputeSet set = graph.addComputeSet("running");
  const VertexRef vertex = graph.addVertex(set, "Running", {{"in", v}, {"out", v.reverse(0)}});
  graph.setTileMapping(vertex, 3);
  graph.registerPerfEstimator("Running", [](const VertexIntrospector &vertex, const Target &) {
    return VertexPerfEstimate(25 * vertex.getFieldInfo("in").size());
  });
  const DataStream in = graph.addHostToDeviceFIFO("in", FLOAT, 4);
  graph.createHostRead("v", v);
  const RemoteBuffer rows = graph.addRemoteBuffer("rows", FLOAT, 4);
  Sequence condition, body;
  body.add(Execute(set));
  const Tensor more = popops::gt(graph, turns, 0, condition);
  popops::mulInPlace(graph, v, weights, body);
  popops::addInPlace(graph, turns, -1, body);
  return compileGraph(graph, {Sequence{Copy(in, v), RepeatWhileTrue(condition, more, body)},
                              Sequence(Copy(v, rows))});
}

static void run_saved(Executable executable, const Device &device) {
  Engine engine(std::move(executable));
  std::vector<float> found(4), values = {1, 2, 3, 4};
  engine.connectStream("in", values.data(), values.data() + values.size());
  engine.loadAndRun(device);
  engine.readTensor("v", found.data(), found.data() + found.size());
  print("saved", found);
  engine.run(1);
  engine.copyFromRemoteBuffer("rows", found.data(), 0);
  print("stored", found);
  std::ostringstream profile;
  engine.printProfileSummary(profile, {{"showExecutionSteps", "true"}});
  std::cout << (profile.str().find("'running', 1 times 600 cycles") != std::string::npos) << '\n';
}

static void mistakes(const Device &device) {
  Graph graph(device);
  const Tensor v = graph.addVariable(FLOAT, {4}, VariableMappingMethod::LINEAR, "v");
  const DataStream in = graph.addHostToDeviceFIFO("in", FLOAT, 4);
  graph.createHostRead("v", v);
  fails("taken", [&] { graph.createHostWrite("v", v); });
  Engine engine(graph, Copy(in, v));
  float place[4] = {}, small[2] = {};
  fails("unconnected", [&] { engine.run(); });
  fails("number", [&] { engine.run(1); });
  fails("handle", [&] { engine.readTensor("w", place); });
  fails("stream", [&] { engine.readTensor("in", place); });
  fails("size", [&] { engine.readTensor("v", place, place + 3); });
  engine.connectStream("in", small, small + 2);
  fails("ring", [&] { engine.run(); });
  engine.connectStreamToCallback("in", [](void *) { throw std::out_of_range("no more"); });
  fails("callback", [&] { engine.run(); });
  std::stringstream text;
  fails("empty", [&] { Executable().serialize(text); });
  fails("none", [&] { Executable::deserialize(text); });
  text.clear();
  compileGraph(graph, {Copy(in, v)}).serialize(text);
  for (const char *what : {"damaged", "cut"}) {
    std::string data = text.str();
    if (*what == 'd') data[data.size() / 2] ^= 1;
    else data.resize(data.size() - 1);
    std::istringstream bad(data);
    fails(what, [&] { Executable::deserialize(bad); });
  }
}

int main(int argc, char **argv) {
  IPUModel model;
  model.numIPUs = 2;
  model.tilesPerIPU = 8;
  const Device device = model.createDevice();
  if (argc > 2 && argv[2][0] == 'f') forever(device);
  if (argc > 2) {
    std::ifstream file(argv[1], std::ios::binary);
    run_saved(Executable::deserialize(file), device);
    return 0;
  }
  std::cout << "tiles " << device.getTarget().getNumTiles() << '\n';
  variables(device, argv[1]);
  DeviceManager manager = DeviceManager::createDeviceManager();
  for (Device &one : manager.getDevices(TargetType::IPU, 1)) {
    if (one.attach()) streams(one);
  }
  remote(device);
  halves(device);
  mistakes(Device::createCPUDevice());
  Executable executable = compiled(device, argv[1]);
  std::ofstream file("saved", std::ios::binary);
  executable.serialize(file);
  run_saved(std::move(executable), device);
  return 0;
}
