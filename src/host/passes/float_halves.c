/* Owns: float16 stored as float32 on the host, as the original's IPU Model stores it.
 *
 * Every float16 value of the module becomes float32, so nothing rounds on the way. Values are
 * converted at the edges, where somebody asks for the bits of halves or gives them: feeds, calls of
 * the host, functions of users, bitcast-converts, and the entry's parameters and results. The
 * exceptions are parameters that stay the same from run to run (weights), and results that update
 * one (variables): these are float32 in the entry, and the engine converts them
 * (host/exec/edges.c). */
#include <string.h>

#include "base/half.h"
#include "hlo/literal.h"
#include "passes/edit.h"
#include "passes/pass.h"

typedef struct widener {
  trm_edit *edit;
  uint32_t count;          /* of instructions before the pass; the arrays below have one for each */
  const trm_shape *before; /* their shapes then */
  trm_index *value;        /* what readers of the value take instead, in float32 */
  bool *keeps;             /* the shape has halves still; value[i]: TRM_NO_INDEX until asked for */
} widener;

static trm_instruction *at(const widener *w, trm_index i) { return trm_edit_at(w->edit, i); }

static bool has_halves(const trm_shape *shape) {
  const int32_t leaves = trm_shape_num_leaves(shape);
  for (int32_t l = 0; l < leaves; ++l) {
    if (trm_shape_leaf(shape, l)->dtype == TRM_F16) return true;
  }
  return false;
}

/* Makes the halves of a shape floats. */
static trm_status widen_shape(trm_arena *arena, trm_shape *shape, trm_error *error) {
  if (shape->dtype == TRM_F16) shape->dtype = TRM_F32;
  if (shape->dtype != TRM_TUPLE || !has_halves(shape)) return TRM_OK;
  trm_shape *elements =
      trm_arena_copy(arena, shape->elements, (size_t)shape->num_elements * sizeof *shape->elements);
  CHECK_MEMORY(elements, "a shape");
  for (int32_t e = 0; e < shape->num_elements; ++e) TRY(widen_shape(arena, &elements[e], error));
  shape->elements = elements;
  return TRM_OK;
}

/* ---- Conversions ---------------------------------------------------------------------------- */

static trm_status element_of(widener *w, trm_index tuple, int32_t e, trm_index *out,
                             trm_error *error) {
  if (at(w, tuple)->opcode != TRM_OP_TUPLE) {
    return trm_edit_element(w->edit, tuple, tuple, e, out, error);
  }
  *out = at(w, tuple)->operands[e];
  return TRM_OK;
}

/* Gives the value i, an array or a tuple, in the types of the shape `wanted`. Readers of modules
 * refuse tuples that are nested too deep to recurse over. */
static trm_status convert(widener *w, trm_index i, const trm_shape *wanted, trm_index *out,
                          trm_error *error) {
  *out = i;
  if (trm_shape_is_array(wanted) && at(w, i)->shape.dtype != wanted->dtype) {
    const trm_instruction *made = at(w, i);
    if (made->opcode == TRM_OP_CONVERT && made->num_control_predecessors == 0 &&
        at(w, made->operands[0])->shape.dtype == wanted->dtype) {
      *out = made->operands[0]; /* a half that came in and goes out */
      return TRM_OK;
    }
    return trm_edit_convert(w->edit, i, wanted->dtype, i, out, error);
  }
  if (wanted->dtype != TRM_TUPLE || (!has_halves(wanted) && !has_halves(&at(w, i)->shape))) {
    return TRM_OK;
  }
  const uint32_t count = (uint32_t)wanted->num_elements;
  trm_index *elements = ARENA_NEW(&w->edit->module->arena, trm_index, (size_t)count + 1);
  CHECK_MEMORY(elements, "a tuple");
  for (uint32_t e = 0; e < count; ++e) {
    TRY(element_of(w, i, (int32_t)e, &elements[e], error));
    TRY(convert(w, elements[e], &wanted->elements[e], &elements[e], error));
  }
  const trm_instruction tuple = {
      .opcode = TRM_OP_TUPLE, .shape = *wanted, .num_operands = count, .operands = elements};
  return trm_edit_add(w->edit, i, tuple, out, error);
}

/* The value of instruction i of before the pass, in float32. */
static trm_status value_of(widener *w, trm_index i, trm_index *out, trm_error *error) {
  if (w->value[i] == TRM_NO_INDEX) {
    trm_shape wide = w->before[i];
    TRY(widen_shape(&w->edit->module->arena, &wide, error));
    TRY(convert(w, i, &wide, &w->value[i], error));
  }
  *out = w->value[i];
  return TRM_OK;
}

