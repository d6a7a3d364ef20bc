/* Owns: slices of elementwise instructions of which only slices are read. The slices move to the
 * operands, so the whole value is in no memory. For example, the gates of a recurrent layer are
 * slices of one sum, and the sum and the gates become one fusion. Nothing is computed twice,
 * because the slices together have no more elements than the value. */
#include <string.h>

#include "passes/edit.h"
#include "passes/pass.h"

enum { MAX_LEVELS = 16 };

typedef struct sinker {
  /* By instruction: elements of the slices that read it; -1: another instruction reads it. */
  int64_t *elements;
} sinker;

static bool is_slice(const trm_instruction *instruction) {
  if (instruction->opcode != TRM_OP_SLICE || instruction->num_control_predecessors > 0)
    return false;
  for (int32_t d = 0; d < instruction->shape.rank; ++d)
    if (instruction->slice[d].stride != 1) return false;
  return true;
}

static void count_users(const trm_computation *computation, sinker *s) {
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      const trm_index operand = instruction->operands[k];
      if (!is_slice(instruction)) s->elements[operand] = -1;
      if (s->elements[operand] >= 0) s->elements[operand] += trm_shape_count(&instruction->shape);
    }
    for (uint32_t k = 0; k < instruction->num_control_predecessors; ++k)
      s->elements[instruction->control_predecessors[k]] = -1;
  }
  s->elements[computation->root] = -1;
}

static bool may_sink(const trm_computation *computation, const sinker *s, trm_index i) {
  const trm_instruction *instruction = &computation->instructions[i];
  if (!trm_opcode_is_elementwise(instruction->opcode) ||
      instruction->num_control_predecessors > 0 || s->elements[i] < 0 ||
      s->elements[i] > trm_shape_count(&instruction->shape)) {
    return false;
  }
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_shape *shape = &computation->instructions[instruction->operands[k]].shape;
    if (!trm_shape_same_dims(shape, &instruction->shape)) return false;
  }
  return true;
}

static trm_status add_slice(trm_edit *edit, trm_index like, trm_index operand,
                            const trm_slice_dimension *slice, trm_index *out, trm_error *error) {
  trm_arena *arena = &edit->module->arena;
  const trm_shape from = trm_edit_at(edit, operand)->shape;
  int64_t dims[TRM_MAX_RANK];
  bool is_whole = true;
  for (int32_t d = 0; d < from.rank; ++d) {
    dims[d] = slice[d].limit - slice[d].start;
    is_whole = is_whole && dims[d] == from.dims[d];
  }
  *out = operand;
  if (is_whole) return TRM_OK;
  trm_instruction fresh = {.opcode = TRM_OP_SLICE, .num_operands = 1, .operands = &operand};
  fresh.slice = trm_arena_copy(arena, slice, (size_t)from.rank * sizeof *slice);
  CHECK_MEMORY(fresh.slice, "a slice");
  if (!trm_shape_make(arena, from.dtype, from.rank, dims, &fresh.shape)) FAIL_NO_MEMORY("a slice");
  return trm_edit_add(edit, like, fresh, out, error);
}

/* Slices an operand; of a broadcast, its source. */
static trm_status slice_operand(trm_edit *edit, trm_index like, trm_index operand,
                                const trm_slice_dimension *slice, const trm_shape *shape,
                                trm_index *out, trm_error *error) {
  const trm_instruction from = *trm_edit_at(edit, operand);
  if (from.opcode != TRM_OP_BROADCAST || from.num_control_predecessors > 0) {
    return add_slice(edit, like, operand, slice, out, error);
  }
  const trm_index source = trm_edit_resolve(edit, from.operands[0]);
  trm_slice_dimension part[TRM_MAX_RANK];
  for (int32_t k = 0; k < from.dimensions.count; ++k) part[k] = slice[from.dimensions.items[k]];
  trm_index sliced;
  TRY(add_slice(edit, like, source, part, &sliced, error));
  trm_shape target = *shape;
  target.dtype = from.shape.dtype;
  return trm_edit_broadcast(edit, like, target, sliced, from.dimensions.count,
                            from.dimensions.items, out, error);
}

static trm_status sink(trm_edit *edit, trm_index i, void *state, trm_error *error) {
  const sinker *s = state;
  const trm_instruction slice = *trm_edit_at(edit, i);
  if (!is_slice(&slice) || !may_sink(trm_edit_computation(edit), s, slice.operands[0])) {
    return TRM_OK;
  }
  trm_instruction part = *trm_edit_at(edit, slice.operands[0]);
  trm_index operands[TRM_MAX_RANK], fresh;
  for (uint32_t k = 0; k < part.num_operands; ++k) {
    const trm_index operand = trm_edit_resolve(edit, part.operands[k]);
    TRY(slice_operand(edit, i, operand, slice.slice, &slice.shape, &operands[k], error));
  }
  part.operands = operands;
  part.shape = slice.shape;
  TRY(trm_edit_add(edit, slice.operands[0], part, &fresh, error));
  trm_edit_replace(edit, i, fresh);
  return TRM_OK;
}

static trm_status sink_level(trm_module *module, uint32_t index, bool *out_changed,
                             trm_error *error) {
  const trm_computation *computation = &module->computations[index];
  const uint32_t count = computation->num_instructions;
  *out_changed = false;
  sinker s = {.elements = trm_allocate_zeroed((size_t)count + 1, sizeof(int64_t))};
  CHECK_MEMORY(s.elements, "slices");
  count_users(computation, &s);
  for (trm_index i = 0; i < count && !*out_changed; ++i) {
    const trm_instruction *instruction = &computation->instructions[i];
    *out_changed = is_slice(instruction) && may_sink(computation, &s, instruction->operands[0]);
  }
  trm_status status = TRM_OK;
  if (*out_changed) status = trm_edit_instructions(module, index, sink, &s, error);
  trm_free(s.elements);
  return status;
}

trm_status trm_pass_sink_slices(trm_module *module, trm_error *error) {
  const uint32_t count = module->num_computations;
  for (uint32_t c = 0; c < count; ++c) {
    bool changed = true;
    for (int level = 0; level < MAX_LEVELS && changed; ++level)
      TRY(sink_level(module, c, &changed, error));
  }
  return TRM_OK;
}
