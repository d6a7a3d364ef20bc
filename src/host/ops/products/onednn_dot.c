/* Owns: HLO dots by oneDNN and by kernels of our own.
 *
 * A dot is restated as one product of matrices (onednn_dot_problem.h). An operand that is no matrix
 * with one contiguous side is first copied into scratch. Halves and bfloat16s are widened (exactly)
 * or cut into pieces (half_products.h), and the float32 sums are rounded once. matrix_vector.h has
 * the products of a vector. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/products/half_tiles.h"
#include "host/ops/products/matrix_vector.h"
#include "host/ops/products/onednn_dot_problem.h"
#include "host/ops/products/onednn_panels.h"
#include "host/ops/products/onednn_sequence.h"
#include "host/ops/products/tiled_product.h"

enum { PAGE = 1024 }; /* floats */

/* Copies an operand into a dense matrix, and moves *place there. */
static trm_status add_matrix_copy(trm_onednn_sequence *sequence, const trm_dot_problem *p, int side,
                                  trm_onednn_place *place, trm_error *error) {
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
  const trm_onednn_place target = trm_onednn_scratch(sequence, (size_t)stride * sizeof(float));
  TRY(trm_onednn_add_reorder(sequence, from_desc, *place, to_desc, target, error));
  *place = target;
  return TRM_OK;
}

static trm_status describe(trm_onednn_sequence *sequence, dnnl_data_type_t type,
                           const trm_dot_problem *p, const trm_dot_matrix *m, int64_t rows,
                           int64_t columns, const_dnnl_memory_desc_t *out_desc, trm_error *error) {
  int64_t dims[TRM_MAX_RANK + 2], strides[TRM_MAX_RANK + 2];
  int rank = 0;
  for (; rank < p->batch.count; ++rank) {
    dims[rank] = p->batch.items[rank].size, strides[rank] = m->batch_strides[rank];
  }
  dims[rank] = rows, strides[rank++] = m->row_stride;
  dims[rank] = columns, strides[rank++] = m->column_stride;
  return trm_onednn_describe(sequence, type, rank, dims, strides, out_desc, error);
}

static double operations_of(const trm_kernel_request *request, const trm_dot_problem *p) {
  return (double)trm_shape_count(&request->instruction->shape) * 2 *
         (double)trm_dot_count(&p->inner);
}

/* The work in bytes; four operations cost as much as touching a byte. */
static double work_of(const trm_kernel_request *request, const trm_dot_problem *p) {
  const double outputs = (double)trm_shape_count(&request->instruction->shape);
  const double bytes = (double)trm_shape_bytes(trm_operand_shape(request, 0)) +
                       (double)trm_shape_bytes(trm_operand_shape(request, 1)) + 4 * outputs;
  const double operations = operations_of(request, p);
  return operations / 4 > bytes ? operations / 4 : bytes;
}

/* Whether a product has the same bits with another number of threads. */
typedef enum bits { BITS_UNKNOWN, BITS_SAME, BITS_DIFFER } bits;

static bits bits_of(const_dnnl_primitive_desc_t desc, bool lhs_is_transposed, int64_t inner) {
  const char *name = NULL;
  if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success ||
      strncmp(name, "brg:", 4) != 0) {
    return BITS_UNKNOWN;
  }
  return lhs_is_transposed && inner >= TRM_LONG_SUM_LEAST ? BITS_DIFFER : BITS_SAME;
}

/* A product while it is built. */
typedef struct dot_draft {
  trm_onednn_sequence *sequence;
  const trm_kernel_request *request;
  trm_dot_problem p; /* its contracted dimensions are in the order that copies less */
  trm_dot_matrix matrices[2];
  int64_t rows, columns, inner; /* inner counts pieces, where there are any */
  trm_half_products products;
  const char *way;   /* who computes it: the first word of the kernel's name */
  bool packs_floats; /* the right side is packed when its contents change */
  bool packs_always; /* the right side is packed in each run */
  trm_onednn_place places[2], result;
  dnnl_data_type_t result_type;
} dot_draft;

