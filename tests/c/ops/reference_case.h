/* Small modules of one instruction for the tests of the reference kernels: inputs from numbers,
 * results back as numbers. Packing is written apart from the code under test. */
#ifndef TREMULA_TESTS_OPS_REFERENCE_CASE_H_
#define TREMULA_TESTS_OPS_REFERENCE_CASE_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/ops/reference.h"

enum { CASE_MAX_INPUTS = 8, CASE_MAX_RESULTS = 4, CASE_GUARD = 64 };

typedef struct test_case {
  trm_module *module;
  uint32_t entry;
  uint32_t num_inputs;
  trm_index inputs[CASE_MAX_INPUTS];
  void *input_data[CASE_MAX_INPUTS];
  uint32_t num_results;
  void *results[CASE_MAX_RESULTS];
  trm_shape shapes[CASE_MAX_RESULTS];
  uint64_t seed;
  trm_error error;
} test_case;

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define NUMBERS(...) ((const double[]){__VA_ARGS__})
#define LIST(...) \
  ((trm_dims){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__}})

static inline void case_begin(test_case *c) {
  memset(c, 0, sizeof *c);
  assert_int_equal(trm_module_create("test", &c->module, &c->error), TRM_OK);
  assert_int_equal(trm_module_add_computation(c->module, "main", &c->entry, &c->error), TRM_OK);
  c->module->entry = c->entry;
}

static inline void case_end(test_case *c) {
  for (uint32_t i = 0; i < c->num_inputs; ++i) free(c->input_data[i]);
  for (uint32_t i = 0; i < c->num_results; ++i) free(c->results[i]);
  trm_module_free(c->module);
}

static inline trm_shape case_shape(test_case *c, trm_dtype dtype, int32_t rank,
                                   const int64_t *dims) {
  trm_shape shape;
  assert_true(trm_shape_make(&c->module->arena, dtype, rank, dims, &shape));
  return shape;
}

/* A number as the bits of a type. Halves: only numbers that they hold exactly, by their bits. */
static inline void case_pack(trm_dtype dtype, void *to, int64_t i, double number) {
  switch (dtype) {
    case TRM_PRED:
    case TRM_U8: ((uint8_t *)to)[i] = (uint8_t)number; break;
    case TRM_S8: ((int8_t *)to)[i] = (int8_t)number; break;
    case TRM_S16: ((int16_t *)to)[i] = (int16_t)number; break;
    case TRM_U16: ((uint16_t *)to)[i] = (uint16_t)number; break;
    case TRM_S32: ((int32_t *)to)[i] = (int32_t)number; break;
    case TRM_U32: ((uint32_t *)to)[i] = (uint32_t)number; break;
    case TRM_S64: ((int64_t *)to)[i] = (int64_t)number; break;
    case TRM_U64: ((uint64_t *)to)[i] = (uint64_t)number; break;
    case TRM_F16: {
      const _Float16 half = (_Float16)number;
      memcpy((uint16_t *)to + i, &half, 2);
      break;
    }
    case TRM_BF16: {
      const float single = (float)number;
      uint32_t bits;
      memcpy(&bits, &single, 4);
      ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
      break;
    }
    case TRM_F32: ((float *)to)[i] = (float)number; break;
    case TRM_F64:
    case TRM_C128: ((double *)to)[i] = number; break;
    case TRM_C64: /* i counts real and imaginary parts */ ((float *)to)[i] = (float)number; break;
    case TRM_F8E8M0FNU: /* a power of two, or NaN */
      ((uint8_t *)to)[i] = isnan(number) ? 0xff : (uint8_t)(ilogb(number) + 127);
      break;
    default: fail_msg("no packing for this type");
  }
}

static inline double case_unpack(trm_dtype dtype, const void *from, int64_t i) {
  switch (dtype) {
    case TRM_PRED:
    case TRM_U8: return ((const uint8_t *)from)[i];
    case TRM_S8: return ((const int8_t *)from)[i];
    case TRM_S16: return ((const int16_t *)from)[i];
    case TRM_U16: return ((const uint16_t *)from)[i];
    case TRM_S32: return ((const int32_t *)from)[i];
    case TRM_U32: return ((const uint32_t *)from)[i];
    case TRM_S64: return (double)((const int64_t *)from)[i];
    case TRM_U64: return (double)((const uint64_t *)from)[i];
    case TRM_F16: {
      _Float16 half;
      memcpy(&half, (const uint16_t *)from + i, 2);
      return (double)half;
    }
    case TRM_BF16: {
      const uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
      float single;
      memcpy(&single, &bits, 4);
      return (double)single;
    }
    case TRM_F32:
    case TRM_C64: return (double)((const float *)from)[i];
    case TRM_F64:
    case TRM_C128: return ((const double *)from)[i];
    default: fail_msg("no unpacking for this type"); return 0.0;
  }
}

