/* Tensor: a view of elements of variables. No member moves elements. */
#pragma once

#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

#include "ArrayRef.hpp"
#include "DebugContext.hpp"
#include "Detail.hpp"
#include "Interval.hpp"
#include "StringRef.hpp"
#include "Type.hpp"

namespace poplar {

enum class UpsampleMethod { REPEAT };

class Tensor {
 public:
  Tensor() : graph_(nullptr) {}

  /* False: the null Tensor, of which nothing else may be asked. */
  bool valid() const { return held_.get() != nullptr; }
  Type elementType() const { return detail::type_of_number(info().dtype); }
  unsigned rank() const { return info().rank; }
  std::size_t numElements() const { return info().elements; }
  std::vector<std::size_t> shape() const {
    const trm_poplar_tensor_info found = info();
    return std::vector<std::size_t>(found.dims, found.dims + found.rank);
  }
  std::size_t dim(unsigned i) const {
    const trm_poplar_tensor_info found = info();
    if (i >= found.rank) {
      throw index_error("a tensor of rank " + std::to_string(found.rank) + " has no dimension " +
                        std::to_string(i));
    }
    return found.dims[i];
  }

  /* Element i of the first dimension, which goes. */
  Tensor operator[](std::size_t i) const { return view(detail::table().tensor_index, i); }
  /* tensor[i][j] ... */
  Tensor index(ArrayRef<std::size_t> indices) const {
    Tensor result = *this;
    for (const std::size_t i : indices) result = result[i];
    return result;
  }
  /* Elements [begin, end) of a dimension. */
  Tensor slice(std::size_t begin, std::size_t end, unsigned dimension = 0) const {
    return view(detail::table().tensor_slice, dimension, begin, end);
  }
  Tensor slice(const Interval &region, unsigned dimension = 0) const {
    return slice(region.begin(), region.end(), dimension);
  }
  /* Elements [begin[i], end[i]) of each dimension i, of the first ones if there are fewer. */
  Tensor slice(ArrayRef<std::size_t> begin, ArrayRef<std::size_t> end) const {
    if (begin.size() != end.size() || begin.size() > rank()) {
      throw index_error("a slice has " + std::to_string(begin.size()) + " begins and " +
                        std::to_string(end.size()) + " ends, of a tensor of rank " +
                        std::to_string(rank()));
    }
    Tensor result = *this;
    for (unsigned i = 0; i < begin.size(); ++i) result = result.slice(begin[i], end[i], i);
    return result;
  }
  /* One slice for each interval. */
  std::vector<Tensor> slices(ArrayRef<Interval> intervals, unsigned dimension = 0) const {
    std::vector<Tensor> result;
    for (const Interval &one : intervals) result.push_back(slice(one, dimension));
    return result;
  }
  /* The intervals of each element of the list, one after the other. */
  std::vector<Tensor> slices(const std::vector<std::vector<Interval>> &intervals,
                             unsigned dimension = 0) const;
  /* One slice of size 1 for each index. */
  std::vector<Tensor> slices(ArrayRef<unsigned> indices, unsigned dimension = 0) const {
    std::vector<Tensor> result;
    for (const unsigned i : indices) result.push_back(slice(i, std::size_t(i) + 1, dimension));
    return result;
  }

