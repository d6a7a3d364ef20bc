/* Owns: what XLA's own schedulers split in time, put together again, and old forms brought up to
 * date; what concerns only who cuts a program up for several devices, left out.
 *
 * A start becomes the operation itself and a tuple such as the start gave; its end takes the result
 * out of that. So a start whose end is in another turn of a loop works too. */
#include <string.h>

#include "hlo/literal.h"
#include "passes/edit.h"
#include "passes/pass.h"

/* The operation that a start begins; TRM_NUM_OPCODES where it is none. */
static trm_opcode operation_of(trm_opcode start) {
  switch (start) {
    case TRM_OP_ALL_GATHER_START: return TRM_OP_ALL_GATHER;
    case TRM_OP_ALL_REDUCE_START: return TRM_OP_ALL_REDUCE;
    case TRM_OP_COLLECTIVE_PERMUTE_START: return TRM_OP_COLLECTIVE_PERMUTE;
    case TRM_OP_ASYNC_START: return TRM_OP_CALL;
    default: return TRM_NUM_OPCODES;
  }
}

static trm_status add_tuple(trm_edit *edit, trm_index like, trm_shape shape, uint32_t count,
                            trm_index *elements, trm_index *out_index, trm_error *error) {
  const trm_instruction prototype = {
      .opcode = TRM_OP_TUPLE, .shape = shape, .num_operands = count, .operands = elements};
  return trm_edit_add(edit, like, prototype, out_index, error);
}

/* What another program notes in the tuple of a start: zeros, or a token. */
static trm_status add_note(trm_edit *edit, trm_index like, trm_shape shape, trm_index *out_index,
                           trm_error *error) {
  trm_instruction prototype = {.opcode = TRM_OP_AFTER_ALL, .shape = shape};
  if (trm_shape_is_array(&shape)) {
    trm_literal *zeros;
    TRY(trm_literal_make(&edit->module->arena, &shape, &zeros, error));
    prototype.opcode = TRM_OP_CONSTANT;
    prototype.literal = zeros;
  }
  return trm_edit_add(edit, like, prototype, out_index, error);
}

/* The tuple (operands, result, notes...) of a start; a copy has its result first. */
static trm_status replace_start(trm_edit *edit, trm_index index, trm_index result,
                                trm_error *error) {
  const trm_instruction start = *trm_edit_at(edit, index);
  const bool is_copy = start.opcode == TRM_OP_COPY_START;
  const uint32_t count = (uint32_t)start.shape.num_elements;
  trm_index operands, tuple;
  trm_index *elements = ARENA_NEW(&edit->module->arena, trm_index, count);
  CHECK_MEMORY(elements, "a tuple");
  if (start.opcode == TRM_OP_ASYNC_START || start.num_operands != 1) {
    TRY(add_tuple(edit, index, start.shape.elements[0], start.num_operands, start.operands,
                  &operands, error));
  } else {
    operands = start.operands[0];
  }
  elements[0] = is_copy ? result : operands;
  elements[1] = is_copy ? operands : result;
  for (uint32_t i = 2; i < count; ++i) {
    TRY(add_note(edit, index, start.shape.elements[i], &elements[i], error));
  }
  TRY(add_tuple(edit, index, start.shape, count, elements, &tuple, error));
  trm_edit_replace(edit, index, tuple);
  return TRM_OK;
}

static trm_status split_start(trm_edit *edit, trm_index index, trm_error *error) {
  trm_instruction operation = *trm_edit_at(edit, index);
  trm_index result;
  operation.opcode = operation_of(operation.opcode);
  if (operation.opcode == TRM_OP_ALL_REDUCE) { /* it gives the result alone */
    TRY(trm_edit_add(edit, index, operation, &result, error));
    trm_edit_replace(edit, index, result);
    return TRM_OK;
  }
  operation.shape = operation.shape.elements[1];
  TRY(trm_edit_add(edit, index, operation, &result, error));
  return replace_start(edit, index, result, error);
}

static trm_status take_element(trm_edit *edit, trm_index index, int64_t element,
                               trm_error *error) {
  const trm_instruction done = *trm_edit_at(edit, index);
  const trm_instruction prototype = {
      .opcode = TRM_OP_GET_TUPLE_ELEMENT, .shape = done.shape, .num_operands = 1,
      .operands = done.operands, .number = element,
      .control_predecessors = done.control_predecessors,
      .num_control_predecessors = done.num_control_predecessors};
  trm_index taken;
  TRY(trm_edit_add(edit, index, prototype, &taken, error));
  trm_edit_replace(edit, index, taken);
  return TRM_OK;
}

