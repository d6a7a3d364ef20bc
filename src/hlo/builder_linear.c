/* Owns: building reductions, sorts and linear algebra. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/builder.h"

/* ---- Reductions ----------------------------------------------------------------------------- */

trm_value trm_build_reduce(trm_builder *builder, trm_value operand, trm_value init, trm_axes axes,
                           trm_function combine) {
  return trm_build_reduce_many(builder, &operand, &init, 1, axes, combine);
}

trm_value trm_build_reduce_many(trm_builder *builder, const trm_value *operands,
                                const trm_value *inits, size_t count, trm_axes axes,
                                trm_function combine) {
  trm_instruction instruction = {.opcode = TRM_OP_REDUCE,
                                 .dimensions = trm_builder_axes(builder, axes)};
  uint32_t called[1];
  if (count > UINT32_MAX / 8) MISTAKE(builder, "reduce has too many operands");
  if (!trm_builder_is_fine(builder)) return trm_no_value;
  trm_value *all = ARENA_NEW(&builder->module->arena, trm_value, 2 * count);
  if (all == NULL) {
    trm_builder_no_memory(builder);
    return trm_no_value;
  }
  for (size_t i = 0; i < count; ++i) all[i] = operands[i], all[count + i] = inits[i];
  trm_builder_call(builder, &instruction, called, &combine, 1);
  return trm_builder_add(builder, &instruction, all, 2 * count);
}

static trm_window *make_window(trm_builder *b, const trm_window_spec *spec, int32_t rank) {
  if (!trm_builder_is_fine(b)) return NULL;
  trm_window *window = ARENA_NEW(&b->module->arena, trm_window, 1);
  trm_window_dimension *dims = ARENA_NEW(&b->module->arena, trm_window_dimension, (size_t)rank);
  if (window == NULL || dims == NULL) {
    trm_builder_no_memory(b);
    return NULL;
  }
  for (int32_t i = 0; i < rank; ++i) {
    dims[i] = (trm_window_dimension){
        .size = spec[i].size,
        .stride = spec[i].stride == 0 ? 1 : spec[i].stride,
        .padding_low = spec[i].padding_low,
        .padding_high = spec[i].padding_high,
        .window_dilation = spec[i].window_dilation == 0 ? 1 : spec[i].window_dilation,
        .base_dilation = spec[i].base_dilation == 0 ? 1 : spec[i].base_dilation,
        .reversal = spec[i].reversal};
  }
  *window = (trm_window){rank, dims};
  return window;
}

static int32_t rank_of(const trm_builder *b, trm_value value) {
  const trm_shape *shape = trm_builder_shape_of(b, value);
  return shape == NULL ? 0 : shape->rank;
}

trm_value trm_build_reduce_window(trm_builder *builder, trm_value operand, trm_value init,
                                  const trm_window_spec *window, trm_function combine) {
  trm_instruction instruction = {.opcode = TRM_OP_REDUCE_WINDOW,
                                 .window = make_window(builder, window, rank_of(builder, operand))};
  const trm_value operands[] = {operand, init};
  uint32_t called[1];
  trm_builder_call(builder, &instruction, called, &combine, 1);
  return trm_builder_add(builder, &instruction, operands, 2);
}

trm_value trm_build_select_and_scatter(trm_builder *builder, trm_value operand, trm_value source,
                                       trm_value init, const trm_window_spec *window,
                                       trm_function select, trm_function scatter) {
  trm_instruction instruction = {.opcode = TRM_OP_SELECT_AND_SCATTER,
                                 .window = make_window(builder, window, rank_of(builder, operand))};
  const trm_value operands[] = {operand, source, init};
  const trm_function functions[] = {select, scatter};
  uint32_t called[2];
  trm_builder_call(builder, &instruction, called, functions, 2);
  return trm_builder_add(builder, &instruction, operands, 3);
}

trm_value trm_build_sort(trm_builder *builder, const trm_value *operands, size_t count,
                         int64_t axis, bool is_stable, trm_function less) {
  trm_instruction instruction = {.opcode = TRM_OP_SORT,
                                 .dimensions = trm_builder_axes(builder, (trm_axes){&axis, 1}),
                                 .is_stable = is_stable};
  uint32_t called[1];
  trm_builder_call(builder, &instruction, called, &less, 1);
  return trm_builder_add(builder, &instruction, operands, count);
}

/* ---- Linear algebra ------------------------------------------------------------------------- */

trm_value trm_build_dot(trm_builder *builder, trm_value left, trm_value right, trm_axes left_batch,
                        trm_axes right_batch, trm_axes left_contracting, trm_axes right_contracting,
                        trm_dtype dtype) {
  trm_dot dot = {.lhs_batch = trm_builder_axes(builder, left_batch),
                 .rhs_batch = trm_builder_axes(builder, right_batch),
                 .lhs_contracting = trm_builder_axes(builder, left_contracting),
                 .rhs_contracting = trm_builder_axes(builder, right_contracting)};
  const trm_value operands[] = {left, right};
  if (!trm_builder_is_fine(builder)) return trm_no_value;
  trm_instruction instruction = {.opcode = TRM_OP_DOT,
                                 .shape.dtype = dtype,
                                 .dot = trm_arena_copy(&builder->module->arena, &dot, sizeof dot)};
  if (instruction.dot == NULL) trm_builder_no_memory(builder);
  return trm_builder_add(builder, &instruction, operands, 2);
}

