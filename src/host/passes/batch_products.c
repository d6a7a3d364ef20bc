/* Owns: products x[i] w in a loop that changes neither x nor w. The product becomes (x w)[i], still
 * in the body; hoist.c then moves x w out of the loop.
 *
 * A recurrent layer multiplies the input of each step by its weights in this way. One product for
 * all steps reads the weights once and keeps all cores busy. The result is the same for every
 * index: an index beyond the end is moved back for x in the same way as for x w. */
#include <string.h>

#include "base/limits.h"
#include "passes/loop_state.h"
#include "passes/pass.h"

/* ---- The body ------------------------------------------------------------------------------- */

typedef struct batcher {
  trm_edit edit;
  uint64_t iterations;
  bool *fixed; /* by instruction of the body: it does not change in the loop */
} batcher;

static bool is_worth_it(const batcher *b, const trm_instruction *dot, const trm_shape *array) {
  const trm_dims *contracting = &dot->dot->lhs_contracting;
  const int64_t slices = array->dims[0];
  int64_t rows = trm_shape_count(array) / slices;
  for (int32_t k = 0; k < contracting->count; ++k) {
    const int32_t before = array->rank - trm_edit_at(&b->edit, dot->operands[0])->shape.rank;
    rows /= array->dims[contracting->items[k] + before];
  }
  return slices > 1 && b->iterations >= (uint64_t)slices / 2 && rows <= TRM_BATCH_MOST_ROWS &&
         trm_shape_bytes(&dot->shape) <= (size_t)TRM_BATCH_MOST_BYTES / (size_t)slices;
}

/* Adds the product of all slices, with the slices as its first dimension. */
static trm_status add_whole(batcher *b, trm_index i, const trm_loop_slice *p, trm_index *out,
                            trm_error *error) {
  trm_arena *arena = &b->edit.module->arena;
  trm_instruction whole = *trm_edit_at(&b->edit, i);
  trm_dot *how = trm_arena_copy(arena, whole.dot, sizeof *how);
  CHECK_MEMORY(how, "a product");
  const trm_shape array = trm_edit_at(&b->edit, p->array)->shape;
  int64_t dims[TRM_MAX_RANK] = {array.dims[0]};
  const int32_t drops = p->drops;
  for (int32_t d = 1 - drops; d < whole.shape.rank; ++d) dims[d + drops] = whole.shape.dims[d];
  if (!trm_shape_make(arena, whole.shape.dtype, whole.shape.rank + drops, dims, &whole.shape)) {
    FAIL_NO_MEMORY("a product");
  }
  trm_dims *contracting = &how->lhs_contracting;
  contracting->items =
      trm_arena_copy(arena, contracting->items, (size_t)contracting->count * sizeof(int64_t));
  CHECK_MEMORY(contracting->items, "a product");
  for (int32_t k = 0; k < contracting->count; ++k) contracting->items[k] += drops;
  trm_index operands[2] = {p->array, whole.operands[1]};
  whole.operands = operands;
  whole.dot = how;
  return trm_edit_add(&b->edit, i, whole, out, error);
}

static trm_status batch_product(batcher *b, trm_index i, const trm_loop_slice *p,
                                trm_error *error) {
  trm_edit *edit = &b->edit;
  trm_arena *arena = &edit->module->arena;
  trm_index operands[TRM_MAX_RANK + 1], one;
  TRY(add_whole(b, i, p, &operands[0], error));
  const trm_shape whole = trm_edit_at(edit, operands[0])->shape;
  const trm_dtype counts = trm_edit_at(edit, p->index)->shape.dtype;
  operands[1] = p->index;
  if (trm_edit_at(edit, p->index)->shape.rank > 0) {
    const trm_shape scalar = {.dtype = counts};
    TRY(trm_edit_unary(edit, i, TRM_OP_RESHAPE, scalar, p->index, &operands[1], error));
  }
  for (int32_t d = 1; d < whole.rank; ++d)
    TRY(trm_edit_scalar(edit, i, counts, 0, &operands[d + 1], error));
  trm_instruction slice = {.opcode = TRM_OP_DYNAMIC_SLICE,
                           .num_operands = (uint32_t)whole.rank + 1,
                           .operands = operands};
  slice.sizes.count = whole.rank;
  slice.sizes.items = trm_arena_copy(arena, whole.dims, (size_t)whole.rank * sizeof(int64_t));
  CHECK_MEMORY(slice.sizes.items, "a product");
  slice.sizes.items[0] = 1;
  if (!trm_shape_make(arena, whole.dtype, whole.rank, slice.sizes.items, &slice.shape)) {
    FAIL_NO_MEMORY("a product");
  }
  TRY(trm_edit_add(edit, i, slice, &one, error));
  const trm_shape shape = trm_edit_at(edit, i)->shape;
  if (p->drops) TRY(trm_edit_unary(edit, i, TRM_OP_RESHAPE, shape, one, &one, error));
  trm_edit_replace(edit, i, one);
  return TRM_OK;
}

static trm_status visit(batcher *b, trm_index i, trm_error *error) {
  const trm_instruction *dot = trm_edit_at(&b->edit, i);
  trm_loop_slice p;
  if (dot->opcode != TRM_OP_DOT || dot->num_control_predecessors > 0 ||
      dot->dot->lhs_batch.count > 0 || !b->fixed[dot->operands[1]] ||
      !trm_find_loop_slice(trm_edit_computation(&b->edit), b->fixed, dot->operands[0], &p)) {
    return TRM_OK;
  }
  for (int32_t k = 0; k < dot->dot->lhs_contracting.count; ++k)
    if (!p.drops && dot->dot->lhs_contracting.items[k] == 0) return TRM_OK;
  if (!is_worth_it(b, dot, &trm_edit_at(&b->edit, p.array)->shape)) return TRM_OK;
  return batch_product(b, i, &p, error);
}

static trm_status batch_body(trm_module *module, uint32_t body, uint64_t iterations,
                             trm_error *error) {
  const uint32_t count = module->computations[body].num_instructions;
  batcher b = {.iterations = iterations};
  b.fixed = trm_allocate_zeroed((size_t)count + 1, sizeof *b.fixed);
  trm_status status = TRM_OK;
  CHECK_MEMORY(b.fixed, "a loop");
  if (!trm_find_fixed(&module->computations[body], b.fixed)) goto done;
  TRY_OR_GOTO(trm_edit_begin(&b.edit, module, body, error), done);
  for (trm_index i = 0; i < count && status == TRM_OK; ++i) status = visit(&b, i, error);
  status = trm_edit_end(&b.edit, status, error);
done:
  trm_free(b.fixed);
  return status;
}

/* ---- The loop ------------------------------------------------------------------------------- */

static trm_status batch_loop(trm_edit *edit, trm_index i, void *state, trm_error *error) {
  (void)state;
  const trm_instruction *instruction = trm_edit_at(edit, i);
  if (instruction->opcode != TRM_OP_WHILE || !trm_loop_may_grow(edit, i)) return TRM_OK;
  const uint32_t body = instruction->called[1];
  trm_known_loop known;
  TRY(trm_known_loop_make(edit, i, &known, error));
  trm_known_loop_free(&known);
  return known.iterations == 0 ? TRM_OK : batch_body(edit->module, body, known.iterations, error);
}

trm_status trm_pass_batch_products(trm_module *module, trm_error *error) {
  return trm_edit_module(module, batch_loop, NULL, error);
}
