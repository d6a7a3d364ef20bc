/* Owns: the editing of a computation (edit.h). */
#include "passes/edit.h"

#include <string.h>

#include "base/half.h"
#include "base/small_float.h"

trm_status trm_edit_begin(trm_edit *edit, trm_module *module, uint32_t computation,
                          trm_error *error) {
  *edit = (trm_edit){.module = module, .computation = computation};
  const uint32_t count = module->computations[computation].num_instructions;
  edit->replacement.items = trm_allocate((count + 16) * sizeof(trm_index));
  CHECK_MEMORY(edit->replacement.items, "replacements");
  edit->replacement.capacity = count + 16;
  edit->replacement.count = count;
  memset(edit->replacement.items, 0xff, count * sizeof(trm_index));
  return TRM_OK;
}

trm_status trm_edit_end(trm_edit *edit, trm_status status, trm_error *error) {
  if (status == TRM_OK && edit->changed) {
    status =
        trm_computation_rewrite(edit->module, edit->computation, edit->replacement.items, error);
  }
  VECTOR_FREE(&edit->replacement);
  return status;
}

trm_index trm_edit_resolve(const trm_edit *edit, trm_index index) {
  while (edit->replacement.items[index] != TRM_NO_INDEX) index = edit->replacement.items[index];
  return index;
}

void trm_edit_replace(trm_edit *edit, trm_index old, trm_index new_index) {
  if (old == new_index) return;
  edit->replacement.items[old] = new_index;
  edit->changed = true;
}

trm_status trm_edit_add(trm_edit *edit, trm_index like, trm_instruction prototype,
                        trm_index *out_index, trm_error *error) {
  prototype.name = NULL;
  prototype.id = 0;
  prototype.metadata = trm_edit_at(edit, like)->metadata;
  TRY(trm_computation_add(edit->module, edit->computation, &prototype, out_index, error));
  if (!VECTOR_PUSH(&edit->replacement, TRM_NO_INDEX)) FAIL_NO_MEMORY("replacements");
  edit->changed = true;
  return TRM_OK;
}

trm_status trm_edit_unary(trm_edit *edit, trm_index like, trm_opcode opcode, trm_shape shape,
                          trm_index operand, trm_index *out_index, trm_error *error) {
  const trm_instruction prototype = {
      .opcode = opcode, .shape = shape, .num_operands = 1, .operands = &operand};
  return trm_edit_add(edit, like, prototype, out_index, error);
}

trm_status trm_edit_binary(trm_edit *edit, trm_index like, trm_opcode opcode, trm_shape shape,
                           trm_index left, trm_index right, trm_index *out_index,
                           trm_error *error) {
  trm_index operands[2] = {left, right};
  const trm_instruction prototype = {
      .opcode = opcode, .shape = shape, .num_operands = 2, .operands = operands};
  return trm_edit_add(edit, like, prototype, out_index, error);
}

trm_status trm_edit_broadcast(trm_edit *edit, trm_index like, trm_shape shape, trm_index operand,
                              int32_t count, const int64_t *dimensions, trm_index *out_index,
                              trm_error *error) {
  int64_t *copy =
      trm_arena_copy(&edit->module->arena, dimensions, (size_t)count * sizeof *dimensions);
  CHECK_MEMORY(copy, "dimensions");
  const trm_instruction prototype = {.opcode = TRM_OP_BROADCAST,
                                     .shape = shape,
                                     .num_operands = 1,
                                     .operands = &operand,
                                     .dimensions = {count, copy}};
  return trm_edit_add(edit, like, prototype, out_index, error);
}

