/* Owns: fast kernels of the batch-norm opcodes, and of two custom calls that the passes make of
 * them. "tremula.batch-norm-statistics" gives the mean and variance of its operand for each
 * feature; the backend_config has the index of the feature dimension, {"feature_index":3}.
 * "tremula.batch-norm-gradient-statistics" takes the operands of batch-norm-grad and also needs an
 * "epsilon"; it gives the gradients of scale and offset.
 *
 * The array is [before, features, after]. It is walked as rows of lanes. With the features last
 * (after = 1) a row is one or several lines of features, each lane a feature; otherwise a row is a
 * piece of one feature's contiguous run, with all lanes of that feature. Statistics take one pass
 * over memory, in blocks that stay in the cache: first the mean, then the squares around it.
 * Blocks, lanes and chunks are merged in a fixed order in double. */
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "hlo/config.h"
#include "host/ops/reduce/fast_reduce.h"
#include "host/ops/threads.h"

enum { LANES = 512, BLOCK_ROWS = 64, MAX_CHUNKS = 16, NUM_ARRAYS = 4 };

typedef struct norm_state {
  trm_opcode opcode;
  bool statistics_only; /* the only results are the mean and the variance */
  trm_dtype dtypes[5], result_types[3];
  int64_t before, features, after;
  double epsilon;
  int64_t group;  /* after = 1: lines of features in a row */
  int64_t width;  /* lanes of a full row, over all column blocks */
  int64_t blocks; /* column blocks (after = 1), or features */
  int64_t rows;   /* rows of one block */
  int64_t chunks;
  size_t moments_bytes, file_bytes;
} norm_state;

/* Count, mean and sum of squared differences; for the gradient, sum and product are in the last
 * two. */
typedef struct moments {
  double count, mean, squares;
} moments;

typedef struct norm_run {
  const norm_state *state;
  const trm_kernel_call *call;
  const trm_vector_ops *ops;
  moments *partials;         /* [chunk][feature] */
  float *arrays[NUM_ARRAYS]; /* [feature]: mean, scale, offset or what the opcode needs */
  char *files;
} norm_run;

static double load(trm_dtype dtype, const void *array, int64_t i) {
  float value;
  if (dtype == TRM_F32) value = ((const float *)array)[i];
  else trm_vector_ops_get()->half_to_float(&value, (const uint16_t *)array + i, NULL, NULL, 1);
  return (double)value;
}
static void store(trm_dtype dtype, void *array, int64_t i, double value) {
  float f = (float)value;
  if (dtype == TRM_F32) ((float *)array)[i] = f;
  else trm_vector_ops_get()->float_to_half((uint16_t *)array + i, &f, NULL, NULL, 1);
}

/* Lanes [0, n) at `offset`: in place, or converted to tmp. */
static const float *lanes_at(const norm_run *run, uint32_t operand, int64_t offset, int64_t n,
                             float *tmp) {
  const void *array = run->call->operands[operand];
  if (run->state->dtypes[operand] == TRM_F32) return (const float *)array + offset;
  run->ops->half_to_float(tmp, (const uint16_t *)array + offset, NULL, NULL, (size_t)n);
  return tmp;
}

/* The start of row r of a block, and its number of lanes. */
static int64_t row_at(const norm_state *state, int64_t block, int64_t r, int64_t *out_lanes) {
  if (state->after == 1) {
    const int64_t column = block * LANES, remaining = state->width - column;
    *out_lanes = remaining < LANES ? remaining : LANES;
    return r * state->width + column;
  }
  const int64_t pieces = (state->after + LANES - 1) / LANES;
  const int64_t piece = r % pieces, remaining = state->after - piece * LANES;
  *out_lanes = remaining < LANES ? remaining : LANES;
  return (r / pieces * state->features + block) * state->after + piece * LANES;
}

