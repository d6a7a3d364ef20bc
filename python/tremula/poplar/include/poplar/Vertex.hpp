/* Base classes of vertices ("codelets"). `popc` compiles a file of them (docs/custom_operators.md).
 *
 *   class Scale : public poplar::Vertex {
 *    public:
 *     poplar::Input<poplar::Vector<float>> in;
 *     poplar::Output<poplar::Vector<float>> out;
 *     float factor;
 *     bool compute() {
 *       for (unsigned i = 0; i < in.size(); ++i) out[i] = factor * in[i];
 *       return true;
 *     }
 *   }; */
#pragma once

#include <cstddef>
#include <cstdint>

#include "HalfFloat.hpp"
#include "InOutTypes.hpp"
#include "VectorLayout.hpp"

namespace poplar {

/* compute() is called once. */
class Vertex {};

/* compute(unsigned workerId) is called by each of a tile's numWorkers() workers. */
class MultiVertex {
 public:
  static constexpr unsigned numWorkers() { return 6; }
};

/* As Vertex, on the tile's supervisor. */
class SupervisorVertex {};

} // namespace poplar
