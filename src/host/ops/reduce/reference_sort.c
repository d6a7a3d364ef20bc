/* Owns: reference kernels of sort and topk. */
#include "host/ops/reference.h"

/* ---- Sort: a bottom-up merge sort of places, stable whether asked or not --------------------- */

typedef struct sorter {
  const trm_reference_state *state;
  const trm_kernel_call *call;
  trm_value *slots;
  int64_t base, stride; /* of the line */
} sorter;

/* The comparator takes the pairs of all operands: a0, b0, a1, b1, ... */
static bool goes_before(const sorter *s, int64_t a, int64_t b) {
  const trm_evaluator *evaluator = s->state->evaluators[0];
  for (uint32_t k = 0; k < s->state->num_operands; ++k) {
    const trm_dtype dtype = s->state->operands[k].dtype;
    s->slots[2 * k] = trm_value_load(dtype, s->call->operands[k], s->base + a * s->stride);
    s->slots[2 * k + 1] = trm_value_load(dtype, s->call->operands[k], s->base + b * s->stride);
  }
  trm_evaluator_run(evaluator, s->slots);
  return s->slots[evaluator->results[0]].u != 0;
}

/* Sorts order[0..n) with the help of other[0..n); returns the one that holds the result. */
static int64_t *merge_sort(const sorter *s, int64_t n, int64_t *order, int64_t *other) {
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t low = 0; low < n; low += 2 * width) {
      const int64_t middle = low + width < n ? low + width : n;
      const int64_t high = low + 2 * width < n ? low + 2 * width : n;
      int64_t a = low, b = middle;
      for (int64_t i = low; i < high; ++i) {
        const bool take_b = a >= middle || (b < high && goes_before(s, order[b], order[a]));
        other[i] = take_b ? order[b++] : order[a++];
      }
    }
    int64_t *const swap = order;
    order = other;
    other = swap;
  }
  return order;
}

static trm_status run_sort(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_evaluator *evaluator = state->evaluators[0];
  const trm_shape *shape = &state->operands[0];
  if (trm_shape_count(shape) == 0) return TRM_OK;
  const bool is_scalar = shape->rank == 0;
  const int64_t dimension = is_scalar ? 0 : state->instruction.dimensions.items[0];
  const int64_t n = is_scalar ? 1 : shape->dims[dimension];
  int64_t strides[TRM_MAX_RANK] = {1};
  trm_shape_strides(shape, strides);
  int64_t *const order = (int64_t *)(void *)((char *)call->scratch + evaluator->slot_bytes);
  sorter s = {state, call, (trm_value *)call->scratch, 0, is_scalar ? 1 : strides[dimension]};
  trm_evaluator_prepare(evaluator, s.slots);
  const int64_t lines = trm_shape_count(shape) / n;
  for (int64_t line = 0; line < lines; ++line) {
    s.base = line / s.stride * s.stride * n + line % s.stride;
    const int64_t *const sorted = merge_sort(&s, n, order, order + n);
    for (uint32_t k = 0; k < state->num_operands; ++k) {
      const size_t size = trm_dtype_size(state->operands[k].dtype);
      for (int64_t i = 0; i < n; ++i) {
        trm_copy_element(size, call->results[k], s.base + i * s.stride, call->operands[k],
                         s.base + sorted[i] * s.stride);
      }
    }
  }
  return TRM_OK;
}

/* ---- Topk: along the last dimension; of equal ones the earlier comes first ------------------- */

/* A number in the order of the elements; floats in the order of IEEE's totalOrder. */
static uint64_t order_key(trm_dtype dtype, trm_value value) {
  const uint64_t sign = UINT64_C(1) << 63;
  const trm_kind kind = trm_dtype_kind(dtype);
  if (kind == TRM_KIND_SIGNED) return value.u ^ sign;
  if (kind != TRM_KIND_FLOAT) return value.u;
  uint64_t bits;
  memcpy(&bits, &value.f, sizeof bits); /* as doubles, narrower floats keep their order */
  return bits & sign ? ~bits : bits | sign;
}

