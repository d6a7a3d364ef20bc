/* Owns: the shapes that the planner takes: made from HLO, checked, canonical, transformed. */
#include <string.h>

#include "ipu/plan/internal.h"

int64_t trm_conv_output_size(const trm_conv_dim *dim) {
  const int64_t input = (dim->input - 1) * dim->input_dilation + 1 + dim->pad_low + dim->pad_high;
  const int64_t kernel = (dim->kernel - 1) * dim->kernel_dilation + 1;
  return input < kernel ? 0 : (input - kernel) / dim->stride + 1;
}

trm_conv_params trm_conv_params_matmul(trm_dtype input_type, trm_dtype output_type, int64_t groups,
                                       int64_t m, int64_t k, int64_t n) {
  return (trm_conv_params){.input_type = input_type,
                           .output_type = output_type,
                           .groups = groups,
                           .batch = n,
                           .in_channels = k,
                           .out_channels = m,
                           .first_is_weights = true};
}

/* ---- From an instruction -------------------------------------------------------------------- */

/* Convolution units take half and float. Another type is planned as the one of its size, because
 * the vector units have the same width for integers. */
static trm_dtype planned_type(trm_dtype dtype) {
  switch (dtype) {
    case TRM_F16:
    case TRM_BF16:
    case TRM_S16:
    case TRM_U16:
    case TRM_S8:
    case TRM_U8: return TRM_F16;
    default: return trm_dtype_size(dtype) == 1 ? TRM_F16 : TRM_F32;
  }
}

static trm_status params_from_convolution(const trm_computation *computation,
                                          const trm_instruction *instruction, trm_conv_params *out,
                                          trm_error *error) {
  const trm_convolution *c = instruction->convolution;
  const trm_shape *input = &computation->instructions[instruction->operands[0]].shape;
  const trm_shape *kernel = &computation->instructions[instruction->operands[1]].shape;
  *out = (trm_conv_params){.input_type = planned_type(input->dtype),
                           .output_type = planned_type(instruction->shape.dtype),
                           .groups = c->feature_group_count * c->batch_group_count,
                           .batch = input->dims[c->input_batch] / c->batch_group_count,
                           .in_channels = kernel->dims[c->kernel_input_feature],
                           .out_channels = kernel->dims[c->kernel_output_feature] /
                                           (c->feature_group_count * c->batch_group_count)};
  for (int32_t s = 0; s < c->spatial_rank; ++s) {
    const trm_window_dimension *w = &instruction->window->dims[s];
    const trm_conv_dim dim = {.input = input->dims[c->input_spatial[s]],
                              .kernel = w->size,
                              .stride = w->stride,
                              .pad_low = w->padding_low,
                              .pad_high = w->padding_high,
                              .input_dilation = w->base_dilation,
                              .kernel_dilation = w->window_dilation,
                              .outer = s + 1 < c->spatial_rank};
    /* Any number of dimensions without a window become a part of the batch. */
    if (dim.kernel == 1 && dim.input_dilation == 1 && dim.pad_low == 0 && dim.pad_high == 0) {
      out->batch *= trm_conv_output_size(&dim);
      continue;
    }
    if (out->num_dims == TRM_PLAN_MAX_DIMS) {
      FAIL(UNIMPLEMENTED,
           "a convolution over %d spatial dimensions cannot be planned; at most %d "
           "may have windows",
           c->spatial_rank, TRM_PLAN_MAX_DIMS);
    }
    out->dims[out->num_dims++] = dim;
  }
  return TRM_OK;
}

static bool contains(const trm_dims *dims, int64_t d) {
  for (int32_t i = 0; i < dims->count; ++i) {
    if (dims->items[i] == d) return true;
  }
  return false;
}

static int64_t product_of(const trm_shape *shape, const trm_dims *dims) {
  int64_t product = 1;
  for (int32_t i = 0; i < dims->count; ++i) product *= shape->dims[dims->items[i]];
  return product;
}

static int64_t product_of_rest(const trm_shape *shape, const trm_dims *a, const trm_dims *b) {
  int64_t product = 1;
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (!contains(a, d) && !contains(b, d)) product *= shape->dims[d];
  }
  return product;
}

