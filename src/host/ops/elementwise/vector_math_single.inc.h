/* The float32 functions that networks call often, written once for two uses: vector_math.h gives
 * the words below their meaning for numbers, so that the compiler vectorises loops of them; the
 * generator of machine code gives them their meaning for registers
 * (host/ops/generate/compositions.c).
 *
 * The polynomials come from a minimax fit of what they compute, lowest coefficients rounded first.
 * Fused multiply-adds stand here and nowhere else: all instruction sets give the same bits.
 *
 *   VALUE, WORD, MASK     the types of a float32, its 32 bits, a condition
 *   FUNCTION, GENERATOR   what comes before a function, and first in its parameters
 *   CALLED                what comes first in the arguments of a call
 *   FMA(a, b, c)          a b + c, rounded once
 *   AT_LEAST, AT_MOST     of x and a limit; NaN stays NaN
 *   SELECT(m, x, y)       x where m holds, else y; PICK says to compute both
 *   SCALE(y, k, place)    y 2^k rounded once, for normal y and -150 <= k <= 150 */

/* The high part has 15 bits: its products with exponents are exact. */
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f

/* An integer k that is added to it stands in the last bits, as the exponent of 2^k does. */
#define PLACE (0x1.8p23f + 127)

/* 2^k from k + PLACE, for -126 <= k <= 127. */
FUNCTION VALUE power_of_two(GENERATOR VALUE place) {
  return AS_FLOAT(SHIFT_LEFT(AS_BITS(place), 23));
}

/* exp(x) = 2^*k (1 + result), for -150 ln 2 <= x <= 150 ln 2; *place is *k + PLACE. */
FUNCTION VALUE exp_reduced(GENERATOR VALUE x, VALUE *k, VALUE *place) {
  *place = FMA(x, CONSTANT(0x1.715476p+0f), CONSTANT(PLACE));
  *k = SUBTRACT(*place, CONSTANT(PLACE));
  const VALUE r = FMA(*k, CONSTANT(-LN2_LOW), FMA(*k, CONSTANT(-LN2_HIGH), x));
  const VALUE square = MULTIPLY(r, r);
  const VALUE high = FMA(CONSTANT(0x1.6d7c9ep-10f), r, CONSTANT(0x1.123afep-7f));
  const VALUE low = FMA(CONSTANT(0x1.5554bep-5f), r, CONSTANT(0x1.555490p-3f));
  const VALUE p = FMA(FMA(high, square, low), r, CONSTANT(0.5f));
  return FMA(p, square, r);
}
FUNCTION VALUE exp_limited(GENERATOR VALUE x) {
  VALUE k, place;
  const VALUE y = ADD(CONSTANT(1.0f), exp_reduced(CALLED x, &k, &place));
  return SCALE(y, k, place);
}
FUNCTION VALUE exp_f32(GENERATOR VALUE x) {
  return exp_limited(CALLED AT_MOST(AT_LEAST(x, CONSTANT(-104.0f)), CONSTANT(89.0f)));
}
FUNCTION VALUE expm1_f32(GENERATOR VALUE x) {
  VALUE k, place;
  const VALUE near = AT_MOST(AT_LEAST(x, CONSTANT(-20.0f)), CONSTANT(89.0f));
  const VALUE p = exp_reduced(CALLED near, &k, &place);
  /* Half of 2^k, which does not overflow. */
  const VALUE s = power_of_two(CALLED SUBTRACT(place, CONSTANT(1.0f)));
  const VALUE r = MULTIPLY(FMA(s, p, SUBTRACT(s, CONSTANT(0.5f))), CONSTANT(2.0f));
  return SELECT(LESS(ABS(x), CONSTANT(0x1p-25f)), x, r);
}
/* By exp(-2 |x|) - 1. */
FUNCTION VALUE tanh_f32(GENERATOR VALUE x) {
  VALUE k, place;
  const VALUE twice = MULTIPLY(CONSTANT(-2.0f), ABS(x));
  const VALUE p = exp_reduced(CALLED AT_LEAST(twice, CONSTANT(-20.0f)), &k, &place);
  const VALUE s = power_of_two(CALLED place);
  const VALUE t = FMA(s, p, SUBTRACT(s, CONSTANT(1.0f)));
  return COPY_SIGN(DIVIDE(t, ADD(t, CONSTANT(2.0f))), x);
}
FUNCTION VALUE logistic_f32(GENERATOR VALUE x) {
  const VALUE e = exp_limited(CALLED AT_LEAST(NEGATE(ABS(x)), CONSTANT(-104.0f)));
  const VALUE top = SELECT(LESS(x, CONSTANT(0.0f)), e, CONSTANT(1.0f));
  return DIVIDE(top, ADD(CONSTANT(1.0f), e));
}

