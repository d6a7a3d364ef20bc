/* Facts of the machine that a graph is for. */
#ifndef TREMULA_POPLAR_TARGET_HPP_
#define TREMULA_POPLAR_TARGET_HPP_

#include <string>

#include "Detail.hpp"
#include "TargetType.hpp"
#include "Type.hpp"

namespace poplar {

class Target {
 public:
  explicit Target(trm_poplar_graph *graph)
      : graph_(detail::Counted<trm_poplar_graph>::share(graph)) {}

  TargetType getTargetType() const { return TargetType::IPU_MODEL; }
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
  double fact(const char *key) const {
    double result = 0.0;
    if (!detail::table().graph_target(graph_.get(), key, &result)) {
      throw poplar_error(std::string("the target does not know its ") + key);
    }
    return result;
  }
  unsigned whole(const char *key) const { return static_cast<unsigned>(fact(key)); }

  detail::Counted<trm_poplar_graph> graph_;
};

} // namespace poplar

#endif // TREMULA_POPLAR_TARGET_HPP_
