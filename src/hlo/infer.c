/* Owns: the checks and messages of shape inference that the families of opcodes share. */
#include "hlo/infer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/small_float.h"

trm_status trm_infer_fail(trm_inference *c, trm_status status, const char *format, ...) {
  char message[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return trm_fail(c->error, status, "%s: %s", trm_opcode_name(c->instruction->opcode), message);
}

const char *trm_infer_text(trm_inference *c, const trm_shape *shape) {
  char *buffer = c->text[c->next_text++ % 4];
  return trm_shape_text(shape, buffer, sizeof c->text[0]);
}

/* ---- Types ---------------------------------------------------------------------------------- */

bool trm_dtype_is_floating(trm_dtype dtype) { return trm_dtype_kind(dtype) == TRM_KIND_FLOAT; }
bool trm_dtype_is_complex(trm_dtype dtype) { return trm_dtype_kind(dtype) == TRM_KIND_COMPLEX; }
bool trm_dtype_is_unsigned(trm_dtype dtype) { return trm_dtype_kind(dtype) == TRM_KIND_UNSIGNED; }
bool trm_dtype_is_integral(trm_dtype dtype) { return trm_kind_is_integer(trm_dtype_kind(dtype)); }

/* ---- Results -------------------------------------------------------------------------------- */

trm_status trm_infer_give(trm_inference *c, trm_dtype dtype, int32_t rank, const int64_t *dims) {
  trm_error *error = c->error;
  trm_shape shape = {.dtype = dtype, .rank = rank, .dims = dims};
  TRY_NOTE(trm_shape_check(&shape, error), "the result of %s",
           trm_opcode_name(c->instruction->opcode));
  if (!trm_shape_make(&c->module->arena, dtype, rank, dims, c->out_shape)) {
    FAIL_NO_MEMORY("a shape");
  }
  return TRM_OK;
}

trm_status trm_infer_give_same(trm_inference *c, const trm_shape *shape) {
  *c->out_shape = *shape; /* shapes are immutable and live as long as the module */
  return TRM_OK;
}

trm_status trm_infer_give_tuple(trm_inference *c, int32_t count, const trm_shape *elements) {
  trm_error *error = c->error;
  trm_shape shape;
  if (!trm_shape_make_tuple(&c->module->arena, count, elements, &shape)) FAIL_NO_MEMORY("a shape");
  TRY_NOTE(trm_shape_check(&shape, error), "the result of %s",
           trm_opcode_name(c->instruction->opcode));
  *c->out_shape = shape;
  return TRM_OK;
}

trm_status trm_infer_give_stated(trm_inference *c) {
  trm_error *error = c->error;
  const trm_shape *shape = &c->instruction->shape;
  TRY_NOTE(trm_shape_check(shape, error), "the result of %s",
           trm_opcode_name(c->instruction->opcode));
  CHECK(c, trm_shape_is_array(shape), "its result must be an array, not %s",
        trm_infer_text(c, shape));
  return trm_infer_give_same(c, shape);
}

/* ---- Checks --------------------------------------------------------------------------------- */

trm_status trm_infer_check_operands(trm_inference *c, uint32_t at_least) {
  CHECK(c, c->instruction->num_operands >= at_least,
        "takes at least %" PRIu32 " operands, not %" PRIu32, at_least,
        c->instruction->num_operands);
  return TRM_OK;
}

trm_status trm_infer_check_arrays(trm_inference *c) {
  for (uint32_t i = 0; i < c->instruction->num_operands; ++i) {
    CHECK(c, trm_shape_is_array(trm_infer_operand(c, i)),
          "operand %" PRIu32 " must be an array, not %s", i,
          trm_infer_text(c, trm_infer_operand(c, i)));
  }
  return TRM_OK;
}

bool trm_infer_contains(const trm_dims *dims, int64_t value) {
  for (int32_t i = 0; i < dims->count; ++i) {
    if (dims->items[i] == value) return true;
  }
  return false;
}

trm_status trm_infer_check_distinct(trm_inference *c, const char *what, const trm_dims *dims,
                                    int64_t bound) {
  uint64_t seen = 0; /* a bit a dimension: bounds are ranks, or twice a rank */
  for (int32_t i = 0; i < dims->count; ++i) {
    const int64_t dim = dims->items[i];
    CHECK(c, dim >= 0 && dim < bound && dim < 64,
          "%s names dimension %" PRId64 ", which is not in 0..%" PRId64, what, dim, bound - 1);
    CHECK(c, (seen >> dim & 1) == 0, "%s names dimension %" PRId64 " twice", what, dim);
    seen |= UINT64_C(1) << dim;
  }
  return TRM_OK;
}

trm_status trm_infer_called(trm_inference *c, uint32_t slot, const trm_computation **out_called) {
  const trm_instruction *instruction = c->instruction;
  CHECK(c, slot < instruction->num_called, "calls %" PRIu32 " computations, and needs %" PRIu32,
        instruction->num_called, slot + 1);
  const uint32_t index = instruction->called[slot];
  CHECK(c, index < c->module->num_computations, "calls a computation that does not exist");
  const trm_computation *called = &c->module->computations[index];
  CHECK(c, called->root < called->num_instructions, "calls computation %s, which has no root",
        called->name);
  *out_called = called;
  return TRM_OK;
}

const trm_shape *trm_infer_root(const trm_computation *computation) {
  return &computation->instructions[computation->root].shape;
}

const trm_shape *trm_infer_parameter(const trm_computation *computation, uint32_t i) {
  if (i >= computation->num_parameters) return NULL;
  const trm_index index = computation->parameters[i];
  return index < computation->num_instructions ? &computation->instructions[index].shape : NULL;
}

trm_status trm_infer_check_scalar_parameters(trm_inference *c, const trm_computation *called,
                                             const trm_dtype *types, uint32_t num_types,
                                             uint32_t count) {
  CHECK(c, called->num_parameters == count,
        "computation %s must take %" PRIu32 " parameters, not %" PRIu32, called->name, count,
        called->num_parameters);
  for (uint32_t i = 0; i < count; ++i) {
    const trm_shape *parameter = trm_infer_parameter(called, i);
    const trm_dtype wanted = types[i % num_types];
    CHECK(c, parameter != NULL && trm_shape_is_scalar(parameter) && parameter->dtype == wanted,
          "parameter %" PRIu32 " of computation %s must be %s[], not %s", i, called->name,
          trm_dtype_name(wanted), parameter == NULL ? "missing" : trm_infer_text(c, parameter));
  }
  return TRM_OK;
}

trm_status trm_infer_check_scalar_results(trm_inference *c, const trm_computation *called,
                                          const trm_dtype *types, uint32_t num_types) {
  const trm_shape *root = trm_infer_root(called);
  bool fits = num_types == 1 ? trm_shape_is_array(root)
                             : root->dtype == TRM_TUPLE && root->num_elements == (int32_t)num_types;
  for (uint32_t i = 0; fits && i < num_types; ++i) {
    const trm_shape *result = num_types == 1 ? root : &root->elements[i];
    fits = trm_shape_is_scalar(result) && result->dtype == types[i];
  }
  CHECK(c, fits,
        "computation %s must return %" PRIu32 " scalar(s) of the type of its parameters, not %s",
        called->name, num_types, trm_infer_text(c, root));
  return TRM_OK;
}

/* Whether a computation gives its one result in a tuple, as XLA lets a reducer do. */
static bool gives_tuple_of_one(const trm_computation *called, trm_dtype type) {
  const trm_shape *root = trm_infer_root(called);
  return root->dtype == TRM_TUPLE && root->num_elements == 1 &&
         trm_shape_is_scalar(&root->elements[0]) && root->elements[0].dtype == type;
}

trm_status trm_infer_check_combiner(trm_inference *c, const trm_dtype *types, uint32_t count,
                                    bool *out_packed) {
  const trm_computation *combine;
  TRY(trm_infer_called(c, 0, &combine));
  TRY(trm_infer_check_scalar_parameters(c, combine, types, count, 2 * count));
  *out_packed = count == 1 && gives_tuple_of_one(combine, types[0]);
  return *out_packed ? TRM_OK : trm_infer_check_scalar_results(c, combine, types, count);
}

trm_status trm_infer_window(trm_inference *c, const trm_window *window, int32_t rank,
                            const int64_t *dims, int64_t *out_dims) {
  const int64_t limit = (int64_t)1 << 40;
  const int32_t window_rank = window == NULL ? 0 : window->rank;
  CHECK(c, window_rank == rank, "its window has %d dimensions where there are %d", window_rank,
        rank);
  for (int32_t i = 0; i < rank; ++i) {
    const trm_window_dimension *w = &window->dims[i];
    CHECK(c, w->size >= 1 && w->stride >= 1 && w->window_dilation >= 1 && w->base_dilation >= 1,
          "dimension %d of its window has size %" PRId64 ", stride %" PRId64 ", dilations %" PRId64
          " and %" PRId64 "; all must be at least 1",
          i, w->size, w->stride, w->window_dilation, w->base_dilation);
    int64_t base = 0, extent = 0;
    const bool fits =
        w->padding_low > -limit && w->padding_low < limit && w->padding_high > -limit &&
        w->padding_high < limit &&
        !__builtin_mul_overflow(dims[i] > 0 ? dims[i] - 1 : 0, w->base_dilation, &base) &&
        !__builtin_mul_overflow(w->size - 1, w->window_dilation, &extent) && base < limit &&
        extent < limit && w->stride < limit;
    CHECK(c, fits, "dimension %d of its window is too large", i);
    const int64_t padded = (dims[i] > 0 ? base + 1 : 0) + w->padding_low + w->padding_high;
    out_dims[i] = padded < extent + 1 ? 0 : (padded - (extent + 1)) / w->stride + 1;
  }
  return TRM_OK;
}
