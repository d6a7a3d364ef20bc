/* Owns: sorts of which only the first places are read become topk.
 *
 * TensorFlow's top_k, among others, is lowered to a stable sort of values and their places, and a
 * slice of the result. A topk reads each element once; a sort moves each many times. */
#include <string.h>

#include "base/limits.h"
#include "host/ops/reduce/sort_keys.h"
#include "host/ops/reference.h"
#include "passes/edit.h"
#include "passes/pass.h"

/* The sorted dimension if it is the last one and not empty; else -1. */
static int32_t sorted_dimension(const trm_instruction *sort, const trm_shape *values) {
  const bool is_last = sort->dimensions.count == 1 && values->rank > 0 &&
                       sort->dimensions.items[0] == values->rank - 1;
  return is_last && values->dims[values->rank - 1] > 0 ? values->rank - 1 : -1;
}

/* Whether an instruction is 0, 1, 2, ... along a dimension, in s32. */
static bool counts(const trm_instruction *iota, int32_t dimension) {
  return iota->opcode == TRM_OP_IOTA && iota->shape.dtype == TRM_S32 &&
         iota->dimensions.count == 1 && iota->dimensions.items[0] == dimension;
}

/* How many places of the dimension a slice keeps, from the first on, with all of the other
 * dimensions; -1 for any other slice. */
static int64_t first_places(const trm_instruction *slice, const trm_shape *operand,
                            int32_t dimension) {
  for (int32_t d = 0; d < operand->rank; ++d) {
    const trm_slice_dimension *s = &slice->slice[d];
    if (s->start != 0 || s->stride != 1) return -1;
    if (d != dimension && s->limit != operand->dims[d]) return -1;
  }
  return slice->slice[dimension].limit;
}

/* The largest number of places that a reader keeps; -1 where a reader keeps other places. */
static int64_t most_places(const trm_edit *e, trm_index sort, int32_t dimension) {
  const trm_computation *c = trm_edit_computation(e);
  int64_t most = 0;
  if (c->root == sort) return -1;
  for (trm_index i = sort + 1; i < c->num_instructions; ++i) {
    const trm_instruction *reader = &c->instructions[i];
    for (uint32_t k = 0; k < reader->num_operands; ++k) {
      const trm_instruction *operand = &c->instructions[reader->operands[k]];
      if (reader->operands[k] == sort) {
        if (reader->opcode != TRM_OP_GET_TUPLE_ELEMENT || c->root == i) return -1;
      } else if (operand->opcode == TRM_OP_GET_TUPLE_ELEMENT && operand->operands[0] == sort) {
        const int64_t places =
            reader->opcode == TRM_OP_SLICE ? first_places(reader, &operand->shape, dimension) : -1;
        if (places < 0) return -1;
        most = places > most ? places : most;
      }
    }
  }
  return most;
}

/* Whether the comparator is a total order of the values, so that a topk has the same places. */
static trm_status find_order(trm_edit *e, const trm_instruction *sort, const trm_shape *values,
                             bool *out_found, bool *out_descends, trm_error *error) {
  sort_keys keys;
  TRY(trm_sort_find_keys(e->module, sort->called[0], &e->module->arena, &keys, error));
  const sort_key *key = &keys.keys[0];
  *out_found = keys.count == 1 && key->kind == SORT_KEY_PLAIN && key->operand == 0 &&
               (key->is_total || trm_dtype_kind(values->dtype) != TRM_KIND_FLOAT);
  *out_descends = key->descends;
  return TRM_OK;
}

static trm_status rewrite(trm_edit *e, trm_index i, void *state, trm_error *error) {
  (void)state;
  const trm_instruction sort = *trm_edit_at(e, i);
  if (sort.opcode != TRM_OP_SORT || sort.num_operands != 2 || !sort.is_stable) return TRM_OK;
  const trm_index values = trm_edit_operand(e, i, 0);
  const trm_shape shape = trm_edit_at(e, values)->shape;
  const int32_t dimension = sorted_dimension(&sort, &shape);
  if (dimension < 0 || !counts(trm_edit_at(e, trm_edit_operand(e, i, 1)), dimension)) return TRM_OK;
  const int64_t places = most_places(e, i, dimension);
  if (places < 1 || places > shape.dims[dimension] / TRM_TOP_K_LEAST_SHARE) return TRM_OK;
  bool found, descends;
  TRY(find_order(e, &sort, &shape, &found, &descends, error));
  if (!found) return TRM_OK;

  trm_arena *arena = &e->module->arena;
  trm_shape *leaves = ARENA_NEW(arena, trm_shape, 2);
  int64_t *dims = ARENA_NEW(arena, int64_t, (size_t)shape.rank);
  trm_index *operand = ARENA_NEW(arena, trm_index, 1);
  if (leaves == NULL || dims == NULL || operand == NULL) FAIL_NO_MEMORY("a topk");
  memcpy(dims, shape.dims, (size_t)shape.rank * sizeof *dims);
  dims[dimension] = places;
  leaves[0] = (trm_shape){.dtype = shape.dtype, .rank = shape.rank, .dims = dims};
  leaves[1] = (trm_shape){.dtype = TRM_S32, .rank = shape.rank, .dims = dims};
  *operand = values;
  trm_index topk;
  TRY(trm_edit_add(e, i,
                   (trm_instruction){.opcode = TRM_OP_TOPK,
                                     .shape = trm_shape_of_tuple(2, leaves),
                                     .operands = operand,
                                     .num_operands = 1,
                                     .number = places,
                                     .largest = descends,
                                     .is_stable = true},
                   &topk, error));
  /* The readers take elements of the topk, whose dimension is as long as the longest slice. */
  trm_edit_replace(e, i, topk);
  const uint32_t count = trm_edit_computation(e)->num_instructions;
  for (trm_index r = i + 1; r < count; ++r) {
    trm_instruction *reader = trm_edit_at(e, r);
    if (reader->opcode == TRM_OP_GET_TUPLE_ELEMENT && reader->operands[0] == i) {
      reader->shape = leaves[reader->number];
    }
  }
  return TRM_OK;
}

trm_status trm_pass_top_k(trm_module *module, trm_error *error) {
  return trm_edit_module(module, rewrite, NULL, error);
}
