/* How products of halves and bfloat16s are computed: which arithmetic, and halves cut into pieces.
 *
 * A half h is exactly hi + lo of two bfloat16s: hi is h rounded to nearest, and |lo| < 2^-8 |h|. So
 *     a b = a_hi b_hi + a_lo b_hi + a_hi b_lo + a_lo b_lo
 * and the last term is less than 2^-16 |a b|. A product of matrices of halves is one product of
 * bfloat16 matrices with float sums, whose summed dimension is three or four times as long:
 * [a_hi a_lo a_hi (a_lo)] . [b_hi b_hi b_lo (b_lo)]. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_HALF_PRODUCTS_H_
#define TREMULA_HOST_OPS_PRODUCTS_HALF_PRODUCTS_H_

#include <stddef.h>

#include "hlo/hlo.h"

/* What the CPU multiplies fast. */
typedef struct trm_half_units {
  bool amx_bfloat16;    /* tiles: 16 times as many products as of floats */
  bool avx512_bfloat16; /* twice as many */
  bool avx512;          /* oneDNN multiplies bfloat16s, slowly */
} trm_half_units;

/* A product of matrices, or a convolution as one: `inner` products are summed into each of
 * rows x columns results. */
typedef struct trm_half_problem {
  trm_dtype lhs, rhs, result;
  int64_t rows, columns, inner;
  bool by_tiles; /* half_tiles.h serves it */
} trm_half_problem;

/* This CPU's, as far as oneDNN may use them (ONEDNN_MAX_CPU_ISA). */
trm_half_units trm_half_units_here(void);

/* Pure. `wanted` is the option; never TRM_HALF_PRODUCTS_AUTO in the result. */
trm_half_products trm_half_products_choose(trm_half_units units, trm_half_products wanted,
                                           const trm_half_problem *problem);

/* How many bfloat16s stand for a number: 0 where it becomes a float. */
int32_t trm_half_products_pieces(trm_half_products products);
/* For names of kernels: "", ".pieces3", ".pieces4" or ".bfloat16". */
const char *trm_half_products_suffix(trm_half_products products);

#define TRM_HALF_SPLIT_RANK TRM_MAX_RANK
/* From a strided array to a dense one of bfloat16s. The last dimension has stride 1 in `to`; piece
 * p of a number lies p * piece_stride after the first. Strides in elements, those of `from` may be
 * negative (from_start is where index 0 is). */
typedef struct trm_half_split {
  trm_dtype dtype; /* of `from`: TRM_F16, or TRM_BF16 with one piece */
  int32_t pieces;
  bool is_right; /* the pieces of the right factor */
  int32_t rank;
  int64_t dims[TRM_HALF_SPLIT_RANK], from_strides[TRM_HALF_SPLIT_RANK],
      to_strides[TRM_HALF_SPLIT_RANK];
  int64_t from_start, piece_stride;
} trm_half_split;

/* Appends a dimension. */
void trm_half_split_push(trm_half_split *split, int64_t size, int64_t from_stride,
                         int64_t to_stride);
/* bfloat16s written. */
int64_t trm_half_split_count(const trm_half_split *split);
/* `data` is a trm_half_split; a step of a oneDNN program, so `b` is not read. An infinity or NaN
 * has zeros in all pieces but the first, so that the sum is what IEEE 754 says. */
void trm_half_split_run(const void *data, const void *from, const void *b, void *to);

#endif /* TREMULA_HOST_OPS_PRODUCTS_HALF_PRODUCTS_H_ */
