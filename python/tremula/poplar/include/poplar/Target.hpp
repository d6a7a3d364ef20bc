/* Facts of the machine that a graph is for. */
#pragma once

#include <cstddef>
#include <string>

#include "Detail.hpp"
#include "Library.hpp"
#include "TargetType.hpp"
#include "Type.hpp"

namespace poplar {

class Target {
 public:
  Target() = default;
  explicit Target(trm_poplar_graph *graph)
      : graph_(detail::Counted<trm_poplar_graph>::share(graph)) {}
  /* Of a plain program. version: "ipu1", "ipu2" or "ipu21"; tilesPerIPU 0: all that it has. */
  Target(TargetType type, const std::string &version, unsigned numIPUs, unsigned tilesPerIPU)
      : graph_(create(version, numIPUs, tilesPerIPU)), type_(type), version_(version) {}
  static Target createCPUTarget() { return Target(TargetType::CPU, "ipu2", 1, 1); }
  static Target createIPUTarget(unsigned numIPUs, const std::string &version = "ipu2") {
    return Target(TargetType::IPU, version, numIPUs, 0);
  }
  static Target createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU,
                                const std::string &version = "ipu2") {
    return Target(TargetType::IPU, version, numIPUs, tilesPerIPU);
  }

  /* For the headers: an empty graph for the target. */
  detail::Counted<trm_poplar_graph> newGraph() const {
    return create(version_, getNumIPUs(), getTilesPerIPU());
  }

  TargetType getTargetType() const { return type_; }
  unsigned getNumIPUs() const { return whole("numIPUs"); }
  unsigned getTilesPerIPU() const { return whole("tilesPerIPU"); }
  /* All tiles of the graph, which may be virtual. */
  unsigned getNumTiles() const { return whole("numTiles"); }
  unsigned getNumVirtualTiles() const { return whole("numTiles"); }
  unsigned getNumWorkerContexts() const { return whole("numWorkerContexts"); }
  unsigned getBytesPerTile() const { return whole("bytesPerTile"); }
  double getTileClockFrequency() const { return fact("tileClockFrequency"); }
  /* Bits of one access to memory, and elements of a type in it. */
  unsigned getDataPathWidth() const { return 64; }
  unsigned getVectorWidth(const Type &type) const {
    return type.bytes() == 0 ? 1 : getDataPathWidth() / 8 / type.bytes();
  }
  unsigned getTypeSize(const Type &type) const { return type.bytes(); }
  unsigned getAtomicStoreGranularity() const { return 4; }

 private:
  static detail::Counted<trm_poplar_graph> create(const std::string &version, unsigned numIPUs,
                                                  unsigned tilesPerIPU) {
    detail::open_table();
    detail::Counted<trm_poplar_graph> made;
    detail::call(detail::table().graph_create, version.c_str(), numIPUs, tilesPerIPU, made.out());
    return made;
  }
  double fact(const char *key) const {
    double result = 0.0;
    if (graph_.get() == nullptr) throw poplar_error("the target is of no device");
    if (!detail::table().graph_target(graph_.get(), key, &result)) {
      throw poplar_error(std::string("the target does not know its ") + key);
    }
    return result;
  }
  unsigned whole(const char *key) const { return static_cast<unsigned>(fact(key)); }

  detail::Counted<trm_poplar_graph> graph_;
  TargetType type_ = TargetType::IPU_MODEL;
  std::string version_ = "ipu2";
};

/* Numbers of the host's as a device has halves, and the reverse: what streams of HALF, host reads
 * and host writes transfer. */
#define TREMULA_HALVES(function, From, from, To, to)                                             \
  inline void function(const Target &, const from *source, to *destination, std::size_t count) { \
    const From *const given = static_cast<const From *>(source);                                 \
    To *const made = static_cast<To *>(destination);                                             \
    for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<To>(given[i]);                 \
  }
TREMULA_HALVES(copyFloatToDeviceHalf, float, float, half, void)
TREMULA_HALVES(copyDoubleToDeviceHalf, double, double, half, void)
TREMULA_HALVES(copyDeviceHalfToFloat, half, void, float, float)
TREMULA_HALVES(copyDeviceHalfToDouble, half, void, double, double)
#undef TREMULA_HALVES

} // namespace poplar
