/* Short vectors: half2, half4, float2, float4, and those of integers.
 *
 * Class templates and not the compiler's vectors, because codelets assign `v = {a, b}`. Arithmetic
 * is by element; a comparison gives a vector of integers, -1 where it holds. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "poplar/HalfFloat.hpp"

namespace ipu {
namespace detail {

/* The integers of a comparison of elements of so many bytes. */
template <std::size_t bytes>
using mask = typename std::conditional<
    bytes == 1, int8_t,
    typename std::conditional<
        bytes == 2, int16_t,
        typename std::conditional<bytes == 4, int32_t, int64_t>::type>::type>::type;

template <class T, unsigned N>
struct alignas(sizeof(T) * N) vec {
  T at[N];

  T &operator[](std::size_t i) { return at[i]; }
  constexpr const T &operator[](std::size_t i) const { return at[i]; }

  /* Elements converted one by one. */
  template <class U>
  explicit operator vec<U, N>() const {
    return vec<U, N>::each([this](unsigned i) { return at[i]; });
  }

  /* A vector of one value, and of what a function of the place gives. */
  static vec all(T value) {
    return each([&](unsigned) { return value; });
  }
  template <class Function>
  static vec each(Function function) {
    vec result;
    for (unsigned i = 0; i < N; ++i) result.at[i] = static_cast<T>(function(i));
    return result;
  }

#define IPU_VECTOR_OPERATOR(OP)                                     \
  friend vec operator OP(const vec &a, const vec &b) {              \
    return each([&](unsigned i) { return a.at[i] OP b.at[i]; });    \
  }                                                                 \
  friend vec operator OP(const vec &a, T b) { return a OP all(b); } \
  friend vec operator OP(T a, const vec &b) { return all(a) OP b; } \
  vec &operator OP##=(const vec & b) { return *this = *this OP b; } \
  vec &operator OP##=(T b) { return *this = *this OP b; }
  IPU_VECTOR_OPERATOR(+)
  IPU_VECTOR_OPERATOR(-)
  IPU_VECTOR_OPERATOR(*)
  IPU_VECTOR_OPERATOR(/)
  /* Of integers. */
  IPU_VECTOR_OPERATOR(&)
  IPU_VECTOR_OPERATOR(|)
  IPU_VECTOR_OPERATOR(^)
  IPU_VECTOR_OPERATOR(<<)
  IPU_VECTOR_OPERATOR(>>)
  IPU_VECTOR_OPERATOR(%)
#undef IPU_VECTOR_OPERATOR
  vec operator~() const {
    return each([this](unsigned i) { return ~at[i]; });
  }
  vec operator-() const {
    return each([this](unsigned i) { return -at[i]; });
  }
#define IPU_VECTOR_COMPARISON(OP)                                                                  \
  friend vec<mask<sizeof(T)>, N> operator OP(const vec & a, const vec & b) {                       \
    return vec<mask<sizeof(T)>, N>::each([&](unsigned i) { return a.at[i] OP b.at[i] ? -1 : 0; }); \
  }                                                                                                \
  friend vec<mask<sizeof(T)>, N> operator OP(const vec & a, T b) { return a OP all(b); }
  IPU_VECTOR_COMPARISON(==)
  IPU_VECTOR_COMPARISON(!=)
  IPU_VECTOR_COMPARISON(<)
  IPU_VECTOR_COMPARISON(<=)
  IPU_VECTOR_COMPARISON(>)
  IPU_VECTOR_COMPARISON(>=)
#undef IPU_VECTOR_COMPARISON
};

} // namespace detail
} // namespace ipu

#define IPU_VECTORS(T, name)              \
  typedef ipu::detail::vec<T, 2> name##2; \
  typedef ipu::detail::vec<T, 4> name##4;
IPU_VECTORS(half, half)
IPU_VECTORS(float, float)
IPU_VECTORS(signed char, char)
IPU_VECTORS(unsigned char, uchar)
IPU_VECTORS(short, short)
IPU_VECTORS(unsigned short, ushort)
IPU_VECTORS(int, int)
IPU_VECTORS(unsigned, uint)
IPU_VECTORS(long long, long)
#undef IPU_VECTORS