trm_status trm_edit_scalar(trm_edit *edit, trm_index like, trm_dtype dtype, double value,
                           trm_index *out_index, trm_error *error) {
  union {
    float f32;
    double f64;
    uint16_t u16;
    uint8_t u8;
    int64_t s64;
  } bytes = {.s64 = 0};
  switch (dtype) {
    case TRM_F32: bytes.f32 = (float)value; break;
    case TRM_F64: bytes.f64 = value; break;
    case TRM_F16: bytes.u16 = trm_float_to_half((float)value); break;
    case TRM_BF16: bytes.u16 = trm_float_to_bfloat16((float)value); break;
    default:
      if (trm_dtype_is_small_float(dtype)) {
        bytes.u8 = trm_small_float_encode(dtype, value);
        break;
      }
      bytes.s64 = (int64_t)value; /* little-endian: a narrower integer is the low bytes */
      break;
  }
  trm_arena *arena = &edit->module->arena;
  trm_literal *literal = ARENA_NEW(arena, trm_literal, 1);
  const void **leaves = ARENA_NEW(arena, const void *, 1);
  void *data = trm_arena_copy(arena, &bytes, sizeof bytes);
  if (literal == NULL || leaves == NULL || data == NULL) FAIL_NO_MEMORY("a constant");
  leaves[0] = data;
  *literal = (trm_literal){.shape = {.dtype = dtype}, .num_leaves = 1, .leaves = leaves};
  const trm_instruction prototype = {
      .opcode = TRM_OP_CONSTANT, .shape = {.dtype = dtype}, .literal = literal};
  return trm_edit_add(edit, like, prototype, out_index, error);
}

trm_status trm_edit_convert(trm_edit *edit, trm_index like, trm_dtype dtype, trm_index operand,
                            trm_index *out_index, trm_error *error) {
  *out_index = operand;
  trm_instruction prototype = {.opcode = TRM_OP_CONVERT,
                               .shape = trm_edit_at(edit, operand)->shape,
                               .num_operands = 1,
                               .operands = &operand,
                               .sharding = trm_edit_at(edit, like)->sharding,
                               .frontend_attributes = trm_edit_at(edit, like)->frontend_attributes};
  if (prototype.shape.dtype == dtype) return TRM_OK;
  prototype.shape.dtype = dtype;
  prototype.shape.layout = NULL;
  return trm_edit_add(edit, like, prototype, out_index, error);
}

trm_status trm_edit_element(trm_edit *edit, trm_index like, trm_index from, int64_t number,
                            trm_index *out_index, trm_error *error) {
  const trm_instruction prototype = {.opcode = TRM_OP_GET_TUPLE_ELEMENT,
                                     .shape = trm_edit_at(edit, from)->shape.elements[number],
                                     .num_operands = 1,
                                     .operands = &from,
                                     .number = number};
  return trm_edit_add(edit, like, prototype, out_index, error);
}

/* Replaces *body by a copy that computes in float32. */
static trm_status widen_body(trm_module *module, uint32_t *body, trm_error *error) {
  TRY(trm_module_clone_computation(module, *body, body, error));
  trm_computation *computation = &module->computations[*body];
  for (uint32_t i = 0; i < computation->num_instructions; ++i) {
    computation->instructions[i].shape.dtype = TRM_F32;
  }
  return TRM_OK;
}

trm_status trm_edit_widen(trm_edit *edit, trm_index i, const trm_index *operands,
                          trm_index *out_index, trm_error *error) {
  enum { MOST = 2 };
  trm_instruction wide = *trm_edit_at(edit, i);
  trm_index converted[MOST];
  for (uint32_t k = 0; k < wide.num_operands && k < MOST; ++k) {
    TRY(trm_edit_convert(edit, i, TRM_F32, operands[k], &converted[k], error));
  }
  uint32_t body;
  if (wide.num_called > 0 && wide.shape.dtype == TRM_F16) {
    body = wide.called[0];
    TRY(widen_body(edit->module, &body, error));
    wide.called = &body;
  }
  wide.operands = converted;
  wide.shape.dtype = TRM_F32;
  wide.shape.layout = NULL;
  return trm_edit_add(edit, i, wide, out_index, error);
}

bool trm_edit_number(const trm_edit *e, trm_index i, double *out_value) {
  const trm_instruction *instruction = trm_edit_at(e, i);
  if (instruction->opcode == TRM_OP_BROADCAST) {
    instruction = trm_edit_at(e, trm_edit_operand(e, i, 0));
  }
  if (instruction->opcode != TRM_OP_CONSTANT || !trm_shape_is_scalar(&instruction->shape)) {
    return false;
  }
  const void *data = instruction->literal->leaves[0];
  int64_t integer = 0;
  float real;
  uint16_t half;
  switch (instruction->shape.dtype) {
    case TRM_F32:
      memcpy(&real, data, sizeof real);
      *out_value = (double)real;
      return true;
    case TRM_F16:
      memcpy(&half, data, sizeof half);
      *out_value = (double)trm_half_to_float(half);
      return true;
    case TRM_S32:
    case TRM_U32:
    case TRM_S64:
    case TRM_U64:
    case TRM_PRED:
      memcpy(&integer, data, trm_dtype_size(instruction->shape.dtype));
      *out_value = (double)integer;
      return true;
    default: return false;
  }
}

