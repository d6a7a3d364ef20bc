/* Owns: computing some layers in float16, as TensorFlow's mixed precision does: what comes into a
 * layer is cast, and what others read of it is cast back. A weight that the program only reads
 * becomes float16 itself; one that an output updates stays float32, and the layer casts it. */
#include "ipu/program/change.h"
#include "ipu/program/layers.h"
#include "passes/edit.h"

/* The estimate reads shapes and integers only, so the constants keep their bytes. */
trm_status trm_change_halve_shape(trm_shape *shape, trm_arena *arena, trm_error *error) {
  if (shape->dtype == TRM_F32) shape->dtype = TRM_F16;
  if (shape->dtype != TRM_TUPLE || shape->num_elements == 0) return TRM_OK;
  trm_shape *elements = ARENA_NEW(arena, trm_shape, (size_t)shape->num_elements);
  CHECK_MEMORY(elements, "a copy in half precision");
  for (int32_t e = 0; e < shape->num_elements; ++e) {
    elements[e] = shape->elements[e];
    if (elements[e].dtype == TRM_F32) elements[e].dtype = TRM_F16;
  }
  shape->elements = elements;
  return TRM_OK;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

enum { BY_LAYERS = 1, BY_OTHERS = 2 };

typedef struct halver {
  const char *const *layers;
  const trm_program *program;
  bool *is_weight;  /* by parameter of the entry */
  bool *is_half;    /* by instruction of the computation */
  uint8_t *read_by; /* BY_... */
  trm_index *as_half, *as_float;
  trm_arena arena;
} halver;

/* Whether it passes values on, which have types of their own. */
static bool passes_on(const trm_instruction *o) {
  return trm_opcode_class_of(o->opcode) == TRM_CLASS_CONTROL ||
         trm_opcode_class_of(o->opcode) == TRM_CLASS_SOURCE || o->opcode == TRM_OP_TUPLE ||
         o->opcode == TRM_OP_GET_TUPLE_ELEMENT || trm_instruction_acts_as(o) == TRM_OP_INFEED ||
         trm_instruction_acts_as(o) == TRM_OP_OUTFEED;
}

/* Notes which parameters are weights that the program only reads. */
static void find_weights(halver *h, const trm_program *program, trm_module *module) {
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    const trm_program_variable *variable = &program->variables[v];
    if (!variable->is_input || !variable->is_weight || variable->source == TRM_NO_INDEX) continue;
    const trm_program_source *source = &program->sources[variable->source];
    if (source->computation == module->entry) h->is_weight[source->instruction] = true;
  }
  const trm_computation *entry = &module->computations[module->entry];
  for (uint32_t a = 0; a < module->num_aliases; ++a) {
    h->is_weight[entry->parameters[module->aliases[a].parameter_number]] = false;
  }
}

/* Marks what the layers compute, then the constants and the weights that only they read. */
static void mark(halver *h, const trm_module *module, uint32_t c) {
  const trm_computation *computation = &module->computations[c];
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *o = &computation->instructions[i];
    const bool element = o->opcode == TRM_OP_GET_TUPLE_ELEMENT;
    h->is_half[i] = element ? h->is_half[o->operands[0]]
                            : !passes_on(o) && trm_program_is_in_layers(o, h->layers);
  }
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *o = &computation->instructions[i];
    for (uint32_t k = 0; k < o->num_operands; ++k) {
      h->read_by[o->operands[k]] |= h->is_half[i] ? BY_LAYERS : BY_OTHERS;
    }
  }
  h->read_by[computation->root] |= BY_OTHERS;
  for (trm_index i = 0; i < computation->num_instructions; ++i) {
    const trm_instruction *o = &computation->instructions[i];
    const bool weight = o->opcode == TRM_OP_PARAMETER && h->is_weight[i];
    if (!trm_shape_is_array(&o->shape) || !(weight || o->opcode == TRM_OP_CONSTANT)) continue;
    h->is_half[i] = h->read_by[i] == BY_LAYERS;
  }
}

