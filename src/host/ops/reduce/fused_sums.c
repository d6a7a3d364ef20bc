/* The custom call "tremula.sums" (host/passes/fused_sums.c): elementwise results of an array's
 * rows, and sums of such results over all rows.
 *
 * The called computation has the shapes of a block of rows, whose number divides that of all rows.
 * Its result r is result r of the call, or, where that is one row, what is summed. Sums are made as
 * those of fast_sum.c: eight rows as a tree in float32, the trees of a chunk of blocks in double,
 * and the chunks in order. Blocks and chunks follow from the shapes alone. */
#include <string.h>

#include "host/ops/body.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/threads.h"

enum { MAX_CHUNKS = 16, UNIT = 8, WIDE = 512 /* floats that are added up in one call */ };

typedef struct sums_state {
  trm_body *body;
  int64_t rows, block, columns, chunks;
  int64_t group; /* rows that are taken as one wide row */
  uint32_t num_operands, num_results, num_sums;
  size_t *operand_bytes, *result_bytes; /* of a row; 0: read whole, or a sum */
  size_t *staged;    /* by summed result: where its block is in a file; 0: it is a result as well */
  uint32_t *same_as; /* by summed result: the result that it is then */
  size_t touched, partial_bytes, file_bytes, sums_at, inner_at; /* the last two: in a file */
} sums_state;

typedef struct sums_run {
  const sums_state *state;
  const trm_kernel_call *call;
  trm_first_failure failure;
} sums_run;

static size_t round_up(size_t size) { return (size + 63) / 64 * 64; }

/* Adds a block of a result to the sums of its wide columns. */
static void add_block(const sums_state *state, const float *block, double *sums) {
  const trm_vector_ops *ops = trm_vector_ops_get();
  const size_t width = (size_t)(state->columns * state->group);
  const int64_t rows = state->block / state->group;
  int64_t r = 0;
  for (; r + UNIT <= rows; r += UNIT) {
    const float *unit[UNIT];
    for (int64_t i = 0; i < UNIT; ++i) unit[i] = block + (size_t)(r + i) * width;
    ops->accumulate_8(sums, unit, width);
  }
  for (; r < rows; ++r) ops->accumulate_double(sums, block + (size_t)r * width, width);
}

/* Points at block b; what is only summed is in the file. */
static void place_block(const sums_run *run, char *file, int64_t b, const void **operands,
                        void **results) {
  const sums_state *state = run->state;
  const size_t row = (size_t)(b * state->block);
  for (uint32_t i = 0; i < state->num_operands; ++i) {
    operands[i] = (const char *)run->call->operands[i] + row * state->operand_bytes[i];
  }
  for (uint32_t i = 0; i < state->num_results; ++i) {
    if (state->result_bytes[i] > 0) {
      results[i] = (char *)run->call->results[i] + row * state->result_bytes[i];
    } else {
      results[i] = state->staged[i] > 0 ? file + state->staged[i] : results[state->same_as[i]];
    }
  }
}

static trm_status run_chunk(const sums_run *run, char *file, int64_t chunk, trm_error *error) {
  const sums_state *state = run->state;
  const int64_t blocks = state->rows / state->block, width = state->columns * state->group;
  const void **operands = (const void **)(void *)file;
  void **results = (void **)(void *)(operands + state->num_operands);
  double *sums = (double *)(void *)(file + state->sums_at);
  trm_kernel_call call = *run->call;
  call.operands = operands;
  call.results = results;
  call.scratch = file + state->inner_at;
  memset(sums, 0, (size_t)state->num_sums * (size_t)width * sizeof *sums);
  const int64_t end = blocks * (chunk + 1) / state->chunks;
  for (int64_t b = blocks * chunk / state->chunks; b < end; ++b) {
    place_block(run, file, b, operands, results);
    TRY(trm_body_run(state->body, &call, error));
    double *to = sums;
    for (uint32_t i = 0; i < state->num_results; ++i) {
      if (state->result_bytes[i] > 0) continue;
      add_block(state, results[i], to);
      to += width;
    }
  }
  double *partial =
      (double *)run->call->scratch + (size_t)chunk * state->num_sums * (size_t)state->columns;
  for (uint32_t s = 0; s < state->num_sums; ++s, sums += width, partial += state->columns) {
    memcpy(partial, sums, (size_t)state->columns * sizeof *partial);
    for (int64_t g = 1; g < state->group; ++g) {
      for (int64_t i = 0; i < state->columns; ++i) partial[i] += sums[g * state->columns + i];
    }
  }
  return TRM_OK;
}

static void run_chunks(const void *context, int64_t begin, int64_t end, int thread) {
  sums_run *run = (sums_run *)(uintptr_t)context;
  const sums_state *state = run->state;
  char *file =
      (char *)run->call->scratch + state->partial_bytes + (size_t)thread * state->file_bytes;
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    trm_error error;
    const trm_status status = run_chunk(run, file, chunk, &error);
    if (status == TRM_OK) continue;
    trm_note_failure(&run->failure, status, &error);
    return;
  }
}

