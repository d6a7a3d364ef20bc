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

/* Whether the ends are apart by more than a thousandth. */
class Ask : public poplar::Vertex {
 public:
  poplar::Input<poplar::Vector<float, poplar::VectorLayout::ONE_PTR>> ends;
  poplar::Output<bool> goes;

  bool compute() {
    *goes = ends[1] - ends[0] > 1e-3f;
    return true;
  }
};

class Halve : public poplar::Vertex {
  poplar::InOut<float> low, high;
  poplar::Input<float> target;

 public:
  bool compute() {
    const float middle = (low + high) / 2;
    if (middle * middle * middle < target) low = middle;
    else high = middle;
    return true;
  }
};