/* Operand k of instruction i in the type that the instruction wants, cast once for all readers. */
static trm_status cast_operand(halver *h, trm_edit *edit, trm_index i, uint32_t k,
                               trm_error *error) {
  const trm_index operand = trm_edit_at(edit, i)->operands[k];
  if (h->is_half[operand] == h->is_half[i]) return TRM_OK;
  const trm_dtype dtype = trm_edit_at(edit, operand)->shape.dtype;
  if (dtype != (h->is_half[i] ? TRM_F32 : TRM_F16)) return TRM_OK;
  trm_index *cast = h->is_half[i] ? &h->as_half[operand] : &h->as_float[operand];
  if (*cast == TRM_NO_INDEX) {
    TRY(trm_edit_convert(edit, i, h->is_half[i] ? TRM_F16 : TRM_F32, operand, cast, error));
  }
  trm_edit_at(edit, i)->operands[k] = *cast;
  return TRM_OK;
}

static trm_status cast_all(halver *h, trm_edit *edit, uint32_t count, trm_error *error) {
  trm_module *module = edit->module;
  for (trm_index i = 0; i < count; ++i) {
    trm_instruction *o = trm_edit_at(edit, i);
    if (!h->is_half[i]) continue;
    TRY(trm_change_halve_shape(&o->shape, &module->arena, error));
    if (o->opcode != TRM_OP_FUSION) continue;
    trm_computation *fused = &module->computations[o->called[0]];
    for (trm_index j = 0; j < fused->num_instructions; ++j) {
      TRY(trm_change_halve_shape(&fused->instructions[j].shape, &module->arena, error));
    }
  }
  for (trm_index i = 0; i < count; ++i) {
    const trm_instruction *o = trm_edit_at(edit, i);
    if (o->opcode == TRM_OP_GET_TUPLE_ELEMENT) continue;
    for (uint32_t k = 0; k < trm_edit_at(edit, i)->num_operands; ++k) {
      TRY(cast_operand(h, edit, i, k, error));
    }
  }
  const trm_index root = trm_edit_computation(edit)->root;
  if (!h->is_half[root] || trm_edit_at(edit, root)->shape.dtype != TRM_F16) return TRM_OK;
  trm_index whole;
  TRY(trm_edit_convert(edit, root, TRM_F32, root, &whole, error));
  trm_edit_computation(edit)->root = whole;
  edit->changed = true;
  return TRM_OK;
}

static trm_status halve_computation(trm_module *module, uint32_t c, const void *context,
                                    trm_error *error) {
  const uint32_t count = module->computations[c].num_instructions;
  halver h = *(const halver *)context;
  h.arena = (trm_arena){0};
  h.is_half = ARENA_NEW(&h.arena, bool, (size_t)count + 1);
  h.is_weight = ARENA_NEW(&h.arena, bool, (size_t)count + 1);
  h.read_by = ARENA_NEW(&h.arena, uint8_t, (size_t)count + 1);
  h.as_half = ARENA_NEW(&h.arena, trm_index, (size_t)count + 1);
  h.as_float = ARENA_NEW(&h.arena, trm_index, (size_t)count + 1);
  trm_status status = TRM_OK;
  if (h.is_half == NULL || h.is_weight == NULL || h.read_by == NULL || h.as_half == NULL ||
      h.as_float == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory for a layer in half precision");
  }
  for (uint32_t i = 0; i < count; ++i) h.as_half[i] = h.as_float[i] = TRM_NO_INDEX;
  if (c == module->entry) find_weights(&h, h.program, module);
  mark(&h, module, c);
  trm_edit edit;
  TRY_OR_GOTO(trm_edit_begin(&edit, module, c, error), done);
  status = cast_all(&h, &edit, count, error);
  status = trm_edit_end(&edit, status, error);
done:
  trm_arena_free(&h.arena);
  return status;
}

trm_status trm_change_halve_layers(trm_module *module, const trm_program *program,
                                   const char *const *layers, trm_error *error) {
  const halver h = {.layers = layers, .program = program};
  return trm_edit_each_running(module, halve_computation, &h, error);
}
