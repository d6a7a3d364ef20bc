/* Owns: fast kernels of cholesky, triangular-solve and the custom calls of factorisations, for
 * float32 and float64, with the blocked routines of dense.h. The reference kernels and
 * lapack.c check the shapes; they also serve complex matrices, halves and empty arrays. */
#include <math.h>
#include <string.h>

#include "host/ops/algebra/dense.h"
#include "host/ops/algebra/lapack.h"
#include "host/ops/products/reference_linear.h"
#include "host/ops/threads.h"

enum { MAX_LEAVES = 3, NOWHERE = -1 };

typedef struct algebra_state {
  trm_dense_routine routine;
  trm_dense_call sizes;                                                /* equal for all matrices */
  int64_t batch, result_batch_size[MAX_LEAVES], operand_batch_size[2]; /* bytes of one matrix */
  int num_operands;
  int leaves[3];  /* the leaf of out[i] of the routine, or NOWHERE */
  bool clears;    /* as HLO: zeros in the other triangle, NaN for a matrix without a factor */
  size_t scratch; /* bytes for one matrix */
  bool is_double;
} algebra_state;

typedef struct algebra_run {
  const algebra_state *state;
  const trm_kernel_call *call;
  int threads; /* for one matrix */
} algebra_run;

/* HLO's cholesky: zeros in the other triangle, NaN if there is no factor. */
static void finish_cholesky(const algebra_state *state, void *matrix, bool failed) {
  const int64_t n = state->sizes.n;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const bool inside = state->sizes.lower ? j <= i : j >= i;
      if (inside && !failed) continue;
      if (state->is_double) ((double *)matrix)[i * n + j] = inside ? NAN : 0.0;
      else ((float *)matrix)[i * n + j] = inside ? NAN : 0.0f;
    }
  }
}

static void run_range(const void *context, int64_t begin, int64_t end, int thread) {
  const algebra_run *run = context;
  const algebra_state *state = run->state;
  const trm_kernel_call *call = run->call;
  for (int64_t b = begin; b < end; ++b) {
    int32_t info = 0;
    trm_dense_call one = state->sizes;
    one.threads = run->threads;
    one.scratch = (char *)call->scratch + (size_t)thread * state->scratch;
    for (int i = 0; i < state->num_operands; ++i) {
      one.in[i] = (const char *)call->operands[i] + b * state->operand_batch_size[i];
    }
    for (int i = 0; i < 3; ++i) {
      const int leaf = state->leaves[i];
      if (leaf == NOWHERE) continue;
      one.out[i] = (char *)call->results[leaf] + b * state->result_batch_size[leaf];
    }
    if (state->clears) one.out[1] = &info;
    trm_dense_ops_get()->run[state->is_double][state->routine](&one);
    if (state->clears) finish_cholesky(state, one.out[0], info != 0);
  }
}

static trm_status run_algebra(const trm_kernel *kernel, const trm_kernel_call *call,
                              trm_error *error) {
  (void)error;
  const algebra_state *state = kernel->state;
  const int available = trm_threads_available();
  const int64_t m = state->sizes.m, n = state->sizes.n;
  const size_t work = (size_t)(m * n * (m < n ? m : n) + m * n) * (size_t)state->batch;
  /* Threads share a batch that has a matrix for each of them. */
  const bool shares = state->batch >= available;
  const algebra_run run = {state, call, shares ? 1 : available};
  trm_parallel_ranges(shares ? trm_threads_for(work) : 1, state->batch, run_range, &run);
  return TRM_OK;
}

/* Finds the routine, and the leaves for its results. */
static bool find_routine(const trm_instruction *instruction, algebra_state *state) {
  static const struct {
    trm_call_id call;
    trm_dense_routine routine;
    int leaves[3];
  } calls[] = {
      {TRM_CALL_EIGH, TRM_DENSE_EIGEN, {0, 1, NOWHERE}},
      {TRM_CALL_QR, TRM_DENSE_QR, {0, 1, NOWHERE}},
      {TRM_CALL_HOUSEHOLDER, TRM_DENSE_Q, {0, NOWHERE, NOWHERE}},
      {TRM_CALL_LAPACK_GEQRF, TRM_DENSE_QR, {0, 1, NOWHERE}},
      {TRM_CALL_LAPACK_ORGQR, TRM_DENSE_Q, {0, NOWHERE, NOWHERE}},
      {TRM_CALL_LAPACK_POTRF, TRM_DENSE_CHOLESKY, {0, 1, NOWHERE}},
      {TRM_CALL_LAPACK_SYEVD, TRM_DENSE_EIGEN, {0, 1, 2}},
      {TRM_CALL_LAPACK_TRSM, TRM_DENSE_SOLVE, {0, NOWHERE, NOWHERE}},
  };
  static const int only_first[3] = {0, NOWHERE, NOWHERE};
  if (instruction->opcode != TRM_OP_CUSTOM_CALL) {
    state->clears = instruction->opcode == TRM_OP_CHOLESKY;
    state->routine = state->clears ? TRM_DENSE_CHOLESKY : TRM_DENSE_SOLVE;
    memcpy(state->leaves, only_first, sizeof only_first);
    return true;
  }
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) {
    if (calls[i].call != instruction->call_id) continue;
    state->routine = calls[i].routine;
    memcpy(state->leaves, calls[i].leaves, sizeof calls[i].leaves);
    return true;
  }
  return false;
}

