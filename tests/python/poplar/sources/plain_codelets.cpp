// A vertex for plain.cpp.
#include <poplar/Vertex.hpp>

class Running : public poplar::Vertex {
 public:
  poplar::Input<poplar::Vector<float>> in;
  poplar::Output<poplar::Vector<float>> out;

  bool compute() {
    float sum = 0;
    for (unsigned i = 0; i < in.size(); ++i) out[i] = sum += in[i];
    return true;
  }
};