/* Start indices in one array, as before 2019: a scalar for each dimension. */
static trm_status split_indices(trm_edit *edit, trm_index index, trm_error *error) {
  trm_instruction slice = *trm_edit_at(edit, index);
  trm_arena *arena = &edit->module->arena;
  const uint32_t first = slice.opcode == TRM_OP_DYNAMIC_SLICE ? 1 : 2;
  if (slice.num_operands != first + 1) return TRM_OK;
  const trm_shape indices = trm_edit_at(edit, slice.operands[first])->shape;
  if (indices.rank != 1) return TRM_OK;
  const uint32_t rank = (uint32_t)indices.dims[0];
  const int64_t one = 1;
  trm_shape single;
  trm_index *operands = ARENA_NEW(arena, trm_index, first + rank);
  if (operands == NULL || !trm_shape_make(arena, indices.dtype, 1, &one, &single)) {
    FAIL_NO_MEMORY("start indices");
  }
  for (uint32_t i = 0; i < first; ++i) operands[i] = slice.operands[i];
  for (uint32_t d = 0; d < rank; ++d) {
    trm_slice_dimension *range = ARENA_NEW(arena, trm_slice_dimension, 1);
    CHECK_MEMORY(range, "start indices");
    *range = (trm_slice_dimension){d, d + 1, 1};
    const trm_instruction part = {.opcode = TRM_OP_SLICE, .shape = single, .num_operands = 1,
                                  .operands = &slice.operands[first], .slice = range};
    trm_index taken;
    TRY(trm_edit_add(edit, index, part, &taken, error));
    TRY(trm_edit_unary(edit, index, TRM_OP_RESHAPE, (trm_shape){.dtype = indices.dtype}, taken,
                       &operands[first + d], error));
  }
  slice.operands = operands;
  slice.num_operands = first + rank;
  trm_index whole;
  TRY(trm_edit_add(edit, index, slice, &whole, error));
  trm_edit_replace(edit, index, whole);
  return TRM_OK;
}

/* Custom calls that say where or how large a value is to someone who cuts a program up. On one
 * device the value itself is all there is to them: a shard is the whole. */
static bool is_annotation(const trm_edit *edit, const trm_instruction *instruction) {
  static const char *const targets[] = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape",
                                        "SetBound", "LayoutConstraint", "annotate_device_placement",
                                        "MoveToDevice", "MoveToHost", "Pin", "Unpin"};
  if (instruction->num_operands == 0 || instruction->num_called > 0 ||
      !trm_shape_equal(&instruction->shape,
                       &trm_edit_at(edit, instruction->operands[0])->shape)) {
    return false;
  }
  for (size_t i = 0; i < sizeof targets / sizeof *targets; ++i) {
    if (strcmp(instruction->custom_call->target, targets[i]) == 0) return true;
  }
  return false;
}

static trm_status rewrite(trm_edit *edit, trm_index index, void *state, trm_error *error) {
  (void)state;
  const trm_instruction *instruction = trm_edit_at(edit, index);
  trm_index copy;
  switch (instruction->opcode) {
    case TRM_OP_ALL_GATHER_START:
    case TRM_OP_ALL_REDUCE_START:
    case TRM_OP_COLLECTIVE_PERMUTE_START:
    case TRM_OP_ASYNC_START:
      return split_start(edit, index, error);
    case TRM_OP_COPY_START:
      TRY(trm_edit_unary(edit, index, TRM_OP_COPY, instruction->shape.elements[0],
                         instruction->operands[0], &copy, error));
      return replace_start(edit, index, copy, error);
    case TRM_OP_ASYNC_UPDATE:
    case TRM_OP_ALL_REDUCE_DONE:
      trm_edit_replace(edit, index, instruction->operands[0]);
      return TRM_OK;
    case TRM_OP_ALL_GATHER_DONE:
    case TRM_OP_COLLECTIVE_PERMUTE_DONE:
    case TRM_OP_ASYNC_DONE:
      return take_element(edit, index, 1, error);
    case TRM_OP_COPY_DONE:
      return take_element(edit, index, 0, error);
    case TRM_OP_CUSTOM_CALL:
      if (is_annotation(edit, instruction)) trm_edit_replace(edit, index, instruction->operands[0]);
      return TRM_OK;
    case TRM_OP_DYNAMIC_SLICE:
    case TRM_OP_DYNAMIC_UPDATE_SLICE:
      return split_indices(edit, index, error);
    default:
      return TRM_OK;
  }
}

trm_status trm_pass_synchronous(trm_module *module, trm_error *error) {
  return trm_edit_module(module, rewrite, NULL, error);
}
