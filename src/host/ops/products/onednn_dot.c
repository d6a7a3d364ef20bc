/* Owns: dots by oneDNN's matrix products. Operands are matrices of floats, or are cut into pieces
 * (half_products.h), whose float32 sums are rounded once. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/products/dot_draft.h"

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Cuts an operand into pieces, dense, and restates its matrix with `inner` pieces. The contracted
 * dimension stays the last one or the one before. */
static trm_status add_operand_in_pieces(trm_dot_draft *draft, int side, int64_t inner, bool kept,
                                        trm_error *error) {
  const trm_dot_problem *p = &draft->p;
  trm_dot_matrix *m = &draft->matrices[side];
  const trm_dtype dtype = trm_operand_shape(draft->request, (uint32_t)side)->dtype;
  if (dtype == TRM_BF16 && !m->is_copied) return TRM_OK; /* it is one piece already */
  const int64_t free_size = side == LHS ? draft->rows : draft->columns;
  const int64_t numbers = trm_dot_count(&p->inner);
  const bool inner_last = (side == LHS ? m->column_stride : m->row_stride) == 1;
  const int64_t free_stride = inner_last ? inner : 1, inner_stride = inner_last ? 1 : free_size;
  const trm_dot_extents *frees = side == LHS ? &p->rows : &p->columns;
  const trm_dot_extents *lists[3] = {&p->batch, inner_last ? frees : &p->inner,
                                     inner_last ? &p->inner : frees};
  const int64_t steps[3] = {free_size * inner, inner_last ? free_stride : inner_stride, 1};
  trm_half_split split = {.dtype = dtype,
                          .pieces = trm_half_products_pieces(draft->products),
                          .is_right = side == RHS,
                          .piece_stride = numbers * inner_stride};
  for (int l = 0; l < 3; ++l) {
    int64_t stride = steps[l] * trm_dot_count(lists[l]);
    for (int32_t i = 0; i < lists[l]->count; ++i) {
      const trm_dot_extent *each = &lists[l]->items[i];
      stride /= each->size;
      trm_half_split_push(&split, each->size, each->stride[side], stride);
      if (l == 0) m->batch_strides[i] = stride;
    }
  }
  if (lists[2]->count == 0) trm_half_split_push(&split, 1, 1, 1);
  m->row_stride = side == LHS ? free_stride : inner_stride;
  m->column_stride = side == LHS ? inner_stride : free_stride;
  return trm_sequence_add_split(draft->sequence, &split, kept, &draft->places[side], error);
}

static trm_status add_pieces(trm_dot_draft *draft, trm_error *error) {
  const int64_t inner = draft->inner * trm_half_products_pieces(draft->products);
  TRY(add_operand_in_pieces(draft, LHS, inner, false, error));
  /* The packing ends when the weights are in their final format (pack_right_side). */
  if (trm_dot_is_kept(draft, RHS)) trm_sequence_pack_begin(draft->sequence, RHS);
  TRY(add_operand_in_pieces(draft, RHS, inner, false, error));
  draft->inner = inner;
  return TRM_OK;
}

/* ---- The primitive --------------------------------------------------------------------------- */

static trm_status describe(trm_sequence *sequence, dnnl_data_type_t type, const trm_dot_problem *p,
                           const trm_dot_matrix *m, int64_t rows, int64_t columns,
                           const_dnnl_memory_desc_t *out_desc, trm_error *error) {
  int64_t dims[TRM_MAX_RANK + 2], strides[TRM_MAX_RANK + 2];
  int rank = 0;
  for (; rank < p->batch.count; ++rank) {
    dims[rank] = p->batch.items[rank].size, strides[rank] = m->batch_strides[rank];
  }
  dims[rank] = rows, strides[rank++] = m->row_stride;
  dims[rank] = columns, strides[rank++] = m->column_stride;
  return trm_onednn_describe(sequence, type, rank, dims, strides, out_desc, error);
}

/* Descriptors of a product. */
typedef struct product_descs {
  const_dnnl_memory_desc_t lhs, rhs, out;
} product_descs;

static trm_status describe_product(const trm_dot_draft *draft, dnnl_data_type_t result_type,
                                   product_descs *descs, trm_error *error) {
  trm_sequence *sequence = draft->sequence;
  const trm_dot_matrix *m = draft->matrices;
  const trm_dot_problem *p = &draft->p;
  const dnnl_data_type_t type = draft->products == TRM_HALF_PRODUCTS_FLOAT ? dnnl_f32 : dnnl_bf16;
  trm_dot_matrix result = {.row_stride = draft->columns, .column_stride = 1};
  int64_t batch_stride = draft->rows * draft->columns;
  for (int32_t i = p->batch.count - 1; i >= 0; --i) {
    result.batch_strides[i] = batch_stride, batch_stride *= p->batch.items[i].size;
  }
  TRY(describe(sequence, type, p, &m[LHS], draft->rows, draft->inner, &descs->lhs, error));
  TRY(describe(sequence, type, p, &m[RHS], draft->inner, draft->columns, &descs->rhs, error));
  return describe(sequence, result_type, p, &result, draft->rows, draft->columns, &descs->out,
                  error);
}

static trm_status create_product(const_dnnl_memory_desc_t lhs, const_dnnl_memory_desc_t rhs,
                                 const_dnnl_memory_desc_t out, dnnl_primitive_desc_t *out_desc,
                                 trm_error *error) {
  dnnl_primitive_attr_t attributes = trm_onednn_attributes();
  CHECK_MEMORY(attributes, "oneDNN attributes");
  const dnnl_status_t created = dnnl_matmul_primitive_desc_create(out_desc, trm_onednn_engine(),
                                                                  lhs, rhs, NULL, out, attributes);
  dnnl_primitive_attr_destroy(attributes);
  TRY_DNNL(created, "choosing a matrix product");
  return TRM_OK;
}

