/* What the tests of the fast kernels share: building a module of one instruction, running its fast
 * and its reference kernel on the same bytes, and comparing. */
#ifndef TREMULA_TESTS_OPS_FAST_CASE_H_
#define TREMULA_TESTS_OPS_FAST_CASE_H_

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/memory.h"
#include "hlo/hlo.h"
#include "host/ops/kernel.h"

enum { CASE_MAX_LEAVES = 16 };

static uint64_t case_random_state = 0x9e3779b97f4a7c15u;
static inline uint64_t case_random(void) {
  case_random_state ^= case_random_state << 13;
  case_random_state ^= case_random_state >> 7;
  case_random_state ^= case_random_state << 17;
  return case_random_state * 0x2545f4914f6cdd1du;
}
static inline int64_t case_random_below(int64_t n) {
  return (int64_t)((case_random() >> 33) % (uint64_t)n);
}

/* What values an operand gets. */
typedef enum case_values {
  VALUES_WILD,  /* all bit patterns, with the special ones often */
  VALUES_TAME,  /* floats in [-4, 4], small integers */
  VALUES_WHOLE, /* floats that are small whole numbers: sums are exact */
} case_values;

static inline double case_special(void) {
  static const double special[] = {0.0,           -0.0,         1.0,     -1.0,  INFINITY,
                                   -INFINITY,     NAN,          0.5,     -0.5,  1.5,
                                   2.5,           65504.0,      65520.0, 1e-7,  -6e-8,
                                   1e-40,         -1e-45,       3e38,    -3e38, 2147483648.0,
                                   -2147483648.0, 4294967296.0, 127.5,   255.5, 16777217.0};
  return special[case_random_below((int64_t)(sizeof special / sizeof *special))];
}

static inline void case_fill(trm_dtype dtype, void *data, int64_t count, case_values values) {
  const size_t size = trm_dtype_size(dtype);
  for (int64_t i = 0; i < count; ++i) {
    char *at = (char *)data + (size_t)i * size;
    double v = (double)case_random_below(1 << 20) / (1 << 17) - 4.0;
    if (values == VALUES_WHOLE) v = (double)case_random_below(9) - 4.0;
    if (values == VALUES_WILD) {
      const int64_t kind = case_random_below(4);
      if (kind == 0) v = case_special();
      else if (kind == 1) v = ldexp(v, (int)case_random_below(40) - 20);
    }
    const uint64_t bits = case_random();
    switch (dtype) {
      case TRM_PRED: *(uint8_t *)at = bits >> 40 & 1; break;
      case TRM_F32: {
        const float f = (float)v;
        memcpy(at, &f, 4);
        break;
      }
      case TRM_F16: {
        const uint16_t h = trm_float_to_half((float)v);
        memcpy(at, &h, 2);
        break;
      }
      default:
        if (values == VALUES_WILD && case_random_below(3) > 0) memcpy(at, &bits, size);
        else {
          const int64_t small = (int64_t)v;
          memcpy(at, &small, size);
        }
        break;
    }
  }
}

typedef struct fast_case {
  trm_module *module;
  uint32_t computation;
} fast_case;

static inline void case_check(trm_status status, const trm_error *error) {
  if (status != TRM_OK) fail_msg("%s", error->message);
}

static inline fast_case case_create(void) {
  fast_case c;
  trm_error error = {0};
  case_check(trm_module_create("case", &c.module, &error), &error);
  case_check(trm_module_add_computation(c.module, "entry", &c.computation, &error), &error);
  return c;
}
static inline void case_free(fast_case *c) { trm_module_free(c->module); }

static inline trm_shape case_shape(fast_case *c, trm_dtype dtype, int32_t rank,
                                   const int64_t *dims) {
  trm_shape shape;
  assert_true(trm_shape_make(&c->module->arena, dtype, rank, dims, &shape));
  return shape;
}
static inline trm_dims case_dims(fast_case *c, int32_t count, const int64_t *items) {
  trm_dims dims = {count, ARENA_NEW(&c->module->arena, int64_t, (size_t)count + 1)};
  if (count > 0) memcpy(dims.items, items, (size_t)count * sizeof *items);
  return dims;
}

static inline trm_index case_add(fast_case *c, uint32_t computation, trm_instruction instruction) {
  trm_error error = {0};
  trm_index index;
  case_check(trm_computation_add(c->module, computation, &instruction, &index, &error), &error);
  c->module->computations[computation].root = index;
  return index;
}
static inline trm_index case_parameter(fast_case *c, uint32_t computation, trm_shape shape) {
  return case_add(c, computation,
                  (trm_instruction){.opcode = TRM_OP_PARAMETER,
                                    .shape = shape,
                                    .number = c->module->computations[computation].num_parameters});
}
static inline trm_instruction case_op(trm_opcode opcode, trm_shape shape, uint32_t num_operands,
                                      trm_index *operands) {
  return (trm_instruction){
      .opcode = opcode, .shape = shape, .num_operands = num_operands, .operands = operands};
}
/* A scalar computation op(p0, p1). */
static inline uint32_t case_reducer(fast_case *c, trm_opcode opcode, trm_dtype dtype) {
  trm_error error = {0};
  uint32_t index;
  case_check(trm_module_add_computation(c->module, NULL, &index, &error), &error);
  const trm_shape scalar = case_shape(c, dtype, 0, NULL);
  trm_index p[2] = {case_parameter(c, index, scalar), case_parameter(c, index, scalar)};
  case_add(c, index, case_op(opcode, scalar, 2, p));
  return index;
}