static void merge(moments *into, moments m) {
  if (m.count == 0.0) return;
  const double total = into->count + m.count, delta = m.mean - into->mean;
  into->mean += delta * (m.count / total);
  into->squares += m.squares + delta * delta * (into->count * m.count / total);
  into->count = total;
}

/* Rows of one width (at most BLOCK_ROWS): moments of each lane, merged into `lanes`. */
static void block_moments(const norm_run *run, const float *const *rows, int64_t num, int64_t n,
                          double *acc, float *mean, moments *lanes) {
  double *squares = acc + LANES;
  memset(acc, 0, 2 * LANES * sizeof *acc);
  int64_t r = 0;
  for (; r + 8 <= num; r += 8) run->ops->accumulate_8(acc, rows + r, (size_t)n);
  for (; r < num; ++r) run->ops->accumulate_double(acc, rows[r], (size_t)n);
  for (int64_t i = 0; i < n; ++i) mean[i] = (float)(acc[i] / (double)num);
  run->ops->squares_rows(squares, rows, (size_t)num, mean, (size_t)n);
  for (int64_t i = 0; i < n; ++i) {
    const double exact = acc[i] / (double)num, shift = exact - (double)mean[i];
    merge(&lanes[i], (moments){(double)num, exact, squares[i] - shift * shift * (double)num});
  }
}

/* Sums of dy and of dy * (x - mean), added to `lanes`. */
static void block_products(const norm_run *run, const float *const *rows, const float *const *grads,
                           int64_t num, int64_t n, const float *mean, double *acc, moments *lanes) {
  double *products = acc + LANES;
  memset(acc, 0, 2 * LANES * sizeof *acc);
  int64_t r = 0;
  for (; r + 8 <= num; r += 8) run->ops->accumulate_8(acc, grads + r, (size_t)n);
  for (; r < num; ++r) run->ops->accumulate_double(acc, grads[r], (size_t)n);
  run->ops->products_rows(products, grads, rows, (size_t)num, mean, (size_t)n);
  for (int64_t i = 0; i < n; ++i) lanes[i].mean += acc[i], lanes[i].squares += products[i];
}

/* A feature's value for each lane of the block. */
static const float *spread(const norm_state *state, const float *array, int64_t block, int64_t n,
                           float *out) {
  if (state->after == 1 && state->group == 1) return array + block * LANES;
  if (state->after == 1) {
    for (int64_t i = 0; i < n; i += state->features)
      memcpy(out + i, array, (size_t)state->features * sizeof *out);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = array[block];
  }
  return out;
}

/* Units: column blocks (or features) x chunks of rows. */
static void find_moments(const void *context, int64_t begin, int64_t end, int thread) {
  const norm_run *run = context;
  const norm_state *state = run->state;
  const bool is_grad = state->opcode == TRM_OP_BATCH_NORM_GRAD;
  char *file = run->files + (size_t)thread * state->file_bytes;
  moments *lanes = (moments *)(void *)file;
  double *acc = (double *)(void *)(lanes + LANES);
  float *mean = (float *)(void *)(acc + 2 * LANES), *x = mean + LANES, *dy = x + BLOCK_ROWS * LANES;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t chunk = u % state->chunks, block = u / state->chunks;
    const int64_t first = state->rows * chunk / state->chunks;
    const int64_t stop = state->rows * (chunk + 1) / state->chunks;
    memset(lanes, 0, LANES * sizeof *lanes);
    int64_t widest = 0;
    const float *means = is_grad ? spread(state, run->arrays[0], block,
                                          state->after == 1 && state->width - block * LANES < LANES
                                              ? state->width - block * LANES
                                              : LANES,
                                          mean)
                                 : mean;
    for (int64_t r = first; r < stop;) {
      const float *rows[BLOCK_ROWS], *grads[BLOCK_ROWS];
      int64_t num = 0, n = 0;
      for (; num < BLOCK_ROWS && r < stop; ++num, ++r) {
        int64_t width;
        const int64_t offset = row_at(state, block, r, &width);
        if (num > 0 && width != n) break;
        n = width;
        rows[num] = lanes_at(run, 0, offset, n, x + num * LANES);
        if (is_grad) grads[num] = lanes_at(run, 4, offset, n, dy + num * LANES);
      }
      if (n > widest) widest = n;
      if (is_grad) block_products(run, rows, grads, num, n, means, acc, lanes);
      else block_moments(run, rows, num, n, acc, mean, lanes);
    }
    moments *partials = run->partials + chunk * state->features;
    for (int64_t i = 0; i < widest; ++i) {
      const int64_t f = state->after > 1   ? block
                        : state->group > 1 ? i % state->features
                                           : block * LANES + i;
      if (!is_grad) merge(&partials[f], lanes[i]);
      else partials[f].mean += lanes[i].mean, partials[f].squares += lanes[i].squares;
    }
  }
}

