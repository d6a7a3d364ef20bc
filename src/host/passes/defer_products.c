/* Owns: sums of products over the iterations of a loop, s += a[i] b[i], such as the gradient of the
 * weights of a recurrent layer. Where the loop does not read s otherwise, one product after the
 * loop, which also sums over the iterations, takes their place. It reads and writes the sum once
 * instead of in every iteration. The loop keeps a[i] and b[i] of all iterations; where one of them
 * is already a slice of an array, the loop keeps the other in the order of that array. */
#include <string.h>

#include "base/limits.h"
#include "passes/loop_state.h"
#include "passes/pass.h"

enum {
  MAX_CHAIN = 4 /* transposes and reshapes between the product and the sum */
};

/* The values of an instruction of the body in all iterations. */
typedef struct history {
  trm_index value, index; /* instructions of the body: the value, and its place */
  int64_t element;        /* of the state: the array that has the values already; -1: none */
} history;

typedef struct deferred {
  int64_t element; /* of the state: the sum */
  trm_index dot, addend;
  uint32_t sides[2]; /* numbers of histories */
} deferred;

typedef struct deferrer {
  trm_edit *edit;
  trm_index loop;
  const trm_computation *body;
  trm_known_loop known;
  uint32_t *uses; /* by instruction of the body */
  bool *fixed;
  VECTOR(history) histories;
  VECTOR(deferred) deferred;
  size_t kept_bytes;
} deferrer;

/* ---- Finding -------------------------------------------------------------------------------- */

static const trm_instruction *body_at(const deferrer *d, trm_index i) {
  return &d->body->instructions[i];
}

static void count_uses(deferrer *d) {
  for (trm_index i = 0; i < d->body->num_instructions; ++i) {
    const trm_instruction *instruction = body_at(d, i);
    for (uint32_t k = 0; k < instruction->num_operands; ++k) ++d->uses[instruction->operands[k]];
    for (uint32_t k = 0; k < instruction->num_control_predecessors; ++k)
      d->uses[instruction->control_predecessors[k]] += 2;
  }
}

static bool is_private(const deferrer *d, trm_index i) {
  return d->uses[i] == 1 && body_at(d, i)->num_control_predecessors == 0;
}

/* Whether an element of the state is a sum of products: finds the addend of each iteration and its
 * product. */
static bool find_sum(const deferrer *d, int64_t element, deferred *out) {
  const trm_index sum = body_at(d, d->body->root)->operands[element];
  const trm_instruction *add = body_at(d, sum);
  if (add->opcode != TRM_OP_ADD || add->shape.dtype != TRM_F32 || !is_private(d, sum)) return false;
  for (uint32_t k = 0; k < 2; ++k) {
    const trm_instruction *before = body_at(d, add->operands[k]);
    if (before->opcode != TRM_OP_GET_TUPLE_ELEMENT || before->number != element ||
        before->operands[0] != d->body->parameters[0] || d->uses[add->operands[k]] != 1) {
      continue;
    }
    trm_index i = add->operands[1 - k];
    *out = (deferred){.element = element, .addend = i};
    for (int step = 0; step <= MAX_CHAIN && is_private(d, i); ++step) {
      const trm_instruction *instruction = body_at(d, i);
      out->dot = i;
      if (instruction->opcode == TRM_OP_DOT) {
        return instruction->dot->lhs_batch.count == 0 &&
               body_at(d, instruction->operands[0])->shape.dtype == TRM_F32 &&
               trm_count_readers(d->body, element) == 1 &&
               trm_count_readers(d->known.loop.condition, element) == 0;
      }
      if (instruction->opcode != TRM_OP_TRANSPOSE && instruction->opcode != TRM_OP_RESHAPE) break;
      i = instruction->operands[0];
    }
  }
  return false;
}

/* An instruction of the body that counts the iterations, or TRM_NO_INDEX. */
static trm_index find_counter(const deferrer *d) {
  for (trm_index i = 0; i < d->body->num_instructions; ++i) {
    if (body_at(d, i)->opcode == TRM_OP_GET_TUPLE_ELEMENT && body_at(d, i)->shape.rank == 0 &&
        trm_shape_is_array(&body_at(d, i)->shape) &&
        trm_loop_counts_through(&d->known.loop, i, d->known.iterations)) {
      return i;
    }
  }
  return TRM_NO_INDEX;
}

/* Whether a value is slice i of an array with one slice for each iteration. */
static bool find_array(const deferrer *d, trm_index value, history *out) {
  trm_loop_slice slice;
  if (!trm_find_loop_slice(d->body, d->fixed, value, &slice) || !slice.drops) return false;
  const trm_instruction *array = body_at(d, slice.array);
  if (array->opcode != TRM_OP_GET_TUPLE_ELEMENT ||
      d->known.iterations != (uint64_t)array->shape.dims[0])
    return false;
  *out = (history){value, slice.index, array->number};
  return trm_loop_counts_through(&d->known.loop, slice.index, d->known.iterations);
}

