/* Graph: variables and their tiles, compute sets and their vertices.
 *
 * The header also defines the functions by which Tremula calls an operator (Operator.hpp): a
 * library of operators needs nothing but to include it. */
#pragma once

/* Many operators, and the headers that include this one, take these from here. */
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ArrayRef.hpp"
#include "DataStream.hpp"
#include "DebugContext.hpp"
#include "Detail.hpp"
#include "Device.hpp"
#include "GraphElements.hpp"
#include "Interval.hpp"
#include "OptionFlags.hpp"
#include "Program.hpp"
#include "Target.hpp"
#include "Tensor.hpp"
#include "Type.hpp"
#include "VariableMappingMethod.hpp"
#include "VertexIntrospector.hpp"

namespace poplar {

using program::Function;

namespace detail {

template <class T>
using if_value =
    typename std::enable_if<std::is_arithmetic<T>::value || std::is_same<T, half>::value>::type;

/* The type of a constant that is connected. */
template <class T>
Type constant_type() {
  return std::is_floating_point<T>::value ? FLOAT
         : sizeof(T) <= 4                 ? type_of_number(number_of<T>::value)
         : std::is_signed<T>::value       ? INT
                                          : UNSIGNED_INT;
}

} // namespace detail

/* How far a clone keeps the order of its original's elements. A clone here always has the
 * original's shape and tiles, and elements of its own. */
enum class TensorCloneMethod {
  PRESERVE_ORDER_AND_ALIASES,
  CREATE_NEW_ORDER,
  PRESERVE_ORDER_UNLESS_ALIASES,
  GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES
};

enum class CodeletFileType {
  PreprocessedAsmSource,
  AsmSource,
  CSource,
  CppSource,
  IrSource,
  Object,
  Auto
};

/* Cycles and floating-point operations of a vertex. */
struct VertexPerfEstimate {
  VertexPerfEstimate() = default;
  VertexPerfEstimate(uint64_t cycles_, uint64_t flops_ = 0) : cycles(cycles_), flops(flops_) {}
  uint64_t cycles = 0, flops = 0;
};

class Graph {
 public:
  /* For each tile, intervals of a flattened tensor. */
  typedef std::vector<std::vector<Interval>> TileToTensorMapping;
  typedef std::function<VertexPerfEstimate(const VertexIntrospector &, const Target &)>
      PerfEstimateFunc;
  typedef std::function<uint64_t(const VertexIntrospector &, const Target &)> CycleEstimateFunc;

  /* What addVertex() connects at once. */
  class ConnectionDesc {
   public:
    ConnectionDesc(StringRef field, Tensor tensor) : field_(field), tensors_(1, tensor) {}
    ConnectionDesc(StringRef field, ArrayRef<Tensor> tensors)
        : field_(field), tensors_(tensors.begin(), tensors.end()), is_list_(true) {}
    /* A constant. */
    template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type>
    ConnectionDesc(StringRef field, T value)
        : field_(field),
          type_(detail::constant_type<T>()),
          value_(static_cast<double>(value)),
          is_value_(true) {}

   private:
    friend class Graph;
    std::string field_;
    std::vector<Tensor> tensors_;
    Type type_;
    double value_ = 0.0;
    bool is_list_ = false, is_value_ = false;
  };

  /* Of a plain program. */
  explicit Graph(const Target &target) : held_(target.newGraph()) {}
  explicit Graph(const Device &device) : Graph(device.getTarget()) {}

  const Target getTarget() const { return Target(handle()); }
  unsigned getReplicationFactor() const { return 1; }
  Graph getTopLevelGraph() const { return *this; }

  /* ---- Variables and constants ---- */

  /* The caller maps the variable to tiles (setTileMapping). */
  Tensor addVariable(const Type &type, ArrayRef<std::size_t> shape,
                     const DebugContext &debug = {}) {
    return addVariable(type, shape, VariableMappingMethod::NONE, debug);
  }
  Tensor addVariable(const Type &type, ArrayRef<std::size_t> shape, VariableMappingMethod mapping,
                     const DebugContext &debug = {}) {
    const std::vector<uint64_t> dims = detail::wide(shape);
    return detail::made(
        handle(), detail::table().add_variable, type.number(), dims.data(), dims.size(),
        mapping == VariableMappingMethod::LINEAR ? TRM_POPLAR_PLACE_LINEAR : TRM_POPLAR_PLACE_NONE,
        debug.getPathName().c_str());
  }

