/* Owns: combining the elements of several replicas.
 *
 * float32, float16 and bfloat16 are combined in strips of float32. Other types go through values of
 * any type, which is slow but rare. */
#include <math.h>

#include "base/half.h"
#include "host/ops/collective/collective.h"

enum { STRIP = 1024 };

static bool is_strip_type(trm_dtype dtype) {
  return dtype == TRM_F32 || dtype == TRM_F16 || dtype == TRM_BF16;
}

bool trm_combine_fits(trm_combine combine, trm_dtype dtype) {
  const trm_kind kind = trm_dtype_kind(dtype);
  switch (combine) {
    case TRM_COMBINE_CALLED:
    case TRM_COMBINE_LOCAL: return true;
    case TRM_COMBINE_LOGICAL_AND:
    case TRM_COMBINE_LOGICAL_OR: return kind == TRM_KIND_PRED || trm_kind_is_integer(kind);
    case TRM_COMBINE_MIN:
    case TRM_COMBINE_MAX:
      return kind == TRM_KIND_FLOAT || kind == TRM_KIND_PRED || trm_kind_is_integer(kind);
    case TRM_COMBINE_ADD:
      return kind == TRM_KIND_COMPLEX || kind == TRM_KIND_FLOAT || trm_kind_is_integer(kind);
    default: return kind == TRM_KIND_FLOAT || trm_kind_is_integer(kind);
  }
}

/* ---- Strips --------------------------------------------------------------------------------- */