/* The same in float16. */
static trm_status halves_of(widener *w, trm_index i, trm_index *out, trm_error *error) {
  *out = i;
  if (w->keeps[i] || !has_halves(&w->before[i])) return TRM_OK;
  return convert(w, w->value[i], &w->before[i], out, error);
}

/* ---- Instructions --------------------------------------------------------------------------- */

/* Whether an instruction takes halves, or gives them, as they are. */
static bool is_edge(const widener *w, const trm_instruction *instruction) {
  switch (instruction->opcode) {
    case TRM_OP_BITCAST:
    case TRM_OP_BITCAST_CONVERT:
      return w->before[instruction->operands[0]].dtype != instruction->shape.dtype;
    case TRM_OP_INFEED:
    case TRM_OP_OUTFEED:
    case TRM_OP_SEND:
    case TRM_OP_SEND_DONE:
    case TRM_OP_RECV:
    case TRM_OP_RECV_DONE: return true;
    default: break;
  }
  switch (instruction->call_id) {
    case TRM_CALL_INFEED:
    case TRM_CALL_OUTFEED:
    case TRM_CALL_HOST_CALL:
    case TRM_CALL_PYTHON_CALLBACK:
    case TRM_CALL_USER_OP: return true;
    default: return false;
  }
}

static trm_status widen_constant(widener *w, trm_index i, trm_error *error) {
  const trm_literal *old = at(w, i)->literal;
  trm_shape shape = w->before[i];
  trm_literal *literal;
  TRY(widen_shape(&w->edit->module->arena, &shape, error));
  TRY(trm_literal_make(&w->edit->module->arena, &shape, &literal, error));
  for (int32_t l = 0; l < literal->num_leaves; ++l) {
    const trm_shape *leaf = trm_shape_leaf(&w->before[i], l);
    if (leaf->dtype != TRM_F16) {
      literal->leaves[l] = old->leaves[l];
      continue;
    }
    const uint16_t *halves = old->leaves[l];
    float *floats = (float *)literal->leaves[l];
    const int64_t count = trm_shape_count(leaf);
    for (int64_t e = 0; e < count; ++e) floats[e] = trm_half_to_float(halves[e]);
  }
  at(w, i)->literal = literal;
  return TRM_OK;
}

/* Readers of i take the operand's value. */
static trm_status drop(widener *w, trm_index i, trm_error *error) {
  TRY(value_of(w, at(w, i)->operands[0], &w->value[i], error));
  trm_edit_replace(w->edit, i, w->value[i]);
  return TRM_OK;
}

/* Whether nothing of the instruction is left in float32. */
static bool is_dropped(const widener *w, const trm_instruction *instruction) {
  if (instruction->call_id == TRM_CALL_ROUND_HALF) return true;
  if (instruction->opcode != TRM_OP_CONVERT) return false;
  const trm_dtype from = w->before[instruction->operands[0]].dtype, to = instruction->shape.dtype;
  return (from == TRM_F16 && (to == TRM_F16 || to == TRM_F32)) ||
         (from == TRM_F32 && to == TRM_F16);
}

static trm_status widen(widener *w, trm_index i, trm_error *error) {
  const trm_instruction *instruction = at(w, i);
  const bool is_element = instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT;
  const bool asks = is_edge(w, instruction) || (is_element && w->keeps[instruction->operands[0]]);
  if (is_dropped(w, instruction)) return drop(w, i, error);
  for (uint32_t k = 0; k < at(w, i)->num_operands; ++k) {
    trm_index operand = at(w, i)->operands[k];
    TRY(asks ? halves_of(w, operand, &operand, error) : value_of(w, operand, &operand, error));
    at(w, i)->operands[k] = operand;
  }
  if (!has_halves(&w->before[i])) return TRM_OK;
  if (asks) w->keeps[i] = true;
  if (w->keeps[i]) {
    w->value[i] = TRM_NO_INDEX;
    return TRM_OK;
  }
  if (at(w, i)->opcode == TRM_OP_CONSTANT) TRY(widen_constant(w, i, error));
  return widen_shape(&w->edit->module->arena, &at(w, i)->shape, error);
}

/* ---- The entry's interface ------------------------------------------------------------------ */

/* Whether a reader takes a half's conversion to float32 into its own loop, or needs none. */
static bool reads_halves(const widener *w, trm_index reader) {
  const trm_instruction *instruction = at(w, reader);
  if (trm_opcode_is_elementwise(instruction->opcode) ||
      reader == trm_edit_computation(w->edit)->root) {
    return true;
  }
  switch (instruction->opcode) {
    case TRM_OP_BROADCAST:
    case TRM_OP_RESHAPE:
    case TRM_OP_TRANSPOSE:
    case TRM_OP_SLICE:
    case TRM_OP_REDUCE: return true;
    default: return is_edge(w, instruction);
  }
}

