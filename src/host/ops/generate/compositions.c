/* Owns: what takes several nodes of a generator. The results have the bits of vector.c's loops. */
#include <math.h>
#include <string.h>

#include "host/ops/generate/generator.h"

#define NONE TRM_NO_NODE
#define GENERATE1(kind, a) trm_generate(g, NODE_##kind, (a), NONE, NONE, 0)
#define GENERATE2(kind, a, b) trm_generate(g, NODE_##kind, (a), (b), NONE, 0)
#define GENERATE3(kind, a, b, c) trm_generate(g, NODE_##kind, (a), (b), (c), 0)
#define COMPARED(predicate, a, b) trm_generate(g, NODE_COMPARE, (a), (b), NONE, (predicate))
#define WHOLE(how, a) trm_generate(g, NODE_TO_WHOLE, (a), NONE, NONE, (how))
#define NUMBER(word) trm_generate(g, NODE_CONSTANT, NONE, NONE, NONE, (uint32_t)(word))

enum { EQUALS = 0, UNORDERED = 3, IS_LESS = 17, IS_GREATER = 30 };

static bool is_invariant(const trm_generator *g, trm_node node) {
  return !g->failed && g->nodes.items[node].is_invariant;
}

/* By a number that is the same for all elements: by its reciprocal, and twice the remainder. The
 * first quotient is then faithful and the second correctly rounded (P. Markstein, Computation of
 * elementary functions on the IBM RISC System/6000 processor, 1990, theorem 7.2), if the remainders
 * are exact: for 2^-20 <= |y| < 2^20 and 2^-102 <= |x| < 2^100. Other lanes but +0 divide. The
 * divider of 8 lanes is as fast as that. */
trm_node trm_generate_divide(trm_generator *g, trm_node x, trm_node y) {
  if (!g->is_wide || !is_invariant(g, y) || is_invariant(g, x)) return GENERATE2(DIVIDE, x, y);
  enum { AT_LEAST_UNSIGNED = 5, IS_NOT = 4 };
  const uint32_t least = (127 - 102) << 23, end = (127 + 100) << 23;
  const uint32_t least_y = (127 - 20) << 23, end_y = (127 + 20) << 23;
  const trm_node size_y = GENERATE2(SUBTRACT_BITS, trm_generate_abs(g, y), NUMBER(least_y));
  const trm_node is_bad =
      trm_generate(g, NODE_COMPARE_U32, size_y, NUMBER(end_y - least_y), NONE, AT_LEAST_UNSIGNED);
  const trm_node range = GENERATE3(SELECT, is_bad, NUMBER(0), NUMBER(end - least));
  const trm_node zero = GENERATE3(SELECT, is_bad, NUMBER(0x7fffffff), NUMBER(0)); /* or a NaN */
  const trm_node r = GENERATE2(DIVIDE, trm_generate_constant(g, 1.0f), y);
  const trm_node minus_y = trm_generate_negate(g, y);
  const trm_node size = GENERATE2(SUBTRACT_BITS, trm_generate_abs(g, x), NUMBER(least));
  const trm_node is_out = trm_generate(g, NODE_COMPARE_U32, size, range, NONE, AT_LEAST_UNSIGNED);
  const trm_node is_no_zero = trm_generate(g, NODE_COMPARE_U32, x, zero, NONE, IS_NOT);
  const trm_node mask = GENERATE2(AND_MASK, is_out, is_no_zero);
  trm_node q = GENERATE2(MULTIPLY, x, r);
  for (int i = 0; i < 2; ++i) q = GENERATE3(FMA, GENERATE3(FMA, q, minus_y, x), r, q);
  return GENERATE3(SELECT, mask, GENERATE3(DIVIDE_WHERE, mask, x, y), q);
}

trm_node trm_generate_abs(trm_generator *g, trm_node x) {
  return GENERATE2(AND_BITS, x, NUMBER(0x7fffffff));
}
trm_node trm_generate_negate(trm_generator *g, trm_node x) {
  return GENERATE2(XOR_BITS, x, NUMBER(0x80000000u));
}

/* A constant that is no NaN, and no zero unless `zero` may be. */
static bool is_number(const trm_generator *g, trm_node node, bool zero) {
  if (g->failed || g->nodes.items[node].kind != NODE_CONSTANT) return false;
  const uint32_t magnitude = g->nodes.items[node].number & 0x7fffffffu;
  return magnitude <= 0x7f800000u && (zero || magnitude != 0);
}

/* `kind` gives its operand 0 where one is NaN, and where both are equal, as +0 and -0 are. */
static trm_node extreme(trm_generator *g, trm_node_kind kind, trm_node x, trm_node y) {
  if (is_number(g, x, false)) return trm_generate(g, kind, y, x, NONE, 0);
  const trm_node best = trm_generate(g, kind, x, y, NONE, 0);
  if (is_number(g, y, true)) return best;
  return GENERATE3(SELECT, COMPARED(UNORDERED, y, y), y, best);
}
trm_node trm_generate_maximum(trm_generator *g, trm_node x, trm_node y) {
  return extreme(g, NODE_LARGER, x, y);
}
trm_node trm_generate_minimum(trm_generator *g, trm_node x, trm_node y) {
  return extreme(g, NODE_SMALLER, x, y);
}
trm_node trm_generate_clamp(trm_generator *g, trm_node low, trm_node x, trm_node high) {
  return trm_generate_minimum(g, high, trm_generate_maximum(g, low, x));
}

