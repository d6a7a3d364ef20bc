/* Owns: joining operations that XLA's schedulers split into a start and a done, and rewriting old
 * and rare forms of instructions; annotations for partitioning over devices go.
 *
 * A start becomes the operation and a tuple like the start's; the done takes the result out of the
 * tuple. So a start whose done is in another iteration of a loop works too. */
#include <stdio.h>
#include <string.h>

#include "hlo/infer.h"
#include "hlo/literal.h"
#include "passes/edit.h"
#include "passes/expand.h"
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

/* The further elements of a start's tuple, which only a scheduler reads: zeros, or a token. */
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

/* Makes the tuple (operands, result, ...) of a start; in the tuple of a copy the result comes
 * first. */
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
  if (operation.opcode == TRM_OP_ALL_REDUCE) { /* it gives only the result */
    TRY(trm_edit_add(edit, index, operation, &result, error));
    trm_edit_replace(edit, index, result);
    return TRM_OK;
  }
  operation.shape = operation.shape.elements[1];
  TRY(trm_edit_add(edit, index, operation, &result, error));
  return replace_start(edit, index, result, error);
}

static trm_status take_element(trm_edit *edit, trm_index index, int64_t element, trm_error *error) {
  const trm_instruction done = *trm_edit_at(edit, index);
  const trm_instruction prototype = {.opcode = TRM_OP_GET_TUPLE_ELEMENT,
                                     .shape = done.shape,
                                     .num_operands = 1,
                                     .operands = done.operands,
                                     .number = element,
                                     .control_predecessors = done.control_predecessors,
                                     .num_control_predecessors = done.num_control_predecessors};
  trm_index taken;
  TRY(trm_edit_add(edit, index, prototype, &taken, error));
  trm_edit_replace(edit, index, taken);
  return TRM_OK;
}

/* Start indices in one array (the form before 2019) become a scalar for each dimension. */
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
    const trm_instruction part = {.opcode = TRM_OP_SLICE,
                                  .shape = single,
                                  .num_operands = 1,
                                  .operands = &slice.operands[first],
                                  .slice = range};
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

/* Whether a custom call may be an elementwise opcode: its result has the shape of its first
 * operand. */
static bool is_plain(const trm_edit *edit, const trm_instruction *call) {
  return call->num_operands > 0 && call->num_called == 0 &&
         trm_shape_equal(&call->shape, &trm_edit_at(edit, call->operands[0])->shape);
}

/* The arc tangent of an array of floats: the angle with 1. */
static trm_status rewrite_atan(trm_edit *edit, trm_index index, trm_error *error) {
  const trm_shape shape = trm_edit_at(edit, index)->shape;
  const trm_index x = trm_edit_at(edit, index)->operands[0];
  trm_index one, result;
  if (shape.rank == 0 || trm_dtype_is_complex(shape.dtype)) return TRM_OK;
  TRY(trm_edit_scalar(edit, index, shape.dtype, 1.0, &one, error));
  TRY(trm_edit_broadcast(edit, index, shape, one, 0, NULL, &one, error));
  TRY(trm_edit_binary(edit, index, TRM_OP_ATAN2, shape, x, one, &result, error));
  trm_edit_replace(edit, index, result);
  return TRM_OK;
}

/* A reduction whose result only the first of a group gets: the others may get it too. */
static trm_status rewrite_collective_reduce(trm_edit *edit, trm_index index, trm_error *error) {
  trm_instruction reduce = *trm_edit_at(edit, index);
  trm_index result;
  reduce.opcode = TRM_OP_ALL_REDUCE;
  TRY(trm_edit_add(edit, index, reduce, &result, error));
  trm_edit_replace(edit, index, result);
  return TRM_OK;
}

/* `{index = 3 : ui64}` becomes `{"host_call":"python callback 3"}`, or `"ordered python callback
 * 3"` for a call that takes and gives a token: JAX's function then has one more argument and
 * result. */
