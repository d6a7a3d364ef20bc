// Vertices with every kind of field: private, const, nested, of enumerations and short vectors.
#include <ipudef.h>

#include <poplar/HalfFloat.hpp>
#include <poplar/Vertex.hpp>

using namespace poplar;

enum class Mode { SUM, PRODUCT };

namespace shapes {

template <typename T, Mode mode, unsigned times>
class [[poplar::constraint("elem(*in) != elem(*out)")]] Mixed : public Vertex {
  const unsigned count;
  Input<Vector<T, VectorLayout::ONE_PTR>> in;
  Vector<Input<Vector<float>>> rows;
  Output<Vector<T, VectorLayout::SHORT_SPAN, 8>> out;

 public:
  Mixed();
  InOut<T> total;
  Output<bool> done;
  Vector<int, VectorLayout::ONE_PTR> table;
  Input<VectorList<float, VectorListLayout::DELTAN>> list;
  Vector<Output<unsigned short>> ends;
  float scale;
  bool on;
  Mode unused;
  unsigned char three[3];
  float2 pair;

  void compute() {
    for (unsigned i = 0; i < count; ++i) {
      out[i] = mode == Mode::SUM ? in[i] + T(rows[0][i]) : in[i] * T(rows[1][i]);
      total += out[i];
    }
    for (auto &one : out) one *= T(scale) * T(times);
    done = on && table[1] == 7 && list[1][0] > list[0][1];
    *ends[0] = static_cast<unsigned short>(rows.size());
    ends[1] = 65535;
    out[0] = out[0] + T(pair[0]);
  }
};

template class Mixed<float, Mode::SUM, 2>;
template class Mixed<half, Mode::PRODUCT, 1>;

} // namespace shapes

class Base : public Vertex {
 public:
  Output<unsigned> first;
};

class Derived : public Base {
 public:
  Output<unsigned> second;
  virtual bool compute() {
    *first = 1;
    *second = 2;
    return true;
  }
};

class Shared : public MultiVertex {
 public:
  Output<Vector<int>> out;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < out.size(); i += numWorkers()) out[i] = static_cast<int>(worker);
    return true;
  }
};

namespace {
class Hidden : public SupervisorVertex {
 public:
  InOut<Vector<half, VectorLayout::SPAN, 4>> x;
  bool compute() {
    for (unsigned i = 0; i < x.size(); ++i) x[i] = x[i] * half(0.1f);
    return true;
  }
};
} // namespace

// No vertices: without compute(), or never instantiated.
class Abstract : public Vertex {};
template <typename T>
class Never : public Vertex {
  bool compute() { return true; }
};