/* Results of one kernel on given operands. */
typedef struct case_results {
  int32_t count;
  trm_shape shapes[CASE_MAX_LEAVES];
  void *data[CASE_MAX_LEAVES];
} case_results;
static inline void case_results_free(case_results *r) {
  for (int32_t i = 0; i < r->count; ++i) trm_free(r->data[i]);
}

static inline void *case_allocate(size_t bytes) {
  void *block = trm_allocate_aligned(bytes + 64);
  assert_non_null(block);
  memset(block, 0xcd, bytes + 64);
  return block;
}

/* Runs a kernel on operands of ones, at other places and then at those of the call, which get their
 * contents back: nothing that it keeps from call to call may show in the next one. */
static inline void case_run_before(const trm_kernel *kernel, const trm_kernel_call *call,
                                   const size_t *bytes, uint32_t num_operands,
                                   const case_results *out) {
  trm_error error = {0};
  void *ones[CASE_MAX_LEAVES], *saved[CASE_MAX_LEAVES], *results[CASE_MAX_LEAVES];
  const void *operands[CASE_MAX_LEAVES];
  for (uint32_t i = 0; i < num_operands; ++i) {
    operands[i] = ones[i] = case_allocate(bytes[i]);
    memset(ones[i], 1, bytes[i]);
    saved[i] = case_allocate(bytes[i]);
    memcpy(saved[i], call->operands[i], bytes[i]);
  }
  for (int32_t i = 0; i < out->count; ++i)
    results[i] = case_allocate(trm_shape_bytes(&out->shapes[i]));
  trm_kernel_call other = *call;
  other.operands = operands;
  other.results = results;
  case_check(kernel->run(kernel, &other, &error), &error);
  for (uint32_t i = 0; i < num_operands; ++i)
    memset((void *)(uintptr_t)call->operands[i], 1, bytes[i]);
  case_check(kernel->run(kernel, call, &error), &error);
  for (uint32_t i = 0; i < num_operands; ++i) {
    memcpy((void *)(uintptr_t)call->operands[i], saved[i], bytes[i]);
    trm_free(ones[i]);
    trm_free(saved[i]);
  }
  for (int32_t i = 0; i < out->count; ++i) trm_free(results[i]);
}

/* Runs the instruction at `index`; in_place: the operand that result 0 overwrites, or -1. Returns
 * false when `fast` is asked for and there is none. */
static inline bool case_run(fast_case *c, trm_index index, bool fast, int in_place,
                            const void *const *operands, case_results *out,
                            uint32_t *out_in_place) {
  trm_error error = {0};
  trm_arena arena = {0};
  const trm_computation *computation = &c->module->computations[c->computation];
  const trm_instruction *instruction = &computation->instructions[index];
  const trm_kernel_request request = {
      .module = c->module, .computation = computation, .instruction = instruction, .arena = &arena};
  trm_kernel kernel;
  case_check(trm_kernel_create(&request, !fast, &kernel, &error), &error);
  if (fast && strncmp(kernel.name, "fast.", 5) != 0) {
    trm_kernel_destroy(&kernel);
    trm_arena_free(&arena);
    return false;
  }
  if (out_in_place != NULL) *out_in_place = kernel.in_place_operands;
  memset(out, 0, sizeof *out);
  out->count = trm_shape_num_leaves(&instruction->shape);
  for (int32_t i = 0; i < out->count; ++i) {
    out->shapes[i] = *trm_shape_leaf(&instruction->shape, i);
    out->data[i] = case_allocate(trm_shape_bytes(&out->shapes[i]));
  }
  const void *sources[CASE_MAX_LEAVES] = {NULL};
  size_t bytes[CASE_MAX_LEAVES];
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    sources[i] = operands[i];
    bytes[i] = trm_shape_bytes(&computation->instructions[instruction->operands[i]].shape);
  }
  if (in_place >= 0) {
    memcpy(out->data[0], operands[in_place], trm_shape_bytes(&out->shapes[0]));
    sources[in_place] = out->data[0];
  }
  const uint64_t versions[CASE_MAX_LEAVES] = {0};
  void *scratch = case_allocate(kernel.scratch_bytes);
  void *persistent = case_allocate(kernel.persistent_bytes);
  memset(persistent, 0, kernel.persistent_bytes);
  const trm_kernel_call call = {.operands = sources,
                                .versions = versions,
                                .results = out->data,
                                .scratch = scratch,
                                .persistent = persistent,
                                .seed = 1};
  if (kernel.persistent_bytes > 0)
    case_run_before(&kernel, &call, bytes, instruction->num_operands, out);
  case_check(kernel.run(&kernel, &call, &error), &error);
  for (int32_t i = 0; i < out->count; ++i) { /* nothing behind the end was written */
    const unsigned char *end = (unsigned char *)out->data[i] + trm_shape_bytes(&out->shapes[i]);
    for (int k = 0; k < 64; ++k) assert_int_equal(end[k], 0xcd);
  }
  trm_free(scratch);
  trm_free(persistent);
  trm_kernel_destroy(&kernel);
  trm_arena_free(&arena);
  return true;
}

