/* Owns: reading and growing the state of while loops (loop_state.h). */
#include "passes/loop_state.h"

#include <string.h>

/* ---- The state ------------------------------------------------------------------------------ */

/* The element of the state that an instruction of the body takes and the body hands on unchanged,
 * or -1. */
static int64_t source_of(const trm_computation *body, trm_index i) {
  const trm_instruction *root = &body->instructions[body->root];
  const trm_instruction *instruction = &body->instructions[i];
  const int64_t element = trm_state_element(body, instruction);
  if (element < 0 || element >= (int64_t)root->num_operands) return -1;
  const trm_instruction *back = &body->instructions[root->operands[instruction->number]];
  const bool is_same = back == instruction || (back->opcode == TRM_OP_GET_TUPLE_ELEMENT &&
                                               back->operands[0] == instruction->operands[0] &&
                                               back->number == instruction->number);
  return is_same ? instruction->number : -1;
}

bool trm_find_sources(const trm_computation *body, int64_t *source) {
  if (body->instructions[body->root].opcode != TRM_OP_TUPLE) return false;
  for (trm_index i = 0; i < body->num_instructions; ++i) source[i] = source_of(body, i);
  return true;
}

bool trm_find_fixed(const trm_computation *body, bool *fixed) {
  const trm_instruction *root = &body->instructions[body->root];
  if (root->opcode != TRM_OP_TUPLE) return false;
  for (trm_index i = 0; i < body->num_instructions; ++i) {
    const trm_instruction *instruction = &body->instructions[i];
    fixed[i] = instruction->opcode == TRM_OP_RESHAPE ? fixed[instruction->operands[0]]
                                                     : source_of(body, i) >= 0;
  }
  return true;
}

/* Whether a tuple is only read element by element, so that no reader sees it grow. */
static bool is_taken_apart(const trm_computation *computation, trm_index index) {
  for (trm_index i = index + 1; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      if (instruction->operands[k] == index && instruction->opcode != TRM_OP_GET_TUPLE_ELEMENT) {
        return false;
      }
    }
  }
  return computation->root != index;
}

bool trm_loop_may_grow(const trm_edit *edit, trm_index i) {
  const trm_instruction *instruction = trm_edit_at(edit, i);
  const trm_computation *computations = edit->module->computations;
  const trm_computation *condition = &computations[instruction->called[0]];
  const trm_computation *body = &computations[instruction->called[1]];
  const trm_index init = trm_edit_resolve(edit, instruction->operands[0]);
  return is_taken_apart(trm_edit_computation(edit), i) &&
         trm_edit_at(edit, init)->opcode == TRM_OP_TUPLE &&
         is_taken_apart(body, body->parameters[0]) &&
         is_taken_apart(condition, condition->parameters[0]);
}

static trm_status append_elements(trm_module *module, uint32_t computation, trm_index index,
                                  const trm_shape *shapes, uint32_t extra, trm_error *error) {
  trm_instruction *instruction = &module->computations[computation].instructions[index];
  const uint32_t before = (uint32_t)instruction->shape.num_elements;
  trm_shape *elements = ARENA_NEW(&module->arena, trm_shape, before + extra);
  CHECK_MEMORY(elements, "loop state");
  memcpy(elements, instruction->shape.elements, before * sizeof *elements);
  memcpy(elements + before, shapes, extra * sizeof *elements);
  instruction->shape = trm_shape_of_tuple((int32_t)(before + extra), elements);
  return TRM_OK;
}

static trm_status append_operands(trm_module *module, uint32_t computation, trm_index index,
                                  const trm_index *operands, uint32_t extra, trm_error *error) {
  trm_instruction *instruction = &module->computations[computation].instructions[index];
  const uint32_t before = instruction->num_operands;
  trm_index *grown = ARENA_NEW(&module->arena, trm_index, before + extra);
  CHECK_MEMORY(grown, "loop state");
  memcpy(grown, instruction->operands, before * sizeof *grown);
  memcpy(grown + before, operands, extra * sizeof *grown);
  instruction->operands = grown;
  instruction->num_operands = before + extra;
  return TRM_OK;
}

trm_status trm_loop_grow(trm_edit *edit, trm_index i, const trm_shape *shapes,
                         const trm_index *first, uint32_t count, trm_error *error) {
  trm_module *module = edit->module;
  const trm_index init = trm_edit_resolve(edit, trm_edit_at(edit, i)->operands[0]);
  /* A new tuple, because the old one may have other users. */
  trm_instruction tuple = *trm_edit_at(edit, init);
  trm_index fresh;
  TRY(trm_edit_add(edit, init, tuple, &fresh, error));
  TRY(append_operands(module, edit->computation, fresh, first, count, error));
  TRY(append_elements(module, edit->computation, fresh, shapes, count, error));
  trm_edit_at(edit, i)->operands[0] = fresh;
  TRY(append_elements(module, edit->computation, i, shapes, count, error));
  edit->changed = true;
  for (int side = 0; side < 2; ++side) {
    const uint32_t c = trm_edit_at(edit, i)->called[side];
    const trm_index parameter = module->computations[c].parameters[0];
    TRY(append_elements(module, c, parameter, shapes, count, error));
  }
  return TRM_OK;
}