static void sift_down(uint64_t *keys, int64_t *places, int64_t count, int64_t i) {
  /* A heap whose top is the last in order: the greatest key, and of equal keys the latest place. */
  while (true) {
    int64_t top = i;
    for (int64_t child = 2 * i + 1; child <= 2 * i + 2; ++child) {
      if (child < count &&
          (keys[child] > keys[top] || (keys[child] == keys[top] && places[child] > places[top]))) {
        top = child;
      }
    }
    if (top == i) return;
    const uint64_t key = keys[i];
    const int64_t place = places[i];
    keys[i] = keys[top], places[i] = places[top];
    keys[top] = key, places[top] = place;
    i = top;
  }
}

static trm_status run_topk(const trm_kernel *kernel, const trm_kernel_call *call,
                           trm_error *error) {
  (void)error;
  const trm_reference_state *state = trm_reference_state_of(kernel);
  const trm_shape *operand = &state->operands[0];
  const trm_shape *values = trm_shape_leaf(&state->shape, 0);
  const trm_shape *indices = trm_shape_leaf(&state->shape, 1);
  if (trm_shape_count(values) == 0) return TRM_OK;
  const int64_t n = operand->dims[operand->rank - 1], k = values->dims[values->rank - 1];
  const size_t size = trm_dtype_size(operand->dtype);
  uint64_t *const keys = (uint64_t *)call->scratch;
  int64_t *const places = (int64_t *)call->scratch + n;
  const int64_t lines = trm_shape_count(operand) / n;
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t i = 0; i < n; ++i) {
      const trm_value value = trm_value_load(operand->dtype, call->operands[0], line * n + i);
      const uint64_t key = order_key(operand->dtype, value);
      keys[i] = state->instruction.largest ? ~key : key;
      places[i] = i;
    }
    for (int64_t i = n / 2; i-- > 0;) sift_down(keys, places, n, i);
    for (int64_t end = n - 1; end > 0; --end) {
      const uint64_t key = keys[0];
      const int64_t place = places[0];
      keys[0] = keys[end], places[0] = places[end];
      keys[end] = key, places[end] = place;
      sift_down(keys, places, end, 0);
    }
    for (int64_t i = 0; i < k; ++i) {
      trm_copy_element(size, call->results[0], line * k + i, call->operands[0],
                       line * n + places[i]);
      trm_value_store(indices->dtype, call->results[1], line * k + i,
                      (trm_value){{.s = places[i]}, 0.0});
    }
  }
  return TRM_OK;
}

trm_status trm_reference_sort_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                     bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  const trm_shape *operand = trm_operand_shape(request, 0);
  *out_supported = true;
  if (instruction->opcode == TRM_OP_SORT) {
    TRY(trm_reference_kernel_create(request, "reference.sort", run_sort, 1, out_kernel, error));
    const trm_evaluator *evaluator = trm_reference_state_of(out_kernel)->evaluators[0];
    if (evaluator->num_parameters != 2 * instruction->num_operands || evaluator->num_results != 1) {
      return trm_reference_refuse(request, "its comparator does not fit its operands", error);
    }
    const int64_t n = operand->rank == 0 ? 1 : operand->dims[instruction->dimensions.items[0]];
    out_kernel->scratch_bytes += 2 * sizeof(int64_t) * (size_t)n;
    return TRM_OK;
  }
  if (instruction->opcode != TRM_OP_TOPK || trm_shape_num_leaves(&instruction->shape) != 2 ||
      operand->rank < 1 || trm_dtype_kind(operand->dtype) == TRM_KIND_COMPLEX ||
      trm_shape_leaf(&instruction->shape, 0)->dims[operand->rank - 1] >
          operand->dims[operand->rank - 1]) {
    return trm_reference_refuse(request,
                                "topk takes an array of real numbers and k <= its last "
                                "dimension, and gives values and indices",
                                error);
  }
  TRY(trm_reference_kernel_create(request, "reference.topk", run_topk, 0, out_kernel, error));
  out_kernel->scratch_bytes = 2 * sizeof(int64_t) * (size_t)operand->dims[operand->rank - 1];
  return TRM_OK;
}
