/* The part of vector.c that merges steps: two operations in one pass, scalar operands,
 * polynomials. */
#ifndef TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_PAIRS_H_
#define TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_PAIRS_H_

#include "host/ops/elementwise/vector.h"
#include "host/ops/elementwise/vector_bits.h"
#include "host/ops/elementwise/vector_loops.h"

static void polynomial(SIGNATURE) {
  float *const o = out;
  const trm_polynomial *const polynomial = c;
  const bool starts = polynomial->starts;
  const float start = polynomial->start;
  const float *const p = a, *const q = b, *const k = polynomial->coefficients;
  const uint32_t count = polynomial->count;
  const lanes none = {0};
  size_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES) {
    lanes t0, t1, t2, t3, z0, z1, z2, z3;
    t0 = t1 = t2 = t3 = none + start;
    if (!starts) {
      LOAD_LANES(t0, p + i);
      LOAD_LANES(t1, p + i + LANES);
      LOAD_LANES(t2, p + i + 2 * LANES);
      LOAD_LANES(t3, p + i + 3 * LANES);
    }
    LOAD_LANES(z0, q + i);
    LOAD_LANES(z1, q + i + LANES);
    LOAD_LANES(z2, q + i + 2 * LANES);
    LOAD_LANES(z3, q + i + 3 * LANES);
    for (uint32_t j = 0; j < count; ++j) {
      t0 = t0 * z0 + k[j];
      t1 = t1 * z1 + k[j];
      t2 = t2 * z2 + k[j];
      t3 = t3 * z3 + k[j];
    }
    STORE_LANES(o + i, t0);
    STORE_LANES(o + i + LANES, t1);
    STORE_LANES(o + i + 2 * LANES, t2);
    STORE_LANES(o + i + 3 * LANES, t3);
  }
  for (; i < n; ++i) {
    float t = starts ? start : p[i];
    for (uint32_t j = 0; j < count; ++j) t = t * q[i] + k[j];
    o[i] = t;
  }
}

/* x FIRST y, then SECOND with z. The maximum distinguishes which operand came first. */
#define PAIRS(name, t)                                 \
  LOOP3(name##_add, float, float, (t) + z)             \
  LOOP3(name##_subtract, float, float, (t) - z)        \
  LOOP3(name##_subtract_from, float, float, z - (t))   \
  LOOP3(name##_multiply, float, float, (t) * z)        \
  LOOP3(name##_maximum, float, float, max_nan((t), z)) \
  LOOP3(name##_maximum_of, float, float, max_nan(z, (t)))
PAIRS(pair_add, x + y)
PAIRS(pair_subtract, x - y)
PAIRS(pair_multiply, x *y)

/* The same with scalar operands. OF_ARRAY and OF_SCALAR read the elements of x, y and z. */
#define OF_ARRAY(p, first) (p)[i]
#define OF_SCALAR(p, first) (first)
#define SCALAR_LOOP(name, X, Y, Z, expression)              \
  static void name(SIGNATURE) {                             \
    float *const o = out;                                   \
    const float *const p = a, *const q = b, *const s = c;   \
    const float x0 = p[0], y0 = q[0], z0 = s[0];            \
    UNUSED(x0), UNUSED(y0), UNUSED(z0);                     \
    IVDEP for (size_t i = 0; i < n; ++i) {                  \
      const float x = X(p, x0), y = Y(q, y0), z = Z(s, z0); \
      UNUSED(z);                                            \
      o[i] = (expression);                                  \
    }                                                       \
  }
#define SCALAR_PAIRS(name, Y, Z, t)                            \
  SCALAR_LOOP(name##_add, OF_ARRAY, Y, Z, (t) + z)             \
  SCALAR_LOOP(name##_subtract, OF_ARRAY, Y, Z, (t) - z)        \
  SCALAR_LOOP(name##_subtract_from, OF_ARRAY, Y, Z, z - (t))   \
  SCALAR_LOOP(name##_multiply, OF_ARRAY, Y, Z, (t) * z)        \
  SCALAR_LOOP(name##_maximum, OF_ARRAY, Y, Z, max_nan((t), z)) \
  SCALAR_LOOP(name##_maximum_of, OF_ARRAY, Y, Z, max_nan(z, (t)))
#define ALL_SCALAR_PAIRS(name, t)                \
  SCALAR_PAIRS(name##_b, OF_SCALAR, OF_ARRAY, t) \
  SCALAR_PAIRS(name##_c, OF_ARRAY, OF_SCALAR, t) \
  SCALAR_PAIRS(name##_bc, OF_SCALAR, OF_SCALAR, t)
ALL_SCALAR_PAIRS(pair_add, x + y)
ALL_SCALAR_PAIRS(pair_subtract, x - y)
ALL_SCALAR_PAIRS(pair_multiply, x *y)
#define SCALAR_SINGLES(name, X, Y)                            \
  SCALAR_LOOP(add_##name, X, Y, OF_SCALAR, x + y)             \
  SCALAR_LOOP(subtract_##name, X, Y, OF_SCALAR, x - y)        \
  SCALAR_LOOP(multiply_##name, X, Y, OF_SCALAR, x *y)         \
  SCALAR_LOOP(divide_##name, X, Y, OF_SCALAR, x / y)          \
  SCALAR_LOOP(maximum_##name, X, Y, OF_SCALAR, max_nan(x, y)) \
  SCALAR_LOOP(minimum_##name, X, Y, OF_SCALAR, min_nan(x, y))
SCALAR_SINGLES(a, OF_SCALAR, OF_ARRAY)
SCALAR_SINGLES(b, OF_ARRAY, OF_SCALAR)
SCALAR_LOOP(clamp_ac, OF_SCALAR, OF_ARRAY, OF_SCALAR, min_nan(z, max_nan(x, y)))
#define SINGLE_ENTRIES(name)                                                 \
  {[TRM_OP_ADD] = add_##name,           [TRM_OP_SUBTRACT] = subtract_##name, \
   [TRM_OP_MULTIPLY] = multiply_##name, [TRM_OP_DIVIDE] = divide_##name,     \
   [TRM_OP_MAXIMUM] = maximum_##name,   [TRM_OP_MINIMUM] = minimum_##name}
#define PAIR_ENTRIES(name)                            \
  {[TRM_SECOND_ADD] = name##_add,                     \
   [TRM_SECOND_SUBTRACT] = name##_subtract,           \
   [TRM_SECOND_SUBTRACT_FROM] = name##_subtract_from, \
   [TRM_SECOND_MULTIPLY] = name##_multiply,           \
   [TRM_SECOND_MAXIMUM] = name##_maximum,             \
   [TRM_SECOND_MAXIMUM_OF] = name##_maximum_of}

#define SCALAR_ENTRIES(name)                                  \
  {[TRM_FIRST_ADD] = PAIR_ENTRIES(pair_add_##name),           \
   [TRM_FIRST_SUBTRACT] = PAIR_ENTRIES(pair_subtract_##name), \
   [TRM_FIRST_MULTIPLY] = PAIR_ENTRIES(pair_multiply_##name)}

#endif /* TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_PAIRS_H_ */