  Tensor reshape(ArrayRef<std::size_t> dims) const {
    const std::vector<uint64_t> sizes = detail::wide(dims);
    return view(detail::table().tensor_reshape, sizes.data(), sizes.size());
  }
  /* The dimensions [begin, end) become `dims`. */
  Tensor reshapePartial(unsigned begin, unsigned end, ArrayRef<std::size_t> dims) const {
    const std::vector<std::size_t> now = checked(begin, end);
    std::vector<std::size_t> sizes(now.begin(), now.begin() + begin);
    sizes.insert(sizes.end(), dims.begin(), dims.end());
    sizes.insert(sizes.end(), now.begin() + end, now.end());
    return reshape(sizes);
  }
  Tensor flatten() const { return reshape({numElements()}); }
  /* The dimensions [begin, end) become one. */
  Tensor flatten(unsigned begin, unsigned end) const {
    const std::vector<std::size_t> now = checked(begin, end);
    std::size_t product = 1;
    for (unsigned i = begin; i < end; ++i) product *= now[i];
    return reshapePartial(begin, end, {product});
  }
  /* Dimensions of size 1 before those of the tensor's that `indices` names; its rank means at the
   * end. */
  Tensor expand(ArrayRef<std::size_t> indices) const {
    const std::vector<std::size_t> now = shape();
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i <= now.size(); ++i) {
      for (const std::size_t one : indices) {
        if (one == i) sizes.push_back(1);
        if (one > now.size()) {
          throw index_error("expand() has no dimension " + std::to_string(one));
        }
      }
      if (i < now.size()) sizes.push_back(now[i]);
    }
    return reshape(sizes);
  }
  /* Without these dimensions, which have the size 1. */
  Tensor squeeze(ArrayRef<std::size_t> indices) const {
    const std::vector<std::size_t> now = shape();
    std::vector<bool> goes(now.size());
    for (const std::size_t one : indices) {
      if (one >= now.size() || now[one] != 1) {
        throw index_error("squeeze() removes dimension " + std::to_string(one) +
                          ", which is none of size 1 of " + shapeToString());
      }
      goes[one] = true;
    }
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (!goes[i]) sizes.push_back(now[i]);
    }
    return reshape(sizes);
  }

  /* Dimension i of the result is dimension permutation[i]. */
  Tensor dimShuffle(ArrayRef<unsigned> permutation) const {
    const std::vector<uint32_t> order(permutation.begin(), permutation.end());
    return view(detail::table().tensor_dim_shuffle, order.data(), order.size());
  }
  /* Dimension source[i] becomes destination[i]; the others fill the rest in their order. */
  Tensor dimShufflePartial(ArrayRef<unsigned> source, ArrayRef<unsigned> destination) const {
    const unsigned size = rank(), none = size;
    std::vector<unsigned> order(size, none);
    std::vector<bool> taken(size);
    if (source.size() != destination.size()) {
      throw index_error("dimShufflePartial() has lists of different sizes");
    }
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source[i] >= size || destination[i] >= size || taken[source[i]] ||
          order[destination[i]] != none) {
        throw index_error("dimShufflePartial() names a dimension twice, or one that " +
                          shapeToString() + " does not have");
      }
      order[destination[i]] = source[i];
      taken[source[i]] = true;
    }
    unsigned next = 0;
    for (unsigned &one : order) {
      if (one != none) continue;
      while (taken[next]) ++next;
      one = next++;
    }
    return dimShuffle(order);
  }
  /* Moves one dimension; the others keep their order. */
  Tensor dimRoll(unsigned dimension, unsigned to = 0) const {
    return dimShufflePartial({dimension}, {to});
  }
  /* The dimensions in reverse. */
  Tensor transpose() const {
    std::vector<unsigned> order;
    for (unsigned i = rank(); i > 0; --i) order.push_back(i - 1);
    return dimShuffle(order);
  }
  /* `times` copies one after the other along a dimension. */
  Tensor broadcast(unsigned times, unsigned dimension) const {
    return view(detail::table().tensor_broadcast, times, dimension);
  }
  /* Each element `times` times along a dimension. */
  Tensor upsample(unsigned times, unsigned dimension,
                  UpsampleMethod = UpsampleMethod::REPEAT) const {
    return expand({std::size_t(dimension) + 1})
        .broadcast(times, dimension + 1)
        .flatten(dimension, dimension + 2);
  }
  Tensor subSample(unsigned stride, unsigned dimension) const {
    return view(detail::table().tensor_pick, stride, dimension);
  }
  Tensor reverse(unsigned dimension) const {
    return view(detail::table().tensor_pick, -1, dimension);
  }
  /* The bits as another type of the same size. */
  Tensor reinterpret(const Type &type) const {
    return view(detail::table().tensor_reinterpret, type.number());
  }

  bool isContiguous() const { return detail::table().tensor_is_contiguous(get()); }
  bool containsAliases() const { return detail::table().tensor_contains_aliases(get()); }
  bool containsConstant() const { return detail::table().tensor_contains_constant(graph_, get()); }
  /* Whether vertices may write all elements at the same time. */
  bool isParallelWriteable() const { return !containsAliases() && !containsConstant(); }
  /* Intervals of the flattened tensor that are contiguous in a variable. */
  std::vector<Interval> getContiguousRegions() const {
    detail::Block<trm_poplar_interval> found;
    uint64_t count = 0;
    detail::call(detail::table().tensor_regions, get(), found.out(), &count);
    std::vector<Interval> result;
    for (uint64_t i = 0; i < count; ++i) {
      result.push_back(Interval(found.get()[i].begin, found.get()[i].end));
    }
    return result;
  }

  /* "[2x3]". */
  std::string shapeToString() const {
    std::string result;
    for (const std::size_t size : shape()) {
      result += (result.empty() ? "" : "x") + std::to_string(size);
    }
    return "[" + result + "]";
  }
  /* Names and places of the elements' variables. */
  std::string getDebugStr() const {
    detail::Block<char> text;
    detail::call(detail::table().tensor_text, graph_, get(), text.out());
    return text.get();
  }
  std::string getVarStr() const { return getDebugStr(); }
  void output(std::ostream &stream = std::cout) const { stream << getDebugStr(); }
  void outputRegions(std::ostream &stream = std::cout) const { stream << getDebugStr(); }
  void dump() const { std::cerr << getDebugStr() << "\n"; }

  friend bool operator==(const Tensor &a, const Tensor &b) {
    return a.valid() && b.valid() ? detail::table().tensor_is_equal(a.get(), b.get())
                                  : a.valid() == b.valid();
  }
  friend bool operator!=(const Tensor &a, const Tensor &b) { return !(a == b); }
  friend std::ostream &operator<<(std::ostream &stream, const Tensor &tensor) {
    tensor.output(stream);
    return stream;
  }

  /* For the headers: takes a reference over. */
  Tensor(trm_poplar_graph *graph, trm_poplar_tensor *taken) : graph_(graph), held_(taken) {}
  trm_poplar_tensor *handle() const { return held_.get(); }
  trm_poplar_graph *graph() const { return graph_; }
  trm_poplar_tensor *leave() { return held_.leave(); }
  /* The handle of a tensor that must be one. */
  trm_poplar_tensor *get() const {
    if (held_.get() == nullptr) throw poplar_error("a null Tensor is used");
    return held_.get();
  }

 private:
  /* What a function of the table makes of the tensor. */
  template <class Function, class... Arguments>
  Tensor view(Function function, Arguments... arguments) const {
    trm_poplar_tensor *made = nullptr;
    detail::call(function, get(), arguments..., &made);
    return Tensor(graph_, made);
  }
  trm_poplar_tensor_info info() const {
    trm_poplar_tensor_info result;
    detail::table().tensor_describe(get(), &result);
    return result;
  }
  std::vector<std::size_t> checked(unsigned begin, unsigned end) const {
    const std::vector<std::size_t> now = shape();
    if (begin > end || end > now.size()) {
      throw index_error("the dimensions [" + std::to_string(begin) + "," + std::to_string(end) +
                        ") are not of " + shapeToString());
    }
    return now;
  }

  trm_poplar_graph *graph_; /* a tensor holds its graph itself */
  detail::Counted<trm_poplar_tensor> held_;
};

