/* Products of matrices, where oneDNN's sgemm spends much of its time on packing: with AVX2 of
 * floats, with few rows or short sums; with AVX-512 of floats or halves, with a right side that
 * stays in a cache. The right side is packed in panels of some columns, in each run or once for
 * many runs, or read where it is.
 *
 * Each sum is a chain of fused multiply-adds in the order of the contracted dimension. So neither
 * panels nor tiles nor threads change a bit, and packed weights give what plain ones give. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_PANEL_PRODUCT_H_
#define TREMULA_HOST_OPS_PRODUCTS_PANEL_PRODUCT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* out[r, c] = sum over k of lhs[r, k] * rhs[k, c]; `out` is dense. Strides are in elements; one
 * of the two of rhs is 1. */
typedef struct trm_panel_product {
  int64_t rows, columns, inner;
  int64_t lhs_row, lhs_inner, rhs_inner, rhs_column;
  bool is_half; /* lhs, rhs and `out` are halves, sums floats that are rounded once */
} trm_panel_product;

/* Whether the CPU has the instructions, and the sizes are those that gain. packs_once: the right
 * side is packed for many runs. */
bool trm_panel_product_serves(const trm_panel_product *p, bool packs_once);

/* What trm_panel_product_pack writes. */
size_t trm_panel_product_packed_bytes(const trm_panel_product *p);
/* What trm_panel_product_run needs for all threads. */
size_t trm_panel_product_scratch_bytes(const trm_panel_product *p);

/* Steps of a oneDNN program: `data` is a trm_panel_product. */
void trm_panel_product_pack(const void *data, const void *rhs, const void *unused, void *packed);
void trm_panel_product_run_packed(const void *data, const void *lhs, const void *packed, void *out);
void trm_panel_product_run(const void *data, const void *lhs, const void *rhs, void *out,
                           void *scratch);

/* Tasks are pairs of a range of rows and a panel. How many ranges there are for so many threads:
 * more than one only where there are fewer panels than threads. */
int64_t trm_panel_product_row_chunks(const trm_panel_product *p, int threads);

#endif /* TREMULA_HOST_OPS_PRODUCTS_PANEL_PRODUCT_H_ */