/* Chooses the order of the contracted dimensions, which is free: the one that copies less. */
static void choose_order(dot_draft *draft) {
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

/* Whether to keep the converted operand between runs. */
static bool is_kept(const dot_draft *draft, int side) {
  return side == RHS && trm_operand_shape(draft->request, RHS)->dtype != TRM_F32 &&
         draft->p.batch.count == 0 && trm_onednn_may_repeat(draft->request, RHS);
}

static trm_status add_float_operand(dot_draft *draft, int side, trm_error *error) {
  const trm_shape *shape = trm_operand_shape(draft->request, (uint32_t)side);
  const bool kept = is_kept(draft, side);
  if (kept) trm_onednn_pack_begin(draft->sequence, RHS);
  TRY(trm_onednn_add_widen(draft->sequence, shape->dtype, trm_shape_count(shape), kept,
                           &draft->places[side], error));
  if (kept) trm_onednn_pack_end(draft->sequence);
  if (!draft->matrices[side].is_copied) return TRM_OK;
  return add_matrix_copy(draft->sequence, &draft->p, side, &draft->places[side], error);
}

/* Cuts an operand into pieces, dense, and restates its matrix with `inner` pieces. The contracted
 * dimension stays the last one or the one before. */
static trm_status add_operand_in_pieces(dot_draft *draft, int side, int64_t inner, bool kept,
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
  return trm_onednn_add_split(draft->sequence, &split, kept, &draft->places[side], error);
}

/* Whether a product is one of a matrix and a vector; *side is the matrix's. */
static bool is_matrix_vector(const dot_draft *draft, trm_matrix_vector *product, int *side) {
  if (draft->products != TRM_HALF_PRODUCTS_FLOAT) return false;
  for (*side = 0; *side < 2; ++*side) {
    const trm_dot_matrix *m = &draft->matrices[*side], *v = &draft->matrices[1 - *side];
    const bool is_left = *side == LHS;
    const int64_t others = is_left ? draft->columns : draft->rows;
    *product = (trm_matrix_vector){
        .batch_rank = draft->p.batch.count,
        .outputs = is_left ? draft->rows : draft->columns,
        .inner = draft->inner,
        .output_stride = is_left ? m->row_stride : m->column_stride,
        .inner_stride = is_left ? m->column_stride : m->row_stride,
        .dtype =
            m->is_copied ? TRM_F32 : trm_operand_shape(draft->request, (uint32_t)*side)->dtype};
    for (int32_t i = 0; i < draft->p.batch.count; ++i) {
      product->batch[i] = draft->p.batch.items[i].size;
      product->matrix_strides[i] = m->batch_strides[i];
      product->vector_strides[i] = v->batch_strides[i];
    }
    const bool is_dense = (is_left ? v->row_stride : v->column_stride) == 1;
    if (others == 1 && is_dense && trm_matrix_vector_plan(product)) return true;
  }
  return false;
}

static trm_status add_matrix_vector(dot_draft *draft, const trm_matrix_vector *product, int side,
                                    trm_error *error) {
  const trm_matrix_vector *own = trm_arena_copy(draft->request->arena, product, sizeof *product);
  CHECK_MEMORY(own, "a matrix product");
  if (draft->matrices[side].is_copied) TRY(add_float_operand(draft, side, error));
  TRY(add_float_operand(draft, 1 - side, error));
  return trm_onednn_add_worker(draft->sequence, trm_matrix_vector_run, own, draft->places[side],
                               draft->places[1 - side], draft->result,
                               trm_matrix_vector_scratch_bytes(own), error);
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

/* In a loop, the weights of a product are often those of the last turn. */
static bool may_pack_floats(const trm_kernel_request *request, const trm_dot_problem *p) {
  return request->is_in_loop && p->batch.count == 0 &&
         trm_operand_shape(request, RHS)->dtype == TRM_F32 && trm_onednn_may_repeat(request, RHS);
}

/* Packs the right side into the format of the product, in which pairs of rows of pieces lie
 * together. */
static trm_status pack_right_side(dot_draft *draft, const_dnnl_memory_desc_t plain,
                                  dnnl_primitive_desc_t desc, const_dnnl_memory_desc_t *out_desc,
                                  trm_error *error) {
  *out_desc = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
  const size_t bytes = dnnl_memory_desc_get_size(*out_desc);
  const trm_onednn_place to = draft->packs_always ? trm_onednn_scratch(draft->sequence, bytes)
                                                  : trm_onednn_persistent(draft->sequence, bytes);
  /* add_operands has begun the packing of pieces. */
  if (draft->packs_floats) trm_onednn_pack_begin(draft->sequence, RHS);
  TRY(trm_onednn_add_reorder(draft->sequence, plain, draft->places[RHS], *out_desc, to, error));
  trm_onednn_pack_end(draft->sequence);
  draft->places[RHS] = to;
  return TRM_OK;
}

/* Descriptors of a product. */
typedef struct product_descs {
  const_dnnl_memory_desc_t lhs, rhs, out;
} product_descs;

static trm_status describe_product(const dot_draft *draft, product_descs *descs, trm_error *error) {
  trm_onednn_sequence *sequence = draft->sequence;
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
  return describe(sequence, draft->result_type, p, &result, draft->rows, draft->columns,
                  &descs->out, error);
}

/* Whether the lines of an operand are whole pages apart, and many. Such lines evict each other from
 * the cache, and sgemm takes twice as long. */
static bool has_page_lines(const dot_draft *draft, int side) {
  const trm_dot_matrix *m = &draft->matrices[side];
  const int64_t rows = side == LHS ? draft->rows : draft->inner;
  const int64_t columns = side == LHS ? draft->inner : draft->columns;
  const bool by_rows = m->column_stride == 1;
  return (by_rows ? m->row_stride : m->column_stride) % PAGE == 0 &&
         (by_rows ? rows : columns) >= TRM_PAGE_LINES_LEAST;
}

/* Copies such an operand to lines that are a little longer. */
static trm_status spread_lines(dot_draft *draft, int side, trm_error *error) {
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
  TRY(describe(draft->sequence, dnnl_f32, &draft->p, m, rows, columns, &from, error));
  TRY(describe(draft->sequence, dnnl_f32, &draft->p, &spread, rows, columns, &to, error));
  const bool is_kept_copy = draft->packs_floats && side == RHS;
  const size_t bytes = (size_t)count * sizeof(float);
  const trm_onednn_place place = is_kept_copy ? trm_onednn_persistent(draft->sequence, bytes)
                                              : trm_onednn_scratch(draft->sequence, bytes);
  if (is_kept_copy) trm_onednn_pack_begin(draft->sequence, RHS);
  TRY(trm_onednn_add_reorder(draft->sequence, from, draft->places[side], to, place, error));
  if (is_kept_copy) trm_onednn_pack_end(draft->sequence);
  draft->places[side] = place;
  *m = spread;
  return TRM_OK;
}

static trm_status add_tiled_product(dot_draft *draft, trm_error *error) {
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
  return trm_onednn_add_function(draft->sequence, trm_tiled_product_run, own, draft->places[LHS],
                                 draft->places[RHS], draft->result, error);
}

static trm_status add_panel_product(dot_draft *draft, const trm_panel_product *product,
                                    trm_error *error) {
  draft->way = "panels";
  return trm_onednn_add_panel_product(draft->sequence, draft->request->arena, product,
                                      draft->places[LHS], draft->places[RHS], draft->result,
                                      draft->packs_floats, error);
}

/* Whether panels serve the product, which is then *out_panels. */
static bool is_panel_product(const dot_draft *draft, bool is_half, trm_panel_product *out_panels) {
  const trm_dot_matrix *m = draft->matrices;
  *out_panels = (trm_panel_product){
      draft->rows,          draft->columns,    draft->inner,         m[LHS].row_stride,
      m[LHS].column_stride, m[RHS].row_stride, m[RHS].column_stride, is_half};
  return draft->p.batch.count == 0 && !(is_half && (m[LHS].is_copied || m[RHS].is_copied)) &&
         trm_panel_product_serves(out_panels, may_pack_floats(draft->request, &draft->p));
}

/* Adds a product on a CPU whose oneDNN has its sgemm alone, or whose sums oneDNN would cut. */
static trm_status add_own_product(dot_draft *draft, trm_error *error) {
  const bool has_no_use = draft->packs_floats && !has_page_lines(draft, RHS);
  draft->way = "sgemm";
  return has_no_use ? TRM_UNIMPLEMENTED : add_tiled_product(draft, error);
}

static bool is_sgemm(const_dnnl_primitive_desc_t desc) {
  const char *name = NULL;
  return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name) ==
             dnnl_success &&
         strncmp(name, "gemm:", 5) == 0;
}

static bool is_long_sum(const dot_draft *draft) {
  return draft->matrices[LHS].row_stride == 1 && draft->inner >= TRM_LONG_SUM_LEAST;
}

static trm_status add_product(dot_draft *draft, bits *out_bits, trm_error *error) {
  const bool in_pieces = draft->products != TRM_HALF_PRODUCTS_FLOAT;
  const bool packs =
      draft->packs_floats || draft->packs_always || (in_pieces && is_kept(draft, RHS));
  trm_panel_product panels;
  if (!in_pieces && is_panel_product(draft, false, &panels))
    return add_panel_product(draft, &panels, error);
  product_descs descs;
  TRY(describe_product(draft, &descs, error));
  const_dnnl_memory_desc_t wanted = descs.rhs;
  if (packs) {
    const int64_t dims[] = {draft->inner, draft->columns};
    const dnnl_data_type_t type = in_pieces ? dnnl_bf16 : dnnl_f32;
    TRY(trm_onednn_describe_any(draft->sequence, type, 2, dims, &wanted, error));
  }
  dnnl_primitive_desc_t desc = NULL;
  TRY(create_product(descs.lhs, wanted, descs.out, &desc, error));
  trm_status status;
  if (!in_pieces && (is_sgemm(desc) || is_long_sum(draft))) {
    status = add_own_product(draft, error);
  } else {
    *out_bits = bits_of(desc, draft->matrices[LHS].row_stride == 1, draft->inner);
    status = packs ? pack_right_side(draft, descs.rhs, desc, &descs.rhs, error) : TRM_OK;
    if (status == TRM_OK) {
      const trm_onednn_argument arguments[] = {{DNNL_ARG_SRC, descs.lhs, draft->places[LHS]},
                                               {DNNL_ARG_WEIGHTS, descs.rhs, draft->places[RHS]},
                                               {DNNL_ARG_DST, descs.out, draft->result}};
      status = trm_onednn_add_primitive(draft->sequence, desc, arguments, 3, error);
    }
  }
  dnnl_primitive_desc_destroy(desc);
  return status;
}

static trm_status add_operands(dot_draft *draft, trm_error *error) {
  if (draft->products == TRM_HALF_PRODUCTS_FLOAT) {
    for (int side = 0; side < 2; ++side) TRY(add_float_operand(draft, side, error));
    return TRM_OK;
  }
  const int64_t inner = draft->inner * trm_half_products_pieces(draft->products);
  TRY(add_operand_in_pieces(draft, LHS, inner, false, error));
  /* The packing ends when the weights are in their final format (pack_right_side). */
  if (is_kept(draft, RHS)) trm_onednn_pack_begin(draft->sequence, RHS);
  TRY(add_operand_in_pieces(draft, RHS, inner, false, error));
  draft->inner = inner;
  return TRM_OK;
}

/* Sets *tiles to the product; false if an operand must be copied first. */
static bool plan_tiles(const dot_draft *draft, trm_half_tiles *tiles) {
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
static trm_half_products products_of(const dot_draft *draft) {
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
                                   .by_tiles = plan_tiles(draft, &unused)};
  return trm_half_products_choose(trm_half_units_here(), request->module->half_products, &halves);
}

static trm_status add_steps(dot_draft *draft, bits *out_bits, trm_error *error) {
  choose_order(draft);
  draft->products = products_of(draft);
  draft->packs_always = draft->products == TRM_HALF_PRODUCTS_FLOAT && !draft->packs_floats &&
                        draft->p.batch.count == 0 && draft->rows >= TRM_PACKING_LEAST_ROWS &&
                        operations_of(draft->request, &draft->p) > TRM_ONE_THREAD_MOST_OPERATIONS;
  trm_half_tiles tiles;
  if (draft->products != TRM_HALF_PRODUCTS_FLOAT &&
      trm_operand_shape(draft->request, LHS)->dtype == TRM_F16 && plan_tiles(draft, &tiles)) {
    tiles.products = draft->products;
    draft->way = "tiles";
    return trm_half_tiles_add(draft->sequence, draft->request, &tiles, error);
  }
  const trm_shape *shape = &draft->request->instruction->shape;
  for (uint32_t side = 0; side < 2; ++side) draft->places[side] = trm_onednn_operand(side, 0);
  draft->result = trm_onednn_result(0);
  trm_matrix_vector vector_product;
  int side;
  const bool has_vector = is_matrix_vector(draft, &vector_product, &side);
  trm_panel_product panels;
  if (!has_vector && draft->products == TRM_HALF_PRODUCTS_FLOAT && shape->dtype == TRM_F16 &&
      trm_operand_shape(draft->request, LHS)->dtype == TRM_F16 &&
      trm_operand_shape(draft->request, RHS)->dtype == TRM_F16 &&
      is_panel_product(draft, true, &panels)) {
    return add_panel_product(draft, &panels, error);
  }
  const int64_t count = trm_shape_count(shape);
  /* oneDNN rounds its float sums to bfloat16 itself. */
  const bool rounds = draft->products == TRM_HALF_PRODUCTS_BFLOAT16 && shape->dtype == TRM_BF16;
  const bool narrows = shape->dtype != TRM_F32 && !rounds;
  draft->result_type = rounds ? dnnl_bf16 : dnnl_f32;
  if (narrows) draft->result = trm_onednn_scratch(draft->sequence, (size_t)count * sizeof(float));
  if (draft->packs_floats && (has_vector || draft->matrices[RHS].is_copied)) {
    return TRM_UNIMPLEMENTED;
  }
  if (has_vector) {
    draft->way = "vector";
    TRY(add_matrix_vector(draft, &vector_product, side, error));
  } else {
    TRY(add_operands(draft, error));
    TRY(add_product(draft, out_bits, error));
  }
  if (!narrows) return TRM_OK;
  return trm_onednn_add_narrow(draft->sequence, shape->dtype, count, draft->result, error);
}

static bool is_served(const trm_shape *shape) {
  return (shape->dtype == TRM_F32 || shape->dtype == TRM_F16 || shape->dtype == TRM_BF16) &&
         trm_shape_count(shape) > 0;
}

static trm_status create_sequence(const trm_kernel_request *request, const trm_dot_problem *p,
                                  double work, bool packs_floats, trm_kernel *out_kernel,
                                  int *out_threads, bits *out_bits, trm_error *error) {
  trm_onednn_sequence *sequence = NULL;
  *out_bits = BITS_UNKNOWN;
  trm_status status = trm_onednn_sequence_create(request, work, &sequence, error);
  dot_draft draft = {.sequence = sequence,
                     .request = request,
                     .p = *p,
                     .rows = trm_dot_count(&p->rows),
                     .columns = trm_dot_count(&p->columns),
                     .inner = trm_dot_count(&p->inner),
                     .way = "onednn",
                     .packs_floats = packs_floats};
  if (status == TRM_OK) status = add_steps(&draft, out_bits, error);
  if (status == TRM_OK) {
    *out_threads = trm_onednn_sequence_threads(sequence);
    status =
        trm_onednn_sequence_finish(sequence, draft.way, "dot", draft.products, out_kernel, error);
  }
  if (status != TRM_OK) trm_onednn_sequence_free(sequence);
  return status;
}

/* TRM_UNIMPLEMENTED, without a message, if oneDNN does not have the product. */
static trm_status create_kernel(const trm_kernel_request *request, const trm_dot_problem *p,
                                double work, trm_kernel *out_kernel, int *out_threads,
                                bits *out_bits, trm_error *error) {
  TRY(create_sequence(request, p, work, false, out_kernel, out_threads, out_bits, error));
  if (!may_pack_floats(request, p)) return TRM_OK;
  trm_kernel packed;
  int threads;
  bits found;
  const trm_status status =
      create_sequence(request, p, work, true, &packed, &threads, &found, error);
  if (status == TRM_UNIMPLEMENTED) return TRM_OK;
  if (status != TRM_OK) {
    trm_kernel_destroy(out_kernel);
    return status;
  }
  return trm_onednn_choose_packed(request->arena, out_kernel, &packed, RHS, out_kernel, error);
}

/* Creates a kernel for one thread. It takes the place of *kernel; if `both`, a kernel that chooses
 * between the two does. */
static trm_status create_for_one(const trm_kernel_request *request, const trm_dot_problem *p,
                                 bool both, int threads, trm_kernel *kernel, trm_error *error) {
  trm_kernel one;
  int thread;
  bits unused;
  const trm_status status = create_kernel(request, p, 0, &one, &thread, &unused, error);
  if (status != TRM_OK || !both) trm_kernel_destroy(kernel);
  if (status == TRM_OK && both) {
    /* The format of packed pieces and floats may depend on the number of threads. */
    const bool same_packing = strstr(one.name, ".dot.") == NULL && !may_pack_floats(request, p);
    return trm_onednn_choose(request->arena, &one, kernel, threads, same_packing, kernel, error);
  }
  *kernel = one;
  return status;
}

trm_status trm_onednn_dot_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                 bool *out_supported, trm_error *error) {
  *out_supported = false;
  if (!is_served(trm_operand_shape(request, 0)) || !is_served(trm_operand_shape(request, 1)) ||
      !is_served(&request->instruction->shape)) {
    return trm_fast_dot_create(request, out_kernel, out_supported, error);
  }
  trm_dot_problem p;
  trm_dot_restate(request, &p);
  int threads = 1;
  bits found;
  trm_status status =
      create_kernel(request, &p, work_of(request, &p), out_kernel, &threads, &found, error);
  if (status == TRM_OK && threads > 1 && found != BITS_UNKNOWN &&
      operations_of(request, &p) <= TRM_ONE_THREAD_MOST_OPERATIONS) {
    status = create_for_one(request, &p, found == BITS_SAME, threads, out_kernel, error);
  }
  if (status == TRM_UNIMPLEMENTED) return TRM_OK;
  *out_supported = status == TRM_OK;
  return status;
}