static trm_status check_shapes(const trm_kernel_request *request, trm_error *error) {
  trm_kernel unused;
  bool supported;
  if (request->instruction->opcode != TRM_OP_CUSTOM_CALL) {
    return trm_reference_linear_algebra_create(request, &unused, &supported, error);
  }
  switch (request->instruction->call_id) {
    case TRM_CALL_EIGH: return trm_reference_eigen_create(request, &unused, &supported, error);
    case TRM_CALL_QR:
    case TRM_CALL_HOUSEHOLDER: return trm_reference_qr_create(request, &unused, &supported, error);
    default: return trm_lapack_check(request, error);
  }
}

static void read_options(const trm_instruction *instruction, trm_dense_call *sizes) {
  const char *config = instruction->backend_config;
  if (instruction->opcode == TRM_OP_CHOLESKY) {
    sizes->lower = instruction->lower;
  } else if (instruction->opcode == TRM_OP_TRIANGULAR_SOLVE) {
    const trm_triangular_solve *solve = instruction->triangular_solve;
    sizes->lower = solve->lower, sizes->left = solve->left_side;
    sizes->transposed = solve->transpose_a != 1;
    sizes->has_unit_diagonal = solve->unit_diagonal;
  } else if (instruction->call_id == TRM_CALL_EIGH) {
    sizes->lower = config[0] == '1';
  } else {
    const uint8_t uplo = trm_lapack_option(config, "uplo");
    const uint8_t trans = trm_lapack_option(config, "trans_x");
    sizes->lower = uplo == 'L' || uplo == 0;
    sizes->left = trm_lapack_option(config, "side") == 'L';
    sizes->transposed = trans != 'N';
    sizes->has_unit_diagonal = trm_lapack_option(config, "diag") == 'U';
    sizes->values_only = trm_lapack_option(config, "mode") == 'N';
  }
}

/* Sets the routine's `columns`, and other sizes that it needs. */
static void read_shapes(const trm_kernel_request *request, algebra_state *state) {
  trm_dense_call *sizes = &state->sizes;
  if (state->routine == TRM_DENSE_SOLVE) {
    const trm_shape *b = trm_operand_shape(request, 1);
    sizes->columns = b->dims[b->rank - (sizes->left ? 1 : 2)];
  } else if (state->routine == TRM_DENSE_Q) {
    const trm_shape *taus = trm_operand_shape(request, 1);
    sizes->columns = taus->dims[taus->rank - 1];
  }
}

trm_status trm_fast_algebra_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                   bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  *out_supported = false;
  algebra_state *state = ARENA_NEW(request->arena, algebra_state, 1);
  CHECK_MEMORY(state, "a factorisation");
  if (!find_routine(instruction, state) || instruction->num_operands > 2) return TRM_OK;
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    const trm_shape *shape = trm_operand_shape(request, i);
    if ((shape->dtype != TRM_F32 && shape->dtype != TRM_F64) || trm_shape_count(shape) == 0) {
      return TRM_OK;
    }
  }
  TRY(check_shapes(request, error));
  const trm_shape *a = trm_operand_shape(request, 0);
  state->is_double = a->dtype == TRM_F64;
  state->batch = 1;
  for (int32_t d = 0; d < a->rank - 2; ++d) state->batch *= a->dims[d];
  state->num_operands = (int)instruction->num_operands;
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    state->operand_batch_size[i] =
        (int64_t)trm_shape_bytes(trm_operand_shape(request, i)) / state->batch;
  }
  for (int32_t i = 0; i < trm_shape_num_leaves(&instruction->shape); ++i) {
    state->result_batch_size[i] =
        (int64_t)trm_shape_bytes(trm_shape_leaf(&instruction->shape, i)) / state->batch;
  }
  state->sizes.m = a->dims[a->rank - 2], state->sizes.n = a->dims[a->rank - 1];
  read_options(instruction, &state->sizes);
  read_shapes(request, state);
  const int64_t m = state->sizes.m, n = state->sizes.n;
  if (state->routine == TRM_DENSE_Q && m < n) return TRM_OK;
  state->scratch =
      (trm_dense_scratch(state->routine, m, n, state->sizes.columns, trm_dtype_size(a->dtype)) +
       63) &
      ~(size_t)63;
  const int64_t most = trm_threads_limit();
  *out_supported = true;
  *out_kernel = (trm_kernel){
      .name = "fast.algebra",
      .scratch_bytes = state->scratch * (size_t)(state->batch < most ? state->batch : most),
      .state = state,
      .run = run_algebra};
  return TRM_OK;
}
