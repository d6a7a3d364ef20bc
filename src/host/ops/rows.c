/* The custom call "tremula.rows": a computation that works row by row, on a block of rows at a time
 * (host/passes/rows.c), so that what it computes on the way stays in the second-level cache.
 *
 * The called computation has the shapes of one block. An operand that has a row for each row of the
 * results is read block by block, one that has an item for some rows (a batch of attention) item by
 * item, any other operand whole. Where the last block has fewer rows, it begins earlier: the rows
 * that two blocks have in common are computed twice, to the same bits. */
#include "host/ops/body.h"
#include "host/ops/row_program.h"
#include "host/ops/stream.h"
#include "host/ops/threads.h"

typedef struct operand_step {
  size_t bytes; /* to the next row or item; 0: the operand is read whole */
  size_t rows;  /* of the results that share an item; 1: each has a row */
} operand_step;

typedef struct rows_state {
  trm_row_program *program; /* instead of a body and blocks */
  trm_body *body;
  int64_t rows, block; /* of the results; of one block */
  uint32_t num_operands, num_results;
  operand_step *steps;
  size_t *result_bytes; /* of a row */
  size_t *staged;       /* by result: where a block of a large one is computed in
                           a file, on the way to memory; 0: in place */
  size_t staged_bytes;  /* of all of them, with the pointers */
  size_t touched;       /* bytes of all rows of operands and results */
  size_t file_bytes;    /* scratch of one thread */
} rows_state;

typedef struct rows_run {
  const rows_state *state;
  const trm_kernel_call *call;
  trm_first_failure failure;
} rows_run;

static size_t round_up(size_t size) { return (size + 63) / 64 * 64; }

static size_t pointers_bytes(const rows_state *state) {
  return round_up(((size_t)state->num_operands + state->num_results) * sizeof(void *));
}

static void run_blocks(const void *context, int64_t begin, int64_t end, int thread) {
  rows_run *run = (rows_run *)(uintptr_t)context;
  const rows_state *state = run->state;
  char *file = (char *)run->call->scratch + (size_t)thread * state->file_bytes;
  const void **operands = (const void **)(void *)file;
  void **results = (void **)(void *)(operands + state->num_operands);
  trm_kernel_call block = *run->call;
  block.operands = operands;
  block.results = results;
  block.scratch = file + state->staged_bytes;
  for (int64_t b = begin; b < end; ++b) {
    const int64_t last = state->rows - state->block;
    const size_t row = (size_t)(b * state->block < last ? b * state->block : last);
    for (uint32_t i = 0; i < state->num_operands; ++i) {
      operands[i] =
          (const char *)run->call->operands[i] + row / state->steps[i].rows * state->steps[i].bytes;
    }
    for (uint32_t i = 0; i < state->num_results; ++i) {
      char *result = (char *)run->call->results[i] + row * state->result_bytes[i];
      results[i] = state->staged[i] != 0 ? file + state->staged[i] : result;
    }
    trm_error error;
    const trm_status status = trm_body_run(state->body, &block, &error);
    for (uint32_t i = 0; i < state->num_results && status == TRM_OK; ++i) {
      char *result = (char *)run->call->results[i] + row * state->result_bytes[i];
      const size_t bytes = (size_t)state->block * state->result_bytes[i];
      if (state->staged[i] != 0) trm_stream_copy(result, results[i], bytes);
    }
    if (status == TRM_OK) continue;
    trm_note_failure(&run->failure, status, &error);
    break;
  }
  trm_stream_end();
}

static void run_program(const void *context, int64_t begin, int64_t end, int thread) {
  const rows_run *run = context;
  trm_row_program_run(run->state->program, run->call, begin, end,
                      (char *)run->call->scratch + (size_t)thread * run->state->file_bytes);
}

static trm_status run_rows(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  const rows_state *state = kernel->state;
  rows_run run = {state, call, {ATOMIC_FLAG_INIT, TRM_OK, error}};
  if (state->program != NULL) {
    trm_parallel_ranges(trm_threads_for(state->touched), state->rows, run_program, &run);
    return TRM_OK;
  }
  trm_parallel_ranges(trm_threads_for(state->touched),
                      (state->rows + state->block - 1) / state->block, run_blocks, &run);
  return run.failure.status;
}

static void destroy_rows(trm_kernel *kernel) {
  const rows_state *state = kernel->state;
  if (state->program != NULL) trm_row_program_destroy(state->program);
  else trm_body_destroy(state->body);
}

static operand_step step_of(const rows_state *state, const trm_shape *inside, size_t bytes) {
  const size_t inside_bytes = trm_shape_bytes(inside), rows = (size_t)state->rows;
  if (inside_bytes == bytes) return (operand_step){0, 1};
  if (inside->dims[0] == state->block && inside_bytes * rows == bytes * (size_t)state->block) {
    return (operand_step){bytes / rows, 1};
  }
  return (operand_step){inside_bytes, rows * inside_bytes / bytes};
}

/* Products count as in dot_ways.c: four operations cost as much as touching a byte. */
static size_t product_bytes(const trm_computation *body) {
  size_t bytes = 0;
  for (trm_index i = 0; i < body->num_instructions; ++i) {
    const trm_instruction *o = &body->instructions[i];
    if (o->opcode != TRM_OP_DOT) continue;
    const trm_shape *left = &body->instructions[o->operands[0]].shape;
    bytes += (size_t)trm_shape_count(&o->shape) *
             (size_t)left->dims[o->dot->lhs_contracting.items[0]] / 2;
  }
  return bytes;
}