trm_status trm_loop_grow_result(trm_module *module, uint32_t body, const trm_shape *shapes,
                                const trm_index *next, uint32_t count, trm_error *error) {
  const trm_index root = module->computations[body].root;
  TRY(append_operands(module, body, root, next, count, error));
  return append_elements(module, body, root, shapes, count, error);
}

/* ---- Parts ---------------------------------------------------------------------------------- */

static bool has_dims(const trm_dims *dims, int32_t from, int32_t count) {
  if (dims->count != count) return false;
  for (int32_t k = 0; k < count; ++k)
    if (dims->items[k] != from + k) return false;
  return true;
}

/* Whether the sizes are those of the array, with 1 for the first dimension. */
static bool is_one_slice(const trm_shape *array, const trm_dims *sizes) {
  if (sizes->count != array->rank || array->rank < 2 || sizes->items[0] != 1) return false;
  for (int32_t d = 1; d < array->rank; ++d)
    if (sizes->items[d] != array->dims[d]) return false;
  return true;
}

static bool is_gather_of_slice(const trm_computation *body, const trm_instruction *gather) {
  const trm_shape *array = &body->instructions[gather->operands[0]].shape;
  const trm_gather *how = gather->gather;
  return is_one_slice(array, &how->slice_sizes) && how->operand_batching_dims.count == 0 &&
         has_dims(&how->start_index_map, 0, 1) &&
         trm_shape_count(&body->instructions[gather->operands[1]].shape) == 1 &&
         ((how->collapsed_slice_dims.count == 0 && has_dims(&how->offset_dims, 0, array->rank)) ||
          (has_dims(&how->collapsed_slice_dims, 0, 1) &&
           has_dims(&how->offset_dims, 0, array->rank - 1)));
}

bool trm_find_loop_slice(const trm_computation *body, const bool *fixed, trm_index i,
                         trm_loop_slice *out) {
  const trm_instruction *instruction = &body->instructions[i];
  const trm_shape *wanted = &instruction->shape;
  if (instruction->opcode == TRM_OP_RESHAPE) {
    instruction = &body->instructions[instruction->operands[0]];
  }
  if (instruction->num_control_predecessors > 0) return false;
  if (instruction->opcode == TRM_OP_GATHER) {
    if (!is_gather_of_slice(body, instruction)) return false;
  } else if (instruction->opcode == TRM_OP_DYNAMIC_SLICE) {
    const trm_shape *array = &body->instructions[instruction->operands[0]].shape;
    if (!is_one_slice(array, &instruction->sizes) ||
        instruction->num_operands != (uint32_t)array->rank + 1) {
      return false;
    }
  } else {
    return false;
  }
  *out = (trm_loop_slice){.array = instruction->operands[0], .index = instruction->operands[1]};
  const trm_shape *array = &body->instructions[out->array].shape;
  out->drops = wanted->rank == array->rank - 1;
  if (!fixed[out->array] || (!out->drops && wanted->rank != array->rank)) return false;
  for (int32_t d = 1; d < array->rank; ++d)
    if (wanted->dims[d - out->drops] != array->dims[d]) return false;
  return true;
}

/* ---- Iterations ------------------------------------------------------------------------------ */

static const void *first_value(const void *context, int32_t leaf) {
  const trm_known_loop *known = context;
  const trm_shape *state = &trm_edit_at(known->edit, known->init)->shape;
  uint32_t k = 0;
  for (int32_t before = 0; before < leaf; ++k) before += trm_shape_num_leaves(&state->elements[k]);
  if (trm_shape_leaf_offset(state, (int32_t)k) != leaf || !trm_shape_is_array(&state->elements[k]))
    return NULL;
  const trm_index operand = trm_edit_operand(known->edit, known->init, k);
  const trm_instruction *first = trm_edit_at(known->edit, operand);
  if (first->opcode != TRM_OP_CONSTANT || first->literal == NULL) return NULL;
  return trm_shape_count(&first->shape) == 1 ? first->literal->leaves[0] : NULL;
}

trm_status trm_known_loop_make(const trm_edit *edit, trm_index i, trm_known_loop *out,
                               trm_error *error) {
  const trm_instruction *instruction = trm_edit_at(edit, i);
  const int32_t count = trm_shape_num_leaves(&instruction->shape);
  bool *invariant = trm_allocate_zeroed((size_t)count + 1, sizeof *invariant);
  CHECK_MEMORY(invariant, "a loop");
  const trm_computation *computations = edit->module->computations;
  *out = (trm_known_loop){.edit = edit, .init = trm_edit_resolve(edit, instruction->operands[0])};
  out->loop = (trm_loop){.condition = &computations[instruction->called[0]],
                         .body = &computations[instruction->called[1]],
                         .state = &instruction->shape,
                         .invariant = invariant,
                         .first_value = first_value,
                         .context = out};
  trm_loop_find_invariant(out->loop.body, invariant, count);
  if (!trm_loop_trip_count(&out->loop, &out->iterations, &out->is_exact)) out->iterations = 0;
  return TRM_OK;
}

void trm_known_loop_free(trm_known_loop *known) {
  trm_free((void *)known->loop.invariant);
  known->loop.invariant = NULL;
}
