/* `half`: the compiler's _Float16 where it has one, else a class of two bytes that computes in
 * float and rounds each result to even. Both are named half and poplar::half. */
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__FLT16_MANT_DIG__)
typedef _Float16 half;
#else
#define TREMULA_POPLAR_HALF_IS_CLASS 1
namespace poplar {

class HalfFloat {
 public:
  HalfFloat() = default;
  template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  HalfFloat(T value) : bits_(narrow(static_cast<float>(value))) {}

  operator float() const { return widen(bits_); }

/* One form for each pair of types: with fewer, calls would be ambiguous. */
#define TREMULA_HALF_FORMS(OP, NARROW, SINGLE, DOUBLE)                                     \
  friend NARROW operator OP(HalfFloat a, HalfFloat b) {                                    \
    return NARROW(static_cast<float>(a) OP static_cast<float>(b));                         \
  }                                                                                        \
  friend SINGLE operator OP(HalfFloat a, float b) { return static_cast<float>(a) OP b; }   \
  friend SINGLE operator OP(float a, HalfFloat b) { return a OP static_cast<float>(b); }   \
  friend DOUBLE operator OP(HalfFloat a, double b) { return static_cast<double>(a) OP b; } \
  friend DOUBLE operator OP(double a, HalfFloat b) { return a OP static_cast<double>(b); } \
  template <class T, class = typename std::enable_if<std::is_integral<T>::value>::type>    \
  friend NARROW operator OP(HalfFloat a, T b) {                                            \
    return a OP HalfFloat(b);                                                              \
  }                                                                                        \
  template <class T, class = typename std::enable_if<std::is_integral<T>::value>::type>    \
  friend NARROW operator OP(T a, HalfFloat b) {                                            \
    return HalfFloat(a) OP b;                                                              \
  }
#define TREMULA_HALF_OPERATOR(OP)                                                     \
  TREMULA_HALF_FORMS(OP, HalfFloat, float, double)                                    \
  template <class T>                                                                  \
  HalfFloat &operator OP##=(const T & other) {                                        \
    return *this = HalfFloat(static_cast<float>(*this) OP static_cast<float>(other)); \
  }
  TREMULA_HALF_OPERATOR(+)
  TREMULA_HALF_OPERATOR(-)
  TREMULA_HALF_OPERATOR(*)
  TREMULA_HALF_OPERATOR(/)
  TREMULA_HALF_FORMS(==, bool, bool, bool)
  TREMULA_HALF_FORMS(!=, bool, bool, bool)
  TREMULA_HALF_FORMS(<, bool, bool, bool)
  TREMULA_HALF_FORMS(<=, bool, bool, bool)
  TREMULA_HALF_FORMS(>, bool, bool, bool)
  TREMULA_HALF_FORMS(>=, bool, bool, bool)
#undef TREMULA_HALF_OPERATOR
#undef TREMULA_HALF_FORMS
  HalfFloat operator-() const { return from_bits(static_cast<uint16_t>(bits_ ^ 0x8000u)); }
  HalfFloat operator+() const { return *this; }
  HalfFloat &operator++() { return *this += 1.0f; }
  HalfFloat &operator--() { return *this -= 1.0f; }

  static HalfFloat from_bits(uint16_t bits) {
    HalfFloat result;
    result.bits_ = bits;
    return result;
  }

