/* Owns: appending chains of instructions (maker.h). */
#include "passes/maker.h"

#include "hlo/literal.h"

/* The result of a function of edit.h, if nothing has failed. */
#define MAKE(function, ...)                                                          \
  trm_index made = 0;                                                                \
  if (m->status == TRM_OK) {                                                         \
    m->status = trm_edit_##function(m->edit, m->like, __VA_ARGS__, &made, m->error); \
  }                                                                                  \
  return made

trm_index trm_make(trm_maker *m, const trm_instruction *prototype) { MAKE(add, *prototype); }

trm_index trm_unary(trm_maker *m, trm_opcode opcode, trm_index x) {
  MAKE(unary, opcode, trm_shape_at(m, x), x);
}

trm_index trm_binary(trm_maker *m, trm_opcode opcode, trm_index x, trm_index y) {
  MAKE(binary, opcode, trm_shape_at(m, x), x, y);
}

trm_index trm_with(trm_maker *m, trm_opcode opcode, trm_index x, double number) {
  return trm_binary(m, opcode, x, trm_filled(m, trm_shape_at(m, x), number));
}

trm_index trm_select(trm_maker *m, trm_index which, trm_index yes, trm_index no) {
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_SELECT,
                                        .shape = trm_shape_at(m, no),
                                        .num_operands = 3,
                                        .operands = (trm_index[]){which, yes, no}});
}

trm_index trm_compare(trm_maker *m, trm_index x, trm_comparison comparison, double number) {
  const trm_shape shape = trm_shape_at(m, x);
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_COMPARE,
                                        .shape = trm_shape_as(shape, TRM_PRED),
                                        .num_operands = 2,
                                        .operands = (trm_index[]){x, trm_filled(m, shape, number)},
                                        .comparison = comparison});
}

trm_index trm_convert(trm_maker *m, trm_dtype dtype, trm_index x) { MAKE(convert, dtype, x); }

trm_index trm_recast(trm_maker *m, trm_opcode opcode, trm_shape shape, trm_index x) {
  MAKE(unary, opcode, shape, x);
}

trm_index trm_broadcast(trm_maker *m, trm_shape shape, trm_index x, trm_dims along) {
  MAKE(broadcast, shape, x, along.count, along.items);
}

static trm_index scalar(trm_maker *m, trm_dtype dtype, double number) {
  MAKE(scalar, dtype, number);
}

trm_index trm_filled(trm_maker *m, trm_shape shape, double number) {
  const trm_index one = scalar(m, shape.dtype, number);
  return shape.rank == 0 ? one : trm_broadcast(m, shape, one, (trm_dims){0});
}

trm_index trm_zeros(trm_maker *m, trm_shape shape) {
  const trm_shape single = {.dtype = shape.dtype};
  trm_literal *zero = NULL;
  if (m->status == TRM_OK) {
    m->status = trm_literal_make(&m->edit->module->arena, &single, &zero, m->error);
  }
  const trm_index one =
      trm_make(m, &(trm_instruction){.opcode = TRM_OP_CONSTANT, .shape = single, .literal = zero});
  return trm_broadcast(m, shape, one, (trm_dims){0});
}

trm_index trm_slice_last(trm_maker *m, trm_index x, int64_t from, int64_t to) {
  const trm_shape whole = trm_shape_at(m, x);
  trm_slice_dimension slice[TRM_MAX_RANK];
  int64_t dims[TRM_MAX_RANK];
  for (int32_t d = 0; d < whole.rank; ++d) {
    const bool is_cut = d == whole.rank - 1;
    slice[d] = (trm_slice_dimension){is_cut ? from : 0, is_cut ? to : whole.dims[d], 1};
    dims[d] = slice[d].limit - slice[d].start;
  }
  return trm_make(
      m, &(trm_instruction){.opcode = TRM_OP_SLICE,
                            .shape = trm_make_shape(m, whole.dtype, whole.rank, dims),
                            .num_operands = 1,
                            .operands = &x,
                            .slice = trm_keep(m, slice, (size_t)whole.rank * sizeof *slice)});
}

trm_index trm_reduce(trm_maker *m, trm_opcode opcode, trm_index x, int32_t kept) {
  const trm_shape whole = trm_shape_at(m, x), one = {.dtype = whole.dtype};
  const int64_t *size = kept >= 0 ? &whole.dims[kept] : NULL;
  int64_t dims[TRM_MAX_RANK];
  int32_t count = 0;
  for (int32_t d = 0; d < whole.rank; ++d) {
    if (d != kept) dims[count++] = d;
  }
  trm_subcomputation sub;
  trm_maker *inner = trm_subcomputation_begin(m, &sub, 2, (trm_shape[]){one, one});
  uint32_t combiner = trm_subcomputation_end(m, &sub, trm_binary(inner, opcode, 0, 1));
  return trm_make(
      m, &(trm_instruction){.opcode = TRM_OP_REDUCE,
                            .shape = trm_make_shape(m, one.dtype, kept >= 0, size),
                            .num_operands = 2,
                            .operands = (trm_index[]){x, trm_filled(m, one, 0)},
                            .dimensions = {count, trm_keep(m, dims, (size_t)count * sizeof *dims)},
                            .num_called = 1,
                            .called = &combiner});
}