/* Writes result 0: units are rows of all blocks. */
static void write_rows(const void *context, int64_t begin, int64_t end, int thread) {
  const norm_run *run = context;
  const norm_state *state = run->state;
  const bool is_grad = state->opcode == TRM_OP_BATCH_NORM_GRAD;
  float *lane = (float *)(void *)(run->files + (size_t)thread * state->file_bytes);
  float *x = lane + NUM_ARRAYS * LANES, *dy = x + LANES, *out = dy + LANES;
  const float *of[NUM_ARRAYS] = {NULL};
  int64_t spread_block = -1;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t block = u / state->rows;
    int64_t n;
    const int64_t offset = row_at(state, block, u % state->rows, &n);
    if (block != spread_block) {
      for (int a = 0; a < (is_grad ? 4 : 3); ++a)
        of[a] =
            spread(state, run->arrays[a], block, state->after > 1 ? LANES : n, lane + a * LANES);
      spread_block = block;
    }
    const float *in = lanes_at(run, 0, offset, n, x);
    float *to = out;
    if (state->result_types[0] == TRM_F32) to = (float *)run->call->results[0] + offset;
    if (is_grad)
      run->ops->normalize_grad(to, lanes_at(run, 4, offset, n, dy), in, of[0], of[1], of[2], of[3],
                               (size_t)n);
    else run->ops->normalize(to, in, of[0], of[1], of[2], (size_t)n);
    if (state->result_types[0] == TRM_F16)
      run->ops->float_to_half((uint16_t *)run->call->results[0] + offset, out, NULL, NULL,
                              (size_t)n);
  }
}

