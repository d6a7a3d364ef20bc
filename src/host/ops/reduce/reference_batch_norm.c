/* Owns: reference kernels of the batch-norm opcodes. All sums are in double and round once. */
#include "host/ops/reference.h"

#include <math.h>

/* The array as [before, features, after]. */
typedef struct feature_view {
  int64_t before, features, after;
} feature_view;

static feature_view view_of(const trm_reference_state *state) {
  const trm_shape *shape = &state->operands[0];
  const int32_t feature = (int32_t)state->instruction.number;
  return (feature_view){trm_dims_count(feature, shape->dims), shape->dims[feature],
                        trm_dims_count(shape->rank - feature - 1, shape->dims + feature + 1)};
}

static int64_t place_of(const feature_view *view, int64_t before, int64_t feature, int64_t after) {
  return (before * view->features + feature) * view->after + after;
}

static double load(const trm_reference_state *state, const trm_kernel_call *call, uint32_t k,
                   int64_t i) {
  return trm_value_load(state->operands[k].dtype, call->operands[k], i).f;
}

static void store(const trm_reference_state *state, const trm_kernel_call *call, int32_t leaf,
                  int64_t i, double value) {
  trm_value_store(trm_shape_leaf(&state->shape, leaf)->dtype, call->results[leaf], i,
                  (trm_value){{.f = value}, 0.0});
}

/* (x - mean) * scale / sqrt(variance + epsilon) + offset, for one feature. */
static void normalize(const trm_reference_state *state, const trm_kernel_call *call,
                      const feature_view *view, int64_t f, double mean, double variance) {
  const double scale = load(state, call, 1, f), offset = load(state, call, 2, f);
  const double deviation = sqrt(variance + (double)state->instruction.epsilon);
  for (int64_t b = 0; b < view->before; ++b) {
    for (int64_t a = 0; a < view->after; ++a) {
      const int64_t i = place_of(view, b, f, a);
      store(state, call, 0, i, (load(state, call, 0, i) - mean) / deviation * scale + offset);
    }
  }
}

/* Operands: x, scale, offset, mean, variance. */
static trm_status run_inference(const trm_kernel *kernel, const trm_kernel_call *call,
                                trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const feature_view view = view_of(state);
  for (int64_t f = 0; f < view.features; ++f) {
    normalize(state, call, &view, f, load(state, call, 3, f), load(state, call, 4, f));
  }
  return TRM_OK;
}

/* Operands: x, scale, offset. Results: y, mean, variance (of the population). */
static trm_status run_training(const trm_kernel *kernel, const trm_kernel_call *call,
                               trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const feature_view view = view_of(state);
  const double count = (double)(view.before * view.after);
  for (int64_t f = 0; f < view.features; ++f) {
    double sum = 0.0, squares = 0.0;
    for (int64_t b = 0; b < view.before; ++b) {
      for (int64_t a = 0; a < view.after; ++a) {
        sum += load(state, call, 0, place_of(&view, b, f, a));
      }
    }
    const double mean = sum / count;
    for (int64_t b = 0; b < view.before; ++b) {
      for (int64_t a = 0; a < view.after; ++a) {
        const double distance = load(state, call, 0, place_of(&view, b, f, a)) - mean;
        squares += distance * distance;
      }
    }
    normalize(state, call, &view, f, mean, squares / count);
    store(state, call, 1, f, mean);
    store(state, call, 2, f, squares / count);
  }
  return TRM_OK;
}

/* Operands: x, scale, mean, variance, gradient of y. Results: gradients of x, scale, offset. */
static trm_status run_grad(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const feature_view view = view_of(state);
  const double count = (double)(view.before * view.after);
  for (int64_t f = 0; f < view.features; ++f) {
    const double scale = load(state, call, 1, f), mean = load(state, call, 2, f);
    const double deviation = sqrt(load(state, call, 3, f) + (double)state->instruction.epsilon);
    double grad_sum = 0.0, grad_product = 0.0; /* sums of dy and of dy * normalized x */
    for (int64_t b = 0; b < view.before; ++b) {
      for (int64_t a = 0; a < view.after; ++a) {
        const int64_t i = place_of(&view, b, f, a);
        const double grad = load(state, call, 4, i);
        grad_sum += grad;
        grad_product += grad * (load(state, call, 0, i) - mean) / deviation;
      }
    }
    for (int64_t b = 0; b < view.before; ++b) {
      for (int64_t a = 0; a < view.after; ++a) {
        const int64_t i = place_of(&view, b, f, a);
        const double normalized = (load(state, call, 0, i) - mean) / deviation;
        store(state, call, 0, i,
              scale / deviation *
                  (load(state, call, 4, i) - grad_sum / count - normalized * grad_product / count));
      }
    }
    store(state, call, 1, f, grad_product);
    store(state, call, 2, f, grad_sum);
  }
  return TRM_OK;
}

trm_status trm_reference_batch_norm_create(const trm_kernel_request *request,
                                           trm_kernel *out_kernel, bool *out_supported,
                                           trm_error *error) {
  *out_supported = true;
  const trm_shape *operand = trm_operand_shape(request, 0);
  const int64_t feature = request->instruction->number;
  if (feature < 0 || feature >= operand->rank || trm_dtype_kind(operand->dtype) != TRM_KIND_FLOAT) {
    return trm_reference_refuse(request, "batch norm takes floats and one of their dimensions",
                                error);
  }
  switch (request->instruction->opcode) {
    case TRM_OP_BATCH_NORM_INFERENCE:
      return trm_reference_kernel_create(request, "reference.batch-norm-inference", run_inference,
                                         0, out_kernel, error);
    case TRM_OP_BATCH_NORM_TRAINING:
      return trm_reference_kernel_create(request, "reference.batch-norm-training", run_training, 0,
                                         out_kernel, error);
    default:
      return trm_reference_kernel_create(request, "reference.batch-norm-grad", run_grad, 0,
                                         out_kernel, error);
  }
}
