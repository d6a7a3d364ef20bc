/* Owns: the shapes of opcodes that combine elements: reductions, windows, sorting, batch norm. */
#include <inttypes.h>

#include "hlo/infer.h"

/* Values and as many initial scalars of the same types; all values of one size. */
static trm_status check_values(trm_inference *c, uint32_t *out_count, trm_dtype **out_types) {
  const uint32_t total = c->instruction->num_operands;
  CHECK(c, total >= 2 && total % 2 == 0,
        "takes values and as many initial values, not %" PRIu32 " operands", total);
  const uint32_t count = total / 2;
  trm_error *error = c->error;
  trm_dtype *types = ARENA_NEW(&c->module->arena, trm_dtype, count);
  CHECK_MEMORY(types, "types");
  for (uint32_t i = 0; i < count; ++i) {
    const trm_shape *value = trm_infer_operand(c, i), *init = trm_infer_operand(c, count + i);
    CHECK(c, trm_shape_same_dims(value, trm_infer_operand(c, 0)),
          "the values %s and %s differ in size", trm_infer_text(c, trm_infer_operand(c, 0)),
          trm_infer_text(c, value));
    CHECK(c, trm_shape_is_scalar(init) && init->dtype == value->dtype,
          "the initial value of %s must be %s[], not %s", trm_infer_text(c, value),
          trm_dtype_name(value->dtype), trm_infer_text(c, init));
    types[i] = value->dtype;
  }
  *out_count = count;
  *out_types = types;
  return TRM_OK;
}

/* One array of `dims` for each type, in a tuple when there are several or `packed`. */
static trm_status give_arrays(trm_inference *c, const trm_dtype *types, uint32_t count,
                              int32_t rank, const int64_t *dims, bool packed) {
  trm_error *error = c->error;
  trm_shape first;
  if (!trm_shape_make(&c->module->arena, types[0], rank, dims, &first)) FAIL_NO_MEMORY("a shape");
  if (count == 1 && !packed) {
    TRY(trm_shape_check(&first, error));
    return trm_infer_give_same(c, &first);
  }
  trm_shape *elements = ARENA_NEW(&c->module->arena, trm_shape, count);
  CHECK_MEMORY(elements, "a shape");
  for (uint32_t i = 0; i < count; ++i) {
    elements[i] = first;
    elements[i].dtype = types[i];
  }
  return trm_infer_give_tuple(c, (int32_t)count, elements);
}

static trm_status infer_reduce(trm_inference *c) {
  uint32_t count;
  trm_dtype *types;
  bool packed;
  TRY(check_values(c, &count, &types));
  const trm_shape *value = trm_infer_operand(c, 0);
  const trm_dims *dims = &c->instruction->dimensions;
  TRY(trm_infer_check_distinct(c, "dimensions", dims, value->rank));
  TRY(trm_infer_check_combiner(c, types, count, &packed));
  int64_t out[TRM_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < value->rank; ++i) {
    if (!trm_infer_contains(dims, i)) out[rank++] = value->dims[i];
  }
  return give_arrays(c, types, count, rank, out, packed);
}

static trm_status infer_reduce_window(trm_inference *c) {
  uint32_t count;
  trm_dtype *types;
  bool packed;
  TRY(check_values(c, &count, &types));
  const trm_shape *value = trm_infer_operand(c, 0);
  int64_t out[TRM_MAX_RANK];
  TRY(trm_infer_window(c, c->instruction->window, value->rank, value->dims, out));
  TRY(trm_infer_check_combiner(c, types, count, &packed));
  return give_arrays(c, types, count, value->rank, out, packed);
}

