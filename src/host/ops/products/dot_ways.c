/* Owns: who computes a dot: the table of ways, and the kernels for one thread, for all threads and
 * for a packed right side that are made of the way that serves.
 *
 * A dot is restated as one product of matrices (dot_problem.h). An operand that is no matrix with
 * one contiguous side is first copied into scratch. Halves and bfloat16s are widened (exactly) or
 * cut into pieces (half_products.h), and the float32 sums are rounded once. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/products/dot_draft.h"
#include "host/ops/products/kernel_choice.h"
#include "host/ops/products/panel_steps.h"

/* ---- Halves on AMX tiles --------------------------------------------------------------------- */

static bool tiles_serve(trm_dot_draft *draft) {
  return draft->products != TRM_HALF_PRODUCTS_FLOAT &&
         trm_operand_shape(draft->request, LHS)->dtype == TRM_F16 &&
         trm_dot_plan_tiles(draft, &draft->tiles);
}

static trm_status add_tiles(trm_dot_draft *draft, trm_error *error) {
  draft->tiles.products = draft->products;
  return trm_half_tiles_add(draft->sequence, draft->request, &draft->tiles, error);
}

/* ---- A matrix and a vector ------------------------------------------------------------------- */

static bool vector_serves(trm_dot_draft *draft) {
  int *side = &draft->matrix;
  trm_matrix_vector *product = &draft->vector;
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

static trm_status add_vector(trm_dot_draft *draft, trm_error *error) {
  const int side = draft->matrix;
  const trm_matrix_vector *own =
      trm_arena_copy(draft->request->arena, &draft->vector, sizeof draft->vector);
  CHECK_MEMORY(own, "a matrix product");
  trm_dot_open_result(draft);
  if (draft->matrices[side].is_copied) TRY(trm_dot_add_float_operand(draft, side, error));
  TRY(trm_dot_add_float_operand(draft, 1 - side, error));
  TRY(trm_sequence_add_worker(draft->sequence, trm_matrix_vector_run, own, draft->places[side],
                              draft->places[1 - side], draft->result,
                              trm_matrix_vector_scratch_bytes(own), error));
  return trm_dot_close_result(draft, error);
}

/* ---- Panels ---------------------------------------------------------------------------------- */

static bool panels_serve(trm_dot_draft *draft) {
  const trm_dot_matrix *m = draft->matrices;
  if (draft->products != TRM_HALF_PRODUCTS_FLOAT || draft->p.batch.count > 0) return false;
  draft->panels = (trm_panel_product){
      draft->rows,          draft->columns,    draft->inner,         m[LHS].row_stride,
      m[LHS].column_stride, m[RHS].row_stride, m[RHS].column_stride, false};
  return trm_panel_product_serves(&draft->panels,
                                  trm_dot_may_pack_floats(draft->request, &draft->p));
}

static trm_status add_panels(trm_dot_draft *draft, trm_error *error) {
  trm_dot_open_result(draft);
  TRY(trm_dot_add_float_operands(draft, error));
  TRY(trm_sequence_add_panel_product(draft->sequence, draft->request->arena, &draft->panels,
                                     draft->places[LHS], draft->places[RHS], draft->result,
                                     draft->packs_floats, error));
  return trm_dot_close_result(draft, error);
}

/* ---- The table ------------------------------------------------------------------------------- */

static bool is_float(const trm_shape *shape) {
  return shape->dtype == TRM_F32 || shape->dtype == TRM_F16 || shape->dtype == TRM_BF16;
}

/* Types that oneDNN does not multiply: integers, float64 and complex numbers. */
static bool are_other_types(trm_dot_draft *draft) {
  return !is_float(trm_operand_shape(draft->request, LHS)) ||
         !is_float(trm_operand_shape(draft->request, RHS)) ||
         !is_float(&draft->request->instruction->shape);
}

const trm_dot_way trm_dot_ways[] = {
    {.name = "fast", .cost = 0, .serves = are_other_types, .create = trm_fast_dot_create},
    {"tiles", 34, false, tiles_serve, add_tiles, NULL},
    {"vector", 50, false, vector_serves, add_vector, NULL},
    {"panels", 85, true, panels_serve, add_panels, NULL},
    {"onednn", 100, true, trm_onednn_dot_serves, trm_onednn_dot_add, NULL},
    {"sgemm", 105, true, trm_sgemm_dot_serves, trm_sgemm_dot_add, NULL},
};
const size_t trm_num_dot_ways = sizeof trm_dot_ways / sizeof *trm_dot_ways;

/* Adds the steps of the first way that serves, *out_way; a dot whose right side is to be packed has
 * none where that way cannot. */
static trm_status add_steps(trm_dot_draft *draft, const trm_dot_way **out_way, trm_error *error) {
  for (size_t i = 0; i < trm_num_dot_ways; ++i) {
    const trm_dot_way *way = &trm_dot_ways[i];
    if (way->add == NULL || !way->serves(draft)) continue;
    if (draft->packs_floats && (!way->keeps_right || draft->matrices[RHS].is_copied)) break;
    /* A way that did not serve after all may have added steps. */
    trm_sequence_rewind(draft->sequence);
    for (uint32_t side = 0; side < 2; ++side) draft->places[side] = trm_place_operand(side, 0);
    draft->result = trm_place_result(0);
    const trm_status status = way->add(draft, error);
    *out_way = way;
    if (status != TRM_UNIMPLEMENTED) return status;
  }
  return TRM_UNIMPLEMENTED;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* A kernel of steps, and what follows for further ones. */
typedef struct made {
  trm_kernel kernel;
  int threads;
  trm_dot_bits bits;
  trm_half_products products;
} made;

static double work_of(const trm_dot_draft *draft) {
  const trm_kernel_request *request = draft->request;
  const double outputs = (double)trm_shape_count(&request->instruction->shape);
  const double bytes = (double)trm_shape_bytes(trm_operand_shape(request, 0)) +
                       (double)trm_shape_bytes(trm_operand_shape(request, 1)) + 4 * outputs;
  return trm_sequence_work(bytes, trm_dot_operations(draft));
}

static trm_status make_sequence(const trm_dot_draft *from, double work, bool packs_floats,
                                made *out_made, trm_error *error) {
  trm_dot_draft draft = *from;
  draft.packs_floats = packs_floats;
  const trm_dot_way *way = NULL;
  trm_status status = trm_sequence_create(draft.request, work, &draft.sequence, error);
  if (status == TRM_OK) status = add_steps(&draft, &way, error);
  if (status == TRM_OK) {
    *out_made = (made){.threads = trm_sequence_threads(draft.sequence),
                       .bits = draft.bits,
                       .products = draft.products};
    status = trm_sequence_finish(draft.sequence, way->name, "dot", draft.products,
                                 &out_made->kernel, error);
  }
  if (status != TRM_OK) trm_sequence_free(draft.sequence);
  return status;
}

/* In a loop the kernel chooses between a plain and a packed right side. */
static trm_status make(const trm_dot_draft *draft, double work, made *out_made, trm_error *error) {
  TRY(make_sequence(draft, work, false, out_made, error));
  if (!trm_dot_may_pack_floats(draft->request, &draft->p)) return TRM_OK;
  made packed;
  const trm_status status = make_sequence(draft, work, true, &packed, error);
  if (status == TRM_UNIMPLEMENTED) return TRM_OK;
  if (status != TRM_OK) {
    trm_kernel_destroy(&out_made->kernel);
    return status;
  }
  return trm_kernel_choose_packed(draft->request->arena, &out_made->kernel, &packed.kernel, RHS,
                                  &out_made->kernel, error);
}

/* Makes a kernel for one thread. It takes the place of *all, or, if both give the same bits, a
 * kernel that chooses between them does. */
static trm_status make_for_one(const trm_dot_draft *draft, made *all, trm_error *error) {
  made one;
  const bool both = all->bits == TRM_BITS_SAME;
  const trm_status status = make(draft, 0, &one, error);
  if (status != TRM_OK || !both) trm_kernel_destroy(&all->kernel);
  if (status != TRM_OK) return status;
  if (!both) {
    all->kernel = one.kernel;
    return TRM_OK;
  }
  /* The format of packed pieces and floats may depend on the number of threads. */
  const bool same_packing = one.products == TRM_HALF_PRODUCTS_FLOAT &&
                            !trm_dot_may_pack_floats(draft->request, &draft->p);
  return trm_kernel_choose_threads(draft->request->arena, &one.kernel, &all->kernel, all->threads,
                                   same_packing, &all->kernel, error);
}

trm_status trm_dot_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                          bool *out_supported, trm_error *error) {
  *out_supported = false;
  trm_dot_draft draft = {.request = request};
  if (request->instruction->dot == NULL || trm_shape_count(trm_operand_shape(request, LHS)) == 0 ||
      trm_shape_count(trm_operand_shape(request, RHS)) == 0) {
    return TRM_OK;
  }
  for (size_t i = 0; i < trm_num_dot_ways; ++i) {
    const trm_dot_way *way = &trm_dot_ways[i];
    if (way->create != NULL && way->serves(&draft)) {
      return way->create(request, out_kernel, out_supported, error);
    }
  }
  trm_dot_restate(request, &draft.p);
  draft.rows = trm_dot_count(&draft.p.rows), draft.columns = trm_dot_count(&draft.p.columns);
  draft.inner = trm_dot_count(&draft.p.inner);
  trm_dot_plan(&draft);
  made found;
  trm_status status = make(&draft, work_of(&draft), &found, error);
  if (status == TRM_OK && found.threads > 1 && found.bits != TRM_BITS_UNKNOWN &&
      trm_dot_operations(&draft) <= TRM_ONE_THREAD_MOST_OPERATIONS) {
    status = make_for_one(&draft, &found, error);
  }
  if (status == TRM_UNIMPLEMENTED) return TRM_OK;
  *out_kernel = found.kernel;
  *out_supported = status == TRM_OK;
  return status;
}
