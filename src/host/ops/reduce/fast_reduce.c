/* Owns: choosing the fast kernel of a reduce, and its layout. */
#include "host/ops/reduce/fast_reduce.h"

uint8_t trm_log2_size(trm_dtype dtype) { return (uint8_t)__builtin_ctzll(trm_dtype_size(dtype)); }

static void find_layout(const trm_shape *operand, const trm_dims *dimensions,
                        reduce_layout *out_layout) {
  int64_t dims[TRM_MAX_RANK], strides[TRM_MAX_RANK], stride = 1;
  bool reduced[TRM_MAX_RANK];
  int32_t rank = 0;
  /* From the innermost outwards, merging neighbours of one kind. */
  for (int32_t d = operand->rank - 1; d >= 0; --d) {
    bool is_reduced = false;
    for (int32_t i = 0; i < dimensions->count; ++i)
      is_reduced = is_reduced || dimensions->items[i] == d;
    const int64_t dim = operand->dims[d];
    if (dim != 1) {
      if (rank > 0 && reduced[rank - 1] == is_reduced) {
        dims[rank - 1] *= dim;
      } else {
        dims[rank] = dim, strides[rank] = stride, reduced[rank++] = is_reduced;
      }
    }
    stride *= dim;
  }
  if (rank == 0) dims[0] = 1, strides[0] = 1, reduced[0] = false, rank = 1;
  reduce_layout layout = {
      .inner_is_kept = !reduced[0], .inner = dims[0], .kept_count = 1, .reduced_count = 1};
  for (int32_t d = rank - 1; d > 0; --d) {
    if (reduced[d]) {
      layout.reduced_dims[layout.num_reduced] = dims[d];
      layout.reduced_strides[layout.num_reduced++] = strides[d];
      layout.reduced_count *= dims[d];
    } else {
      layout.kept_dims[layout.num_kept] = dims[d];
      layout.kept_strides[layout.num_kept++] = strides[d];
      layout.kept_count *= dims[d];
    }
  }
  *out_layout = layout;
}

static trm_status create_reduce(const trm_kernel_request *request, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const uint32_t n = instruction->num_operands / 2;
  if (n < 1 || n > REDUCE_MAX_OPERANDS || instruction->num_called != 1) return TRM_OK;
  const trm_computation *body = &request->module->computations[instruction->called[0]];
  trm_function function;
  bool supported;
  TRY(trm_function_compile(request->module, instruction->called[0], request->arena, &function,
                           &supported, error));
  if (!supported || function.num_parameters != 2 * n || function.num_results != n) return TRM_OK;
  for (uint32_t i = 0; i < n; ++i) {
    /* Accumulators and elements must have one type, because nothing converts between them. */
    const trm_dtype dtype = trm_operand_shape(request, i)->dtype;
    const trm_dtype initial = trm_operand_shape(request, n + i)->dtype;
    const trm_dtype result = trm_shape_leaf(&instruction->shape, (int32_t)i)->dtype;
    const trm_dtype old = body->instructions[body->parameters[i]].shape.dtype;
    const trm_dtype new = body->instructions[body->parameters[n + i]].shape.dtype;
    if (dtype != initial || dtype != result || dtype != old || dtype != new) return TRM_OK;
  }
  *out_supported = true;
  reduce_layout layout;
  find_layout(trm_operand_shape(request, 0), &instruction->dimensions, &layout);
  const trm_dtype dtype = trm_operand_shape(request, 0)->dtype;
  trm_opcode opcode;
  if (trm_function_single_opcode(&function, &opcode) && opcode == TRM_OP_ADD &&
      (dtype == TRM_F32 || dtype == TRM_F16))
    return trm_fast_sum_create(request, &layout, out_kernel, error);
  return trm_fast_combine_create(request, &layout, &function, out_kernel, error);
}

trm_status trm_fast_reduce_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                  bool *out_supported, trm_error *error) {
  *out_supported = false;
  switch (request->instruction->opcode) {
    case TRM_OP_REDUCE: return create_reduce(request, out_kernel, out_supported, error);
    case TRM_OP_REDUCE_WINDOW:
      return trm_fast_window_create(request, out_kernel, out_supported, error);
    case TRM_OP_SELECT_AND_SCATTER:
      return trm_fast_select_and_scatter_create(request, out_kernel, out_supported, error);
    case TRM_OP_TOPK: return trm_fast_topk_create(request, out_kernel, out_supported, error);
    case TRM_OP_SORT: return trm_fast_sort_create(request, out_kernel, out_supported, error);
    default: return TRM_OK;
  }
}