/* The name of oneDNN's implementation, such as "brg:avx512_core"; "" if it does not tell. */
static const char *implementation_of(const_dnnl_primitive_desc_t desc) {
  const char *name = "";
  (void)dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name);
  return name;
}

/* A product with a transposed left side and long sums, which oneDNN cuts by threads. */
static bool has_long_sums(const trm_dot_draft *draft) {
  return draft->matrices[LHS].row_stride == 1 && draft->inner >= TRM_LONG_SUM_LEAST;
}

/* Packs the right side into the format of the product, in which pairs of rows of pieces lie
 * together. */
static trm_status pack_right_side(trm_dot_draft *draft, bool packs_always,
                                  const_dnnl_memory_desc_t plain, dnnl_primitive_desc_t desc,
                                  const_dnnl_memory_desc_t *out_desc, trm_error *error) {
  *out_desc = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
  const size_t bytes = dnnl_memory_desc_get_size(*out_desc);
  const trm_place to = packs_always ? trm_sequence_scratch(draft->sequence, bytes)
                                    : trm_sequence_persistent(draft->sequence, bytes);
  /* add_pieces has begun the packing of pieces. */
  if (draft->packs_floats) trm_sequence_pack_begin(draft->sequence, RHS);
  TRY(trm_onednn_add_reorder(draft->sequence, plain, draft->places[RHS], *out_desc, to, error));
  trm_sequence_pack_end(draft->sequence);
  draft->places[RHS] = to;
  return TRM_OK;
}

/* Adds the product that *desc describes. */
static trm_status add_primitive(trm_dot_draft *draft, product_descs *descs, bool packs,
                                bool packs_always, dnnl_primitive_desc_t desc, trm_error *error) {
  if (strncmp(implementation_of(desc), "brg:", 4) == 0) {
    draft->bits = has_long_sums(draft) ? TRM_BITS_DIFFER : TRM_BITS_SAME;
  }
  if (packs) TRY(pack_right_side(draft, packs_always, descs->rhs, desc, &descs->rhs, error));
  const trm_onednn_argument arguments[] = {{DNNL_ARG_SRC, descs->lhs, draft->places[LHS]},
                                           {DNNL_ARG_WEIGHTS, descs->rhs, draft->places[RHS]},
                                           {DNNL_ARG_DST, descs->out, draft->result}};
  return trm_onednn_add_primitive(draft->sequence, desc, arguments, 3, error);
}

/* Adds the product of operands that are floats, with the steps before it, or of pieces that have
 * been cut. */
static trm_status add_product(trm_dot_draft *draft, dnnl_data_type_t result_type,
                              trm_error *error) {
  const bool in_pieces = draft->products != TRM_HALF_PRODUCTS_FLOAT;
  /* Packing takes a fortieth of a large product's time; a plain right side whose lines are whole
   * pages apart makes the product take three times as long. */
  const bool packs_always = !in_pieces && !draft->packs_floats && draft->p.batch.count == 0 &&
                            draft->rows >= TRM_PACKING_LEAST_ROWS &&
                            trm_dot_operations(draft) > TRM_ONE_THREAD_MOST_OPERATIONS;
  const bool packs =
      draft->packs_floats || packs_always || (in_pieces && trm_dot_is_kept(draft, RHS));
  product_descs descs;
  TRY(describe_product(draft, result_type, &descs, error));
  const_dnnl_memory_desc_t wanted = descs.rhs;
  if (packs) {
    const int64_t dims[] = {draft->inner, draft->columns};
    const dnnl_data_type_t type = in_pieces ? dnnl_bf16 : dnnl_f32;
    TRY(trm_onednn_describe_any(draft->sequence, type, 2, dims, &wanted, error));
  }
  dnnl_primitive_desc_t desc = NULL;
  TRY(create_product(descs.lhs, wanted, descs.out, &desc, error));
  trm_status status = TRM_OK;
  draft->is_for_sgemm =
      !in_pieces && (strncmp(implementation_of(desc), "gemm:", 5) == 0 || has_long_sums(draft));
  if (draft->is_for_sgemm) status = TRM_UNIMPLEMENTED;
  if (status == TRM_OK && !in_pieces) {
    trm_dot_open_result(draft);
    status = trm_dot_add_float_operands(draft, error);
  }
  if (status == TRM_OK) status = add_primitive(draft, &descs, packs, packs_always, desc, error);
  dnnl_primitive_desc_destroy(desc);
  return status;
}

bool trm_onednn_dot_serves(trm_dot_draft *draft) {
  (void)draft;
  return true;
}

trm_status trm_onednn_dot_add(trm_dot_draft *draft, trm_error *error) {
  const trm_dtype dtype = draft->request->instruction->shape.dtype;
  /* oneDNN rounds its float sums to bfloat16 itself, but then orders long ones in another way on
   * one thread than on several. */
  if (draft->products == TRM_HALF_PRODUCTS_BFLOAT16 && dtype == TRM_BF16 &&
      draft->inner < TRM_LONG_SUM_LEAST) {
    TRY(add_pieces(draft, error));
    return add_product(draft, dnnl_bf16, error);
  }
  if (draft->products != TRM_HALF_PRODUCTS_FLOAT) {
    trm_dot_open_result(draft);
    TRY(add_pieces(draft, error));
  }
  TRY(add_product(draft, dnnl_f32, error));
  return trm_dot_close_result(draft, error);
}
