/* Types of elements: FLOAT, HALF, INT ... */
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "HalfFloat.hpp"

namespace poplar {

class Type {
 public:
  constexpr Type() : number_(0), bytes_(0), name_("invalid") {}
  constexpr Type(int32_t number, unsigned bytes, const char *name)
      : number_(number), bytes_(bytes), name_(name) {}

  /* The name by which vertices' templates know the type: "float", "unsigned int". */
  std::string toString() const { return name_; }
  /* The number of the type in tremula/dtype.def, and the bytes of an element. */
  constexpr int32_t number() const { return number_; }
  constexpr unsigned bytes() const { return bytes_; }
  bool isFloatingPoint() const { return number_ >= 10; }
  bool isSimple() const { return number_ != 0; }
  std::size_t hash() const { return static_cast<std::size_t>(number_); }

  friend constexpr bool operator==(const Type &a, const Type &b) { return a.number_ == b.number_; }
  friend constexpr bool operator!=(const Type &a, const Type &b) { return a.number_ != b.number_; }
  friend constexpr bool operator<(const Type &a, const Type &b) { return a.number_ < b.number_; }
  friend std::ostream &operator<<(std::ostream &out, const Type &type) { return out << type.name_; }

 private:
  int32_t number_;
  unsigned bytes_;
  const char *name_;
};

static constexpr Type BOOL(1, 1, "bool");
static constexpr Type CHAR(2, 1, "char");
static constexpr Type SIGNED_CHAR(2, 1, "signed char");
static constexpr Type SHORT(3, 2, "short");
static constexpr Type INT(4, 4, "int");
static constexpr Type LONG(4, 4, "int");
static constexpr Type LONGLONG(5, 8, "longlong");
static constexpr Type UNSIGNED_CHAR(6, 1, "unsigned char");
static constexpr Type UNSIGNED_SHORT(7, 2, "unsigned short");
static constexpr Type UNSIGNED_INT(8, 4, "unsigned int");
static constexpr Type UNSIGNED_LONG(8, 4, "unsigned int");
static constexpr Type UNSIGNED_LONGLONG(9, 8, "unsigned longlong");
static constexpr Type HALF(10, 2, "half");
static constexpr Type FLOAT(11, 4, "float");

namespace detail {

inline Type type_of_number(int32_t number) {
  for (const Type &one : {BOOL, CHAR, SHORT, INT, LONGLONG, UNSIGNED_CHAR, UNSIGNED_SHORT,
                          UNSIGNED_INT, UNSIGNED_LONGLONG, HALF, FLOAT}) {
    if (one.number() == number) return one;
  }
  return Type();
}

/* The number of a C++ type of values; double counts as itself. */
template <class T>
struct number_of {
  static_assert(std::is_arithmetic<T>::value, "values are numbers");
  static constexpr int32_t value = std::is_same<T, bool>::value       ? 1
                                   : std::is_same<T, float>::value    ? 11
                                   : std::is_floating_point<T>::value ? 12
                                   : sizeof(T) == 1 ? (std::is_signed<T>::value ? 2 : 6)
                                   : sizeof(T) == 2 ? (std::is_signed<T>::value ? 3 : 7)
                                   : sizeof(T) == 4 ? (std::is_signed<T>::value ? 4 : 8)
                                                    : (std::is_signed<T>::value ? 5 : 9);
};
template <>
struct number_of<half> {
  static constexpr int32_t value = 10;
};

} // namespace detail

/* The type of a device for one of C++: equivalent_device_type<float>().value is FLOAT. */
template <class T>
struct equivalent_device_type {
  const Type value =
      detail::type_of_number(detail::number_of<T>::value == 12 ? 11 : detail::number_of<T>::value);
};

} // namespace poplar

namespace std {
template <>
struct hash<poplar::Type> {
  size_t operator()(const poplar::Type &type) const { return type.hash(); }
};
} // namespace std