/* log(1 + f) + k ln 2, for 1 + f from sqrt(1/2) to sqrt(2). */
FUNCTION VALUE log_reduced(GENERATOR VALUE f, VALUE k) {
  const VALUE z = MULTIPLY(f, f);
  VALUE p = FMA(CONSTANT(-0x1.425120p-4f), f, CONSTANT(0x1.08239ap-3f));
  p = FMA(p, f, CONSTANT(-0x1.0cf472p-3f));
  p = FMA(p, f, CONSTANT(0x1.226498p-3f));
  p = FMA(p, f, CONSTANT(-0x1.5475b2p-3f));
  p = FMA(p, f, CONSTANT(0x1.99a5e2p-3f));
  p = FMA(p, f, CONSTANT(-0x1.00022ap-2f));
  p = FMA(p, f, CONSTANT(0x1.55554ap-2f));
  const VALUE low = FMA(p, MULTIPLY(f, z), MULTIPLY(k, CONSTANT(LN2_LOW)));
  const VALUE rest = FMA(z, CONSTANT(-0.5f), low);
  return FMA(k, CONSTANT(LN2_HIGH), ADD(f, rest));
}
/* x = 2^(result) m, for a positive, finite, normal x. */
FUNCTION WORD split_exponent(GENERATOR VALUE x, VALUE *m) {
  const WORD bits = SUBTRACT_BITS(AS_BITS(x), BITS(0x3f3504f3));
  *m = AS_FLOAT(ADD_BITS(AND_BITS(bits, BITS(0x007fffff)), BITS(0x3f3504f3)));
  return SHIFT_RIGHT(bits, 23);
}
FUNCTION VALUE log_f32(GENERATOR VALUE x) {
  const MASK denormal = LESS(x, CONSTANT(0x1p-126f));
  VALUE m;
  const VALUE normal = SELECT(denormal, MULTIPLY(x, CONSTANT(0x1p23f)), x);
  const VALUE k = TO_FLOAT(split_exponent(CALLED normal, &m));
  const VALUE exponent = SELECT(denormal, SUBTRACT(k, CONSTANT(23.0f)), k);
  const VALUE r = log_reduced(CALLED SUBTRACT(m, CONSTANT(1.0f)), exponent);
  const VALUE zero = SELECT(EQUAL(x, CONSTANT(0.0f)), CONSTANT(-INFINITY), r);
  const VALUE end = SELECT(LESS(x, CONSTANT(INFINITY)), zero, x);
  return SELECT(LESS(x, CONSTANT(0.0f)), CONSTANT(NAN), end);
}
FUNCTION VALUE log1p_f32(GENERATOR VALUE x) {
  const VALUE one = CONSTANT(1.0f), u = ADD(one, x);
  const VALUE lost = SELECT(LESS(x, one), SUBTRACT(x, SUBTRACT(u, one)), //
                            SUBTRACT(one, SUBTRACT(u, x)));
  VALUE m;
  const WORD k = split_exponent(CALLED u, &m);
  const WORD down = LARGER_BITS(SUBTRACT_BITS(BITS(0), k), BITS(-100));
  const VALUE scale_down = AS_FLOAT(SHIFT_LEFT(ADD_BITS(down, BITS(127)), 23));
  const VALUE f = FMA(lost, scale_down, SUBTRACT(m, one));
  const VALUE r = log_reduced(CALLED f, TO_FLOAT(k));
  const VALUE pole = SELECT(EQUAL(x, CONSTANT(-1.0f)), CONSTANT(-INFINITY), r);
  const VALUE end = SELECT(LESS(x, CONSTANT(INFINITY)), pole, x);
  const VALUE value = SELECT(EQUAL(x, CONSTANT(0.0f)), x, end);
  return SELECT(LESS(x, CONSTANT(-1.0f)), CONSTANT(NAN), value);
}

/* Below 1 a polynomial of the square; from there to 4 by one that is log(erfc). */
FUNCTION VALUE erf_f32(GENERATOR VALUE x) {
  const VALUE a = AT_MOST(ABS(x), CONSTANT(4.0f));
  const MASK near = LESS(a, CONSTANT(1.0f));
  const VALUE t = PICK(near, MULTIPLY(a, a), a);
#define STEP(yes, no) p = FMA(p, t, PICK(near, CONSTANT(yes), CONSTANT(no)))
  VALUE p = PICK(near, CONSTANT(0x1.4771fcp-14f), CONSTANT(0x1.86df46p-13f));
  STEP(-0x1.a3515ep-11f, -0x1.825be2p-9f);
  STEP(0x1.53f224p-8f, 0x1.65cbdep-6f);
  STEP(-0x1.b7f71ap-6f, -0x1.a65372p-4f);
  STEP(0x1.ce2ce6p-4f, -0x1.46bae6p-1f);
  STEP(-0x1.81273ep-2f, -0x1.2088ecp+0f);
  STEP(0x1.06eba8p-3f, -0x1.661a16p-12f);
#undef STEP
  VALUE k, place;
  const VALUE e = exp_reduced(CALLED p, &k, &place);
  const VALUE s = power_of_two(CALLED place);
  const VALUE far = SUBTRACT(CONSTANT(1.0f), FMA(s, e, s));
  return COPY_SIGN(PICK(near, FMA(a, p, a), far), x);
}

#undef FUNCTION
#undef GENERATOR
#undef CALLED
#undef VALUE
#undef WORD
#undef MASK
#undef CONSTANT
#undef BITS
#undef FMA
#undef ADD
#undef SUBTRACT
#undef MULTIPLY
#undef DIVIDE
#undef NEGATE
#undef ABS
#undef COPY_SIGN
#undef LESS
#undef EQUAL
#undef SELECT
#undef PICK
#undef AT_LEAST
#undef AT_MOST
#undef SCALE
#undef AS_BITS
#undef AS_FLOAT
#undef TO_FLOAT
#undef ADD_BITS
#undef SUBTRACT_BITS
#undef AND_BITS
#undef LARGER_BITS
#undef SHIFT_LEFT
#undef SHIFT_RIGHT
#undef PLACE
#undef LN2_HIGH
#undef LN2_LOW
