/* Owns: products of matrices and reductions as HLO. */
#include <math.h>
#include <string.h>

#include "poplar/step.h"
#include "tremula/builder.h"

trm_value trm_poplar_parameter(trm_builder *builder, int64_t number,
                               const trm_poplar_tensor *tensor) {
  int64_t dims[TRM_MAX_RANK];
  for (uint32_t d = 0; d < tensor->rank; ++d) dims[d] = (int64_t)tensor->dims[d];
  const trm_type type = {tensor->dtype, (int32_t)tensor->rank, dims};
  return trm_build_parameter(builder, number, type, NULL);
}

trm_value trm_poplar_scaled(trm_builder *builder, trm_value value, int64_t number,
                            const trm_poplar_tensor *scale, trm_dtype dtype) {
  const trm_axes none = {NULL, 0};
  trm_tensor_info info = {.rank = 0};
  (void)trm_builder_value_info(builder, value, &info);
  trm_value factor = trm_poplar_parameter(builder, number, scale);
  factor = trm_build_convert(builder, trm_build_reshape(builder, factor, none), dtype);
  factor = trm_build_broadcast(builder, factor, (trm_axes){info.dims, info.rank}, none);
  if (info.dtype != dtype) value = trm_build_convert(builder, value, dtype);
  return trm_build_binary(builder, "multiply", value, factor);
}

trm_status trm_poplar_step_begin(const char *name, trm_builder **out_builder,
                                 trm_poplar_error *error) {
  trm_error inner;
  const trm_status status = trm_builder_create(name, out_builder, &inner);
  return status == TRM_OK ? TRM_OK : trm_poplar_pass(error, &inner);
}

trm_status trm_poplar_step_finish(trm_poplar_graph *graph, trm_builder *builder, trm_value root,
                                  const trm_poplar_tensor *const *operands, uint32_t num_operands,
                                  trm_poplar_tensor **result, const char *name,
                                  trm_poplar_program **sequence, trm_poplar_error *error) {
  trm_module *module;
  trm_error inner;
  trm_tensor_info info;
  uint64_t dims[TRM_MAX_RANK];
  const bool is_known = trm_builder_value_info(builder, root, &info);
  for (int32_t d = 0; is_known && d < info.rank; ++d) dims[d] = (uint64_t)info.dims[d];
  const trm_status built = trm_builder_build(builder, root, &module, &inner);
  trm_builder_free(builder);
  if (built != TRM_OK || !is_known) return trm_poplar_pass(error, &inner);
  trm_poplar_tensor *made = *result;
  trm_status status = TRM_OK;
  if (made == NULL) {
    status =
        (trm_status)trm_poplar_add_variable(graph, (int32_t)info.dtype, dims, (uint32_t)info.rank,
                                            TRM_POPLAR_PLACE_LINEAR, name, &made, error);
  }
  if (status == TRM_OK) {
    status =
        trm_poplar_step_add(graph, module, operands, num_operands, made, name, sequence, error);
  }
  trm_module_free(module);
  if (status == TRM_OK) *result = made;
  else if (*result == NULL) trm_poplar_tensor_release(made);
  return status;
}

/* ---- Products ------------------------------------------------------------------------------- */

int32_t trm_poplar_step_mat_mul(trm_poplar_graph *graph, const trm_poplar_tensor *left,
                                const trm_poplar_tensor *right, int32_t dtype,
                                trm_poplar_program **sequence, const char *name,
                                trm_poplar_tensor **out_tensor, trm_poplar_error *error) {
  if (left == NULL || right == NULL || left->rank != right->rank || left->dtype != right->dtype ||
      (left->rank != 2 && left->rank != 3)) {
    THROW(LIBRARY, "a product of matrices needs two tensors of one type, of rank 2 or 3");
  }
  const uint64_t *a = left->dims, *b = right->dims;
  const uint32_t rank = left->rank;
  if (a[rank - 1] != b[rank - 2] || (rank == 3 && a[0] != b[0])) {
    THROW(LIBRARY, "a product of matrices of shapes %s and %s", DIMS_TEXT(a, rank),
          DIMS_TEXT(b, rank));
  }
  trm_builder *builder;
  TRY(trm_poplar_step_begin("poplin.matMul", &builder, error));
  const int64_t batch = 0, last = (int64_t)rank - 1, second = last - 1;
  const trm_axes batches = {&batch, rank == 3 ? 1 : 0};
  const trm_value root = trm_build_dot(
      builder, trm_poplar_parameter(builder, 0, left), trm_poplar_parameter(builder, 1, right),
      batches, batches, (trm_axes){&last, 1}, (trm_axes){&second, 1}, (trm_dtype)dtype);
  const trm_poplar_tensor *operands[] = {left, right};
  *out_tensor = NULL;
  return trm_poplar_step_finish(graph, builder, root, operands, 2, out_tensor, name, sequence,
                                error);
}

