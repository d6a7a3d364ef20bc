#include <poplar/HalfFloat.hpp>
#include <poplar/Vertex.hpp>

#include <cmath>

template <typename T>
class Rotate : public poplar::Vertex {
 public:
  poplar::Vector<poplar::Input<poplar::Vector<T>>> x, y;
  poplar::Vector<poplar::Output<poplar::Vector<T>>> out;
  const float angle;
  Rotate();

  bool compute() {
    const float c = std::cos(angle), s = std::sin(angle);
    for (unsigned r = 0; r < x.size(); ++r) {
      for (unsigned i = 0; i < x[r].size(); ++i) {
        out[r][i] = T(float(x[r][i]) * c - float(y[r][i]) * s);
      }
    }
    return true;
  }
};
template class Rotate<float>;
template class Rotate<half>;