static void load_strip(trm_dtype dtype, const void *source, int64_t from, int64_t count,
                       float *out) {
  if (dtype == TRM_F32) {
    memcpy(out, (const float *)source + from, (size_t)count * sizeof *out);
    return;
  }
  const uint16_t *bits = (const uint16_t *)source + from;
  if (dtype == TRM_F16) {
    for (int64_t i = 0; i < count; ++i) out[i] = trm_half_to_float(bits[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = trm_bfloat16_to_float(bits[i]);
  }
}

static void store_strip(trm_dtype dtype, void *target, int64_t to, int64_t count,
                        const float *values) {
  if (dtype == TRM_F32) {
    memcpy((float *)target + to, values, (size_t)count * sizeof *values);
    return;
  }
  uint16_t *bits = (uint16_t *)target + to;
  if (dtype == TRM_F16) {
    for (int64_t i = 0; i < count; ++i) bits[i] = trm_float_to_half(values[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) bits[i] = trm_float_to_bfloat16(values[i]);
  }
}

/* HLO's minimum and maximum: NaN if either is NaN. */
static float lesser(float a, float b) { return isnan(a) || a < b ? a : isnan(b) || b < a ? b : a; }
static float greater(float a, float b) { return isnan(a) || a > b ? a : isnan(b) || b > a ? b : a; }

static void combine_strip(trm_combine combine, float *sum, const float *x, int64_t count) {
  switch (combine) {
    case TRM_COMBINE_MUL:
      for (int64_t i = 0; i < count; ++i) sum[i] *= x[i];
      return;
    case TRM_COMBINE_MIN:
      for (int64_t i = 0; i < count; ++i) sum[i] = lesser(sum[i], x[i]);
      return;
    case TRM_COMBINE_MAX:
      for (int64_t i = 0; i < count; ++i) sum[i] = greater(sum[i], x[i]);
      return;
    case TRM_COMBINE_SQUARE_ADD:
      for (int64_t i = 0; i < count; ++i) sum[i] += x[i] * x[i];
      return;
    default:
      for (int64_t i = 0; i < count; ++i) sum[i] += x[i];
  }
}

static void combine_strips(const trm_combine_job *job, int64_t begin, int64_t end, int64_t at) {
  const trm_combine combine = job->state->combine;
  const size_t size = trm_dtype_size(job->dtype);
  float sum[STRIP], x[STRIP];
  for (int64_t from = begin; from < end; from += STRIP) {
    const int64_t count = end - from < STRIP ? end - from : STRIP, to = at + (from - begin);
    load_strip(job->dtype, job->sources[0], from, count, sum);
    if (combine == TRM_COMBINE_SQUARE_ADD) {
      for (int64_t i = 0; i < count; ++i) sum[i] *= sum[i];
    }
    for (uint32_t k = 1; k < job->num_sources; ++k) {
      load_strip(job->dtype, job->sources[k], from, count, x);
      combine_strip(combine, sum, x, count);
    }
    if (combine == TRM_COMBINE_MEAN) {
      const float n = (float)job->num_sources;
      for (int64_t i = 0; i < count; ++i) sum[i] /= n;
    }
    store_strip(job->dtype, job->targets[0], to, count, sum);
    const char *first = (const char *)job->targets[0] + (size_t)to * size;
    for (uint32_t k = 1; k < job->num_targets; ++k) {
      memcpy((char *)job->targets[k] + (size_t)to * size, first, (size_t)count * size);
    }
  }
}

/* ---- Any type ------------------------------------------------------------------------------- */

/* Unsigned arithmetic wraps, and gives the bits of signed arithmetic too. */
static trm_value combine_two(trm_combine combine, trm_kind kind, trm_value a, trm_value b) {
  const bool is_float = kind == TRM_KIND_FLOAT, is_signed = kind == TRM_KIND_SIGNED;
  switch (combine) {
    case TRM_COMBINE_MUL:
      if (is_float) a.f *= b.f;
      else a.u *= b.u;
      return a;
    case TRM_COMBINE_SQUARE_ADD:
      if (is_float) a.f += b.f * b.f;
      else a.u += b.u * b.u;
      return a;
    case TRM_COMBINE_MIN:
      if (is_float) return isnan(a.f) || a.f <= b.f ? a : b;
      return (is_signed ? a.s <= b.s : a.u <= b.u) ? a : b;
    case TRM_COMBINE_MAX:
      if (is_float) return isnan(a.f) || a.f >= b.f ? a : b;
      return (is_signed ? a.s >= b.s : a.u >= b.u) ? a : b;
    case TRM_COMBINE_LOGICAL_AND: a.u = a.u != 0 && b.u != 0; return a;
    case TRM_COMBINE_LOGICAL_OR: a.u = a.u != 0 || b.u != 0; return a;
    default:
      if (kind == TRM_KIND_COMPLEX) a.imag += b.imag;
      if (is_float || kind == TRM_KIND_COMPLEX) a.f += b.f;
      else a.u += b.u;
      return a;
  }
}

/* Combines the first value with the neutral element, for combinations that change a single
 * value. */
static trm_value combine_first(trm_combine combine, trm_kind kind, trm_value value) {
  const trm_value zero = {.u = 0};
  if (combine == TRM_COMBINE_SQUARE_ADD) return combine_two(combine, kind, zero, value);
  if (combine == TRM_COMBINE_LOGICAL_AND || combine == TRM_COMBINE_LOGICAL_OR) {
    return combine_two(TRM_COMBINE_LOGICAL_OR, kind, zero, value);
  }
  return value;
}

static trm_value divide(trm_kind kind, trm_value sum, uint32_t count) {
  if (kind == TRM_KIND_FLOAT) sum.f /= count;
  else if (kind == TRM_KIND_SIGNED) sum.s /= (int64_t)count;
  else sum.u /= count;
  return sum;
}

static void combine_values(const trm_combine_job *job, int64_t begin, int64_t end, int64_t at) {
  const trm_collective_state *state = job->state;
  const trm_kind kind = trm_dtype_kind(job->dtype);
  const trm_evaluator *evaluator = state->base.evaluators[0];
  trm_value *slots = job->slots;
  if (state->combine == TRM_COMBINE_CALLED) trm_evaluator_prepare(evaluator, slots);
  for (int64_t i = begin; i < end; ++i) {
    trm_value sum = trm_value_load(job->dtype, job->sources[0], i);
    if (state->combine == TRM_COMBINE_CALLED) {
      for (uint32_t k = 1; k < job->num_sources; ++k) {
        slots[0] = sum;
        slots[1] = trm_value_load(job->dtype, job->sources[k], i);
        trm_evaluator_run(evaluator, slots);
        sum = slots[evaluator->results[0]];
      }
    } else {
      sum = combine_first(state->combine, kind, sum);
      for (uint32_t k = 1; k < job->num_sources; ++k) {
        sum =
            combine_two(state->combine, kind, sum, trm_value_load(job->dtype, job->sources[k], i));
      }
      if (state->combine == TRM_COMBINE_MEAN) sum = divide(kind, sum, job->num_sources);
    }
    for (uint32_t k = 0; k < job->num_targets; ++k) {
      trm_value_store(job->dtype, job->targets[k], at + (i - begin), sum);
    }
  }
}

void trm_combine_range(const trm_combine_job *job, int64_t begin, int64_t end, int64_t at) {
  if (job->state->combine != TRM_COMBINE_CALLED && is_strip_type(job->dtype)) {
    combine_strips(job, begin, end, at);
  } else {
    combine_values(job, begin, end, at);
  }
}