  /* A constant of the values, which are converted; it is mapped to tiles as a variable is. */
  template <class T>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, ArrayRef<T> values,
                     const DebugContext &debug = {}) {
    return constant_of(type, shape, detail::number_of<T>::value, values.data(), values.size(),
                       debug);
  }
  template <class T>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, const T *values,
                     const DebugContext &debug = {}) {
    return constant_of(type, shape, detail::number_of<T>::value, values, product(shape), debug);
  }
  /* A constant all of whose elements are one value. */
  template <class T, class = detail::if_value<T>>
  Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, T value,
                     const DebugContext &debug = {}) {
    return constant_of(type, shape, detail::number_of<T>::value, &value, 1, debug);
  }
  /* The same of bits of halves. */
  Tensor addConstantHalf(const Type &type, ArrayRef<std::size_t> shape, uint16_t bits,
                         const DebugContext &debug = {}) {
    return constant_of(type, shape, HALF.number(), &bits, 1, debug);
  }
  Tensor addConstantHalf(const Type &type, ArrayRef<std::size_t> shape, const uint16_t *bits,
                         const DebugContext &debug = {}) {
    return constant_of(type, shape, HALF.number(), bits, product(shape), debug);
  }

  /* A variable with the tensor's shape and tiles. */
  Tensor clone(const Type &type, const Tensor &tensor, const DebugContext &debug = {},
               TensorCloneMethod = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES) {
    return detail::made(handle(), detail::table().clone, type.number(), tensor.get(),
                        debug.getPathName().c_str());
  }
  Tensor clone(const Tensor &tensor, const DebugContext &debug = {},
               TensorCloneMethod method = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES) {
    return clone(tensor.elementType(), tensor, debug, method);
  }
  /* `count` clones, as the elements of a new first dimension. */
  Tensor cloneN(const Tensor &tensor, std::size_t count, const DebugContext &debug = {},
                TensorCloneMethod = TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES) {
    std::vector<Tensor> clones;
    for (std::size_t i = 0; i < count; ++i) clones.push_back(clone(tensor, debug).expand({0}));
    return concat(clones);
  }

  /* ---- Tiles ---- */

  void setTileMapping(VertexRef vertex, unsigned tile) {
    detail::call(detail::table().set_vertex_tile, handle(), vertex.getId(), tile);
  }
  void setTileMapping(const Tensor &tensor, unsigned tile) {
    const trm_poplar_interval all = {0, tensor.numElements(), tile};
    map(tensor, &all, 1);
  }
  void setTileMapping(const Tensor &tensor, const TileToTensorMapping &mapping) {
    std::vector<trm_poplar_interval> intervals;
    for (std::size_t tile = 0; tile < mapping.size(); ++tile) {
      for (const Interval &one : mapping[tile]) {
        intervals.push_back({one.begin(), one.end(), static_cast<uint32_t>(tile)});
      }
    }
    map(tensor, intervals.data(), intervals.size());
  }
  /* One list of intervals for each tile of the graph. Throws invalid_tile_mapping if an element has
   * no tile, unless the mapping may be incomplete. */
  TileToTensorMapping getTileMapping(const Tensor &tensor, bool requireComplete = true,
                                     bool /*allowExternal*/ = false) const {
    detail::Block<trm_poplar_interval> found;
    uint64_t count = 0;
    detail::call(detail::table().get_tile_mapping, handle(), tensor.get(), requireComplete,
                 found.out(), &count);
    TileToTensorMapping result(getTarget().getNumTiles());
    for (uint64_t i = 0; i < count; ++i) {
      const trm_poplar_interval &one = found.get()[i];
      if (one.tile >= result.size()) result.resize(std::size_t(one.tile) + 1);
      result[one.tile].push_back(Interval(one.begin, one.end));
    }
    return result;
  }
  TileToTensorMapping getTileMapping(const Tensor &tensor, bool *isComplete) const {
    TileToTensorMapping result = getTileMapping(tensor, false);
    std::size_t mapped = 0;
    for (const std::vector<Interval> &tile : result) {
      for (const Interval &one : tile) mapped += one.size();
    }
    if (isComplete != nullptr) *isComplete = mapped == tensor.numElements();
    return result;
  }
  TileToTensorMapping getVariableTileMapping(const Tensor &tensor) const {
    return getTileMapping(tensor);
  }
  /* The parts of the regions that are contiguous in a variable, one list for each part. */
  std::vector<std::vector<Interval>> getSortedContiguousRegions(const Tensor &tensor,
                                                                ArrayRef<Interval> regions) const {
    std::vector<std::vector<Interval>> result;
    const std::vector<Interval> parts = tensor.getContiguousRegions();
    for (const Interval &region : regions) {
      for (const Interval &part : parts) {
        const std::size_t begin = std::max(region.begin(), part.begin());
        const std::size_t end = std::min(region.end(), part.end());
        if (begin < end) result.push_back({Interval(begin, end)});
      }
    }
    return result;
  }

  /* May give the tensors another order of elements, the same for all; here they keep theirs. */
  void reorderToSimplify(Tensor *, ArrayRef<Tensor *>, bool = true) {}

  /* ---- Compute sets and vertices ---- */

  ComputeSet addComputeSet(const DebugContext &debug = {}) {
    uint32_t id = 0;
    detail::call(detail::table().add_compute_set, handle(), debug.getPathName().c_str(), &id);
    return ComputeSet(handle(), id);
  }
  /* A vertex of a class of the codelets that were added. */
  VertexRef addVertex(ComputeSet set, StringRef codelet) {
    uint32_t id = 0;
    const std::string name = codelet;
    detail::call(detail::table().add_vertex, handle(), set.getId(), name.c_str(), &id);
    return VertexRef(id);
  }
  VertexRef addVertex(ComputeSet set, StringRef codelet, ArrayRef<ConnectionDesc> connections) {
    const VertexRef vertex = addVertex(set, codelet);
    for (const ConnectionDesc &one : connections) {
      if (one.is_value_) {
        connect_value(vertex[one.field_], one.type_, one.value_);
      } else if (one.is_list_) {
        connect(vertex[one.field_], ArrayRef<Tensor>(one.tensors_));
      } else {
        connect(vertex[one.field_], one.tensors_[0]);
      }
    }
    return vertex;
  }
  void connect(FieldRef field, const Tensor &tensor) {
    detail::call(detail::table().connect, handle(), field.vertex(), field.name(), field.index(),
                 tensor.get());
  }
  /* One tensor for each element of a field that is a list. */
  void connect(FieldRef field, ArrayRef<Tensor> tensors) {
    const auto handles = detail::handles_of(tensors);
    detail::call(detail::table().connect_list, handle(), field.vertex(), field.name(),
                 handles.data(), handles.size());
  }
  /* A constant of the value, of FLOAT, BOOL, INT or UNSIGNED_INT, or of the shorter integer. */
  template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  void connect(FieldRef field, T value) {
    connect_value(field, detail::constant_type<T>(), static_cast<double>(value));
  }
  void setFieldSize(FieldRef field, std::size_t size) {
    detail::call(detail::table().set_field_size, handle(), field.vertex(), field.name(),
                 field.index(), size);
  }
  /* Of a field that is a value; of a tensor, its contents before the first run. */
  template <class T, class Place, class = detail::if_value<T>>
  void setInitialValue(const Place &place, T value) {
    initial(place, detail::number_of<T>::value, &value, 1);
  }
  template <class T, class Place>
  typename std::enable_if<std::is_enum<T>::value>::type setInitialValue(const Place &place,
                                                                        T value) {
    setInitialValue(place, static_cast<typename std::underlying_type<T>::type>(value));
  }
  template <class T, class Place>
  void setInitialValue(const Place &place, ArrayRef<T> values) {
    initial(place, detail::number_of<T>::value, values.data(), values.size());
  }
  template <class Values, class Place, class T = typename Values::value_type>
  void setInitialValue(const Place &place, const Values &values) {
    setInitialValue(place, ArrayRef<T>(values));
  }
  template <class Place>
  void setInitialValueHalf(const Place &place, uint16_t bits) {
    initial(place, HALF.number(), &bits, 1);
  }
  template <class Place>
  void setInitialValueHalf(const Place &place, ArrayRef<uint16_t> bits) {
    initial(place, HALF.number(), bits.data(), bits.size());
  }

  /* ---- Codelets and their estimates ---- */

  /* A .gp that popc made, or a C++ source, which is compiled. Returns true. */
  bool addCodelets(StringRef path, CodeletFileType = CodeletFileType::Auto, StringRef options = "",
                   std::ostream & = std::cerr, StringRef /*target*/ = "") {
    const std::string name = path, flags = options;
    detail::call(detail::table().add_codelets, handle(), name.c_str(), nullptr, flags.c_str());
    return true;
  }
  bool addCodelets(ArrayRef<std::string> paths, StringRef options = "", std::ostream & = std::cerr,
                   StringRef /*target*/ = "") {
    for (const std::string &one : paths) addCodelets(one, CodeletFileType::Auto, options);
    return true;
  }
  /* The text of a C++ source. */
  void addCodelets(std::istream &stream, StringRef options = "",
                   CodeletFileType = CodeletFileType::CppSource, std::ostream & = std::cerr,
                   StringRef /*target*/ = "") {
    const std::string text((std::istreambuf_iterator<char>(stream)),
                           std::istreambuf_iterator<char>());
    const std::string flags = options;
    detail::call(detail::table().add_codelets, handle(), nullptr, text.c_str(), flags.c_str());
  }
  void setPerfEstimate(const VertexRef &vertex, uint64_t cycles, uint64_t flops = 0) {
    detail::call(detail::table().set_perf_estimate, handle(), vertex.getId(), cycles, flops);
  }
  void setPerfEstimate(const VertexRef &vertex, const VertexPerfEstimate &estimate) {
    setPerfEstimate(vertex, estimate.cycles, estimate.flops);
  }
  void setCycleEstimate(const VertexRef &vertex, uint64_t cycles) {
    setPerfEstimate(vertex, cycles);
  }
  /* A function that estimates each vertex of a class. */
  void registerPerfEstimator(StringRef codelet, PerfEstimateFunc function) {
    const std::string name = codelet;
    Estimator *const held = new Estimator{std::move(function), handle()};
    detail::call(detail::table().register_perf_estimator, handle(), name.c_str(), estimate, held,
                 release_estimator);
  }
  void registerCycleEstimator(StringRef codelet, CycleEstimateFunc function) {
    registerPerfEstimator(codelet,
                          [function](const VertexIntrospector &vertex, const Target &target) {
                            return VertexPerfEstimate(function(vertex, target));
                          });
  }

  /* ---- The host of a plain program ---- */

  /* A stream to copy from, or to, with Copy. Throws poplar_error if the handle is taken. */
  DataStream addHostToDeviceFIFO(StringRef handle, const Type &type, std::size_t numElements,
                                 ReplicatedStreamMode = ReplicatedStreamMode::REPLICATE,
                                 const OptionFlags & = {}) {
    return stream(handle, DataStreamType::HostToDeviceFIFO, type, numElements);
  }
  DataStream addDeviceToHostFIFO(StringRef handle, const Type &type, std::size_t numElements,
                                 const OptionFlags & = {}) {
    return stream(handle, DataStreamType::DeviceToHostFIFO, type, numElements);
  }
  /* Lets Engine::writeTensor() and readTensor() have the tensor by the handle. */
  void createHostWrite(StringRef handle, const Tensor &tensor, bool = false) {
    const DataStream made = stream(handle, DataStreamType::HostToDeviceFIFO, tensor.elementType(),
                                   tensor.numElements());
    set_access(made, program::Copy(made, tensor));
  }
  void createHostRead(StringRef handle, const Tensor &tensor, bool = false) {
    const DataStream made = stream(handle, DataStreamType::DeviceToHostFIFO, tensor.elementType(),
                                   tensor.numElements());
    set_access(made, program::Copy(tensor, made));
  }
  /* Rows of elements in the host's memory; Copy takes their numbers, and Engine reads and writes
   * them. */
  RemoteBuffer addRemoteBuffer(StringRef handle, const Type &type, std::size_t numElements,
                               std::size_t repeats = 1, bool /*rearrangeOnHost*/ = false,
                               bool /*optimiseMemory*/ = false) {
    const std::string name = handle;
    const RemoteBuffer made(name, addVariable(type, {repeats, numElements}, name));
    const Tensor index = addVariable(UNSIGNED_INT, {1}), row = addVariable(type, {numElements});
    const DataStream at = addHostToDeviceFIFO(name + "/index", UNSIGNED_INT, 1);
    const DataStream in = addHostToDeviceFIFO(name + "/write", type, numElements);
    const DataStream out = addDeviceToHostFIFO(name + "/read", type, numElements);
    using program::Copy;
    set_access(in, program::Sequence{Copy(at, index), Copy(in, row), Copy(row, made, index)});
    set_access(out, program::Sequence{Copy(at, index), Copy(made, row, index), Copy(row, out)});
    createHostRead(name + "/repeats",
                   addConstant(UNSIGNED_INT, {}, static_cast<unsigned>(repeats)));
    return made;
  }

  /* A program that program::Call runs. */
  Function addFunction(const program::Program &program) { return Function(program); }

  /* ---- Parts of the machine ---- */

  /* Tiles [lower, upper) of this graph. */
  Graph createVirtualGraph(unsigned lower, unsigned upper) {
    std::vector<uint32_t> tiles(upper > lower ? upper - lower : 0);
    std::iota(tiles.begin(), tiles.end(), lower);
    return virtual_graph(tiles);
  }
  /* The first tiles of each IPU. */
  Graph createVirtualGraph(unsigned tilesPerIPU) {
    std::vector<unsigned> tiles(tilesPerIPU);
    std::iota(tiles.begin(), tiles.end(), 0u);
    return createVirtualGraph(tiles);
  }
  /* These tiles of each IPU. */
  Graph createVirtualGraph(const std::vector<unsigned> &perIpuTiles) {
    const Target target = getTarget();
    const unsigned perIpu = target.getTilesPerIPU();
    std::vector<uint32_t> tiles;
    for (unsigned first = 0; first < target.getNumTiles(); first += perIpu) {
      for (const unsigned tile : perIpuTiles) tiles.push_back(first + tile);
    }
    return virtual_graph(tiles);
  }

  /* For the headers. */
  static Graph share(trm_poplar_graph *graph) {
    return Graph(detail::Counted<trm_poplar_graph>::share(graph));
  }
  trm_poplar_graph *handle() const { return held_.get(); }

 private:
  struct Estimator {
    PerfEstimateFunc function;
    trm_poplar_graph *graph;
  };

  explicit Graph(detail::Counted<trm_poplar_graph> held) : held_(std::move(held)) {}

  static int32_t estimate(void *user, trm_poplar_introspector *vertex, uint64_t *out_cycles,
                          uint64_t *out_flops) {
    const Estimator &estimator = *static_cast<Estimator *>(user);
    try {
      const VertexPerfEstimate result =
          estimator.function(VertexIntrospector(vertex), Target(estimator.graph));
      *out_cycles = result.cycles;
      *out_flops = result.flops;
      return 0;
    } catch (...) {
      return 13;
    }
  }
  static void release_estimator(void *user) { delete static_cast<Estimator *>(user); }

  DataStream stream(StringRef handle, DataStreamType direction, const Type &type,
                    std::size_t elements) {
    const std::string name = handle;
    uint32_t id = 0;
    trm_poplar_tensor *made = nullptr;
    detail::call(detail::table().add_stream, this->handle(), name.c_str(), type.number(), elements,
                 direction == DataStreamType::HostToDeviceFIFO, &id, &made);
    return DataStream(name, direction, id, Tensor(this->handle(), made));
  }
  void set_access(const DataStream &stream, const program::Program &program) {
    detail::call(detail::table().set_access, handle(), stream.id(), program.handle());
  }

  static std::size_t product(ArrayRef<std::size_t> shape) {
    std::size_t result = 1;
    for (const std::size_t size : shape) result *= size;
    return result;
  }
  Tensor constant_of(const Type &type, ArrayRef<std::size_t> shape, int32_t number,
                     const void *values, std::size_t count, const DebugContext &debug) {
    const std::vector<uint64_t> dims = detail::wide(shape);
    return detail::made(handle(), detail::table().add_constant, type.number(), dims.data(),
                        dims.size(), number, values, count, debug.getPathName().c_str());
  }
  void connect_value(const FieldRef &field, const Type &type, double value) {
    const Tensor made = constant_of(type, {}, detail::number_of<double>::value, &value, 1, {});
    setTileMapping(made, 0);
    connect(field, made);
  }
  void map(const Tensor &tensor, const trm_poplar_interval *intervals, std::size_t count) {
    detail::call(detail::table().set_tile_mapping, handle(), tensor.get(), intervals, count);
  }
  void initial(const FieldRef &field, int32_t number, const void *values, std::size_t count) {
    detail::call(detail::table().set_initial_value, handle(), field.vertex(), field.name(),
                 field.index(), number, values, count);
  }
  void initial(const Tensor &tensor, int32_t number, const void *values, std::size_t count) {
    detail::call(detail::table().set_initial_tensor, handle(), tensor.get(), number, values, count);
  }
  Graph virtual_graph(const std::vector<uint32_t> &tiles) {
    trm_poplar_graph *made = nullptr;
    detail::call(detail::table().graph_virtual, handle(), tiles.data(), tiles.size(), &made);
    return Graph(detail::Counted<trm_poplar_graph>(made));
  }

  detail::Counted<trm_poplar_graph> held_;
};

} // namespace poplar

/* Names that the libraries' headers use in their namespaces. */
#define TREMULA_NAMES         \
  using poplar::DebugContext; \
  using poplar::Graph;        \
  using poplar::Interval;     \
  using poplar::OptionFlags;  \
  using poplar::Tensor;       \
  using poplar::Type;         \
  using poplar::program::Sequence;

/* The codelets of a library, which every graph has. */
#define TREMULA_CODELETS(library)             \
  namespace library {                         \
  inline void addCodelets(poplar::Graph &) {} \
  }

#include "Operator.hpp"