bool trm_edit_is_constant(const trm_edit *e, trm_index i, double value) {
  double number;
  return trm_edit_number(e, i, &number) && number == value;
}

trm_status trm_edit_find_users(const trm_edit *edit, trm_graph *out_users, trm_error *error) {
  const trm_computation *computation = trm_edit_computation(edit);
  const uint32_t count = computation->num_instructions;
  size_t edges = 0;
  for (trm_index i = 0; i < count; ++i) {
    const trm_instruction *o = &computation->instructions[i];
    edges += (size_t)o->num_operands + o->num_control_predecessors;
  }
  TRY(trm_graph_create(count, edges, out_users, error));
  size_t *rows = out_users->rows;
  /* Counted one place up, so that filling moves the start of each row to its place. */
  for (int fills = 0; fills < 2; ++fills) {
    for (trm_index i = 0; i < count; ++i) {
      const trm_instruction *o = &computation->instructions[i];
      for (uint32_t k = 0; k < o->num_operands + o->num_control_predecessors; ++k) {
        const trm_index used =
            k < o->num_operands ? o->operands[k] : o->control_predecessors[k - o->num_operands];
        if (fills) out_users->targets[rows[used + 1]++] = i;
        else if (used + 2 <= count) ++rows[used + 2];
      }
    }
    for (trm_index i = 1; !fills && i <= count; ++i) rows[i] += rows[i - 1];
  }
  return TRM_OK;
}

trm_status trm_edit_instructions(trm_module *module, uint32_t computation, trm_rewrite rewrite,
                                 void *state, trm_error *error) {
  trm_edit edit;
  TRY(trm_edit_begin(&edit, module, computation, error));
  trm_status status = TRM_OK;
  const uint32_t count = trm_edit_computation(&edit)->num_instructions;
  for (trm_index i = 0; i < count && status == TRM_OK; ++i) {
    status = rewrite(&edit, i, state, error);
  }
  return trm_edit_end(&edit, status, error);
}

trm_status trm_edit_module(trm_module *module, trm_rewrite rewrite, void *state, trm_error *error) {
  const uint32_t count = module->num_computations;
  for (uint32_t c = 0; c < count; ++c) {
    TRY(trm_edit_instructions(module, c, rewrite, state, error));
  }
  return TRM_OK;
}

trm_status trm_edit_each_running(trm_module *module, trm_computation_pass pass, const void *context,
                                 trm_error *error) {
  const uint32_t count = module->num_computations;
  bool *runs = trm_allocate_zeroed(count, sizeof *runs);
  CHECK_MEMORY(runs, "the call graph");
  trm_module_mark_running(module, runs);
  trm_status status = TRM_OK;
  for (uint32_t c = 0; c < count && status == TRM_OK; ++c) {
    if (runs[c]) status = pass(module, c, context, error);
  }
  trm_free(runs);
  TRY(status);
  return trm_module_compact(module, error);
}

trm_status trm_edit_running(trm_module *module, uint32_t computation, trm_rewrite rewrite,
                            trm_error *error) {
  const uint32_t count = module->computations[computation].num_instructions;
  for (trm_index i = 0; i < count; ++i) {
    const trm_instruction *o = &module->computations[computation].instructions[i];
    const bool runs = o->opcode == TRM_OP_WHILE || o->opcode == TRM_OP_CONDITIONAL;
    for (uint32_t k = 0; k < o->num_called && runs; ++k) {
      TRY(trm_edit_running(module, o->called[k], rewrite, error));
      o = &module->computations[computation].instructions[i];
    }
  }
  return trm_edit_instructions(module, computation, rewrite, NULL, error);
}
