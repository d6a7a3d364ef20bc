/* Owns: random values of each distribution. A uniform or normal value (Box and Muller) uses two
 * words of a block. A truncated normal value uses a block: two candidates, then the next variant of
 * the block.
 *
 * Vectorised loops compute normal values of up to 32 bits in float32; others are computed in
 * double. */
#include "host/ops/random/distribution.h"

#include <math.h>
#include <string.h>

#include "host/ops/elementwise/vector.h"
#include "host/ops/threads.h"

enum {
  SEGMENT = 4096,
  WORDS = TRM_PHILOX_WORDS,
  MAX_ATTEMPTS = 1024, /* one candidate in 22 is refused, so 2048 in a row never are */
  LANES = TRM_PHILOX_LANES,
};

typedef struct fill_run {
  trm_distribution distribution;
  trm_dtype dtype;
  trm_value low, high;
  trm_random_stream stream;
  void *result;
  int64_t count;
} fill_run;

/* ---- Uniform -------------------------------------------------------------------------------- */

/* A number in [0, 1), with as many bits as the type's mantissa has. */
static double unit_uniform(trm_dtype dtype, const uint32_t *words) {
  switch (dtype) {
    case TRM_F16: return (double)(words[0] >> 22) * 0x1p-10;
    case TRM_BF16: return (double)(words[0] >> 25) * 0x1p-7;
    case TRM_F64: return (double)(((uint64_t)words[1] << 32 | words[0]) >> 12) * 0x1p-52;
    default: return (double)(words[0] >> 9) * 0x1p-23;
  }
}

static trm_value uniform(const fill_run *run, const uint32_t *words) {
  const double low = run->low.f, high = run->high.f;
  double unit = unit_uniform(run->dtype, words);
  trm_value value = {{.f = low + (high - low) * unit}, 0.0};
  value = trm_value_round(run->dtype, value);
  /* Rounding must not reach the upper bound. */
  for (double step = 0x1p-23; value.f >= high && unit > 0.0; step *= 2.0) {
    unit = unit > step ? unit - step : 0.0;
    value.f = low + (high - low) * unit;
    value = trm_value_round(run->dtype, value);
  }
  return value;
}

/* The same for LANES * 2 float32 elements. */
static void uniform_floats(const fill_run *run, const uint32_t words[WORDS], float out[WORDS / 2]) {
  const double low = run->low.f, range = run->high.f - low;
  int reached = 0;
  for (int i = 0; i < WORDS / 2; ++i) {
    out[i] = (float)(low + range * ((double)(int32_t)(words[2 * i] >> 9) * 0x1p-23));
    reached |= (double)out[i] >= run->high.f;
  }
  for (int i = 0; reached && i < WORDS / 2; ++i) out[i] = (float)uniform(run, words + 2 * i).f;
}

static trm_value uniform_integer(const fill_run *run, const uint32_t *words) {
  const uint64_t bits = (uint64_t)words[1] << 32 | words[0], range = run->high.u - run->low.u;
  return (trm_value){{.u = run->low.u + (range == 0 ? bits : bits % range)}, 0.0};
}

/* ---- Normal --------------------------------------------------------------------------------- */

static double standard_normal(const uint32_t *words) {
  const double radius = sqrt(-2.0 * log(((double)words[0] + 1.0) * 0x1p-32));
  return radius * cos(6.28318530717958647692 * ((double)words[1] * 0x1p-32));
}

/* Standard normal values from n pairs of words. */
static void standard_normals(const uint32_t *words, int n, float *out) {
  const trm_vector_ops *vector = trm_vector_ops_get();
  float radius[WORDS / 2], angle[WORDS / 2];
  const size_t count = (size_t)n;
  for (int i = 0; i < n; ++i) {
    radius[i] = (float)((words[2 * i] >> 8) + 1) * 0x1p-24f; /* in (0, 1] */
    angle[i] = (float)(words[2 * i + 1] >> 8) * (6.28318530717958647692f * 0x1p-24f);
  }
  vector->op[TRM_OP_LOG][TRM_V_F32](radius, radius, NULL, NULL, count);
  for (int i = 0; i < n; ++i) radius[i] *= -2.0f;
  vector->op[TRM_OP_SQRT][TRM_V_F32](radius, radius, NULL, NULL, count);
  vector->op[TRM_OP_COSINE][TRM_V_F32](angle, angle, NULL, NULL, count);
  for (int i = 0; i < n; ++i) out[i] = radius[i] * angle[i];
}

