/* Owns: appending chains of instructions (maker.h). */
#include "passes/maker.h"

trm_index trm_make(trm_maker *m, const trm_instruction *prototype) {
  trm_index made = 0;
  if (m->status == TRM_OK) {
    m->status = trm_edit_add(m->edit, m->like, *prototype, &made, m->error);
  }
  return made;
}

trm_index trm_ternary(trm_maker *m, trm_opcode opcode, trm_shape shape, trm_index x, trm_index y,
                      trm_index z) {
  return trm_make(
      m,
      &(trm_instruction){
          .opcode = opcode, .shape = shape, .num_operands = 3, .operands = (trm_index[]){x, y, z}});
}

trm_index trm_binary(trm_maker *m, trm_opcode opcode, trm_shape shape, trm_index x, trm_index y) {
  return trm_make(
      m, &(trm_instruction){
             .opcode = opcode, .shape = shape, .num_operands = 2, .operands = (trm_index[]){x, y}});
}

trm_index trm_unary(trm_maker *m, trm_opcode opcode, trm_shape shape, trm_index x) {
  return trm_make(
      m, &(trm_instruction){.opcode = opcode, .shape = shape, .num_operands = 1, .operands = &x});
}

trm_index trm_compare(trm_maker *m, trm_index x, trm_comparison comparison, trm_index y) {
  return trm_make(
      m, &(trm_instruction){.opcode = TRM_OP_COMPARE,
                            .shape = trm_shape_as(trm_edit_at(m->edit, x)->shape, TRM_PRED),
                            .num_operands = 2,
                            .operands = (trm_index[]){x, y},
                            .comparison = comparison});
}

trm_index trm_broadcast(trm_maker *m, trm_shape shape, trm_index x, trm_dims along) {
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_BROADCAST,
                                        .shape = shape,
                                        .num_operands = 1,
                                        .operands = &x,
                                        .dimensions = along});
}

trm_index trm_filled(trm_maker *m, trm_shape shape, double number) {
  trm_index one = 0;
  if (m->status == TRM_OK) {
    m->status = trm_edit_scalar(m->edit, m->like, shape.dtype, number, &one, m->error);
  }
  return shape.rank == 0 ? one : trm_broadcast(m, shape, one, (trm_dims){0});
}

trm_index trm_tuple(trm_maker *m, trm_shape shape, const trm_index *elements) {
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_TUPLE,
                                        .shape = shape,
                                        .num_operands = (uint32_t)shape.num_elements,
                                        .operands = (trm_index *)elements});
}

trm_index trm_element(trm_maker *m, trm_shape shape, trm_index tuple, int64_t k) {
  return trm_make(m, &(trm_instruction){.opcode = TRM_OP_GET_TUPLE_ELEMENT,
                                        .shape = shape.elements[k],
                                        .num_operands = 1,
                                        .operands = &tuple,
                                        .number = k});
}

trm_shape trm_make_shape(trm_maker *m, trm_dtype dtype, int32_t rank, const int64_t *dims) {
  trm_shape shape = {.dtype = dtype};
  if (m->status == TRM_OK && !trm_shape_make(&m->edit->module->arena, dtype, rank, dims, &shape)) {
    m->status = trm_fail(m->error, TRM_RESOURCE_EXHAUSTED, "out of memory for a shape");
  }
  return shape;
}

trm_shape trm_make_tuple_shape(trm_maker *m, int32_t count, const trm_shape *elements) {
  trm_shape shape = {.dtype = TRM_TUPLE};
  if (m->status == TRM_OK &&
      !trm_shape_make_tuple(&m->edit->module->arena, count, elements, &shape)) {
    m->status = trm_fail(m->error, TRM_RESOURCE_EXHAUSTED, "out of memory for a shape");
  }
  return shape;
}

trm_shape trm_shape_as(trm_shape shape, trm_dtype dtype) {
  shape.dtype = dtype;
  shape.layout = NULL;
  return shape;
}

trm_dims trm_make_dims(trm_maker *m, int32_t count, const int64_t *items) {
  int64_t *copy = trm_arena_copy(&m->edit->module->arena, items, (size_t)count * sizeof *items);
  if (m->status == TRM_OK && copy == NULL) {
    m->status = trm_fail(m->error, TRM_RESOURCE_EXHAUSTED, "out of memory for dimensions");
  }
  return (trm_dims){.count = copy != NULL ? count : 0, .items = copy};
}

trm_maker *trm_part_begin(trm_maker *outer, trm_part *part, uint32_t count,
                          const trm_shape *parameters) {
  trm_module *module = outer->edit->module;
  trm_maker *m = &part->maker;
  uint32_t computation = 0;
  part->edit = (trm_edit){.module = module, .computation = outer->edit->computation};
  *m = (trm_maker){.edit = &part->edit, .status = outer->status, .error = outer->error};
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

uint32_t trm_part_end(trm_maker *outer, trm_part *part, trm_index root) {
  if (part->maker.status == TRM_OK) trm_edit_computation(&part->edit)->root = root;
  outer->status = trm_edit_end(&part->edit, part->maker.status, outer->error);
  return part->edit.computation;
}