trm_status trm_conv_params_from_instruction(const trm_computation *computation,
                                            const trm_instruction *instruction,
                                            trm_conv_params *out_params, trm_error *error) {
  if (instruction->opcode == TRM_OP_CONVOLUTION) {
    TRY(params_from_convolution(computation, instruction, out_params, error));
  } else if (instruction->opcode == TRM_OP_DOT) {
    const trm_dot *dot = instruction->dot;
    const trm_shape *lhs = &computation->instructions[instruction->operands[0]].shape;
    const trm_shape *rhs = &computation->instructions[instruction->operands[1]].shape;
    *out_params =
        trm_conv_params_matmul(planned_type(lhs->dtype), planned_type(instruction->shape.dtype),
                               product_of(lhs, &dot->lhs_batch),
                               product_of_rest(lhs, &dot->lhs_batch, &dot->lhs_contracting),
                               product_of(lhs, &dot->lhs_contracting),
                               product_of_rest(rhs, &dot->rhs_batch, &dot->rhs_contracting));
  } else {
    FAIL(INVALID_ARGUMENT, "%%%s is neither a convolution nor a dot", instruction->name);
  }
  return plan_check_params(out_params, error);
}

/* ---- Checks --------------------------------------------------------------------------------- */

/* With these limits every product in the planner has at most 63 bits, with padding and bytes. */
static const int64_t max_size = (int64_t)1 << 31, max_elements = (int64_t)1 << 42,
                     max_work = (int64_t)1 << 52;

static trm_status multiply_work(int64_t *work, int64_t by, trm_error *error) {
  if (*work > max_work / by) {
    FAIL(INVALID_ARGUMENT, "a convolution needs more than %lld multiply-accumulates",
         (long long)max_work);
  }
  *work *= by;
  return TRM_OK;
}

static trm_status multiply(int64_t *product, int64_t by, const char *what, trm_error *error) {
  if (by < 1 || by > max_size) {
    FAIL(INVALID_ARGUMENT, "a convolution's %s is %lld; it must be from 1 to %lld", what,
         (long long)by, (long long)max_size);
  }
  if (*product > max_elements / by) {
    FAIL(INVALID_ARGUMENT, "a convolution has an operand of more than %lld elements",
         (long long)max_elements);
  }
  *product *= by;
  return TRM_OK;
}

trm_status plan_check_params(const trm_conv_params *params, trm_error *error) {
  if ((params->input_type != TRM_F16 && params->input_type != TRM_F32) ||
      (params->output_type != TRM_F16 && params->output_type != TRM_F32)) {
    FAIL(INVALID_ARGUMENT, "convolutions are planned for f16 and f32, not for %s to %s",
         trm_dtype_name(params->input_type), trm_dtype_name(params->output_type));
  }
  if (params->num_dims > TRM_PLAN_MAX_DIMS) {
    FAIL(INVALID_ARGUMENT, "a convolution has %u spatial dimensions; at most %d are planned",
         params->num_dims, TRM_PLAN_MAX_DIMS);
  }
  int64_t inputs = 1, weights = 1, outputs = 1;
  TRY(multiply(&inputs, params->groups, "number of groups", error));
  weights = outputs = inputs;
  TRY(multiply(&inputs, params->batch, "batch size", error));
  TRY(multiply(&outputs, params->batch, "batch size", error));
  TRY(multiply(&inputs, params->in_channels, "number of input channels", error));
  TRY(multiply(&weights, params->in_channels, "number of input channels", error));
  TRY(multiply(&weights, params->out_channels, "number of output channels", error));
  TRY(multiply(&outputs, params->out_channels, "number of output channels", error));
  int64_t work = weights;
  TRY(multiply_work(&work, params->batch, error));
  for (uint32_t d = 0; d < params->num_dims; ++d) {
    const trm_conv_dim *dim = &params->dims[d];
    int64_t ignored = 1;
    TRY(multiply(&ignored, dim->stride, "stride", error));
    ignored = 1;
    TRY(multiply(&ignored, dim->kernel_dilation, "kernel dilation", error));
    ignored = 1;
    TRY(multiply(&ignored, dim->input_dilation, "input dilation", error));
    TRY(multiply(&inputs, dim->input, "input size", error));
    TRY(multiply(&weights, dim->kernel, "kernel size", error));
    if (dim->pad_low < -max_size || dim->pad_low > max_size || dim->pad_high < -max_size ||
        dim->pad_high > max_size) {
      FAIL(INVALID_ARGUMENT, "a convolution's padding of dimension %u is out of bounds", d);
    }
    TRY(multiply(&outputs, trm_conv_output_size(dim), "output size", error));
    TRY(multiply_work(&work, dim->kernel, error));
    TRY(multiply_work(&work, trm_conv_output_size(dim), error));
  }
  return TRM_OK;
}

