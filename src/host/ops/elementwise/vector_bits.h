/* Helpers of the parts of vector.c: floats as bits, NaNs, vectors of lanes. */
#ifndef TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_BITS_H_
#define TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_BITS_H_

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE double bits_double(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
INLINE uint64_t double_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
INLINE float bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
INLINE uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
INLINE float abs_f32(float x) { return bits_float(float_bits(x) & 0x7fffffffu); }
INLINE float sign_of(float magnitude, float sign) {
  return bits_float((float_bits(magnitude) & 0x7fffffffu) | (float_bits(sign) & 0x80000000u));
}

/* NaN if either is NaN; for equal operands (+0 and -0) the first. */
INLINE float max_nan(float x, float y) { return (x >= y) | (x != x) ? x : y; }
INLINE float min_nan(float x, float y) { return (x <= y) | (x != x) ? x : y; }

/* Vectors whose length does not depend on the instruction set. */
enum { LANES = 16 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

#define LOAD_LANES(v, a) memcpy(&v, (a), sizeof v)
#define STORE_LANES(a, v) memcpy((a), &v, sizeof v)

#endif /* TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_BITS_H_ */