static trm_status add_history(deferrer *d, const history *one, uint32_t *out, trm_error *error) {
  for (uint32_t h = 0; h < d->histories.count; ++h) {
    if (d->histories.items[h].value != one->value || d->histories.items[h].index != one->index)
      continue;
    *out = h;
    return TRM_OK;
  }
  *out = (uint32_t)d->histories.count;
  if (!VECTOR_PUSH(&d->histories, *one)) FAIL_NO_MEMORY("a loop");
  return TRM_OK;
}

/* Chooses histories for both operands with a common index. False where keeping them costs too
 * much. */
static bool choose_histories(deferrer *d, const deferred *sum, history *sides) {
  const trm_instruction *dot = body_at(d, sum->dot);
  bool is_there[2];
  for (int side = 0; side < 2; ++side) {
    is_there[side] = find_array(d, dot->operands[side], &sides[side]);
    if (!is_there[side]) sides[side] = (history){dot->operands[side], TRM_NO_INDEX, -1};
    if (body_at(d, dot->operands[side])->shape.rank == TRM_MAX_RANK) return false;
  }
  trm_index index = is_there[0] ? sides[0].index : sides[1].index;
  if (!is_there[0] && !is_there[1]) index = find_counter(d);
  if (index == TRM_NO_INDEX || trm_shape_count(&body_at(d, index)->shape) != 1) return false;
  for (int side = 0; side < 2; ++side) {
    if (sides[side].index != index) sides[side].element = -1;
    sides[side].index = index;
    if (sides[side].element >= 0) continue;
    const size_t bytes = trm_shape_bytes(&body_at(d, sides[side].value)->shape);
    if (bytes > trm_shape_bytes(&dot->shape) || bytes > TRM_DEFER_MOST_BYTES / d->known.iterations)
      return false;
    d->kept_bytes += bytes * d->known.iterations;
  }
  return d->kept_bytes <= TRM_DEFER_MOST_BYTES;
}

static trm_status find_sums(deferrer *d, trm_error *error) {
  const uint32_t elements = body_at(d, d->body->root)->num_operands;
  for (int64_t k = 0; k < elements; ++k) {
    deferred sum;
    history sides[2];
    const size_t kept = d->kept_bytes;
    if (!find_sum(d, k, &sum)) continue;
    if (!choose_histories(d, &sum, sides)) {
      d->kept_bytes = kept;
      continue;
    }
    for (int side = 0; side < 2; ++side) TRY(add_history(d, &sides[side], &sum.sides[side], error));
    if (!VECTOR_PUSH(&d->deferred, sum)) FAIL_NO_MEMORY("a loop");
  }
  return TRM_OK;
}

/* ---- Rewriting ------------------------------------------------------------------------------ */

static trm_status shape_at_iterations(trm_arena *arena, const trm_shape *one, uint64_t iterations,
                                      trm_shape *out, trm_error *error) {
  int64_t dims[TRM_MAX_RANK] = {(int64_t)iterations};
  memcpy(dims + 1, one->dims, (size_t)one->rank * sizeof *dims);
  if (!trm_shape_make(arena, one->dtype, one->rank + 1, dims, out)) FAIL_NO_MEMORY("a loop");
  return TRM_OK;
}

/* In the body: writes the value of this iteration into its history. */
static trm_status write_iteration(trm_edit *body, const history *one, int64_t element,
                                  trm_index *out, trm_error *error) {
  trm_arena *arena = &body->module->arena;
  const trm_index parameter = trm_edit_computation(body)->parameters[0];
  trm_index operands[TRM_MAX_RANK + 3];
  TRY(trm_edit_element(body, one->value, parameter, element, &operands[0], error));
  const trm_shape whole = trm_edit_at(body, operands[0])->shape;
  trm_shape slice;
  TRY(shape_at_iterations(arena, &trm_edit_at(body, one->value)->shape, 1, &slice, error));
  TRY(trm_edit_unary(body, one->value, TRM_OP_RESHAPE, slice, one->value, &operands[1], error));
  const trm_shape *index = &trm_edit_at(body, one->index)->shape;
  const trm_shape scalar = {.dtype = index->dtype};
  operands[2] = one->index;
  if (index->rank > 0) {
    TRY(trm_edit_unary(body, one->value, TRM_OP_RESHAPE, scalar, one->index, &operands[2], error));
  }
  for (int32_t k = 1; k < whole.rank; ++k)
    TRY(trm_edit_scalar(body, one->value, scalar.dtype, 0, &operands[k + 2], error));
  const trm_instruction update = {.opcode = TRM_OP_DYNAMIC_UPDATE_SLICE,
                                  .shape = whole,
                                  .num_operands = (uint32_t)whole.rank + 2,
                                  .operands = operands};
  return trm_edit_add(body, one->value, update, out, error);
}