/* ---- Canonical and transformed -------------------------------------------------------------- */

trm_conv_params plan_canonical(const trm_conv_params *params) {
  trm_conv_params c = *params;
  c.num_dims = 0;
  memset(c.dims, 0, sizeof c.dims);
  for (uint32_t d = 0; d < params->num_dims; ++d) {
    trm_conv_dim dim = params->dims[d];
    dim.outer |= d + 1 < params->num_dims;
    if (dim.kernel == 1) dim.kernel_dilation = 1;
    if (dim.input == 1) dim.input_dilation = 1;
    const int64_t output = trm_conv_output_size(&dim);
    if (output == 1) dim.stride = 1;
    if (dim.kernel == 1 && dim.input_dilation == 1 && dim.pad_low == 0 && dim.pad_high == 0) {
      c.batch *= output; /* a stride only skips inputs */
      continue;
    }
    /* In the gradient of a strided pointwise convolution most outputs meet no input. */
    const int64_t busy = plan_busy_outputs(&dim, 0, output, 0);
    if (dim.kernel == 1 && dim.input_dilation > 1 && busy > 0) {
      c.batch *= busy;
      continue;
    }
    c.dims[c.num_dims++] = dim;
  }
  return c;
}

trm_conv_params plan_transformed(const trm_conv_params *canonical,
                                 const trm_plan_transform *transform) {
  trm_conv_params t = *canonical;
  t.num_dims = 0;
  for (uint32_t d = 0; d < canonical->num_dims; ++d) {
    const trm_conv_dim *dim = &canonical->dims[d];
    if ((transform->expand_dims >> d & 1) != 0) {
      t.in_channels *= dim->kernel;
      t.batch *= trm_conv_output_size(dim);
    } else if ((transform->flatten_dims >> d & 1) != 0) {
      t.in_channels *= dim->input;
      t.out_channels *= trm_conv_output_size(dim);
    } else {
      t.dims[t.num_dims++] = *dim;
    }
  }
  for (uint32_t d = t.num_dims; d < TRM_PLAN_MAX_DIMS; ++d) {
    memset(&t.dims[d], 0, sizeof t.dims[d]);
  }
  if (transform->swap_operands) {
    const int64_t batch = t.batch;
    t.batch = t.out_channels;
    t.out_channels = batch;
  }
  const int64_t combine = transform->combine_groups;
  if (combine > 1) {
    t.groups = plan_ceil_div(t.groups, combine);
    t.in_channels *= combine;
    t.out_channels *= combine;
  }
  return t;
}

int64_t plan_greatest_common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

int64_t plan_every(const trm_conv_dim *dim) {
  return dim->input_dilation / plan_greatest_common_divisor(dim->input_dilation, dim->stride);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

int64_t plan_busy_outputs(const trm_conv_dim *dim, int64_t begin, int64_t field, int64_t k) {
  /* Output o reads position o * stride + shift of the dilated input. */
  const int64_t shift = k * dim->kernel_dilation - dim->pad_low;
  const int64_t last = (dim->input - 1) * dim->input_dilation - shift;
  if (last < 0) return 0;
  const int64_t from = plan_max(begin, shift < 0 ? plan_ceil_div(-shift, dim->stride) : 0);
  const int64_t to = plan_min(begin + field, floor_div(last, dim->stride) + 1);
  return to <= from ? 0 : plan_ceil_div(to - from, plan_every(dim));
}

enum { BUSY_SAMPLES = 1024 };

double plan_busy_share(const trm_conv_dim *dim) {
  const int64_t output = trm_conv_output_size(dim);
  const int64_t samples = plan_min(dim->kernel, BUSY_SAMPLES);
  double sum = 0;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t k = (2 * i + 1) * dim->kernel / (2 * samples);
    sum += (double)plan_busy_outputs(dim, 0, output, k);
  }
  return sum / (double)samples / (double)output;
}

int64_t plan_input_extent(const trm_conv_dim *dim, int64_t field, int64_t kernel) {
  const int64_t span = (field - 1) * dim->stride + (kernel - 1) * dim->kernel_dilation;
  return plan_min(dim->input, span / dim->input_dilation + 1);
}