static trm_status rewrite_callback(trm_edit *edit, trm_index index, trm_error *error) {
  trm_arena *arena = &edit->module->arena;
  trm_instruction call = *trm_edit_at(edit, index);
  const char *config = call.backend_config_size == 0 ? "" : call.backend_config;
  unsigned number;
  trm_index result;
  if (sscanf(config, " { index = %u", &number) != 1) return TRM_OK;
  trm_custom_call *host_call = trm_arena_copy(arena, call.custom_call, sizeof *host_call);
  const bool is_ordered =
      call.num_operands > 0 && trm_edit_at(edit, call.operands[0])->shape.dtype == TRM_TOKEN;
  call.backend_config = trm_arena_format(arena, "{\"host_call\":\"%spython callback %u\"}",
                                         is_ordered ? "ordered " : "", number);
  if (host_call == NULL || call.backend_config == NULL) FAIL_NO_MEMORY("a call");
  call.backend_config_size = strlen(call.backend_config);
  host_call->target = trm_call_target(TRM_CALL_HOST_CALL);
  call.custom_call = host_call;
  TRY(trm_edit_add(edit, index, call, &result, error));
  trm_edit_replace(edit, index, result);
  return TRM_OK;
}

static trm_status rewrite_call(trm_edit *edit, trm_index index, trm_error *error) {
  const trm_instruction call = *trm_edit_at(edit, index);
  const trm_opcode opcode = trm_instruction_acts_as(&call);
  trm_index result;
  if (call.call_id == TRM_CALL_NONE) edit->changed = true; /* one that nothing uses goes */
  if (call.call_id == TRM_CALL_PYTHON_CALLBACK) return rewrite_callback(edit, index, error);
  if (call.call_id == TRM_CALL_TOP_K) return trm_expand_top_k_call(edit, index, error);
  if (!is_plain(edit, &call)) return TRM_OK;
  if (opcode == TRM_OP_COPY) {
    trm_edit_replace(edit, index, call.operands[0]);
    return TRM_OK;
  }
  if (!trm_opcode_is_elementwise(opcode) || call.num_operands != 1 ||
      !trm_shape_is_array(&call.shape) || !trm_dtype_is_floating(call.shape.dtype)) {
    return TRM_OK;
  }
  if (opcode == TRM_OP_ATAN) return rewrite_atan(edit, index, error);
  TRY(trm_edit_unary(edit, index, opcode, call.shape, call.operands[0], &result, error));
  trm_edit_replace(edit, index, result);
  return TRM_OK;
}

/* An operand of a scaled-dot times its scale, in float32. Each element of the scale is for a block
 * of the operand. */
static trm_status scale_operand(trm_edit *edit, trm_index index, trm_index operand, trm_index scale,
                                trm_index *out_product, trm_error *error) {
  trm_arena *arena = &edit->module->arena;
  const trm_shape from = trm_edit_at(edit, operand)->shape, of = trm_edit_at(edit, scale)->shape;
  trm_shape whole, blocks, spread;
  int64_t sizes[2 * TRM_MAX_RANK], kept[TRM_MAX_RANK];
  int32_t rank = 0;
  trm_index number, factor;
  for (int32_t d = 0; d < from.rank; ++d) {
    kept[d] = rank;
    sizes[rank++] = of.dims[d];
    if (of.dims[d] != from.dims[d]) sizes[rank++] = from.dims[d] / of.dims[d];
  }
  if (rank > TRM_MAX_RANK) {
    FAIL(UNIMPLEMENTED, "scaled-dot with scales of blocks in more than %d dimensions",
         TRM_MAX_RANK - from.rank);
  }
  if (!trm_shape_make(arena, TRM_F32, from.rank, from.dims, &whole) ||
      !trm_shape_make(arena, TRM_F32, of.rank, of.dims, &blocks) ||
      !trm_shape_make(arena, TRM_F32, rank, sizes, &spread)) {
    FAIL_NO_MEMORY("a shape");
  }
  TRY(trm_edit_unary(edit, index, TRM_OP_CONVERT, whole, operand, &number, error));
  TRY(trm_edit_unary(edit, index, TRM_OP_CONVERT, blocks, scale, &factor, error));
  TRY(trm_edit_broadcast(edit, index, spread, factor, of.rank, kept, &factor, error));
  TRY(trm_edit_unary(edit, index, TRM_OP_RESHAPE, whole, factor, &factor, error));
  return trm_edit_binary(edit, index, TRM_OP_MULTIPLY, whole, number, factor, out_product, error);
}

