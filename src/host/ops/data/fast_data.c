/* Owns: fast kernels of the opcodes that move elements to known places. Their moves are made with
 * the kernel. */
#include "host/ops/data/fast_data.h"

#include <string.h>

#include "host/ops/elementwise/strip.h"

/* ---- One move ------------------------------------------------------------------------------- */

typedef struct move_state {
  trm_move move;
  int64_t base; /* in the operand */
} move_state;

static trm_status run_move(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  const move_state *state = kernel->state;
  const int64_t size = (int64_t)1 << state->move.log2_size;
  const char *from = call->operands[0];
  trm_move_run(&state->move, call->results[0], from + state->base * size, true);
  return TRM_OK;
}

/* Finds the place from which element (0, ..) of the result is read, and the strides of reading. */
static void plan_reading(const trm_instruction *instruction, const trm_shape *operand,
                         int64_t *from, int64_t *out_base) {
  int64_t strides[TRM_MAX_RANK], base = 0;
  trm_row_major_strides(operand, strides);
  for (int32_t d = 0; d < instruction->shape.rank; ++d) from[d] = 0;
  for (int32_t d = 0; d < operand->rank; ++d) {
    switch (instruction->opcode) {
      case TRM_OP_BROADCAST: from[instruction->dimensions.items[d]] = strides[d]; break;
      case TRM_OP_TRANSPOSE: from[d] = strides[instruction->dimensions.items[d]]; break;
      case TRM_OP_SLICE:
        base += instruction->slice[d].start * strides[d];
        from[d] = instruction->slice[d].stride * strides[d];
        break;
      default: from[d] = strides[d]; break; /* reverse: its strides change below */
    }
  }
  if (instruction->opcode == TRM_OP_REVERSE) {
    for (int32_t i = 0; i < instruction->dimensions.count; ++i) {
      const int64_t d = instruction->dimensions.items[i];
      if (from[d] <= 0) continue; /* the dimension is named twice */
      base += (operand->dims[d] - 1) * strides[d];
      from[d] = -strides[d];
    }
  }
  *out_base = base;
}

static trm_status create_move(const trm_kernel_request *request, trm_kernel *out_kernel,
                              trm_error *error) {
  const trm_shape *shape = &request->instruction->shape;
  move_state *state = ARENA_NEW(request->arena, move_state, 1);
  CHECK_MEMORY(state, "a data kernel");
  int64_t to[TRM_MAX_RANK], from[TRM_MAX_RANK];
  trm_row_major_strides(shape, to);
  plan_reading(request->instruction, trm_operand_shape(request, 0), from, &state->base);
  trm_move_make(shape->rank, shape->dims, to, from, trm_dtype_size(shape->dtype), &state->move);
  *out_kernel = (trm_kernel){.name = "fast.move", .state = state, .run = run_move};
  return TRM_OK;
}

/* ---- Copies --------------------------------------------------------------------------------- */

static trm_status run_copy(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  trm_move_bytes(call->results[0], call->operands[0], *(const size_t *)kernel->state);
  return TRM_OK;
}

static trm_status create_copy(const trm_kernel_request *request, trm_kernel *out_kernel,
                              trm_error *error) {
  size_t *bytes = ARENA_NEW(request->arena, size_t, 1);
  CHECK_MEMORY(bytes, "a data kernel");
  *bytes = trm_shape_bytes(&request->instruction->shape);
  *out_kernel =
      (trm_kernel){.name = "fast.copy", .in_place_operands = 1, .state = bytes, .run = run_copy};
  return TRM_OK;
}

/* ---- Concatenate ---------------------------------------------------------------------------- */

typedef struct concatenate_state {
  uint32_t count;
  trm_move *moves;
  int64_t *offsets; /* in the result, in elements */
} concatenate_state;

static trm_status run_concatenate(const trm_kernel *kernel, const trm_kernel_call *call,
                                  trm_error *error) {
  (void)error;
  const concatenate_state *state = kernel->state;
  for (uint32_t i = 0; i < state->count; ++i) {
    const trm_move *move = &state->moves[i];
    trm_move_run(move, (char *)call->results[0] + (state->offsets[i] << move->log2_size),
                 call->operands[i], true);
  }
  return TRM_OK;
}