/* Rows and bytes of a row of each operand and result. */
static trm_status measure_rows(const trm_kernel_request *request, const trm_computation *body,
                               rows_state *state, trm_error *error) {
  const trm_shape *whole = &request->instruction->shape;
  const trm_shape *inside = &body->instructions[body->root].shape;
  const trm_shape *first = trm_shape_leaf(inside, 0);
  state->block = first->dims[0];
  state->rows = trm_shape_count(trm_shape_leaf(whole, 0)) / (trm_shape_count(first) / state->block);
  state->num_operands = request->instruction->num_operands;
  state->num_results = (uint32_t)trm_shape_num_leaves(whole);
  state->steps = ARENA_NEW(request->arena, operand_step, (size_t)state->num_operands + 1);
  state->result_bytes = ARENA_NEW(request->arena, size_t, (size_t)state->num_results + 1);
  if (state->steps == NULL || state->result_bytes == NULL) FAIL_NO_MEMORY("rows");
  for (uint32_t i = 0; i < state->num_operands; ++i) {
    const size_t bytes = trm_shape_bytes(trm_operand_shape(request, i));
    state->steps[i] = step_of(state, &body->instructions[body->parameters[i]].shape, bytes);
    if (state->steps[i].bytes > 0) state->touched += bytes;
  }
  for (uint32_t i = 0; i < state->num_results; ++i) {
    const size_t bytes = trm_shape_bytes(trm_shape_leaf(whole, (int32_t)i));
    state->result_bytes[i] = bytes / (size_t)state->rows;
    state->touched += bytes;
  }
  state->touched += product_bytes(body) * (size_t)(state->rows / state->block);
  return TRM_OK;
}

/* Large results go past the caches. */
static trm_status stage_results(const trm_kernel_request *request, rows_state *state,
                                trm_error *error) {
  state->staged = ARENA_NEW(request->arena, size_t, (size_t)state->num_results + 1);
  CHECK_MEMORY(state->staged, "rows");
  state->staged_bytes = pointers_bytes(state);
  for (uint32_t r = 0; r < state->num_results; ++r) {
    if ((size_t)state->rows * state->result_bytes[r] < TRM_STREAM_LEAST_BYTES) continue;
    state->staged[r] = state->staged_bytes;
    state->staged_bytes += round_up((size_t)state->block * state->result_bytes[r]);
  }
  return TRM_OK;
}

static bool may_be_in_place(const rows_state *state, uint32_t result, uint32_t operand) {
  if (state->program != NULL) return trm_row_program_in_place(state->program, result, operand);
  /* Blocks that have rows in common read what they have written. */
  return state->rows % state->block == 0 && trm_body_in_place(state->body, result, operand);
}

static trm_status allow_in_place(const trm_kernel_request *request, const rows_state *state,
                                 trm_kernel *kernel, trm_error *error) {
  uint32_t *in_place = ARENA_NEW(request->arena, uint32_t, (size_t)state->num_results + 1);
  CHECK_MEMORY(in_place, "rows");
  const trm_instruction *instruction = request->instruction;
  for (uint32_t r = 0; r < state->num_results; ++r) {
    for (uint32_t i = 0; i < state->num_operands && i < 32; ++i) {
      bool may = state->steps[i].rows == 1 && state->steps[i].bytes == state->result_bytes[r] &&
                 may_be_in_place(state, r, i);
      for (uint32_t k = 0; k < state->num_operands; ++k) {
        may = may && (k == i || instruction->operands[k] != instruction->operands[i]);
      }
      if (may) in_place[r] |= UINT32_C(1) << i;
    }
  }
  kernel->in_place_operands = in_place[0];
  kernel->more_in_place = in_place + 1;
  return TRM_OK;
}

static trm_status try_program(const trm_kernel_request *request, const trm_computation *body,
                              rows_state *state, trm_error *error) {
  bool is_supported;
  bool *is_whole = ARENA_NEW(request->arena, bool, (size_t)state->num_operands + 1);
  CHECK_MEMORY(is_whole, "rows");
  for (uint32_t i = 0; i < state->num_operands; ++i) is_whole[i] = state->steps[i].bytes == 0;
  TRY(trm_row_program_create(request, body, state->block, is_whole, &state->program, &is_supported,
                             error));
  if (is_supported) state->file_bytes = trm_row_program_scratch_bytes(state->program);
  return TRM_OK;
}

trm_status trm_rows_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                           bool *out_supported, trm_error *error) {
  const trm_computation *body = &request->module->computations[request->instruction->called[0]];
  rows_state *state = ARENA_NEW(request->arena, rows_state, 1);
  CHECK_MEMORY(state, "rows");
  TRY(measure_rows(request, body, state, error));
  TRY(try_program(request, body, state, error));
  if (state->program == NULL) {
    TRY(trm_body_create(request, body, false, &state->body, error));
    TRY(stage_results(request, state, error));
    state->file_bytes = state->staged_bytes + round_up(trm_body_scratch_bytes(state->body));
  }
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "fast.rows",
                             .scratch_bytes = (size_t)trm_threads_limit() * state->file_bytes,
                             .state = state,
                             .run = run_rows,
                             .destroy = destroy_rows};
  return allow_in_place(request, state, out_kernel, error);
}
