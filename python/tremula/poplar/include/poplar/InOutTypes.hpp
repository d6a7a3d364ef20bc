/* Fields of a vertex: Input, Output and InOut of a scalar, of a Vector or of a VectorList.
 *
 * The engine fills a vertex's memory by the offsets of its fields and then calls compute(); no
 * constructor runs. So all of these are plain memory: a pointer, and a size where the layout has
 * one. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "HalfFloat.hpp"
#include "VectorLayout.hpp"

namespace poplar {

template <class T, VectorLayout Layout = VectorLayout::SPAN, unsigned MinAlign = alignof(T),
          bool Interleaved = false>
class Vector;
template <class T, VectorListLayout Layout = VectorListLayout::DELTAN,
          unsigned MinAlign = alignof(T), bool Interleaved = false>
class VectorList;

namespace detail {

constexpr bool has_size(VectorLayout layout) {
  return layout == VectorLayout::SPAN || layout == VectorLayout::SHORT_SPAN;
}

template <class T>
class Elements {
 public:
  typedef T value_type;
  typedef T *iterator;

  T &operator[](std::size_t i) const { return first_[i]; }
  T &operator*() const { return *first_; }
  T *operator->() const { return first_; }
  T *data() const { return first_; }
  T *begin() const { return first_; }

 private:
  T *first_;
};

template <class T, bool sized>
class Run : public Elements<T> {};

template <class T>
class Run<T, true> : public Elements<T> {
 public:
  unsigned size() const { return static_cast<unsigned>(size_); }
  bool empty() const { return size_ == 0; }
  T *end() const { return this->begin() + size_; }
  T &front() const { return *this->begin(); }
  T &back() const { return (*this)[size_ - 1]; }

 private:
  uint64_t size_; /* both as trm_codelet_span has them */
};

template <class T>
class Writable {
 public:
  operator T &() const { return *place_; }
  T &operator*() const { return *place_; }
  T *operator->() const { return place_; }
  T &operator[](std::size_t i) const { return place_[i]; }
#define TREMULA_COMPOUND(OP)        \
  template <class U>                \
  T &operator OP(const U & value) { \
    return *place_ OP value;        \
  }
  TREMULA_COMPOUND(+=)
  TREMULA_COMPOUND(-=)
  TREMULA_COMPOUND(*=)
  TREMULA_COMPOUND(/=)
#undef TREMULA_COMPOUND

 protected:
  T *place_;
};

} // namespace detail

/* A vector of constants, or of fields that are vectors themselves. */
template <class T, VectorLayout Layout, unsigned MinAlign, bool Interleaved>
class Vector : public detail::Run<T, detail::has_size(Layout)> {};

/* Vectors of sizes of their own. */
template <class T, VectorListLayout Layout, unsigned MinAlign, bool Interleaved>
class VectorList : public detail::Run<detail::Run<T, true>, true> {};

/* What compute() reads. */
template <class T>
class Input {
 public:
  operator const T &() const { return *place_; }
  const T &operator*() const { return *place_; }
  const T *operator->() const { return place_; }
  const T &operator[](std::size_t i) const { return place_[i]; }

 private:
  const T *place_;
};

/* What compute() writes, Output with no defined value before. */
#define TREMULA_WRITTEN(NAME)               \
  template <class T>                        \
  class NAME : public detail::Writable<T> { \
   public:                                  \
    NAME &operator=(const T &value) {       \
      *this->place_ = value;                \
      return *this;                         \
    }                                       \
  };
TREMULA_WRITTEN(Output)
TREMULA_WRITTEN(InOut)
#undef TREMULA_WRITTEN

/* Of vectors. sizeof completes the Vector, so that its arguments are in the DWARF that popc reads.
 */
#define TREMULA_FIELD(NAME, QUALIFIER)                                                   \
  template <class T, VectorLayout Layout, unsigned MinAlign, bool Interleaved>           \
  class NAME<Vector<T, Layout, MinAlign, Interleaved>>                                   \
      : public detail::Run<QUALIFIER T, detail::has_size(Layout)> {                      \
    static_assert(sizeof(Vector<T, Layout, MinAlign, Interleaved>) > 0, "complete");     \
  };                                                                                     \
  template <class T, VectorListLayout Layout, unsigned MinAlign, bool Interleaved>       \
  class NAME<VectorList<T, Layout, MinAlign, Interleaved>>                               \
      : public detail::Run<detail::Run<QUALIFIER T, true>, true> {                       \
    static_assert(sizeof(VectorList<T, Layout, MinAlign, Interleaved>) > 0, "complete"); \
  };
TREMULA_FIELD(Input, const)
TREMULA_FIELD(Output, )
TREMULA_FIELD(InOut, )
#undef TREMULA_FIELD

} // namespace poplar
