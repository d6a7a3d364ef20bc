/* A view of a text of someone else's, as an argument. */
#pragma once

#include <cstddef>
#include <cstring>
#include <ostream>
#include <string>

namespace poplar {

class StringRef {
 public:
  StringRef() : first_(""), size_(0) {}
  StringRef(const char *text) : first_(text), size_(std::strlen(text)) {}
  StringRef(const char *text, std::size_t size) : first_(text), size_(size) {}
  StringRef(const std::string &text) : first_(text.data()), size_(text.size()) {}

  const char *data() const { return first_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const char *begin() const { return first_; }
  const char *end() const { return first_ + size_; }
  char operator[](std::size_t i) const { return first_[i]; }
  std::string cloneAsString() const { return std::string(first_, size_); }
  operator std::string() const { return cloneAsString(); }

  friend bool operator==(const StringRef &a, const StringRef &b) {
    return a.size_ == b.size_ && std::memcmp(a.first_, b.first_, a.size_) == 0;
  }
  friend bool operator!=(const StringRef &a, const StringRef &b) { return !(a == b); }
  friend bool operator<(const StringRef &a, const StringRef &b) {
    return a.cloneAsString() < b.cloneAsString();
  }
  friend std::string operator+(const StringRef &a, const StringRef &b) {
    return a.cloneAsString() + b.cloneAsString();
  }
  friend std::ostream &operator<<(std::ostream &out, const StringRef &text) {
    return out << text.cloneAsString();
  }

 private:
  const char *first_;
  std::size_t size_;
};

} // namespace poplar