/* Reads one part of "b01f_01io->b01f" up to `end`: letters name two dimensions, digits the spatial
 * ones. Returns where it stopped, or NULL. */
static const char *read_labels(const char *text, const char *end, const char letters[2],
                               int64_t *first, int64_t *second, int64_t *spatial,
                               int32_t *spatial_rank) {
  uint32_t seen = 0;
  int32_t digits = 0;
  int64_t position = 0;
  *first = *second = -1;
  for (; *text != '\0' && *text != *end; ++text, ++position) {
    if (*text == letters[0] && *first < 0) {
      *first = position;
    } else if (*text == letters[1] && *second < 0) {
      *second = position;
    } else if (*text >= '0' && *text <= '9' && (seen >> (*text - '0') & 1) == 0) {
      seen |= UINT32_C(1) << (*text - '0');
      spatial[*text - '0'] = position;
      ++digits;
    } else {
      return NULL;
    }
  }
  const bool complete = *first >= 0 && *second >= 0 && seen == (UINT32_C(1) << digits) - 1;
  if (!complete || (*spatial_rank >= 0 && digits != *spatial_rank) ||
      strncmp(text, end, strlen(end)) != 0) {
    return NULL;
  }
  *spatial_rank = digits;
  return text + strlen(end);
}

trm_value trm_build_convolution(trm_builder *builder, trm_value input, trm_value kernel,
                                const char *labels, const trm_window_spec *window,
                                int64_t feature_groups, int64_t batch_groups, trm_dtype dtype) {
  enum { MAX_SPATIAL = 10 };
  const trm_value operands[] = {input, kernel};
  if (!trm_builder_is_fine(builder)) return trm_no_value;
  trm_convolution *n = ARENA_NEW(&builder->module->arena, trm_convolution, 1);
  int64_t *spatial = ARENA_NEW(&builder->module->arena, int64_t, 3 * MAX_SPATIAL);
  if (n == NULL || spatial == NULL) {
    trm_builder_no_memory(builder);
    return trm_no_value;
  }
  *n = (trm_convolution){.spatial_rank = -1,
                         .input_spatial = spatial,
                         .kernel_spatial = spatial + MAX_SPATIAL,
                         .output_spatial = spatial + 2 * MAX_SPATIAL,
                         .feature_group_count = feature_groups,
                         .batch_group_count = batch_groups};
  const char *at = labels == NULL
                       ? NULL
                       : read_labels(labels, "_", "bf", &n->input_batch, &n->input_feature,
                                     n->input_spatial, &n->spatial_rank);
  if (at != NULL) {
    at = read_labels(at, "->", "io", &n->kernel_input_feature, &n->kernel_output_feature,
                     n->kernel_spatial, &n->spatial_rank);
  }
  if (at != NULL) {
    at = read_labels(at, "", "bf", &n->output_batch, &n->output_feature, n->output_spatial,
                     &n->spatial_rank);
  }
  if (at == NULL) {
    MISTAKE(builder, "convolution: the labels \"%s\" are not of the form b01f_01io->b01f",
            labels == NULL ? "" : labels);
    return trm_no_value;
  }
  trm_instruction instruction = {.opcode = TRM_OP_CONVOLUTION,
                                 .shape.dtype = dtype,
                                 .convolution = n,
                                 .window = make_window(builder, window, n->spatial_rank)};
  return trm_builder_add(builder, &instruction, operands, 2);
}

static trm_value add_batch_norm(trm_builder *b, trm_opcode opcode, const trm_value *operands,
                                size_t count, float epsilon, int64_t feature_axis) {
  trm_instruction instruction = {.opcode = opcode, .epsilon = epsilon, .number = feature_axis};
  return trm_builder_add(b, &instruction, operands, count);
}

trm_value trm_build_batch_norm_training(trm_builder *builder, trm_value operand, trm_value scale,
                                        trm_value offset, float epsilon, int64_t feature_axis) {
  const trm_value operands[] = {operand, scale, offset};
  return add_batch_norm(builder, TRM_OP_BATCH_NORM_TRAINING, operands, 3, epsilon, feature_axis);
}

trm_value trm_build_batch_norm_inference(trm_builder *builder, trm_value operand, trm_value scale,
                                         trm_value offset, trm_value mean, trm_value variance,
                                         float epsilon, int64_t feature_axis) {
  const trm_value operands[] = {operand, scale, offset, mean, variance};
  return add_batch_norm(builder, TRM_OP_BATCH_NORM_INFERENCE, operands, 5, epsilon, feature_axis);
}

trm_value trm_build_batch_norm_grad(trm_builder *builder, trm_value operand, trm_value scale,
                                    trm_value mean, trm_value variance, trm_value grad_output,
                                    float epsilon, int64_t feature_axis) {
  const trm_value operands[] = {operand, scale, mean, variance, grad_output};
  return add_batch_norm(builder, TRM_OP_BATCH_NORM_GRAD, operands, 5, epsilon, feature_axis);
}