 private:
  static float of_word(uint32_t word) {
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
  static uint32_t word_of(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return word;
  }
  static float widen(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return of_word(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    /* The exponent is moved by a product, which is exact and normalises subnormal numbers. */
    const float size = of_word(rest << 13) * of_word(0x77800000u);
    return of_word(sign | word_of(size));
  }
  static uint16_t narrow(float value) {
    const uint32_t word = word_of(value), sign = word >> 16 & 0x8000u, size = word & 0x7fffffffu;
    uint32_t result;
    if (size > 0x7f800000u) {
      result = 0x7e00u | (size >> 13 & 0x3ffu);
    } else if (size >= 0x477ff000u) { /* 65520, from which on numbers round to infinity */
      result = 0x7c00u;
    } else if (size < 0x38800000u) { /* below 2^-14: the addition of 0.5 rounds to 2^-24 */
      result = word_of(of_word(size) + 0.5f) - 0x3f000000u;
    } else {
      result = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
    }
    return static_cast<uint16_t>(sign | result);
  }

  uint16_t bits_;
};

} // namespace poplar
typedef poplar::HalfFloat half;
#endif

namespace poplar {
using ::half;
}

/* C++23's library knows _Float16 itself. */
#if !defined(__STDCPP_FLOAT16_T__)
namespace std {
template <>
class numeric_limits<half> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false,
                        is_exact = false, has_infinity = true, has_quiet_NaN = true,
                        has_signaling_NaN = true, is_iec559 = true, is_bounded = true,
                        is_modulo = false, traps = false;
  static constexpr int digits = 11, digits10 = 3, max_digits10 = 5, radix = 2, min_exponent = -13,
                       min_exponent10 = -4, max_exponent = 16, max_exponent10 = 4;
#if defined(TREMULA_POPLAR_HALF_IS_CLASS)
#define TREMULA_HALF_VALUE(NAME, VALUE) \
  static half NAME() noexcept { return half(VALUE); }
#else
#define TREMULA_HALF_VALUE(NAME, VALUE) \
  static constexpr half NAME() noexcept { return static_cast<half>(VALUE); }
#endif
  TREMULA_HALF_VALUE(min, 6.103515625e-05f)
  TREMULA_HALF_VALUE(max, 65504.0f)
  TREMULA_HALF_VALUE(lowest, -65504.0f)
  TREMULA_HALF_VALUE(epsilon, 0.0009765625f)
  TREMULA_HALF_VALUE(round_error, 0.5f)
  TREMULA_HALF_VALUE(denorm_min, 5.960464477539063e-08f)
  TREMULA_HALF_VALUE(infinity, __builtin_inff())
  TREMULA_HALF_VALUE(quiet_NaN, __builtin_nanf(""))
  TREMULA_HALF_VALUE(signaling_NaN, __builtin_nanf(""))
#undef TREMULA_HALF_VALUE
};

/* <cmath> has no overloads for _Float16 before C++23: without these a call is ambiguous. */
#define TREMULA_HALF_UNARY(NAME) \
  inline half NAME(half x) { return static_cast<half>(std::NAME(static_cast<float>(x))); }
#define TREMULA_HALF_BINARY(NAME)                                                      \
  inline half NAME(half x, half y) {                                                   \
    return static_cast<half>(std::NAME(static_cast<float>(x), static_cast<float>(y))); \
  }
TREMULA_HALF_UNARY(abs)
TREMULA_HALF_UNARY(fabs)
TREMULA_HALF_UNARY(exp)
TREMULA_HALF_UNARY(log)
TREMULA_HALF_UNARY(sqrt)
TREMULA_HALF_UNARY(tanh)
TREMULA_HALF_UNARY(sin)
TREMULA_HALF_UNARY(cos)
TREMULA_HALF_UNARY(floor)
TREMULA_HALF_UNARY(ceil)
TREMULA_HALF_UNARY(round)
TREMULA_HALF_UNARY(trunc)
TREMULA_HALF_BINARY(pow)
TREMULA_HALF_BINARY(fmax)
TREMULA_HALF_BINARY(fmin)
TREMULA_HALF_BINARY(fmod)
#undef TREMULA_HALF_UNARY
#undef TREMULA_HALF_BINARY
inline bool isnan(half x) { return std::isnan(static_cast<float>(x)); }
inline bool isinf(half x) { return std::isinf(static_cast<float>(x)); }
inline bool isfinite(half x) { return std::isfinite(static_cast<float>(x)); }
} // namespace std
#endif
