/* A view of an array of someone else's, as an argument. */
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <vector>

namespace poplar {

template <class T>
class ArrayRef {
 public:
  typedef const T *const_iterator;
  typedef const_iterator iterator;
  typedef T value_type;
  typedef std::size_t size_type;

  ArrayRef() : first_(nullptr), size_(0) {}
  ArrayRef(const T *first, std::size_t size) : first_(first), size_(size) {}
  ArrayRef(const T *first, const T *end)
      : first_(first), size_(static_cast<std::size_t>(end - first)) {}
  ArrayRef(const std::vector<T> &of) : first_(of.data()), size_(of.size()) {}
  template <std::size_t N>
  ArrayRef(const std::array<T, N> &of) : first_(of.data()), size_(N) {}
  template <std::size_t N>
  ArrayRef(const T (&of)[N]) : first_(of), size_(N) {}
  /* The array of a list lives as long as the call that it is an argument of. */
  ArrayRef(std::initializer_list<T> of) : ArrayRef(of.begin(), of.size()) {}

  const T *data() const { return first_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const_iterator begin() const { return first_; }
  const_iterator end() const { return first_ + size_; }
  const T &front() const { return first_[0]; }
  const T &back() const { return first_[size_ - 1]; }
  const T &operator[](std::size_t i) const { return first_[i]; }
  std::vector<T> cloneAsVector() const { return std::vector<T>(begin(), end()); }

 private:
  const T *first_;
  std::size_t size_;
};

} // namespace poplar