static trm_status expand_scaled_dot(trm_edit *edit, trm_index index, trm_error *error) {
  trm_instruction dot = *trm_edit_at(edit, index);
  const trm_shape stated = dot.shape;
  trm_index *operands = ARENA_NEW(&edit->module->arena, trm_index, 2);
  trm_index product;
  CHECK_MEMORY(operands, "a dot");
  for (uint32_t i = 0; i < 2; ++i) {
    TRY(scale_operand(edit, index, dot.operands[i], dot.operands[i + 2], &operands[i], error));
  }
  dot.opcode = TRM_OP_DOT;
  dot.operands = operands;
  dot.num_operands = 2;
  dot.shape.dtype = TRM_F32;
  TRY(trm_edit_add(edit, index, dot, &product, error));
  if (stated.dtype != TRM_F32) {
    TRY(trm_edit_unary(edit, index, TRM_OP_CONVERT, stated, product, &product, error));
  }
  trm_edit_replace(edit, index, product);
  return TRM_OK;
}

static trm_status rewrite(trm_edit *edit, trm_index index, void *state, trm_error *error) {
  (void)state;
  const trm_instruction *instruction = trm_edit_at(edit, index);
  trm_index copy;
  switch (instruction->opcode) {
    case TRM_OP_ALL_GATHER_START:
    case TRM_OP_ALL_REDUCE_START:
    case TRM_OP_COLLECTIVE_PERMUTE_START:
    case TRM_OP_ASYNC_START: return split_start(edit, index, error);
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
    case TRM_OP_ASYNC_DONE: return take_element(edit, index, 1, error);
    case TRM_OP_COPY_DONE: return take_element(edit, index, 0, error);
    case TRM_OP_CUSTOM_CALL: return rewrite_call(edit, index, error);
    case TRM_OP_ATAN: return rewrite_atan(edit, index, error);
    case TRM_OP_COLLECTIVE_REDUCE: return rewrite_collective_reduce(edit, index, error);
    case TRM_OP_SCAN: return trm_expand_scan(edit, index, error);
    case TRM_OP_SHUFFLE: return trm_expand_shuffle(edit, index, error);
    case TRM_OP_REDUCE:
    case TRM_OP_REDUCE_WINDOW:
    case TRM_OP_SCATTER: return trm_expand_packed(edit, index, error);
    case TRM_OP_RNG_BIT_GENERATOR: return trm_expand_random_bits(edit, index, error);
    case TRM_OP_BITCAST: return trm_expand_bitcast(edit, index, error);
    case TRM_OP_STOCHASTIC_CONVERT: return trm_expand_stochastic_convert(edit, index, error);
    case TRM_OP_RAGGED_DOT: return trm_expand_ragged_dot(edit, index, error);
    case TRM_OP_SCALED_DOT: return expand_scaled_dot(edit, index, error);
    case TRM_OP_DYNAMIC_SLICE:
    case TRM_OP_DYNAMIC_UPDATE_SLICE: return split_indices(edit, index, error);
    default: return TRM_OK;
  }
}

trm_status trm_pass_synchronous(trm_module *module, trm_error *error) {
  return trm_edit_module(module, rewrite, NULL, error);
}