static trm_status infer_select_and_scatter(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0), *source = trm_infer_operand(c, 1);
  const trm_shape *init = trm_infer_operand(c, 2);
  int64_t out[TRM_MAX_RANK];
  TRY(trm_infer_window(c, c->instruction->window, operand->rank, operand->dims, out));
  const trm_shape positions = {.dtype = operand->dtype, .rank = operand->rank, .dims = out};
  CHECK(c, trm_shape_equal(source, &positions),
        "the window has the positions %s over the operand %s, and the source is %s",
        trm_infer_text(c, &positions), trm_infer_text(c, operand), trm_infer_text(c, source));
  CHECK(c, init->rank == 0 && init->dtype == operand->dtype,
        "the initial value must be %s[], not %s", trm_dtype_name(operand->dtype),
        trm_infer_text(c, init));
  const trm_computation *select, *scatter;
  const trm_dtype pred = TRM_PRED;
  TRY(trm_infer_called(c, 0, &select));
  TRY(trm_infer_called(c, 1, &scatter));
  TRY(trm_infer_check_scalar_parameters(c, select, &operand->dtype, 1, 2));
  TRY(trm_infer_check_scalar_results(c, select, &pred, 1));
  TRY(trm_infer_check_scalar_parameters(c, scatter, &operand->dtype, 1, 2));
  TRY(trm_infer_check_scalar_results(c, scatter, &operand->dtype, 1));
  return trm_infer_give_same(c, operand);
}

static trm_status infer_sort(trm_inference *c) {
  TRY(trm_infer_check_operands(c, 1));
  const uint32_t count = c->instruction->num_operands;
  const trm_shape *first = trm_infer_operand(c, 0);
  const trm_dims *dims = &c->instruction->dimensions;
  const trm_dtype pred = TRM_PRED;
  trm_error *error = c->error;
  /* Two parameters for each operand, one after the other. */
  trm_dtype *pairs = ARENA_NEW(&c->module->arena, trm_dtype, 2 * (size_t)count);
  trm_dtype *types = ARENA_NEW(&c->module->arena, trm_dtype, count);
  if (pairs == NULL || types == NULL) FAIL_NO_MEMORY("types");
  CHECK(c,
        dims->count == 1 && dims->items[0] >= 0 &&
            dims->items[0] < (first->rank > 0 ? first->rank : 1),
        "must name one dimension of %s", trm_infer_text(c, first));
  for (uint32_t i = 0; i < count; ++i) {
    const trm_shape *operand = trm_infer_operand(c, i);
    CHECK(c, trm_shape_same_dims(operand, first), "the operands %s and %s differ in size",
          trm_infer_text(c, first), trm_infer_text(c, operand));
    types[i] = pairs[2 * i] = pairs[2 * i + 1] = operand->dtype;
  }
  const trm_computation *compare;
  TRY(trm_infer_called(c, 0, &compare));
  TRY(trm_infer_check_scalar_parameters(c, compare, pairs, 2 * count, 2 * count));
  TRY(trm_infer_check_scalar_results(c, compare, &pred, 1));
  return give_arrays(c, types, count, first->rank, first->dims, false);
}

static trm_status infer_topk(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0);
  const int64_t k = c->instruction->number;
  CHECK(c, operand->rank >= 1, "the operand must have a dimension");
  CHECK(c, k >= 0 && k <= operand->dims[operand->rank - 1],
        "cannot take %" PRId64 " elements of the last dimension of %s", k,
        trm_infer_text(c, operand));
  int64_t dims[TRM_MAX_RANK];
  for (int32_t i = 0; i < operand->rank; ++i) dims[i] = operand->dims[i];
  dims[operand->rank - 1] = k;
  const trm_dtype types[2] = {operand->dtype, TRM_S32};
  return give_arrays(c, types, 2, operand->rank, dims, false);
}

/* The shape of an array of an iteration's elements. */
static bool is_of_iterations(const trm_shape *whole, const trm_shape *element, int64_t along,
                             int64_t size) {
  if (!trm_shape_is_array(whole) || whole->dtype != element->dtype ||
      whole->rank != element->rank + 1 || along >= whole->rank || whole->dims[along] != size) {
    return false;
  }
  for (int32_t d = 0; d < element->rank; ++d) {
    if (whole->dims[d < along ? d : d + 1] != element->dims[d]) return false;
  }
  return true;
}

/* The computation takes an element of each input and the carries, and gives those of the outputs
 * and the next carries. */
