// The codelets of own_operators.cpp.
#include <poplar/HalfFloat.hpp>
#include <poplar/Vertex.hpp>

using namespace poplar;

// Each pair (x, y) turned by an angle.
template <typename T>
class Rotate : public Vertex {
 public:
  Vector<Input<Vector<T, VectorLayout::ONE_PTR>>> x;
  Vector<Input<Vector<T>>> y;
  Vector<Output<Vector<T>>> outX, outY;
  Input<float> angle;

  bool compute() {
    const float c = __builtin_cosf(angle), s = __builtin_sinf(angle);
    for (unsigned r = 0; r < y.size(); ++r) {
      for (unsigned i = 0; i < y[r].size(); ++i) {
        const float a = float(x[r][i]), b = float(y[r][i]);
        outX[r][i] = T(a * c - b * s);
        outY[r][i] = T(a * s + b * c);
      }
    }
    return true;
  }
};
template class Rotate<float>;
template class Rotate<half>;

// One step of the search for a root of x^2 - target between low and high.
class Bisect : public Vertex {
 public:
  Input<float> target;
  InOut<float> low, high;
  Output<bool> goesOn;
  InOut<unsigned> steps;
  Input<unsigned> most;

  bool compute() {
    const float middle = (low + high) / 2;
    if (middle * middle > target) {
      high = middle;
    } else {
      low = middle;
    }
    steps += 1u;
    *goesOn = high - low > 1e-6f && steps < most;
    return true;
  }
};

// Every kind of field in one vertex; private members, void compute().
class Kinds : public Vertex {
  const unsigned count;
  Input<Vector<float, VectorLayout::ONE_PTR>> a;
  Vector<Input<Vector<int>>> rows;

 public:
  Kinds();
  Input<Vector<unsigned short, VectorLayout::SHORT_SPAN>> shorts;
  Output<Vector<float>> out;
  Output<bool> any;
  Vector<int> table;
  bool on;

  void compute() {
    for (unsigned i = 0; i < count; ++i) {
      out[i] = a[i] + float(rows[0][i]) * float(rows[1][i]) + float(shorts[i]) + float(table[i]);
    }
    any = on && rows.size() == 2 && table.size() == count;
  }
};

class PerWorker : public MultiVertex {
 public:
  Output<Vector<int>> out;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < out.size(); i += numWorkers()) out[i] = int(worker);
    return true;
  }
};

class Write : public Vertex {
 public:
  Output<Vector<float>> out;
  float value;
  bool compute() {
    for (auto &one : out) one = value;
    return true;
  }
};
