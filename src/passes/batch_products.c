/* Owns: products of which every turn of a loop computes one part: x[i] w, with x and w that do not
 * change. Such a product becomes (x w)[i], still in the body; hoist.c moves x w out.
 *
 * A recurrent layer multiplies the input of each step by its weights so. All steps at once read the
 * weights once, and keep all cores busy. Whatever the index is, the part is the same one: indices
 * beyond the end are moved back for x as for x w. */
#include <string.h>

#include "hlo/loops.h"
#include "passes/hoist.h"
#include "passes/pass.h"

enum {
  MOST_ROWS = 256, /* of one part: a larger product gains nothing by company */
  MOST_BYTES = 1 << 26
};

/* x[i]: one part, along the first dimension, of an array. */
typedef struct part {
  trm_index array, index;
  bool drops; /* the first dimension, which is 1, is dropped */
} part;

/* ---- The body ------------------------------------------------------------------------------- */

typedef struct batcher {
  trm_edit edit;
  uint64_t turns;
  bool *fixed; /* by instruction of the body: does not change in the loop */
} batcher;

static bool has_dims(const trm_dims *dims, int32_t from, int32_t count) {
  if (dims->count != count) return false;
  for (int32_t k = 0; k < count; ++k)
    if (dims->items[k] != from + k) return false;
  return true;
}

/* The sizes are those of the array, but 1 for the first dimension. */
static bool is_one_part(const trm_shape *array, const trm_dims *sizes) {
  if (sizes->count != array->rank || array->rank < 2 || sizes->items[0] != 1) return false;
  for (int32_t d = 1; d < array->rank; ++d)
    if (sizes->items[d] != array->dims[d]) return false;
  return true;
}

static bool is_gather_of_part(const trm_computation *body, const trm_instruction *gather) {
  const trm_shape *array = &body->instructions[gather->operands[0]].shape;
  const trm_gather *how = gather->gather;
  return is_one_part(array, &how->slice_sizes) && how->operand_batching_dims.count == 0 &&
         has_dims(&how->start_index_map, 0, 1) &&
         trm_shape_count(&body->instructions[gather->operands[1]].shape) == 1 &&
         ((how->collapsed_slice_dims.count == 0 && has_dims(&how->offset_dims, 0, array->rank)) ||
          (has_dims(&how->collapsed_slice_dims, 0, 1) &&
           has_dims(&how->offset_dims, 0, array->rank - 1)));
}

static bool find_part(const batcher *b, trm_index i, part *out) {
  const trm_computation *body = trm_edit_computation(&b->edit);
  const trm_instruction *instruction = &body->instructions[i];
  const trm_shape *wanted = &instruction->shape;
  if (instruction->opcode == TRM_OP_RESHAPE) {
    instruction = &body->instructions[instruction->operands[0]];
  }
  if (instruction->num_control_predecessors > 0) return false;
  if (instruction->opcode == TRM_OP_GATHER) {
    if (!is_gather_of_part(body, instruction)) return false;
  } else if (instruction->opcode == TRM_OP_DYNAMIC_SLICE) {
    const trm_shape *array = &body->instructions[instruction->operands[0]].shape;
    if (!is_one_part(array, &instruction->sizes) ||
        instruction->num_operands != (uint32_t)array->rank + 1) {
      return false;
    }
  } else {
    return false;
  }
  *out = (part){.array = instruction->operands[0], .index = instruction->operands[1]};
  const trm_shape *array = &body->instructions[out->array].shape;
  out->drops = wanted->rank == array->rank - 1;
  if (!b->fixed[out->array] || (!out->drops && wanted->rank != array->rank)) return false;
  for (int32_t d = 1; d < array->rank; ++d)
    if (wanted->dims[d - out->drops] != array->dims[d]) return false;
  return true;
}

static bool is_worth_it(const batcher *b, const trm_instruction *dot, const trm_shape *array) {
  const trm_dims *contracting = &dot->dot->lhs_contracting;
  const int64_t parts = array->dims[0];
  int64_t rows = trm_shape_count(array) / parts;
  for (int32_t k = 0; k < contracting->count; ++k) {
    const int32_t before = array->rank - trm_edit_at(&b->edit, dot->operands[0])->shape.rank;
    rows /= array->dims[contracting->items[k] + before];
  }
  return parts > 1 && b->turns >= (uint64_t)parts / 2 && rows <= MOST_ROWS &&
         trm_shape_bytes(&dot->shape) <= (size_t)MOST_BYTES / (size_t)parts;
}

