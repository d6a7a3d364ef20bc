/* Owns: the fast kernel of fft: one dimension after the other, the last one first, or in irfft
 * last. Transforms of float32 compute in float32, with tables rounded from float64. */
#include "host/ops/fourier/fourier.h"
#include "host/ops/reference.h"
#include "host/ops/threads.h"

enum { FFT, IFFT, RFFT, IRFFT };
typedef enum place { OPERAND, RESULT, SCRATCH } place;

typedef struct fft_pass {
  trm_fourier_pass pass;
  place from, to;
} fft_pass;

typedef struct fft_state {
  int32_t count;
  bool is_double;
  size_t between; /* bytes of an array in scratch */
  fft_pass passes[TRM_MAX_RANK];
} fft_state;

static trm_status run_fft(const trm_kernel *kernel, const trm_kernel_call *call, trm_error *error) {
  (void)error;
  const fft_state *state = kernel->state;
  void *const places[] = {(void *)(uintptr_t)call->operands[0], call->results[0], call->scratch};
  for (int32_t i = 0; i < state->count; ++i) {
    trm_fourier_pass pass = state->passes[i].pass;
    pass.in = places[state->passes[i].from];
    pass.out = places[state->passes[i].to];
    pass.scratch = (char *)call->scratch + state->between;
    pass.threads = trm_threads_available();
    trm_fourier_run(&pass, state->is_double);
  }
  return TRM_OK;
}

/* The pass along dimension d of `shape`, whose complex elements it reads and writes. */
static fft_pass plan_pass(const trm_shape *shape, int32_t d, int64_t n, int32_t type) {
  int64_t stride = 1;
  for (int32_t i = d + 1; i < shape->rank; ++i) stride *= shape->dims[i];
  return (fft_pass){.pass = {.lines = trm_shape_count(shape) / shape->dims[d],
                             .stride = stride,
                             .in_block = shape->dims[d] * stride,
                             .out_block = n * stride,
                             .is_inverse = type == IFFT || type == IRFFT}};
}

static void plan_passes(const trm_kernel_request *request, fft_state *state) {
  const trm_dims *lengths = &request->instruction->sizes;
  const trm_shape *operand = trm_operand_shape(request, 0);
  const int32_t type = request->instruction->fft_type, rank = operand->rank;
  const int64_t n = lengths->items[lengths->count - 1];
  const trm_shape *middle = type == IRFFT ? operand : &request->instruction->shape;
  fft_pass last = plan_pass(operand, rank - 1, n, type);
  if (type == RFFT) {
    last.pass.in_kind = TRM_FOURIER_REAL, last.pass.out_kind = TRM_FOURIER_HALF;
    last.pass.out_block = n / 2 + 1;
  } else if (type == IRFFT) {
    last.pass.in_kind = TRM_FOURIER_HALF, last.pass.out_kind = TRM_FOURIER_REAL;
  }
  const place between = type == IRFFT ? SCRATCH : RESULT;
  place now = OPERAND;
  if (type != IRFFT) {
    last.from = OPERAND, last.to = now = RESULT;
    state->passes[state->count++] = last;
  }
  for (int32_t i = lengths->count - 2; i >= 0; --i) {
    const int32_t d = rank - lengths->count + i;
    fft_pass pass = plan_pass(middle, d, middle->dims[d], type);
    pass.from = now, pass.to = now = between;
    state->passes[state->count++] = pass;
  }
  if (type == IRFFT) {
    last.from = now, last.to = RESULT;
    state->passes[state->count++] = last;
    if (now == SCRATCH) state->between = (trm_shape_bytes(operand) + 63) & ~(size_t)63;
  }
}

trm_status trm_fast_fft_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                               bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *operand = trm_operand_shape(request, 0);
  trm_kernel unused;
  *out_supported = false;
  TRY(trm_reference_fft_create(request, &unused, out_supported, error)); /* checks the shapes */
  *out_supported = false;
  const trm_dtype type = operand->dtype;
  if ((type != TRM_F32 && type != TRM_F64 && type != TRM_C64 && type != TRM_C128) ||
      trm_shape_count(operand) == 0 || trm_shape_count(&instruction->shape) == 0) {
    return TRM_OK;
  }
  fft_state *state = ARENA_NEW(request->arena, fft_state, 1);
  CHECK_MEMORY(state, "a Fourier transform");
  state->is_double = type == TRM_F64 || type == TRM_C128;
  plan_passes(request, state);
  size_t scratch = 0;
  for (int32_t i = 0; i < state->count; ++i) {
    trm_fourier_pass *pass = &state->passes[i].pass;
    const bool is_last = pass->in_kind != pass->out_kind; /* and not complex */
    const int64_t n = is_last ? instruction->sizes.items[instruction->sizes.count - 1]
                              : pass->out_block / pass->stride;
    const trm_fourier_plan *plan =
        trm_fourier_plan_create(request->arena, n, pass->lines, state->is_double);
    if (plan == NULL) return TRM_OK;
    pass->plan = plan;
    int threads = trm_threads_limit();
    if (!plan->is_split && pass->lines < threads) threads = (int)pass->lines;
    const size_t bytes = trm_fourier_scratch(plan, state->is_double, threads);
    if (bytes > scratch) scratch = bytes;
  }
  *out_supported = true;
  *out_kernel = (trm_kernel){.name = "fast.fft",
                             .scratch_bytes = state->between + scratch,
                             .state = state,
                             .run = run_fft};
  return TRM_OK;
}
