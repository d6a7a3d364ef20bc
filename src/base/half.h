/* Half floats in plain C, exact in every case: the reference. Fast kernels use the CPU's own
 * conversions, which give the same bits. Rounding is to nearest, ties to even; NaNs stay NaNs. */
#ifndef TREMULA_BASE_HALF_H_
#define TREMULA_BASE_HALF_H_

#include <stdint.h>
#include <string.h>

static inline float trm_half_to_float(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  uint32_t bits;
  if (magnitude >= 0x7c00u) {
    bits = sign | 0x7f800000u | (magnitude & 0x3ffu) << 13;
    if (magnitude > 0x7c00u) bits |= 0x00400000u; /* quiet, as the CPU's conversion */
  } else if (magnitude >= 0x0400u) {
    bits = sign | ((magnitude << 13) + 0x38000000u);
  } else {
    const float value = (float)magnitude * 0x1p-24f;
    memcpy(&bits, &value, sizeof bits);
    bits |= sign;
  }
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint16_t trm_float_to_half(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds to infinity */
  if (magnitude < 0x38800000u) {                                   /* subnormal or zero */
    float scaled, shifted;
    memcpy(&scaled, &magnitude, sizeof scaled);
    shifted = scaled + 0.5f; /* units of 2^-24 in the last places, rounded by the addition */
    uint32_t low;
    memcpy(&low, &shifted, sizeof low);
    return (uint16_t)(sign | (low - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

static inline float trm_bfloat16_to_float(uint16_t value) {
  const uint32_t bits = (uint32_t)value << 16;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

static inline uint16_t trm_float_to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif /* TREMULA_BASE_HALF_H_ */
