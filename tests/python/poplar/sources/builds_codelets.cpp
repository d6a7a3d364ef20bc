// Vertices for test_builds.py.
#include <poplar/Vertex.hpp>
#include <stdexcept>
#include <string>

class Throws : public poplar::Vertex {
 public:
  poplar::InOut<poplar::Vector<float>> x;

  void compute() {
    if (x[0] > 10.0f) throw std::out_of_range("x is " + std::to_string(int(x[0])));
    if (x[0] < 0.0f) throw 7;
    x[0] += 1.0f;
  }
};