static double truncated_normal(const fill_run *run, uint64_t i, uint32_t first_attempt) {
  for (uint32_t attempt = first_attempt; attempt < MAX_ATTEMPTS; ++attempt) {
    uint32_t words[4];
    float candidates[2];
    trm_random_block(&run->stream, i, attempt, words);
    if (run->dtype != TRM_F64) standard_normals(words, 2, candidates);
    for (int half = 0; half < 2; ++half) {
      const double value =
          run->dtype == TRM_F64 ? standard_normal(words + 2 * half) : (double)candidates[half];
      if (fabs(value) < 2.0) return value;
    }
  }
  return 0.0;
}

/* ---- Filling -------------------------------------------------------------------------------- */

static void store_scaled(const fill_run *run, int64_t at, double standard) {
  trm_value_store(run->dtype, run->result, at,
                  (trm_value){{.f = standard * run->high.f + run->low.f}, 0.0});
}

/* n elements from `at` on, the first of which uses the first of the blocks. */
static void fill_truncated(const fill_run *run, int64_t at, const uint32_t words[WORDS], int n) {
  float candidates[WORDS / 2];
  if (run->dtype != TRM_F64) standard_normals(words, 2 * n, candidates);
  for (int i = 0; i < n; ++i) {
    const float *two = candidates + 2 * i;
    if (run->dtype == TRM_F64) {
      store_scaled(run, at + i, truncated_normal(run, (uint64_t)(at + i), 0));
    } else if (fabsf(two[0]) < 2.0f || fabsf(two[1]) < 2.0f) {
      store_scaled(run, at + i, (double)(fabsf(two[0]) < 2.0f ? two[0] : two[1]));
    } else {
      store_scaled(run, at + i, truncated_normal(run, (uint64_t)(at + i), 1));
    }
  }
}

static void fill_others(const fill_run *run, int64_t at, const uint32_t words[WORDS], int n) {
  float floats[WORDS / 2];
  if (run->distribution == TRM_UNIFORM && run->dtype == TRM_F32) {
    uniform_floats(run, words, floats);
    memcpy((float *)run->result + at, floats, (size_t)n * sizeof *floats);
    return;
  }
  const bool is_narrow_normal = run->distribution == TRM_NORMAL && run->dtype != TRM_F64;
  if (is_narrow_normal) standard_normals(words, n, floats);
  for (int i = 0; i < n; ++i) {
    const uint32_t *pair = words + 2 * i;
    if (is_narrow_normal) {
      store_scaled(run, at + i, (double)floats[i]);
    } else if (run->distribution == TRM_NORMAL) {
      store_scaled(run, at + i, standard_normal(pair));
    } else {
      trm_value_store(
          run->dtype, run->result, at + i,
          run->distribution == TRM_UNIFORM ? uniform(run, pair) : uniform_integer(run, pair));
    }
  }
}

static void fill_segments(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const fill_run *run = (const fill_run *)context;
  const bool is_truncated = run->distribution == TRM_TRUNCATED_NORMAL;
  const int64_t per_block = is_truncated ? 1 : 2, step = per_block * LANES;
  const int64_t to = end * SEGMENT < run->count ? end * SEGMENT : run->count;
  for (int64_t at = begin * SEGMENT; at < to; at += step) {
    uint32_t words[WORDS];
    const int n = (int)(to - at < step ? to - at : step);
    trm_random_blocks(&run->stream, (uint64_t)(at / per_block), words);
    if (is_truncated) fill_truncated(run, at, words, n);
    else fill_others(run, at, words, n);
  }
}

bool trm_distribution_find(const char *name, trm_distribution *out) {
  static const char *const names[] = {"uniform", "normal", "truncated_normal", "uniform_int"};
  for (int i = 0; i < 4 && name != NULL; ++i) {
    if (strcmp(name, names[i]) != 0) continue;
    *out = (trm_distribution)i;
    return true;
  }
  return false;
}

void trm_distribution_fill(trm_distribution distribution, trm_dtype dtype, trm_value low,
                           trm_value high, const trm_random_stream *stream, void *result,
                           int64_t count) {
  const fill_run run = {distribution, dtype, low, high, *stream, result, count};
  trm_parallel_ranges(trm_threads_for((size_t)count * 32), (count + SEGMENT - 1) / SEGMENT,
                      fill_segments, &run);
}
