/* Owns: dots by oneDNN's sgemm, in tiles (tiled_product.h). Without AVX-512 oneDNN has nothing
 * else; with it these are products whose long sums its other kernels would cut by threads. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/products/dot_draft.h"
#include "host/ops/products/tiled_product.h"

enum { PAGE = 1024 }; /* floats */

static trm_status describe(const trm_dot_draft *draft, const trm_dot_matrix *m, int64_t rows,
                           int64_t columns, const_dnnl_memory_desc_t *out_desc, trm_error *error) {
  const trm_dot_problem *p = &draft->p;
  int64_t dims[TRM_MAX_RANK + 2], strides[TRM_MAX_RANK + 2];
  int rank = 0;
  for (; rank < p->batch.count; ++rank) {
    dims[rank] = p->batch.items[rank].size, strides[rank] = m->batch_strides[rank];
  }
  dims[rank] = rows, strides[rank++] = m->row_stride;
  dims[rank] = columns, strides[rank++] = m->column_stride;
  return trm_onednn_describe(draft->sequence, dnnl_f32, rank, dims, strides, out_desc, error);
}

/* Whether the lines of an operand are whole pages apart, and many. Such lines evict each other from
 * the cache, and sgemm takes twice as long. */
static bool has_page_lines(const trm_dot_draft *draft, int side) {
  const trm_dot_matrix *m = &draft->matrices[side];
  const int64_t rows = side == LHS ? draft->rows : draft->inner;
  const int64_t columns = side == LHS ? draft->inner : draft->columns;
  const bool by_rows = m->column_stride == 1;
  return (by_rows ? m->row_stride : m->column_stride) % PAGE == 0 &&
         (by_rows ? rows : columns) >= TRM_PAGE_LINES_LEAST;
}

/* Copies such an operand to lines that are a little longer. */
static trm_status spread_lines(trm_dot_draft *draft, int side, trm_error *error) {
  if (!has_page_lines(draft, side)) return TRM_OK;
  trm_dot_matrix *m = &draft->matrices[side];
  const int64_t rows = side == LHS ? draft->rows : draft->inner;
  const int64_t columns = side == LHS ? draft->inner : draft->columns;
  const bool by_rows = m->column_stride == 1;
  const int64_t apart = (by_rows ? columns : rows) + 16;
  trm_dot_matrix spread = {.row_stride = by_rows ? apart : 1, .column_stride = by_rows ? 1 : apart};
  int64_t count = apart * (by_rows ? rows : columns);
  for (int32_t i = draft->p.batch.count - 1; i >= 0; --i) {
    spread.batch_strides[i] = count, count *= draft->p.batch.items[i].size;
  }
  const_dnnl_memory_desc_t from, to;
  TRY(describe(draft, m, rows, columns, &from, error));
  TRY(describe(draft, &spread, rows, columns, &to, error));
  const bool is_kept_copy = draft->packs_floats && side == RHS;
  const size_t bytes = (size_t)count * sizeof(float);
  const trm_place place = is_kept_copy ? trm_sequence_persistent(draft->sequence, bytes)
                                       : trm_sequence_scratch(draft->sequence, bytes);
  if (is_kept_copy) trm_sequence_pack_begin(draft->sequence, RHS);
  TRY(trm_onednn_add_reorder(draft->sequence, from, draft->places[side], to, place, error));
  if (is_kept_copy) trm_sequence_pack_end(draft->sequence);
  draft->places[side] = place;
  *m = spread;
  return TRM_OK;
}

static trm_status add_tiled_product(trm_dot_draft *draft, trm_error *error) {
  for (int side = 0; side < 2; ++side) TRY(spread_lines(draft, side, error));
  trm_tiled_product *own = ARENA_NEW(draft->request->arena, trm_tiled_product, 1);
  CHECK_MEMORY(own, "a matrix product");
  *own = (trm_tiled_product){.batch_rank = draft->p.batch.count,
                             .rows = draft->rows,
                             .columns = draft->columns,
                             .inner = draft->inner};
  for (int side = 0; side < 2; ++side) {
    const trm_dot_matrix *m = &draft->matrices[side];
    own->row_stride[side] = m->row_stride, own->column_stride[side] = m->column_stride;
    memcpy(own->batch_strides[side], m->batch_strides, sizeof m->batch_strides);
  }
  for (int32_t i = 0; i < draft->p.batch.count; ++i) {
    own->batch[i] = draft->p.batch.items[i].size;
  }
  return trm_sequence_add_function(draft->sequence, trm_tiled_product_run, own, draft->places[LHS],
                                   draft->places[RHS], draft->result, error);
}

bool trm_sgemm_dot_serves(trm_dot_draft *draft) { return draft->is_for_sgemm; }

trm_status trm_sgemm_dot_add(trm_dot_draft *draft, trm_error *error) {
  /* To keep the right side would only help where it is copied. */
  if (draft->packs_floats && !has_page_lines(draft, RHS)) return TRM_UNIMPLEMENTED;
  trm_dot_open_result(draft);
  TRY(trm_dot_add_float_operands(draft, error));
  TRY(add_tiled_product(draft, error));
  return trm_dot_close_result(draft, error);
}
