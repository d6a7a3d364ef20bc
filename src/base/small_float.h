/* Floats of 8 bits and fewer, exact in every case. Rounding is to nearest, ties to even.
 *
 * What is beyond the largest number becomes infinity where the type has one, otherwise NaN;
 * f4e2m1fn has neither and keeps the largest. The fnuz types have no negative zero, f8e8m0fnu has
 * powers of two only, to the larger of two equally near: nothing below 2^-127, no zero and no sign
 * (those become NaN). */
#ifndef TREMULA_BASE_SMALL_FLOAT_H_
#define TREMULA_BASE_SMALL_FLOAT_H_

#include <stdbool.h>
#include <stdint.h>

#include "tremula/tremula.h"

bool trm_dtype_is_small_float(trm_dtype dtype);
double trm_small_float_decode(trm_dtype dtype, uint8_t bits);
uint8_t trm_small_float_encode(trm_dtype dtype, double value);
/* Bits of the fraction and of the exponent: 3 and 4 for f8e4m3fn. */
int trm_small_float_mantissa_bits(trm_dtype dtype);
int trm_small_float_exponent_bits(trm_dtype dtype);

#endif /* TREMULA_BASE_SMALL_FLOAT_H_ */
