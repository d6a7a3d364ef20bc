/* Dots and convolutions for tests and benchmarks: makes one instruction from a short description,
 * creates a kernel for it and runs it on buffers of its own. */
#ifndef TREMULA_TESTS_OPS_LINEAR_CASE_H_
#define TREMULA_TESTS_OPS_LINEAR_CASE_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "host/ops/kernel.h"

/* A sanitizer makes the checks' own loops ten times slower, and looks at the code: then they read
 * fewer results. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

typedef struct convolution_case {
  const char *name;
  const char *labels; /* "b01f_01io->b01f" */
  int64_t lhs[5], rhs[5];
  trm_window_dimension window[3];       /* size is filled in; 0 in strides and dilations means 1 */
  int64_t feature_groups, batch_groups; /* 0 means 1 */
} convolution_case;

typedef struct dot_case {
  const char *name;
  int32_t lhs_rank, rhs_rank;
  int64_t lhs[5], rhs[5];
  const char *lhs_batch, *rhs_batch, *lhs_contracting, *rhs_contracting; /* digits */
} dot_case;

/* An instruction with two parameters as operands, and buffers. */
typedef struct linear_case {
  trm_module module; /* its options */
  trm_arena arena;
  trm_computation computation;
  trm_instruction instructions[3];
  trm_index operands[2];
  int64_t dims[3][8];
  trm_window window;
  trm_window_dimension window_dims[3];
  trm_convolution convolution;
  int64_t spatial[3][3];
  trm_dot dot;
  int64_t numbers[4][5];
  void *data[3];      /* lhs, rhs, result */
  int64_t contracted; /* products summed into one element */
} linear_case;

static inline void linear_case_shape(linear_case *c, int which, trm_dtype dtype, int32_t rank) {
  c->instructions[which].opcode = TRM_OP_PARAMETER;
  c->instructions[which].name = which == 0 ? "lhs" : which == 1 ? "rhs" : "result";
  c->instructions[which].shape = (trm_shape){.dtype = dtype, .rank = rank, .dims = c->dims[which]};
}

static inline void linear_case_finish(linear_case *c, trm_opcode opcode) {
  c->instructions[2].opcode = opcode;
  c->operands[0] = 0, c->operands[1] = 1;
  c->instructions[2].operands = c->operands;
  c->instructions[2].num_operands = 2;
  c->computation.instructions = c->instructions;
  c->computation.num_instructions = 3;
  c->computation.root = 2;
  for (int i = 0; i < 3; ++i) {
    c->data[i] = trm_allocate_aligned(trm_shape_bytes(&c->instructions[i].shape) + 64);
  }
}