/* Of numbers: a complex one has two. */
static inline int64_t case_count(const trm_shape *shape) {
  const bool is_complex = shape->dtype == TRM_C64 || shape->dtype == TRM_C128;
  return trm_shape_count(shape) * (is_complex ? 2 : 1);
}

/* Adds a parameter with these bytes. */
static inline trm_index case_input_bytes(test_case *c, trm_dtype dtype, int32_t rank,
                                         const int64_t *dims, const void *bytes) {
  const trm_instruction parameter = {.opcode = TRM_OP_PARAMETER,
                                     .number = c->num_inputs,
                                     .shape = case_shape(c, dtype, rank, dims)};
  const size_t size = trm_shape_bytes(&parameter.shape);
  trm_index index;
  assert_int_equal(trm_computation_add(c->module, c->entry, &parameter, &index, &c->error), TRM_OK);
  c->input_data[c->num_inputs] = malloc(size + 1);
  if (bytes != NULL) memcpy(c->input_data[c->num_inputs], bytes, size);
  c->inputs[c->num_inputs++] = index;
  return index;
}

static inline trm_index case_input(test_case *c, trm_dtype dtype, int32_t rank, const int64_t *dims,
                                   const double *numbers) {
  const trm_index index = case_input_bytes(c, dtype, rank, dims, NULL);
  const trm_shape shape = case_shape(c, dtype, rank, dims);
  const int64_t count = case_count(&shape);
  for (int64_t i = 0; i < count; ++i) {
    case_pack(dtype, c->input_data[c->num_inputs - 1], i, numbers[i]);
  }
  return index;
}

/* ((7 i + start) mod 11) - 5: small numbers of both signs. */
static inline trm_index case_input_pattern(test_case *c, trm_dtype dtype, int32_t rank,
                                           const int64_t *dims, int64_t start) {
  double numbers[256];
  const trm_shape shape = case_shape(c, dtype, rank, dims);
  const int64_t count = trm_shape_count(&shape);
  assert_true(count <= 256);
  for (int64_t i = 0; i < count; ++i) numbers[i] = (double)((i * 7 + start) % 11 - 5);
  return case_input(c, dtype, rank, dims, numbers);
}

static inline trm_index case_add(test_case *c, uint32_t computation, trm_instruction prototype) {
  trm_index index;
  assert_int_equal(trm_computation_add(c->module, computation, &prototype, &index, &c->error),
                   TRM_OK);
  return index;
}

/* A computation of `count` scalar parameters of the types. */
static inline uint32_t case_computation(test_case *c, int count, const trm_dtype *types,
                                        trm_index *out_parameters) {
  uint32_t computation;
  assert_int_equal(trm_module_add_computation(c->module, NULL, &computation, &c->error), TRM_OK);
  for (int i = 0; i < count; ++i) {
    out_parameters[i] = case_add(
        c, computation,
        (trm_instruction){
            .opcode = TRM_OP_PARAMETER, .number = i, .shape = case_shape(c, types[i], 0, NULL)});
  }
  return computation;
}

static inline trm_index case_add_binary(test_case *c, uint32_t computation, trm_opcode opcode,
                                        trm_dtype dtype, trm_index a, trm_index b) {
  trm_index operands[2] = {a, b};
  return case_add(c, computation,
                  (trm_instruction){.opcode = opcode,
                                    .operands = operands,
                                    .num_operands = 2,
                                    .shape = case_shape(c, dtype, 0, NULL)});
}

static inline void case_set_root(test_case *c, uint32_t computation, trm_index root) {
  c->module->computations[computation].root = root;
}

/* (a, b) -> a opcode b */
static inline uint32_t case_binary_computation(test_case *c, trm_opcode opcode, trm_dtype dtype) {
  const trm_dtype types[2] = {dtype, dtype};
  trm_index p[2];
  const uint32_t computation = case_computation(c, 2, types, p);
  case_set_root(c, computation, case_add_binary(c, computation, opcode, dtype, p[0], p[1]));
  return computation;
}

/* (a, b) -> a comparison b */
static inline uint32_t case_compare_computation(test_case *c, trm_comparison comparison,
                                                trm_dtype dtype) {
  const trm_dtype types[2] = {dtype, dtype};
  trm_index p[2];
  const uint32_t computation = case_computation(c, 2, types, p);
  const trm_index root = case_add(c, computation,
                                  (trm_instruction){.opcode = TRM_OP_COMPARE,
                                                    .operands = p,
                                                    .num_operands = 2,
                                                    .comparison = comparison,
                                                    .shape = case_shape(c, TRM_PRED, 0, NULL)});
  case_set_root(c, computation, root);
  return computation;
}

/* Creates the reference kernel of the prototype (on all inputs), and runs it twice when it does not
 * draw random numbers: the scratch buffer holds garbage and nothing may be written past the ends.
 */
