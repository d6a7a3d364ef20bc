/* Owns: made-up values of arrays, so that a program can be timed without its data. */
#include <math.h>
#include <string.h>

#include "tool.h"

/* SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). */
static uint64_t next_bits(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* A number from 0 to below 1. */
static double next_uniform(uint64_t *state) { return (double)(next_bits(state) >> 11) * 0x1p-53; }

/* A number of the normal distribution (Box and Muller). */
static double next_normal(uint64_t *state) {
  const double radius = sqrt(-2 * log(1 - next_uniform(state)));
  return radius * cos(6.283185307179586 * next_uniform(state));
}

/* Rounds a number within float16's range to float16; numbers below the normal ones become 0. */
static uint16_t half_bits(double value) {
  int exponent;
  const double mantissa = frexp(fabs(value), &exponent); /* 0.5 to below 1 */
  const uint16_t sign = value < 0 ? 0x8000 : 0;
  if (exponent < -13) return sign; /* below the normal numbers */
  /* A mantissa that rounds up to 1 carries into the exponent, which is right. */
  const int bits = ((exponent + 13) << 10) + (int)rint(mantissa * 2048);
  return (uint16_t)(sign | bits);
}

static uint16_t bfloat16_bits(double value) {
  const float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  return (uint16_t)((bits + 0x8000u) >> 16);
}

/* The bits of the number 1 in a type of 4 or 8 bits; 0: another type. */
static int small_one(trm_dtype dtype) {
  switch (dtype) {
    case TRM_F8E5M2: return 0x3c;
    case TRM_F8E4M3FN:
    case TRM_F8E4M3: return 0x38;
    case TRM_F8E4M3B11FNUZ: return 0x58;
    case TRM_F8E5M2FNUZ:
    case TRM_F8E4M3FNUZ: return 0x40;
    case TRM_F8E3M4: return 0x30;
    case TRM_F4E2M1FN: return 0x2;
    case TRM_F8E8M0FNU: return 0x7f;
    default: return 0;
  }
}

/* The number 1 or one of its neighbours, of either sign. */
static uint8_t small_bits(trm_dtype dtype, uint64_t *state) {
  const uint64_t bits = next_bits(state);
  const int near = small_one(dtype) + (int)(bits % 3) - 1;
  const int sign = dtype == TRM_F4E2M1FN ? 0x8 : dtype == TRM_F8E8M0FNU ? 0 : 0x80;
  return (uint8_t)(near | (bits >> 32 & 1 ? sign : 0));
}

enum { SMALL_INTEGERS = 8 };

/* The integers are below this: `bound`, if it is not 0, and the limit of the type. */
static uint64_t integer_limit(trm_dtype dtype, int64_t bound) {
  uint64_t limit = bound > 0 ? (uint64_t)bound : SMALL_INTEGERS, most = UINT64_MAX;
  switch (dtype) {
    case TRM_S1: most = 1; break;
    case TRM_U1:
    case TRM_S2:
    case TRM_PRED: most = 2; break;
    case TRM_U2: most = 4; break;
    case TRM_S4: most = 8; break;
    case TRM_U4: most = 16; break;
    case TRM_S8: most = 128; break;
    case TRM_U8: most = 256; break;
    case TRM_S16: most = 1 << 15; break;
    case TRM_U16: most = 1 << 16; break;
    case TRM_S32: most = (uint64_t)1 << 31; break;
    default: break;
  }
  return limit < most ? limit : most;
}

/* The number of different elements: a larger array repeats them. */
enum { MOST_DIFFERENT = 1 << 20 };

void make_up(npy_array *array, int64_t bound, uint64_t *state) {
  int64_t count = 1;
  for (int32_t d = 0; d < array->rank; ++d) count *= array->dims[d];
  const size_t size = count > 0 ? array->bytes / (size_t)count : 0;
  const uint64_t limit = integer_limit(array->dtype, bound);
  const int64_t different = count < MOST_DIFFERENT ? count : MOST_DIFFERENT;
  for (int64_t i = 0; i < different; ++i) {
    char *at = (char *)array->data + (size_t)i * size;
    switch (array->dtype) {
      case TRM_F16: memcpy(at, &(uint16_t){half_bits(next_normal(state))}, size); break;
      case TRM_BF16: memcpy(at, &(uint16_t){bfloat16_bits(next_normal(state))}, size); break;
      case TRM_F32: memcpy(at, &(float){(float)next_normal(state)}, size); break;
      case TRM_F64: memcpy(at, &(double){next_normal(state)}, size); break;
      case TRM_C64:
        memcpy(at, (float[2]){(float)next_normal(state), (float)next_normal(state)}, size);
        break;
      case TRM_C128: memcpy(at, (double[2]){next_normal(state), next_normal(state)}, size); break;
      default:
        if (small_one(array->dtype) != 0) {
          *(uint8_t *)at = small_bits(array->dtype, state);
        } else { /* an integer, little-endian */
          memcpy(at, &(uint64_t){next_bits(state) % limit}, size);
        }
    }
  }
  const size_t block = (size_t)different * size;
  for (size_t done = block; done < array->bytes; done += block) {
    const size_t rest = array->bytes - done;
    memcpy((char *)array->data + done, array->data, rest < block ? rest : block);
  }
}