static inline void linear_case_convolution(linear_case *c, const convolution_case *from,
                                           trm_dtype dtype) {
  memset(c, 0, sizeof *c);
  const char *labels[3] = {from->labels, strchr(from->labels, '_') + 1,
                           strstr(from->labels, "->") + 2};
  const int32_t rank = (int32_t)strlen(labels[2]);
  const int spatial = rank - 2;
  int64_t *ends[3][2] = {
      {&c->convolution.input_batch, &c->convolution.input_feature},
      {&c->convolution.kernel_input_feature, &c->convolution.kernel_output_feature},
      {&c->convolution.output_batch, &c->convolution.output_feature}};
  memcpy(c->dims[0], from->lhs, sizeof from->lhs);
  memcpy(c->dims[1], from->rhs, sizeof from->rhs);
  for (int i = 0; i < 3; ++i) {
    for (int32_t d = 0; d < rank; ++d) {
      const char label = labels[i][d];
      if (label == 'b' || label == 'i') *ends[i][0] = d;
      else if (label == 'f' || label == 'o') *ends[i][1] = d;
      else c->spatial[i][label - '0'] = d;
    }
    linear_case_shape(c, i, dtype, rank);
  }
  trm_convolution *v = &c->convolution;
  v->spatial_rank = spatial;
  v->input_spatial = c->spatial[0], v->kernel_spatial = c->spatial[1];
  v->output_spatial = c->spatial[2];
  v->feature_group_count = from->feature_groups ? from->feature_groups : 1;
  v->batch_group_count = from->batch_groups ? from->batch_groups : 1;
  c->contracted = from->rhs[v->kernel_input_feature];
  for (int i = 0; i < spatial; ++i) {
    trm_window_dimension *w = &c->window_dims[i];
    *w = from->window[i];
    w->size = from->rhs[v->kernel_spatial[i]];
    if (w->stride == 0) w->stride = 1;
    if (w->base_dilation == 0) w->base_dilation = 1;
    if (w->window_dilation == 0) w->window_dilation = 1;
    const int64_t in = (from->lhs[v->input_spatial[i]] - 1) * w->base_dilation + 1 +
                       w->padding_low + w->padding_high;
    const int64_t reach = (w->size - 1) * w->window_dilation + 1;
    c->dims[2][v->output_spatial[i]] = (in - reach) / w->stride + 1;
    c->contracted *= w->size;
  }
  c->dims[2][v->output_batch] = from->lhs[v->input_batch] / v->batch_group_count;
  c->dims[2][v->output_feature] = from->rhs[v->kernel_output_feature];
  c->window = (trm_window){spatial, c->window_dims};
  c->instructions[2].window = &c->window;
  c->instructions[2].convolution = v;
  linear_case_finish(c, TRM_OP_CONVOLUTION);
}

static inline trm_dims linear_case_numbers(linear_case *c, int which, const char *digits) {
  int32_t count = 0;
  for (; digits != NULL && digits[count] != '\0'; ++count) {
    c->numbers[which][count] = digits[count] - '0';
  }
  return (trm_dims){count, c->numbers[which]};
}

static inline void linear_case_dot(linear_case *c, const dot_case *from, trm_dtype dtype,
                                   trm_dtype result) {
  memset(c, 0, sizeof *c);
  memcpy(c->dims[0], from->lhs, sizeof from->lhs);
  memcpy(c->dims[1], from->rhs, sizeof from->rhs);
  c->dot = (trm_dot){.lhs_batch = linear_case_numbers(c, 0, from->lhs_batch),
                     .rhs_batch = linear_case_numbers(c, 1, from->rhs_batch),
                     .lhs_contracting = linear_case_numbers(c, 2, from->lhs_contracting),
                     .rhs_contracting = linear_case_numbers(c, 3, from->rhs_contracting)};
  int32_t rank = 0;
  for (int32_t i = 0; i < c->dot.lhs_batch.count; ++i) {
    c->dims[2][rank++] = from->lhs[c->dot.lhs_batch.items[i]];
  }
  for (int side = 0; side < 2; ++side) {
    const trm_dims *batch = side ? &c->dot.rhs_batch : &c->dot.lhs_batch;
    const trm_dims *contracting = side ? &c->dot.rhs_contracting : &c->dot.lhs_contracting;
    for (int32_t d = 0; d < (side ? from->rhs_rank : from->lhs_rank); ++d) {
      bool used = false;
      for (int32_t i = 0; i < batch->count; ++i) used = used || batch->items[i] == d;
      for (int32_t i = 0; i < contracting->count; ++i) used = used || contracting->items[i] == d;
      if (!used) c->dims[2][rank++] = side ? from->rhs[d] : from->lhs[d];
    }
  }
  c->contracted = 1;
  for (int32_t i = 0; i < c->dot.lhs_contracting.count; ++i) {
    c->contracted *= from->lhs[c->dot.lhs_contracting.items[i]];
  }
  linear_case_shape(c, 0, dtype, from->lhs_rank);
  linear_case_shape(c, 1, dtype, from->rhs_rank);
  linear_case_shape(c, 2, result, rank);
  c->instructions[2].dot = &c->dot;
  linear_case_finish(c, TRM_OP_DOT);
}