static trm_status run_batch_norm(const trm_kernel *kernel, const trm_kernel_call *call,
                                 trm_error *error) {
  (void)error;
  const norm_state *state = kernel->state;
  norm_run run = {
      .state = state, .call = call, .ops = trm_vector_ops_get(), .partials = call->scratch};
  float *arrays = (float *)(void *)((char *)call->scratch + state->moments_bytes);
  for (int a = 0; a < NUM_ARRAYS; ++a) run.arrays[a] = arrays + a * state->features;
  run.files = (char *)call->scratch + state->moments_bytes +
              ((NUM_ARRAYS * (size_t)state->features * sizeof(float) + 63) & ~(size_t)63);
  const int64_t total = state->before * state->features * state->after;
  const double count = (double)(state->before * state->after);
  const bool is_grad = state->opcode == TRM_OP_BATCH_NORM_GRAD;
  const bool is_inference = state->opcode == TRM_OP_BATCH_NORM_INFERENCE;
  const int threads = trm_threads_for((size_t)total * (is_grad ? 12 : 8));
  if (is_grad)
    for (int64_t f = 0; f < state->features; ++f)
      run.arrays[0][f] = (float)load(state->dtypes[2], call->operands[2], f);
  if (!is_inference) {
    memset(run.partials, 0, (size_t)(state->chunks * state->features) * sizeof *run.partials);
    if (total > 0) trm_parallel_ranges(threads, state->blocks * state->chunks, find_moments, &run);
  }
  for (int64_t f = 0; f < state->features; ++f) {
    moments m = {0};
    for (int64_t c = 0; c < state->chunks && !is_inference; ++c) {
      const moments partial = run.partials[c * state->features + f];
      if (is_grad) m.mean += partial.mean, m.squares += partial.squares;
      else merge(&m, partial);
    }
    if (state->statistics_only && !is_grad) {
      if (total == 0) m.mean = m.squares = (double)NAN;
      ((float *)call->results[0])[f] = (float)m.mean;
      ((float *)call->results[1])[f] = (float)(m.squares / (total == 0 ? 1 : count));
      continue;
    }
    const double scale = load(state->dtypes[1], call->operands[1], f);
    if (is_grad) {
      const double deviation = sqrt(load(state->dtypes[3], call->operands[3], f) + state->epsilon);
      if (state->statistics_only) {
        ((float *)call->results[0])[f] = (float)(m.squares / deviation);
        ((float *)call->results[1])[f] = (float)m.mean;
        continue;
      }
      store(state->result_types[1], call->results[1], f, m.squares / deviation);
      store(state->result_types[2], call->results[2], f, m.mean);
      run.arrays[1][f] = (float)(scale / deviation);
      run.arrays[2][f] = (float)(m.mean / count);
      run.arrays[3][f] = (float)(m.squares / (deviation * deviation) / count);
      continue;
    }
    if (is_inference) {
      m.mean = load(state->dtypes[3], call->operands[3], f);
      m.squares = load(state->dtypes[4], call->operands[4], f);
    } else {
      if (total == 0) m.mean = m.squares = (double)NAN; /* an empty array */
      else m.squares /= count;
      store(state->result_types[1], call->results[1], f, m.mean);
      store(state->result_types[2], call->results[2], f, m.squares);
    }
    run.arrays[0][f] = (float)m.mean;
    run.arrays[1][f] = (float)(scale / sqrt(m.squares + state->epsilon));
    run.arrays[2][f] = (float)load(state->dtypes[2], call->operands[2], f);
  }
  if (total > 0 && !state->statistics_only) {
    trm_parallel_ranges(threads, state->blocks * state->rows, write_rows, &run);
  }
  return TRM_OK;
}

static trm_status create(const trm_kernel_request *request, trm_opcode opcode, int64_t feature,
                         double epsilon, trm_kernel *out_kernel, bool *out_supported,
                         trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *operand = trm_operand_shape(request, 0);
  *out_supported = false;
  if (feature < 0 || feature >= operand->rank || instruction->num_operands > 5) return TRM_OK;
  norm_state *state = ARENA_NEW(request->arena, norm_state, 1);
  CHECK_MEMORY(state, "a batch norm");
  state->opcode = opcode;
  state->statistics_only = instruction->opcode == TRM_OP_CUSTOM_CALL;
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    state->dtypes[i] = trm_operand_shape(request, i)->dtype;
    if (state->dtypes[i] != TRM_F32 && state->dtypes[i] != TRM_F16) return TRM_OK;
  }
  for (int32_t i = 0; i < trm_shape_num_leaves(&instruction->shape) && i < 3; ++i) {
    state->result_types[i] = trm_shape_leaf(&instruction->shape, i)->dtype;
    if (state->result_types[i] != TRM_F32 && state->result_types[i] != TRM_F16) return TRM_OK;
  }
  state->epsilon = epsilon;
  state->before = state->after = state->group = state->chunks = 1;
  state->features = operand->dims[feature];
  for (int32_t d = 0; d < operand->rank; ++d) {
    if (d < feature) state->before *= operand->dims[d];
    if (d > feature) state->after *= operand->dims[d];
  }
  if (state->after == 1) {
    for (int64_t g = state->features > 0 ? LANES / state->features : 1; g > 1 && state->group == 1;
         g--)
      if (state->before % g == 0) state->group = g;
    state->width = state->features * state->group;
    state->rows = state->before / state->group;
    state->blocks = (state->width + LANES - 1) / LANES;
  } else {
    state->rows = state->before * ((state->after + LANES - 1) / LANES);
    state->blocks = state->features;
  }
  const int64_t total = state->before * state->features * state->after;
  if (state->blocks < MAX_CHUNKS && state->rows >= 4 * BLOCK_ROWS &&
      total >= TRM_BATCH_NORM_LEAST_SHARED)
    state->chunks =
        state->rows / (2 * BLOCK_ROWS) < MAX_CHUNKS ? state->rows / (2 * BLOCK_ROWS) : MAX_CHUNKS;
  state->moments_bytes =
      ((size_t)(state->chunks * state->features) * sizeof(moments) + 63) & ~(size_t)63;
  const size_t lane = LANES * sizeof(float);
  state->file_bytes = LANES * (sizeof(moments) + 2 * sizeof(double)) + lane * (1 + 2 * BLOCK_ROWS);
  *out_supported = true;
  *out_kernel = (trm_kernel){
      .name = state->statistics_only ? "fast.batch-norm-statistics" : "fast.batch-norm",
      .scratch_bytes = state->moments_bytes + 64 +
                       NUM_ARRAYS * (size_t)state->features * sizeof(float) +
                       state->file_bytes * (size_t)trm_threads_limit(),
      .state = state,
      .run = run_batch_norm};
  return TRM_OK;
}