static trm_status infer_scan(trm_inference *c) {
  const uint32_t count = c->instruction->num_operands;
  const int64_t carries = c->instruction->number;
  const trm_dims *dims = &c->instruction->dimensions;
  const trm_shape *stated = &c->instruction->shape;
  const trm_computation *called;
  TRY(trm_infer_called(c, 0, &called));
  const trm_shape *root = trm_infer_root(called);
  CHECK(c, carries >= 0 && carries < count,
        "has %" PRId64 " carries among its %" PRIu32 " operands", carries, count);
  const trm_shape *first = trm_infer_operand(c, 0);
  CHECK(c, dims->count == 1 && dims->items[0] >= 0 && dims->items[0] < first->rank,
        "must name one dimension of %s", trm_infer_text(c, first));
  const int64_t along = dims->items[0], size = first->dims[along];
  CHECK(c, size <= INT32_MAX, "has too many elements to scan in %s", trm_infer_text(c, first));
  CHECK(c,
        called->num_parameters == count && stated->dtype == TRM_TUPLE && root->dtype == TRM_TUPLE &&
            stated->num_elements == root->num_elements && root->num_elements >= carries,
        "its computation %s does not take %" PRIu32 " values and give %s", called->name, count,
        trm_infer_text(c, stated));
  for (uint32_t i = 0; i < count; ++i) {
    const trm_shape *operand = trm_infer_operand(c, i), *taken = trm_infer_parameter(called, i);
    CHECK(c,
          taken != NULL && (i < count - carries ? is_of_iterations(operand, taken, along, size)
                                                : trm_shape_equal(operand, taken)),
          "operand %" PRIu32 " %s does not fit parameter %" PRIu32 " of %s", i,
          trm_infer_text(c, operand), i, called->name);
  }
  for (int32_t i = 0; i < stated->num_elements; ++i) {
    const trm_shape *given = &root->elements[i], *result = &stated->elements[i];
    const int64_t carry = i - (stated->num_elements - carries);
    CHECK(c,
          carry < 0 ? is_of_iterations(result, given, along, size)
                    : trm_shape_equal(result, given) &&
                          trm_shape_equal(
                              result, trm_infer_operand(c, (uint32_t)(count - carries + carry))),
          "element %d of its result is %s, but %s gives %s", i, trm_infer_text(c, result),
          called->name, trm_infer_text(c, given));
  }
  return trm_infer_give_same(c, stated);
}

/* All other operands are one value a feature, but for the gradient, which is like operand 0. */
static trm_status infer_batch_norm(trm_inference *c) {
  const trm_shape *operand = trm_infer_operand(c, 0);
  const int64_t feature = c->instruction->number;
  const trm_opcode opcode = c->instruction->opcode;
  CHECK(c, trm_dtype_is_floating(operand->dtype), "the operand must be floating point, not %s",
        trm_infer_text(c, operand));
  CHECK(c, feature >= 0 && feature < operand->rank,
        "feature_index %" PRId64 " is not a dimension of %s", feature, trm_infer_text(c, operand));
  const trm_shape per_feature = {
      .dtype = operand->dtype, .rank = 1, .dims = &operand->dims[feature]};
  for (uint32_t i = 1; i < c->instruction->num_operands; ++i) {
    const bool is_gradient = opcode == TRM_OP_BATCH_NORM_GRAD && i == 4;
    const trm_shape *wanted = is_gradient ? operand : &per_feature;
    CHECK(c, trm_shape_equal(trm_infer_operand(c, i), wanted),
          "operand %" PRIu32 " must be %s, not %s", i, trm_infer_text(c, wanted),
          trm_infer_text(c, trm_infer_operand(c, i)));
  }
  if (opcode == TRM_OP_BATCH_NORM_INFERENCE) return trm_infer_give_same(c, operand);
  const trm_shape elements[3] = {*operand, per_feature, per_feature};
  return trm_infer_give_tuple(c, 3, elements);
}

trm_status trm_infer_reduction(trm_inference *c) {
  TRY(trm_infer_check_arrays(c));
  switch (c->instruction->opcode) {
    case TRM_OP_REDUCE: return infer_reduce(c);
    case TRM_OP_REDUCE_WINDOW: return infer_reduce_window(c);
    case TRM_OP_SELECT_AND_SCATTER: return infer_select_and_scatter(c);
    case TRM_OP_SORT: return infer_sort(c);
    case TRM_OP_TOPK: return infer_topk(c);
    case TRM_OP_SCAN: return infer_scan(c);
    case TRM_OP_BATCH_NORM_GRAD:
    case TRM_OP_BATCH_NORM_INFERENCE:
    case TRM_OP_BATCH_NORM_TRAINING: return infer_batch_norm(c);
    default: return trm_infer_fail(c, TRM_UNIMPLEMENTED, "is not supported");
  }
}