static inline double case_value(trm_dtype dtype, const void *data, int64_t i) {
  if (dtype == TRM_F16) return (double)trm_half_to_float(((const uint16_t *)data)[i]);
  if (dtype == TRM_F64) return ((const double *)data)[i];
  return (double)((const float *)data)[i];
}

/* Floats: NaN equals NaN, otherwise within `ulps` of the type, or within `absolute`. Others: equal
 * bytes. With ulps 0, zeros must have the same sign. */
static inline void case_compare(const case_results *got, const case_results *want, double ulps,
                                double absolute, const char *what) {
  assert_int_equal(got->count, want->count);
  for (int32_t leaf = 0; leaf < got->count; ++leaf) {
    const trm_dtype dtype = got->shapes[leaf].dtype;
    const int64_t n = trm_shape_count(&got->shapes[leaf]);
    if (dtype != TRM_F16 && dtype != TRM_F32 && dtype != TRM_F64) {
      const size_t bytes = trm_shape_bytes(&got->shapes[leaf]), size = trm_dtype_size(dtype);
      for (size_t i = 0; i < bytes; ++i) {
        if (((char *)got->data[leaf])[i] != ((char *)want->data[leaf])[i])
          fail_msg("%s: result %d differs at element %zu", what, leaf, i / size);
      }
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      const double g = case_value(dtype, got->data[leaf], i),
                   w = case_value(dtype, want->data[leaf], i);
      if (isnan(g) && isnan(w)) continue;
      if (g == w && (w != 0.0 || ulps > 0 || signbit(g) == signbit(w))) continue;
      const double least = dtype == TRM_F16 ? 0x1p-24 : dtype == TRM_F32 ? 0x1p-149 : 0x1p-1074;
      const int digits = dtype == TRM_F16 ? 10 : dtype == TRM_F32 ? 23 : 52;
      double ulp = w == 0.0 || isinf(w) ? least : ldexp(1.0, ilogb(w) - digits);
      if (ulp < least) ulp = least;
      const double difference = fabs(g - w);
      if (!(difference <= ulps * ulp) && !(difference <= absolute))
        fail_msg("%s: result %d differs at element %lld: %.9g (%a), not %.9g (%a)", what, leaf,
                 (long long)i, g, g, w, w);
    }
  }
}

/* Runs both kernels on random operands and compares, also in place where that is allowed. Fails
 * when there is no fast kernel, unless may_lack. */
static inline void case_both(fast_case *c, trm_index index, case_values values, double ulps,
                             double absolute, bool may_lack, const char *what) {
  const trm_computation *computation = &c->module->computations[c->computation];
  const trm_instruction *instruction = &computation->instructions[index];
  void *operands[CASE_MAX_LEAVES];
  for (uint32_t i = 0; i < instruction->num_operands; ++i) {
    const trm_shape *shape = &computation->instructions[instruction->operands[i]].shape;
    operands[i] = case_allocate(trm_shape_bytes(shape));
    case_fill(shape->dtype, operands[i], trm_shape_count(shape), values);
  }
  case_results got, want;
  uint32_t in_place = 0;
  if (!case_run(c, index, true, -1, (const void *const *)operands, &got, &in_place)) {
    if (!may_lack) fail_msg("%s: no fast kernel", what);
  } else {
    assert_true(case_run(c, index, false, -1, (const void *const *)operands, &want, NULL));
    case_compare(&got, &want, ulps, absolute, what);
    case_results_free(&got);
    for (int i = 0; i < 16; ++i) {
      if (!(in_place >> i & 1) || (uint32_t)i >= instruction->num_operands) continue;
      assert_true(case_run(c, index, true, i, (const void *const *)operands, &got, NULL));
      case_compare(&got, &want, ulps, absolute, what);
      case_results_free(&got);
    }
    case_results_free(&want);
  }
  for (uint32_t i = 0; i < instruction->num_operands; ++i) trm_free(operands[i]);
}

#endif /* TREMULA_TESTS_OPS_FAST_CASE_H_ */