/* ---- Reductions ----------------------------------------------------------------------------- */

typedef struct reduction_row {
  const char *opcode;
  double first; /* of floats and integers that hold it */
} reduction_row;

static const reduction_row reductions[] = {
    [TRM_POPLAR_REDUCE_ADD] = {"add", 0},
    [TRM_POPLAR_REDUCE_MUL] = {"multiply", 1},
    [TRM_POPLAR_REDUCE_MIN] = {"minimum", INFINITY},
    [TRM_POPLAR_REDUCE_MAX] = {"maximum", -INFINITY},
    [TRM_POPLAR_REDUCE_LOGICAL_AND] = {"and", 1},
    [TRM_POPLAR_REDUCE_LOGICAL_OR] = {"or", 0},
    [TRM_POPLAR_REDUCE_SQUARE_ADD] = {"add", 0},
};

static trm_status check_reduction(const trm_poplar_tensor *operand, const uint32_t *dims,
                                  uint32_t num_dims, int32_t reduction, trm_poplar_error *error) {
  if (operand == NULL) THROW_POPLAR("a reduction of a null tensor");
  if (reduction < 0 || (size_t)reduction >= sizeof reductions / sizeof *reductions) {
    THROW(LIBRARY, "popops::Operation %d is no reduction that Tremula has", reduction);
  }
  const uint32_t wrong = trm_poplar_first_wrong(dims, num_dims, operand->rank);
  if (wrong < num_dims) {
    THROW(LIBRARY, "a reduction over dimension %u of a tensor of rank %u", dims[wrong],
          operand->rank);
  }
  return TRM_OK;
}

/* The reduction of a parameter, scaled, in the wanted type. Sums of halves are made of floats. */
static trm_value reduce(trm_builder *b, const trm_poplar_tensor *operand, int32_t dtype,
                        trm_axes axes, int32_t reduction, const trm_poplar_tensor *scale) {
  const bool widens = operand->dtype == TRM_F16;
  const trm_dtype type = widens ? TRM_F32 : operand->dtype;
  trm_value x = trm_poplar_parameter(b, 0, operand);
  if (widens) x = trm_build_convert(b, x, type);
  if (reduction == TRM_POPLAR_REDUCE_SQUARE_ADD) x = trm_build_binary(b, "multiply", x, x);
  const char *opcode = reductions[reduction].opcode;
  const trm_function combine = trm_builder_scalar_function(b, opcode, type);
  const trm_value first = trm_build_scalar(b, type, reductions[reduction].first);
  trm_value root = trm_build_reduce(b, x, first, axes, combine);
  if (scale != NULL) root = trm_poplar_scaled(b, root, 1, scale, type);
  return (trm_dtype)dtype == type ? root : trm_build_convert(b, root, (trm_dtype)dtype);
}

int32_t trm_poplar_step_reduce(trm_poplar_graph *graph, const trm_poplar_tensor *operand,
                               int32_t dtype, const uint32_t *dims, uint32_t num_dims,
                               int32_t reduction, const trm_poplar_tensor *scale, bool update,
                               trm_poplar_program **sequence, const char *name,
                               trm_poplar_tensor **tensor, trm_poplar_error *error) {
  TRY(check_reduction(operand, dims, num_dims, reduction, error));
  if (update && *tensor == NULL) THROW(LIBRARY, "a reduction that updates nothing");
  if (scale != NULL && scale->elements != 1) THROW(LIBRARY, "a reduction's scale is one number");
  if (*tensor != NULL) {
    TRY(trm_poplar_check_written(graph, *tensor, "a reduction", error));
    dtype = (*tensor)->dtype;
  }
  trm_builder *b;
  TRY(trm_poplar_step_begin("popops.reduce", &b, error));
  int64_t axes[TRM_MAX_RANK];
  for (uint32_t i = 0; i < num_dims; ++i) axes[i] = dims[i];
  const trm_poplar_tensor *operands[3] = {operand};
  uint32_t count = 1;
  if (scale != NULL) operands[count++] = scale;
  trm_value root = reduce(b, operand, dtype, (trm_axes){axes, (int32_t)num_dims}, reduction, scale);
  if (update) {
    root = trm_build_binary(b, "add", trm_poplar_parameter(b, count, *tensor), root);
    operands[count++] = *tensor;
  }
  return trm_poplar_step_finish(graph, b, root, operands, count, tensor, name, sequence, error);
}