trm_index trm_concatenate(trm_maker *m, const trm_index *arrays, uint32_t count) {
  static const int64_t first[] = {0};
  const trm_dtype dtype = trm_shape_at(m, arrays[0]).dtype;
  int64_t size = 0;
  for (uint32_t k = 0; k < count && m->status == TRM_OK; ++k) {
    size += trm_shape_at(m, arrays[k]).dims[0];
  }
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_CONCATENATE,
                                        .shape = trm_make_shape(m, dtype, 1, &size),
                                        .num_operands = count,
                                        .operands = (trm_index *)arrays,
                                        .dimensions = {1, trm_keep(m, first, sizeof first)}});
}

trm_index trm_while(trm_maker *m, trm_shape state, trm_index first, uint32_t called[2]) {
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_WHILE,
                                        .shape = state,
                                        .num_operands = 1,
                                        .operands = &first,
                                        .num_called = 2,
                                        .called = called});
}

trm_index trm_tuple(trm_maker *m, trm_shape shape, const trm_index *elements) {
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_TUPLE,
                                        .shape = shape,
                                        .num_operands = (uint32_t)shape.num_elements,
                                        .operands = (trm_index *)elements});
}

trm_index trm_element(trm_maker *m, trm_index tuple, int64_t k) { MAKE(element, tuple, k); }

trm_shape trm_shape_at(const trm_maker *m, trm_index x) {
  const trm_shape shape = trm_edit_at(m->edit, x)->shape;
  return trm_shape_as(shape, shape.dtype);
}

static trm_shape checked(trm_maker *m, bool fits, trm_shape shape) {
  if (m->status == TRM_OK && !fits) {
    m->status = trm_fail(m->error, TRM_RESOURCE_EXHAUSTED, "out of memory for a shape");
  }
  return shape;
}

trm_shape trm_make_shape(trm_maker *m, trm_dtype dtype, int32_t rank, const int64_t *dims) {
  trm_shape shape = {.dtype = dtype};
  const bool fits = trm_shape_make(&m->edit->module->arena, dtype, rank, dims, &shape);
  return checked(m, fits, shape);
}

trm_shape trm_make_tuple_shape(trm_maker *m, int32_t count, const trm_shape *elements) {
  trm_shape shape = {.dtype = TRM_TUPLE};
  const bool fits = trm_shape_make_tuple(&m->edit->module->arena, count, elements, &shape);
  return checked(m, fits, shape);
}

trm_shape trm_shape_as(trm_shape shape, trm_dtype dtype) {
  shape.dtype = dtype;
  shape.layout = NULL;
  return shape;
}

void *trm_keep(trm_maker *m, const void *data, size_t size) {
  void *copy = m->status == TRM_OK ? trm_arena_copy(&m->edit->module->arena, data, size) : NULL;
  if (m->status == TRM_OK && copy == NULL) {
    m->status = trm_fail(m->error, TRM_RESOURCE_EXHAUSTED, "out of memory for an instruction");
  }
  return copy;
}

trm_dims trm_keep_dims(trm_maker *m, int32_t count, const int64_t *items) {
  return (trm_dims){count, trm_keep(m, items, (size_t)count * sizeof *items)};
}

trm_maker *trm_subcomputation_begin(trm_maker *outer, trm_subcomputation *sub, uint32_t count,
                                    const trm_shape *parameters) {
  trm_module *module = outer->edit->module;
  trm_maker *m = &sub->maker;
  uint32_t computation = 0;
  sub->edit = (trm_edit){.module = module, .computation = outer->edit->computation};
  *m = (trm_maker){.edit = &sub->edit, .status = outer->status, .error = outer->error};
  if (m->status == TRM_OK) {
    m->status = trm_module_add_computation(module, NULL, &computation, m->error);
  }
  for (uint32_t k = 0; k < count && m->status == TRM_OK; ++k) {
    const trm_instruction parameter = {
        .opcode = TRM_OP_PARAMETER, .shape = parameters[k], .number = k};
    trm_index made;
    m->status = trm_computation_add(module, computation, &parameter, &made, m->error);
  }
  if (m->status == TRM_OK) m->status = trm_edit_begin(m->edit, module, computation, m->error);
  return m;
}

uint32_t trm_subcomputation_end(trm_maker *outer, trm_subcomputation *sub, trm_index root) {
  if (sub->maker.status == TRM_OK) trm_edit_computation(&sub->edit)->root = root;
  outer->status = trm_edit_end(&sub->edit, sub->maker.status, outer->error);
  return sub->edit.computation;
}