static trm_status create_concatenate(const trm_kernel_request *request, trm_kernel *out_kernel,
                                     trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *shape = &instruction->shape;
  concatenate_state *state = ARENA_NEW(request->arena, concatenate_state, 1);
  CHECK_MEMORY(state, "a data kernel");
  state->count = instruction->num_operands;
  state->moves = ARENA_NEW(request->arena, trm_move, state->count);
  state->offsets = ARENA_NEW(request->arena, int64_t, state->count);
  CHECK_MEMORY(state->moves, "a data kernel");
  CHECK_MEMORY(state->offsets, "a data kernel");
  const int64_t dimension = instruction->dimensions.items[0];
  int64_t to[TRM_MAX_RANK], offset = 0;
  trm_row_major_strides(shape, to);
  for (uint32_t i = 0; i < state->count; ++i) {
    const trm_shape *operand = trm_operand_shape(request, i);
    int64_t from[TRM_MAX_RANK];
    trm_row_major_strides(operand, from);
    trm_move_make(shape->rank, operand->dims, to, from, trm_dtype_size(shape->dtype),
                  &state->moves[i]);
    state->offsets[i] = offset * to[dimension];
    offset += operand->dims[dimension];
  }
  *out_kernel = (trm_kernel){.name = "fast.concatenate", .state = state, .run = run_concatenate};
  return TRM_OK;
}

/* ---- Iota ----------------------------------------------------------------------------------- */

static trm_status run_iota(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  trm_strip_run(kernel->state, call->operands, call->results, call->scratch);
  return TRM_OK;
}

static trm_status create_iota(const trm_kernel_request *request, trm_kernel *out_kernel,
                              bool *out_supported, trm_error *error) {
  trm_strip_code *code;
  trm_instruction instruction = *request->instruction;
  const trm_computation single = {.num_instructions = 1, .instructions = &instruction};
  TRY(trm_strip_compile(request->module, &single, request->arena, &code, out_supported, error));
  if (!*out_supported) return TRM_OK;
  *out_kernel = (trm_kernel){.name = "fast.iota",
                             .scratch_bytes = trm_strip_scratch_bytes(code),
                             .state = code,
                             .run = run_iota};
  return TRM_OK;
}

/* ---- All ------------------------------------------------------------------------------------ */

trm_status trm_fast_data_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  *out_supported = false;
  if (!trm_shape_is_array(&instruction->shape)) return TRM_OK;
  const size_t size = trm_dtype_size(instruction->shape.dtype);
  if (size != 1 && size != 2 && size != 4 && size != 8) return TRM_OK;
  *out_supported = true;
  switch (instruction->opcode) {
    case TRM_OP_RESHAPE:
    case TRM_OP_BITCAST:
    case TRM_OP_COPY:
    case TRM_OP_BITCAST_CONVERT:
      if (trm_shape_bytes(trm_operand_shape(request, 0)) != trm_shape_bytes(&instruction->shape))
        break;
      return create_copy(request, out_kernel, error);
    case TRM_OP_BROADCAST:
    case TRM_OP_SLICE:
    case TRM_OP_REVERSE:
    case TRM_OP_TRANSPOSE: return create_move(request, out_kernel, error);
    case TRM_OP_PAD: return trm_fast_pad_create(request, out_kernel, error);
    case TRM_OP_CONCATENATE: return create_concatenate(request, out_kernel, error);
    case TRM_OP_IOTA: return create_iota(request, out_kernel, out_supported, error);
    case TRM_OP_DYNAMIC_SLICE:
    case TRM_OP_DYNAMIC_UPDATE_SLICE:
    case TRM_OP_GATHER:
    case TRM_OP_SCATTER: return trm_fast_indexed_create(request, out_kernel, out_supported, error);
    default: break;
  }
  *out_supported = false;
  return TRM_OK;
}