static inline void linear_case_free(linear_case *c) {
  for (int i = 0; i < 3; ++i) trm_free(c->data[i]);
  trm_arena_free(&c->arena);
}

static inline trm_kernel_request linear_case_request(linear_case *c) {
  return (trm_kernel_request){.module = &c->module,
                              .computation = &c->computation,
                              .instruction = &c->instructions[2],
                              .arena = &c->arena};
}

/* Whether an argument is --half or --half=PRODUCTS, which sets *out_products. */
static inline bool linear_case_halves(const char *argument, trm_half_products *out_products) {
  static const char *const words[] = {"auto", "float", "pieces3", "pieces4", "bfloat16"};
  if (strcmp(argument, "--half") == 0) return true;
  if (strncmp(argument, "--half=", 7) != 0) return false;
  for (int i = 0; i < 5; ++i) {
    if (strcmp(argument + 7, words[i]) != 0) continue;
    *out_products = (trm_half_products)i;
    return true;
  }
  return false;
}

/* Reproducible values: floats in [-1, 1), small integers. */
static inline void linear_case_fill(linear_case *c, uint32_t seed) {
  for (int which = 0; which < 2; ++which) {
    const trm_shape *shape = &c->instructions[which].shape;
    const int64_t count = trm_shape_count(shape);
    for (int64_t i = 0; i < count; ++i) {
      seed = seed * 1664525u + 1013904223u;
      const float value = (float)(int32_t)seed * 0x1p-31f;
      void *data = c->data[which];
      switch (shape->dtype) {
        case TRM_F32: ((float *)data)[i] = value; break;
        case TRM_F16: ((uint16_t *)data)[i] = trm_float_to_half(value); break;
        case TRM_BF16: ((uint16_t *)data)[i] = trm_float_to_bfloat16(value); break;
        case TRM_S32: ((int32_t *)data)[i] = (int32_t)seed; break;
        case TRM_U32: ((uint32_t *)data)[i] = seed; break;
        default: ((uint8_t *)data)[i] = (uint8_t)(seed >> 24); break;
      }
    }
  }
}

static inline double linear_case_value(trm_dtype dtype, const void *data, int64_t i) {
  switch (dtype) {
    case TRM_F32: return (double)((const float *)data)[i];
    case TRM_F16: return (double)trm_half_to_float(((const uint16_t *)data)[i]);
    case TRM_BF16: return (double)trm_bfloat16_to_float(((const uint16_t *)data)[i]);
    case TRM_S32: return ((const int32_t *)data)[i];
    case TRM_U32: return ((const uint32_t *)data)[i];
    default: return 0;
  }
}

/* Blocks that a kernel asks for. */
typedef struct linear_run {
  void *scratch, *persistent;
  const void *operands[2];
  void *results[1];
  uint64_t versions[2];
  trm_kernel_call call;
} linear_run;

static inline void linear_run_create(linear_run *run, const trm_kernel *kernel, linear_case *c,
                                     void *result) {
  memset(run, 0, sizeof *run);
  run->scratch = trm_allocate_aligned(kernel->scratch_bytes + 64);
  run->persistent = trm_allocate_aligned(kernel->persistent_bytes + 64);
  memset(run->scratch, 0x7f, kernel->scratch_bytes); /* contents are undefined */
  memset(run->persistent, 0, kernel->persistent_bytes);
  run->operands[0] = c->data[0], run->operands[1] = c->data[1];
  run->results[0] = result;
  run->call = (trm_kernel_call){.operands = run->operands,
                                .versions = run->versions,
                                .results = run->results,
                                .scratch = run->scratch,
                                .persistent = run->persistent};
}

static inline void linear_run_free(linear_run *run) {
  trm_free(run->scratch);
  trm_free(run->persistent);
}

#endif /* TREMULA_TESTS_OPS_LINEAR_CASE_H_ */