static inline trm_status case_try(test_case *c, trm_instruction prototype, trm_shape shape) {
  prototype.shape = shape;
  prototype.operands = c->inputs;
  prototype.num_operands = c->num_inputs;
  const trm_index index = case_add(c, c->entry, prototype);
  const trm_computation *computation = &c->module->computations[c->entry];
  trm_arena arena = {0};
  const trm_kernel_request request = {.module = c->module,
                                      .computation = computation,
                                      .instruction = &computation->instructions[index],
                                      .arena = &arena};
  trm_kernel kernel = {0};
  trm_status status = trm_kernel_create(&request, true, &kernel, &c->error);
  if (status != TRM_OK) {
    trm_arena_free(&arena);
    return status;
  }
  c->num_results = (uint32_t)trm_shape_num_leaves(&shape);
  assert_true(c->num_results <= CASE_MAX_RESULTS);
  for (uint32_t i = 0; i < c->num_results; ++i) {
    c->shapes[i] = *trm_shape_leaf(&shape, (int32_t)i);
    const size_t size = trm_shape_bytes(&c->shapes[i]);
    c->results[i] = malloc(size + CASE_GUARD);
    memset(c->results[i], 0xa5, size + CASE_GUARD);
  }
  void *scratch = trm_allocate_aligned(kernel.scratch_bytes + CASE_GUARD);
  memset(scratch, 0xcd, kernel.scratch_bytes + CASE_GUARD);
  const uint64_t versions[CASE_MAX_INPUTS] = {0};
  const trm_kernel_call call = {.operands = (const void *const *)c->input_data,
                                .versions = versions,
                                .results = c->results,
                                .scratch = scratch,
                                .seed = c->seed};
  for (int run = 0; run < 2 && status == TRM_OK; ++run) {
    status = kernel.run(&kernel, &call, &c->error);
  }
  for (int i = 0; i < CASE_GUARD; ++i) {
    assert_int_equal(((unsigned char *)scratch)[kernel.scratch_bytes + (size_t)i], 0xcd);
    for (uint32_t k = 0; k < c->num_results; ++k) {
      const size_t size = trm_shape_bytes(&c->shapes[k]);
      assert_int_equal(((unsigned char *)c->results[k])[size + (size_t)i], 0xa5);
    }
  }
  trm_free(scratch);
  trm_kernel_destroy(&kernel);
  trm_arena_free(&arena);
  return status;
}

/* Creates the kernel again and again, with every allocation failing once. */
static inline void case_exhaust(test_case *c, trm_instruction prototype, trm_shape shape) {
  prototype.shape = shape;
  prototype.operands = c->inputs;
  prototype.num_operands = c->num_inputs;
  const trm_index index = case_add(c, c->entry, prototype);
  const trm_computation *computation = &c->module->computations[c->entry];
  trm_status status = TRM_RESOURCE_EXHAUSTED;
  int64_t failures = -1;
  while (status != TRM_OK) {
    trm_arena arena = {0};
    const trm_kernel_request request = {.module = c->module,
                                        .computation = computation,
                                        .instruction = &computation->instructions[index],
                                        .arena = &arena};
    trm_kernel kernel = {0};
    trm_allocation_fail_after(++failures);
    status = trm_kernel_create(&request, true, &kernel, &c->error);
    trm_allocation_fail_after(-1);
    assert_true(status == TRM_OK || status == TRM_RESOURCE_EXHAUSTED);
    trm_kernel_destroy(&kernel);
    trm_arena_free(&arena);
  }
  assert_true(failures > 0);
}

static inline void case_run(test_case *c, trm_instruction prototype, trm_shape shape) {
  if (case_try(c, prototype, shape) != TRM_OK) fail_msg("%s", c->error.message);
}

/* Equal to `tolerance` of the expected size; 0: the same number, signs of zeros included. NaN
 * stands for any NaN. */
static inline void case_expect(test_case *c, uint32_t result, const double *expected,
                               double tolerance) {
  const trm_dtype dtype = c->shapes[result].dtype;
  const int64_t count = case_count(&c->shapes[result]);
  for (int64_t i = 0; i < count; ++i) {
    const double got = case_unpack(dtype, c->results[result], i), want = expected[i];
    bool same;
    if (isnan(want) || isnan(got)) same = isnan(want) && isnan(got);
    else if (tolerance == 0.0) same = got == want && !signbit(got) == !signbit(want);
    else same = got == want || fabs(got - want) <= tolerance * fmax(1.0, fabs(want));
    if (!same) {
      fail_msg("result %u, element %lld of %s: %.17g, but expected %.17g", result, (long long)i,
               trm_dtype_name(dtype), got, want);
    }
  }
}

#endif /* TREMULA_TESTS_OPS_REFERENCE_CASE_H_ */