/* The product of all parts: its first dimension is that of the parts. */
static trm_status add_whole(batcher *b, trm_index i, const part *p, trm_index *out,
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

static trm_status batch_product(batcher *b, trm_index i, const part *p, trm_error *error) {
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
  part p;
  if (dot->opcode != TRM_OP_DOT || dot->num_control_predecessors > 0 ||
      dot->dot->lhs_batch.count > 0 || !b->fixed[dot->operands[1]] ||
      !find_part(b, dot->operands[0], &p)) {
    return TRM_OK;
  }
  for (int32_t k = 0; k < dot->dot->lhs_contracting.count; ++k)
    if (!p.drops && dot->dot->lhs_contracting.items[k] == 0) return TRM_OK;
  if (!is_worth_it(b, dot, &trm_edit_at(&b->edit, p.array)->shape)) return TRM_OK;
  return batch_product(b, i, &p, error);
}

static void mark_fixed(const trm_computation *body, const int64_t *source, bool *fixed) {
  for (trm_index i = 0; i < body->num_instructions; ++i) {
    const trm_instruction *instruction = &body->instructions[i];
    fixed[i] = source[i] >= 0;
    if (instruction->opcode == TRM_OP_RESHAPE) fixed[i] = fixed[instruction->operands[0]];
  }
}

static trm_status batch_body(trm_module *module, uint32_t body, uint64_t turns, trm_error *error) {
  const uint32_t count = module->computations[body].num_instructions;
  batcher b = {.turns = turns};
  int64_t *source = trm_allocate(((size_t)count + 1) * sizeof *source);
  b.fixed = trm_allocate_zeroed((size_t)count + 1, sizeof *b.fixed);
  trm_status status = TRM_OK;
  if (source == NULL || b.fixed == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory for a loop");
  }
  if (!trm_hoist_find_sources(&module->computations[body], source)) goto done;
  mark_fixed(&module->computations[body], source, b.fixed);
  TRY_OR_GOTO(trm_edit_begin(&b.edit, module, body, error), done);
  for (trm_index i = 0; i < count && status == TRM_OK; ++i) status = visit(&b, i, error);
  status = trm_edit_end(&b.edit, status, error);
done:
  trm_free(source);
  trm_free(b.fixed);
  return status;
}

/* ---- The loop ------------------------------------------------------------------------------- */

typedef struct beginning {
  const trm_edit *edit;
  trm_index init; /* a tuple */
} beginning;

static const void *first_value(const void *context, int32_t leaf) {
  const beginning *begin = context;
  const trm_shape *state = &trm_edit_at(begin->edit, begin->init)->shape;
  uint32_t k = 0;
  for (int32_t before = 0; before < leaf; ++k) before += trm_shape_num_leaves(&state->elements[k]);
  if (trm_shape_leaf_offset(state, (int32_t)k) != leaf || !trm_shape_is_array(&state->elements[k]))
    return NULL;
  const trm_index operand = trm_edit_operand(begin->edit, begin->init, k);
  const trm_instruction *first = trm_edit_at(begin->edit, operand);
  if (first->opcode != TRM_OP_CONSTANT || first->literal == NULL) return NULL;
  return trm_shape_count(&first->shape) == 1 ? first->literal->leaves[0] : NULL;
}

static trm_status count_turns(const trm_edit *edit, trm_index i, uint64_t *out, trm_error *error) {
  const trm_instruction *instruction = trm_edit_at(edit, i);
  const int32_t count = trm_shape_num_leaves(&instruction->shape);
  *out = 0;
  bool *invariant = trm_allocate_zeroed((size_t)count + 1, sizeof *invariant);
  CHECK_MEMORY(invariant, "a loop");
  const beginning begin = {edit, trm_edit_resolve(edit, instruction->operands[0])};
  const trm_computation *computations = edit->module->computations;
  const trm_loop loop = {.condition = &computations[instruction->called[0]],
                         .body = &computations[instruction->called[1]],
                         .state = &instruction->shape,
                         .invariant = invariant,
                         .first_value = first_value,
                         .context = &begin};
  trm_loop_find_invariant(loop.body, invariant, count);
  bool is_exact;
  if (!trm_loop_trip_count(&loop, out, &is_exact)) *out = 0;
  trm_free(invariant);
  return TRM_OK;
}

static trm_status batch_loop(trm_edit *edit, trm_index i, void *state, trm_error *error) {
  (void)state;
  const trm_instruction *instruction = trm_edit_at(edit, i);
  if (instruction->opcode != TRM_OP_WHILE || !trm_hoist_is_possible(edit, i)) return TRM_OK;
  const uint32_t body = instruction->called[1];
  uint64_t turns;
  TRY(count_turns(edit, i, &turns, error));
  return turns == 0 ? TRM_OK : batch_body(edit->module, body, turns, error);
}

trm_status trm_pass_batch_products(trm_module *module, trm_error *error) {
  return trm_edit_module(module, batch_loop, NULL, error);
}