/* Sets `keeps` of the parameters that the program converts; the engine converts the others. */
static void choose_parameters(widener *w) {
  const trm_computation *c = trm_edit_computation(w->edit);
  for (uint32_t p = 0; p < c->num_parameters; ++p) w->keeps[c->parameters[p]] = true;
  for (trm_index i = 0; i < w->count; ++i) {
    for (uint32_t k = 0; k < c->instructions[i].num_operands; ++k) {
      const trm_index operand = c->instructions[i].operands[k];
      if (w->before[operand].dtype == TRM_F16 && !reads_halves(w, i)) w->keeps[operand] = false;
    }
  }
  const trm_module *module = w->edit->module;
  for (uint32_t a = 0; a < module->num_aliases; ++a) {
    const trm_index parameter = c->parameters[module->aliases[a].parameter_number];
    if (w->before[parameter].dtype == TRM_F16) w->keeps[parameter] = false;
  }
}

/* Makes the results that update a float32 parameter float32 in *shape. */
static trm_status widen_updates(const widener *w, trm_shape *shape, trm_error *error) {
  const trm_computation *c = trm_edit_computation(w->edit);
  const trm_module *module = w->edit->module;
  for (uint32_t a = 0; a < module->num_aliases; ++a) {
    const trm_alias *alias = &module->aliases[a];
    if (w->keeps[c->parameters[alias->parameter_number]]) continue;
    trm_shape *leaf = shape;
    for (int32_t d = 0; d < alias->output_index.count; ++d) {
      trm_shape *elements = trm_arena_copy(&w->edit->module->arena, leaf->elements,
                                           (size_t)leaf->num_elements * sizeof *leaf->elements);
      CHECK_MEMORY(elements, "a shape");
      leaf->elements = elements;
      leaf = &elements[alias->output_index.items[d]];
    }
    TRY(widen_shape(&w->edit->module->arena, leaf, error));
  }
  return TRM_OK;
}

static trm_status widen_root(widener *w, bool is_entry, trm_error *error) {
  const trm_index old = trm_edit_computation(w->edit)->root;
  trm_index root;
  TRY(value_of(w, old, &root, error));
  if (is_entry && has_halves(&w->before[old])) {
    trm_shape wanted = w->before[old];
    TRY(widen_updates(w, &wanted, error));
    TRY(convert(w, root, &wanted, &root, error));
  }
  trm_edit_computation(w->edit)->root = root;
  return TRM_OK;
}

/* ---- Computations --------------------------------------------------------------------------- */

static trm_status widen_all(widener *w, bool is_entry, trm_error *error) {
  if (is_entry) choose_parameters(w);
  for (trm_index i = 0; i < w->count; ++i) TRY(widen(w, i, error));
  return widen_root(w, is_entry, error);
}

static trm_status hold_computation(trm_module *module, uint32_t c, trm_arena *scratch,
                                   trm_error *error) {
  const uint32_t count = module->computations[c].num_instructions;
  trm_shape *before = ARENA_NEW(scratch, trm_shape, (size_t)count + 1);
  trm_edit edit;
  widener w = {.edit = &edit,
               .count = count,
               .before = before,
               .value = ARENA_NEW(scratch, trm_index, (size_t)count + 1),
               .keeps = ARENA_NEW(scratch, bool, (size_t)count + 1)};
  if (before == NULL || w.value == NULL || w.keeps == NULL) FAIL_NO_MEMORY("halves");
  for (trm_index i = 0; i < count; ++i) {
    before[i] = module->computations[c].instructions[i].shape;
    w.value[i] = i;
  }
  TRY(trm_edit_begin(&edit, module, c, error));
  const trm_status status = widen_all(&w, c == module->entry, error);
  edit.changed = true;
  return trm_edit_end(&edit, status, error);
}

static bool computes_halves(const trm_computation *computation) {
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    if (has_halves(&computation->instructions[i].shape)) return true;
  }
  return false;
}

trm_status trm_pass_float_halves(trm_module *module, trm_error *error) {
  trm_arena scratch = {0};
  trm_status status = TRM_OK;
  for (uint32_t c = 0; c < module->num_computations && status == TRM_OK; ++c) {
    if (computes_halves(&module->computations[c])) {
      status = hold_computation(module, c, &scratch, error);
    }
  }
  trm_arena_free(&scratch);
  return status;
}