trm_status trm_fast_batch_norm_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                      bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  return create(request, instruction->opcode, instruction->number, (double)instruction->epsilon,
                out_kernel, out_supported, error);
}

trm_status trm_batch_norm_statistics_create(const trm_kernel_request *request,
                                            trm_kernel *out_kernel, bool *out_supported,
                                            trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const bool is_grad = instruction->call_id == TRM_CALL_BATCH_NORM_GRADIENT_STATISTICS;
  json_t *config = trm_instruction_config(instruction, 0, NULL);
  const json_t *feature = json_object_get(config, "feature_index");
  const json_t *epsilon = json_object_get(config, "epsilon");
  const int64_t index = json_is_integer(feature) ? json_integer_value(feature) : -1;
  const double small = json_number_value(epsilon);
  bool good = !is_grad || json_is_number(epsilon);
  json_decref(config);
  const uint32_t count = is_grad ? 5 : 1;
  const trm_shape *operand =
      instruction->num_operands == count ? trm_operand_shape(request, 0) : NULL;
  good = good && operand != NULL && index >= 0 && index < operand->rank &&
         instruction->shape.num_elements == 2;
  for (uint32_t k = 1; k < count && good; ++k) {
    const trm_shape *other = trm_operand_shape(request, k);
    good = k == 4 ? trm_shape_same_dims(other, operand)
                  : other->rank == 1 && other->dims[0] == operand->dims[index];
  }
  for (int i = 0; i < 2 && good; ++i) {
    const trm_shape *result = &instruction->shape.elements[i];
    good = result->dtype == TRM_F32 && result->rank == 1 && result->dims[0] == operand->dims[index];
  }
  if (good) {
    TRY(create(request, is_grad ? TRM_OP_BATCH_NORM_GRAD : TRM_OP_BATCH_NORM_TRAINING, index, small,
               out_kernel, out_supported, error));
  }
  if (good && *out_supported) return TRM_OK;
  if (is_grad) {
    FAIL(INVALID_ARGUMENT,
         "the custom call tremula.batch-norm-gradient-statistics takes the f16 or f32 operands of "
         "batch-norm-grad and the backend_config {\"feature_index\":N,\"epsilon\":X}, and gives "
         "two f32 vectors");
  }
  FAIL(INVALID_ARGUMENT,
       "the custom call tremula.batch-norm-statistics takes one f16 or f32 array and the "
       "backend_config {\"feature_index\":N}, and gives two f32 vectors");
}