/* In the body: writes the histories, and hands the sums on unchanged. `next` has a place for each
 * history. */
static trm_status rewrite_body(deferrer *d, uint32_t body, int64_t before, const trm_shape *shapes,
                               trm_index *next, uint32_t count, trm_error *error) {
  trm_module *module = d->edit->module;
  trm_edit edit;
  TRY(trm_edit_begin(&edit, module, body, error));
  const trm_index root = trm_edit_computation(&edit)->root;
  const trm_index parameter = trm_edit_computation(&edit)->parameters[0];
  const uint32_t elements = trm_edit_at(&edit, root)->num_operands;
  trm_status status = TRM_OK;
  trm_index *operands = trm_arena_copy(&module->arena, trm_edit_at(&edit, root)->operands,
                                       elements * sizeof *operands);
  if (operands == NULL) FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory for a loop");
  for (uint32_t h = 0, r = 0; h < d->histories.count; ++h) {
    const history *one = &d->histories.items[h];
    if (one->element >= 0) continue;
    TRY_OR_GOTO(write_iteration(&edit, one, before + r, &next[r], error), done);
    ++r;
  }
  for (size_t s = 0; s < d->deferred.count; ++s) {
    const int64_t k = d->deferred.items[s].element;
    TRY_OR_GOTO(trm_edit_element(&edit, root, parameter, k, &operands[k], error), done);
  }
  trm_edit_at(&edit, root)->operands = operands;
  edit.changed = true;
  status = trm_loop_grow_result(module, body, shapes, next, count, error);
done:
  return trm_edit_end(&edit, status, error);
}

/* After the loop: adds the product over all iterations, in the shape of the dot. */
static trm_status add_product(deferrer *d, const deferred *sum, const trm_index *sides,
                              trm_index *out, trm_error *error) {
  trm_arena *arena = &d->edit->module->arena;
  trm_instruction copy = d->edit->module->computations[trm_edit_at(d->edit, d->loop)->called[1]]
                             .instructions[sum->dot];
  trm_dot *how = trm_arena_copy(arena, copy.dot, sizeof *how);
  CHECK_MEMORY(how, "a product");
  trm_dims *both[2] = {&how->lhs_contracting, &how->rhs_contracting};
  for (int side = 0; side < 2; ++side) {
    const int32_t count = both[side]->count;
    int64_t *items = ARENA_NEW(arena, int64_t, (size_t)count + 1);
    CHECK_MEMORY(items, "a product");
    items[0] = 0;
    for (int32_t k = 0; k < count; ++k) items[k + 1] = both[side]->items[k] + 1;
    *both[side] = (trm_dims){.count = count + 1, .items = items};
  }
  trm_index operands[2] = {sides[0], sides[1]};
  copy.dot = how;
  copy.operands = operands;
  return trm_edit_add(d->edit, d->loop, copy, out, error);
}

/* Adds the transposes and reshapes between the product and the sum. */
static trm_status add_chain(deferrer *d, const deferred *sum, trm_index *at, trm_error *error) {
  const uint32_t body = trm_edit_at(d->edit, d->loop)->called[1];
  trm_index chain[MAX_CHAIN + 1];
  int count = 0;
  for (trm_index i = sum->addend; i != sum->dot; ++count) {
    chain[count] = i;
    i = d->edit->module->computations[body].instructions[i].operands[0];
  }
  while (count-- > 0) {
    trm_instruction copy = d->edit->module->computations[body].instructions[chain[count]];
    trm_index from = *at;
    copy.operands = &from;
    TRY(trm_edit_add(d->edit, d->loop, copy, at, error));
  }
  return TRM_OK;
}

/* Readers of the sum after the loop read first + product instead. `arrays` has the array of each
 * history. */
static trm_status replace_sum(deferrer *d, const deferred *sum, trm_index first,
                              const trm_index *arrays, trm_error *error) {
  const trm_index sides[2] = {arrays[sum->sides[0]], arrays[sum->sides[1]]};
  const uint32_t count = trm_edit_computation(d->edit)->num_instructions;
  trm_index product, whole;
  TRY(add_product(d, sum, sides, &product, error));
  TRY(add_chain(d, sum, &product, error));
  const trm_shape shape = trm_edit_at(d->edit, first)->shape;
  TRY(trm_edit_binary(d->edit, d->loop, TRM_OP_ADD, shape, first, product, &whole, error));
  for (trm_index i = 0; i < count; ++i) {
    const trm_instruction *instruction = trm_edit_at(d->edit, i);
    if (instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT && instruction->operands[0] == d->loop &&
        instruction->number == sum->element) {
      trm_edit_replace(d->edit, i, whole);
    }
  }
  return TRM_OK;
}