namespace detail {

/* The tensor that a function of the table makes for a graph, with the arguments. */
template <class Function, class... Arguments>
Tensor made(trm_poplar_graph *graph, Function function, Arguments... arguments) {
  trm_poplar_tensor *result = nullptr;
  call(function, graph, arguments..., &result);
  return Tensor(graph, result);
}

/* The tensors' handles, as the table takes them. */
inline std::vector<const trm_poplar_tensor *> handles_of(ArrayRef<Tensor> tensors) {
  std::vector<const trm_poplar_tensor *> result;
  for (const Tensor &one : tensors) result.push_back(one.get());
  return result;
}

} // namespace detail

/* The tensors one after the other along a dimension. */
inline Tensor concat(ArrayRef<Tensor> tensors, unsigned dimension = 0) {
  if (tensors.empty()) throw poplar_error("concat() of no tensors");
  const auto handles = detail::handles_of(tensors);
  trm_poplar_tensor *made = nullptr;
  detail::call(detail::table().tensor_concat, handles.data(), handles.size(), dimension, &made);
  return Tensor(tensors[0].graph(), made);
}
inline Tensor concat(const Tensor &first, const Tensor &second, unsigned dimension = 0) {
  return concat({first, second}, dimension);
}
/* The same with a tensor that lacks the dimension. */
inline Tensor append(const Tensor &first, const Tensor &second, unsigned dimension = 0) {
  return concat({first, second.expand({dimension})}, dimension);
}

inline std::vector<Tensor> Tensor::slices(const std::vector<std::vector<Interval>> &intervals,
                                          unsigned dimension) const {
  std::vector<Tensor> result;
  for (const std::vector<Interval> &one : intervals) {
    result.push_back(one.empty() ? slice(0, 0, dimension)
                                 : concat(slices(ArrayRef<Interval>(one), dimension), dimension));
  }
  return result;
}

} // namespace poplar