static trm_status run_sums(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  const sums_state *state = kernel->state;
  sums_run run = {state, call, {ATOMIC_FLAG_INIT, TRM_OK, error}};
  trm_parallel_ranges(trm_threads_for(state->touched), state->chunks, run_chunks, &run);
  TRY(run.failure.status);
  const double *partials = call->scratch;
  const int64_t stride = state->num_sums * state->columns;
  uint32_t s = 0;
  for (uint32_t r = 0; r < state->num_results; ++r) {
    if (state->result_bytes[r] > 0) continue;
    float *out = call->results[r];
    for (int64_t i = 0; i < state->columns; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < state->chunks; ++c) {
        sum += partials[c * stride + (int64_t)s * state->columns + i];
      }
      out[i] = (float)sum;
    }
    ++s;
  }
  return TRM_OK;
}

static void destroy_sums(trm_kernel *kernel) {
  trm_body_destroy(((const sums_state *)kernel->state)->body);
}

/* ---- Creating -------------------------------------------------------------------------------- */

static trm_status measure_operands(const trm_kernel_request *request, const trm_computation *body,
                                   sums_state *state, trm_error *error) {
  state->num_operands = request->instruction->num_operands;
  state->operand_bytes = ARENA_NEW(request->arena, size_t, (size_t)state->num_operands + 1);
  CHECK_MEMORY(state->operand_bytes, "fused sums");
  for (uint32_t i = 0; i < state->num_operands; ++i) {
    const size_t bytes = trm_shape_bytes(trm_operand_shape(request, i));
    if (trm_shape_bytes(&body->instructions[body->parameters[i]].shape) == bytes) continue;
    state->operand_bytes[i] = bytes / (size_t)state->rows;
    state->touched += bytes;
  }
  return TRM_OK;
}

/* A file is a thread's memory: pointers, blocks that are only summed, sums, and the body's own. */
static trm_status measure_results(const trm_kernel_request *request, const trm_computation *body,
                                  sums_state *state, trm_error *error) {
  const trm_shape *whole = &request->instruction->shape;
  const trm_index *roots = body->instructions[body->root].operands;
  const size_t count = state->num_results;
  state->result_bytes = ARENA_NEW(request->arena, size_t, count);
  state->staged = ARENA_NEW(request->arena, size_t, count);
  state->same_as = ARENA_NEW(request->arena, uint32_t, count);
  if (state->result_bytes == NULL || state->staged == NULL || state->same_as == NULL) {
    FAIL_NO_MEMORY("fused sums");
  }
  state->file_bytes = round_up((state->num_operands + count) * sizeof(void *));
  for (uint32_t r = 0; r < count; ++r) {
    const trm_shape *shape = &whole->elements[r];
    if (trm_shape_count(shape) > state->columns) {
      state->result_bytes[r] = trm_shape_bytes(shape) / (size_t)state->rows;
      state->touched += trm_shape_bytes(shape);
      continue;
    }
    ++state->num_sums;
    uint32_t same = 0;
    while (roots[same] != roots[r]) ++same;
    state->same_as[r] = same;
    if (same < r) continue;
    state->staged[r] = state->file_bytes;
    state->file_bytes += round_up((size_t)(state->block * state->columns) * sizeof(float));
  }
  return TRM_OK;
}

static void choose_group(sums_state *state) {
  state->group = 1;
  while (state->group * state->columns < WIDE && state->block % (2 * UNIT * state->group) == 0) {
    state->group *= 2;
  }
}

/* All rows, from an operand that is read by row. */
static int64_t count_rows(const trm_kernel_request *request, const trm_computation *body,
                          int64_t columns) {
  for (uint32_t i = 0; i < request->instruction->num_operands; ++i) {
    const trm_shape *parameter = &body->instructions[body->parameters[i]].shape;
    const int64_t count = trm_shape_count(trm_operand_shape(request, i));
    if (count != trm_shape_count(parameter)) return count / columns;
  }
  return 0;
}

trm_status trm_sums_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                           bool *out_supported, trm_error *error) {
  const trm_computation *body = &request->module->computations[request->instruction->called[0]];
  const trm_shape *part = trm_shape_leaf(&body->instructions[body->root].shape, 0);
  sums_state *state = ARENA_NEW(request->arena, sums_state, 1);
  CHECK_MEMORY(state, "fused sums");
  state->block = part->dims[0], state->columns = part->dims[1];
  state->num_results = (uint32_t)request->instruction->shape.num_elements;
  state->rows = count_rows(request, body, state->columns);
  state->chunks = state->rows / state->block;
  if (state->chunks > MAX_CHUNKS) state->chunks = MAX_CHUNKS;
  TRY(measure_operands(request, body, state, error));
  TRY(measure_results(request, body, state, error));
  TRY(trm_body_create(request, body, false, &state->body, error));
  choose_group(state);
  const size_t sums = state->num_sums * (size_t)state->columns * sizeof(double);
  state->sums_at = state->file_bytes;
  state->inner_at = state->sums_at + round_up(sums * (size_t)state->group);
  state->file_bytes = state->inner_at + round_up(trm_body_scratch_bytes(state->body));
  state->partial_bytes = round_up(sums * (size_t)state->chunks);
  *out_supported = true;
  *out_kernel = (trm_kernel){
      .name = "fast.sums",
      .scratch_bytes = state->partial_bytes + (size_t)trm_threads_limit() * state->file_bytes,
      .state = state,
      .run = run_sums,
      .destroy = destroy_sums};
  return TRM_OK;
}
