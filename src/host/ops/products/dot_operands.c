/* Owns: the operands and the result of a dot as matrices: the order of the contracted dimensions,
 * and the steps that widen, copy and round. */
#include <string.h>

#include "host/ops/products/dot_draft.h"

/* ---- Planning -------------------------------------------------------------------------------- */

/* Chooses the order of the contracted dimensions, which is free: the one that copies less. */
static void choose_order(trm_dot_draft *draft) {
  const trm_dot_problem p = draft->p;
  int64_t least = INT64_MAX;
  for (int order = 0; order < 2; ++order) {
    trm_dot_problem tried = p;
    trm_dot_sort(&tried.inner, order);
    trm_dot_join(&tried.inner);
    trm_dot_matrix planned[2];
    int64_t copied = 0;
    for (int side = 0; side < 2; ++side) {
      trm_dot_plan_matrix(&tried, side, &planned[side]);
      const int64_t free_size = side == LHS ? draft->rows : draft->columns;
      if (planned[side].is_copied) copied += free_size * draft->inner;
    }
    if (copied < least) {
      least = copied, draft->p = tried;
      memcpy(draft->matrices, planned, sizeof planned);
    }
  }
}

bool trm_dot_plan_tiles(const trm_dot_draft *draft, trm_half_tiles *tiles) {
  const trm_dot_problem *p = &draft->p;
  const trm_dot_matrix *lhs = &draft->matrices[LHS], *rhs = &draft->matrices[RHS];
  if (lhs->is_copied || rhs->is_copied || !trm_half_tiles_serve()) return false;
  *tiles = (trm_half_tiles){.group_rank = p->batch.count,
                            .batch = 1,
                            .channels = draft->inner,
                            .outputs = draft->columns,
                            .x_size = {1, draft->rows},
                            .y_size = {1, draft->rows},
                            .k_size = {1, 1},
                            .stride = {1, 1},
                            .dilation = {1, 1},
                            .x_spatial = {0, lhs->row_stride},
                            .x_channel = lhs->column_stride,
                            .w_channel = rhs->row_stride,
                            .w_output = rhs->column_stride,
                            .y_pixel = draft->columns};
  int64_t stride = draft->rows * draft->columns;
  for (int32_t i = p->batch.count - 1; i >= 0; --i) {
    tiles->groups[i] = p->batch.items[i].size;
    tiles->x_group[i] = lhs->batch_strides[i], tiles->w_group[i] = rhs->batch_strides[i];
    tiles->y_group[i] = stride, stride *= tiles->groups[i];
  }
  return true;
}

/* How halves are multiplied in this product, on this CPU. */
static trm_half_products products_of(const trm_dot_draft *draft) {
  const trm_kernel_request *request = draft->request;
  trm_half_tiles unused;
  /* A dot that names its algorithm gets all of each product, as for a result of float32. */
  const bool is_exact = request->instruction->algorithm != 0;
  const trm_half_problem halves = {.lhs = trm_operand_shape(request, LHS)->dtype,
                                   .rhs = trm_operand_shape(request, RHS)->dtype,
                                   .result = is_exact ? TRM_F32 : request->instruction->shape.dtype,
                                   .rows = draft->rows,
                                   .columns = draft->columns,
                                   .inner = draft->inner,
                                   .by_tiles = trm_dot_plan_tiles(draft, &unused)};
  return trm_half_products_choose(trm_half_units_here(), request->module->half_products, &halves);
}

void trm_dot_plan(trm_dot_draft *draft) {
  choose_order(draft);
  draft->products = products_of(draft);
}

double trm_dot_operations(const trm_dot_draft *draft) {
  const double outputs = (double)trm_shape_count(&draft->request->instruction->shape);
  return outputs * 2 * (double)trm_dot_count(&draft->p.inner);
}

bool trm_dot_may_pack_floats(const trm_kernel_request *request, const trm_dot_problem *p) {
  return request->is_in_loop && p->batch.count == 0 &&
         trm_operand_shape(request, RHS)->dtype == TRM_F32 && trm_operand_may_repeat(request, RHS);
}

bool trm_dot_is_kept(const trm_dot_draft *draft, int side) {
  return side == RHS && trm_operand_shape(draft->request, RHS)->dtype != TRM_F32 &&
         draft->p.batch.count == 0 && trm_operand_may_repeat(draft->request, RHS);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Copies an operand into a dense matrix, and moves *place there. */
static trm_status add_matrix_copy(trm_sequence *sequence, const trm_dot_problem *p, int side,
                                  trm_place *place, trm_error *error) {
  const trm_dot_extents *lists[3] = {&p->batch, side == LHS ? &p->rows : &p->inner,
                                     side == LHS ? &p->inner : &p->columns};
  int64_t dims[DNNL_MAX_NDIMS], from[DNNL_MAX_NDIMS], to[DNNL_MAX_NDIMS];
  int rank = 0;
  for (int l = 0; l < 3; ++l) {
    for (int32_t i = 0; i < lists[l]->count; ++i) {
      if (rank == DNNL_MAX_NDIMS) return TRM_UNIMPLEMENTED;
      dims[rank] = lists[l]->items[i].size;
      from[rank++] = lists[l]->items[i].stride[side];
    }
  }
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) to[i] = stride, stride *= dims[i];
  const_dnnl_memory_desc_t from_desc, to_desc;
  TRY(trm_onednn_describe(sequence, dnnl_f32, rank, dims, from, &from_desc, error));
  TRY(trm_onednn_describe(sequence, dnnl_f32, rank, dims, to, &to_desc, error));
  const trm_place target = trm_sequence_scratch(sequence, (size_t)stride * sizeof(float));
  TRY(trm_onednn_add_reorder(sequence, from_desc, *place, to_desc, target, error));
  *place = target;
  return TRM_OK;
}

trm_status trm_dot_add_float_operand(trm_dot_draft *draft, int side, trm_error *error) {
  const trm_shape *shape = trm_operand_shape(draft->request, (uint32_t)side);
  const bool kept = trm_dot_is_kept(draft, side);
  if (kept) trm_sequence_pack_begin(draft->sequence, RHS);
  TRY(trm_sequence_add_widen(draft->sequence, shape->dtype, trm_shape_count(shape), kept,
                             &draft->places[side], error));
  if (kept) trm_sequence_pack_end(draft->sequence);
  if (!draft->matrices[side].is_copied) return TRM_OK;
  return add_matrix_copy(draft->sequence, &draft->p, side, &draft->places[side], error);
}

trm_status trm_dot_add_float_operands(trm_dot_draft *draft, trm_error *error) {
  for (int side = 0; side < 2; ++side) TRY(trm_dot_add_float_operand(draft, side, error));
  return TRM_OK;
}

void trm_dot_open_result(trm_dot_draft *draft) {
  const trm_shape *shape = &draft->request->instruction->shape;
  if (shape->dtype == TRM_F32) return;
  const size_t bytes = (size_t)trm_shape_count(shape) * sizeof(float);
  draft->result = trm_sequence_scratch(draft->sequence, bytes);
}

trm_status trm_dot_close_result(trm_dot_draft *draft, trm_error *error) {
  const trm_shape *shape = &draft->request->instruction->shape;
  if (shape->dtype == TRM_F32) return TRM_OK;
  return trm_sequence_add_narrow(draft->sequence, shape->dtype, trm_shape_count(shape),
                                 draft->result, error);
}