/* The initial contents of a history, which are never read. */
static trm_status add_first(trm_edit *edit, trm_index loop, trm_shape shape, trm_index *out,
                            trm_error *error) {
  trm_index zero;
  TRY(trm_edit_scalar(edit, loop, shape.dtype, 0, &zero, error));
  return trm_edit_broadcast(edit, loop, shape, zero, 0, NULL, out, error);
}

static trm_status defer(deferrer *d, trm_error *error) {
  trm_edit *edit = d->edit;
  trm_module *module = edit->module;
  const uint32_t body = trm_edit_at(edit, d->loop)->called[1];
  const int64_t before = trm_edit_at(edit, d->loop)->shape.num_elements;
  const size_t most = d->histories.count;
  trm_shape *shapes = ARENA_NEW(&module->arena, trm_shape, most);
  trm_index *first = ARENA_NEW(&module->arena, trm_index, most);
  trm_index *next = ARENA_NEW(&module->arena, trm_index, most);
  trm_index *arrays = ARENA_NEW(&module->arena, trm_index, most);
  if (shapes == NULL || first == NULL || next == NULL || arrays == NULL) FAIL_NO_MEMORY("a loop");
  uint32_t count = 0;
  for (size_t h = 0; h < most; ++h) {
    const history *one = &d->histories.items[h];
    if (one->element >= 0) continue;
    TRY(shape_at_iterations(&module->arena, &body_at(d, one->value)->shape, d->known.iterations,
                            &shapes[count], error));
    TRY(add_first(edit, d->loop, shapes[count], &first[count], error));
    ++count;
  }
  TRY(trm_loop_grow(edit, d->loop, shapes, first, count, error));
  /* Readers of the sums change before the body stops computing the sums. */
  const trm_index init = trm_edit_resolve(edit, trm_edit_at(edit, d->loop)->operands[0]);
  for (size_t h = 0, r = 0; h < most; ++h) {
    const int64_t element = d->histories.items[h].element;
    if (element >= 0) arrays[h] = trm_edit_operand(edit, init, (uint32_t)element);
    else TRY(trm_edit_element(edit, d->loop, d->loop, before + (int64_t)r++, &arrays[h], error));
  }
  for (size_t s = 0; s < d->deferred.count; ++s) {
    const deferred *sum = &d->deferred.items[s];
    const trm_index from = trm_edit_operand(edit, init, (uint32_t)sum->element);
    TRY(replace_sum(d, sum, from, arrays, error));
  }
  return rewrite_body(d, body, before, shapes, next, count, error);
}

static trm_status defer_in_loop(trm_edit *edit, trm_index i, void *state, trm_error *error) {
  (void)state;
  const trm_instruction *loop = trm_edit_at(edit, i);
  if (loop->opcode != TRM_OP_WHILE || !trm_loop_may_grow(edit, i)) return TRM_OK;
  deferrer d = {.edit = edit, .loop = i, .body = &edit->module->computations[loop->called[1]]};
  if (body_at(&d, d.body->root)->opcode != TRM_OP_TUPLE) return TRM_OK;
  TRY(trm_known_loop_make(edit, i, &d.known, error));
  trm_status status = TRM_OK;
  if (!d.known.is_exact || d.known.iterations < TRM_DEFER_LEAST_ITERATIONS ||
      d.known.iterations > INT32_MAX)
    goto done;
  d.uses = trm_allocate_zeroed((size_t)d.body->num_instructions + 1, sizeof *d.uses);
  d.fixed = trm_allocate_zeroed((size_t)d.body->num_instructions + 1, sizeof *d.fixed);
  if (d.uses == NULL || d.fixed == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory for a loop");
  }
  trm_find_fixed(d.body, d.fixed);
  count_uses(&d);
  TRY_OR_GOTO(find_sums(&d, error), done);
  if (d.deferred.count > 0) status = defer(&d, error);
done:
  trm_known_loop_free(&d.known);
  trm_free(d.uses);
  trm_free(d.fixed);
  VECTOR_FREE(&d.histories);
  VECTOR_FREE(&d.deferred);
  return status;
}

trm_status trm_pass_defer_products(trm_module *module, trm_error *error) {
  return trm_edit_module(module, defer_in_loop, NULL, error);
}