trm_node trm_generate_sign(trm_generator *g, trm_node x) {
  const trm_node zero = trm_generate_constant(g, 0.0f);
  const trm_node below =
      GENERATE3(SELECT, COMPARED(IS_LESS, x, zero), trm_generate_constant(g, -1.0f), x);
  return GENERATE3(SELECT, COMPARED(IS_GREATER, x, zero), trm_generate_constant(g, 1.0f), below);
}
trm_node trm_generate_round(trm_generator *g, trm_node x) {
  const trm_node a = trm_generate_abs(g, x), near = WHOLE(8, a);
  const trm_node is_half =
      COMPARED(EQUALS, GENERATE2(SUBTRACT, a, near), trm_generate_constant(g, 0.5f));
  const trm_node up = GENERATE2(ADD, near, trm_generate_constant(g, 1.0f));
  return GENERATE2(COPY_SIGN, GENERATE3(SELECT, is_half, up, near), x);
}
trm_node trm_generate_rsqrt(trm_generator *g, trm_node x) {
  return GENERATE2(DIVIDE, trm_generate_constant(g, 1.0f), GENERATE1(SQRT, x));
}
trm_node trm_generate_is_finite(trm_generator *g, trm_node x) {
  return COMPARED(IS_LESS, trm_generate_abs(g, x), trm_generate_constant(g, INFINITY));
}

trm_node trm_generate_saturated(trm_generator *g, trm_node x) {
  const trm_node is_above = COMPARED(IS_GREATER, x, trm_generate_constant(g, 0x1.fffffep30f));
  const trm_node number =
      GENERATE3(SELECT, is_above, NUMBER(INT32_MAX), GENERATE1(FLOAT_TO_S32, x));
  return GENERATE3(SELECT, COMPARED(UNORDERED, x, x), NUMBER(0), number);
}

/* ---- The words of vector_math_single.inc.h -------------------------------------------------- */

/* 2^k in two factors without an instruction for it, as in vector_math.h: `place` holds k in its
 * last bits. */
static trm_node scale(trm_generator *g, trm_node y, trm_node k, trm_node place) {
  if (g->is_wide) return GENERATE2(SCALE, y, k);
  const uint32_t zero = UINT32_C(0x4b40007f), bias = 127; /* the bits of PLACE */
  const trm_node sum = GENERATE2(SUBTRACT_BITS, place, NUMBER(zero - 2 * bias));
  const trm_node half = trm_generate(g, NODE_SHIFT_RIGHT_SIGNED_BY, sum, NONE, NONE, 1);
  const trm_node rest = GENERATE2(SUBTRACT_BITS, sum, half);
  const trm_node power = trm_generate(g, NODE_SHIFT_LEFT_BY, half, NONE, NONE, 23);
  return GENERATE2(MULTIPLY, GENERATE2(MULTIPLY, y, power),
                   trm_generate(g, NODE_SHIFT_LEFT_BY, rest, NONE, NONE, 23));
}

#define FUNCTION static
#define GENERATOR trm_generator *g,
#define CALLED g,
#define VALUE trm_node
#define WORD trm_node
#define MASK trm_node
#define CONSTANT(x) trm_generate_constant(g, (x))
#define BITS(x) NUMBER(x)
#define FMA(a, b, c) GENERATE3(FMA, a, b, c)
#define ADD(x, y) GENERATE2(ADD, x, y)
#define SUBTRACT(x, y) GENERATE2(SUBTRACT, x, y)
#define MULTIPLY(x, y) GENERATE2(MULTIPLY, x, y)
#define DIVIDE(x, y) GENERATE2(DIVIDE, x, y)
#define NEGATE(x) trm_generate_negate(g, (x))
#define ABS(x) trm_generate_abs(g, (x))
#define COPY_SIGN(magnitude, sign) GENERATE2(COPY_SIGN, magnitude, sign)
#define LESS(x, y) COMPARED(IS_LESS, x, y)
#define EQUAL(x, y) COMPARED(EQUALS, x, y)
#define SELECT(mask, x, y) GENERATE3(SELECT, mask, x, y)
#define PICK(mask, x, y) GENERATE3(SELECT, mask, x, y)
#define AT_LEAST(x, low) GENERATE2(LARGER, x, low)
#define AT_MOST(x, high) GENERATE2(SMALLER, x, high)
#define SCALE(y, k, place) scale(g, y, k, place)
#define AS_BITS(x) (x)
#define AS_FLOAT(w) (w)
#define TO_FLOAT(w) GENERATE1(S32_TO_FLOAT, w)
#define ADD_BITS(v, w) GENERATE2(ADD_BITS, v, w)
#define SUBTRACT_BITS(v, w) GENERATE2(SUBTRACT_BITS, v, w)
#define AND_BITS(v, w) GENERATE2(AND_BITS, v, w)
#define LARGER_BITS(v, w) GENERATE2(LARGER_S32, v, w)
#define SHIFT_LEFT(w, n) trm_generate(g, NODE_SHIFT_LEFT_BY, (w), NONE, NONE, (n))
#define SHIFT_RIGHT(w, n) trm_generate(g, NODE_SHIFT_RIGHT_SIGNED_BY, (w), NONE, NONE, (n))

#include "host/ops/elementwise/vector_math_single.inc.h"

trm_node trm_generate_exp(trm_generator *g, trm_node x) { return exp_f32(g, x); }
trm_node trm_generate_expm1(trm_generator *g, trm_node x) { return expm1_f32(g, x); }
trm_node trm_generate_log(trm_generator *g, trm_node x) { return log_f32(g, x); }
trm_node trm_generate_log1p(trm_generator *g, trm_node x) { return log1p_f32(g, x); }
trm_node trm_generate_tanh(trm_generator *g, trm_node x) { return tanh_f32(g, x); }
trm_node trm_generate_logistic(trm_generator *g, trm_node x) { return logistic_f32(g, x); }
trm_node trm_generate_erf(trm_generator *g, trm_node x) { return erf_f32(g, x); }
