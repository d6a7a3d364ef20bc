/* Owns: making a pipeline of a program that computes one batch, in the form that TensorFlow's
 * pipelines have when they are lowered:
 *
 *   entry:  while (updates)       the loop with the attribute "pipeline"
 *   update:   while (iterations)       the loop over mini-batches, which adds up gradients
 *             the weight update
 *
 * What the weight update reads of the iterations is a gradient. */
#include "ipu/program/make_pipeline.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { NONE = -1, ROOM = 16 };

typedef struct state {
  trm_index parameter; /* of the entry */
  trm_index result;    /* what replaces it; TRM_NO_INDEX: nothing does */
  bool in_iteration;   /* the body of the loop over mini-batches reads it */
} state;

typedef struct pipeliner {
  trm_module *module;
  trm_pipeline_request *request;
  uint32_t entry, count;                       /* the computation as it was */
  const bool *is_data, *is_number, *is_update; /* by instruction: the request's */
  bool *in_iteration;
  state *states;
  uint32_t num_states, num_iteration_states;
  trm_index *gradients;
  uint32_t num_gradients;
  int32_t *gradient_of; /* by instruction: its place in `gradients`; NONE */
  trm_index *copy;      /* by instruction: its copy in the computation that is being made */
  trm_arena arena;
} pipeliner;

static const trm_instruction *at(const pipeliner *p, trm_index i) {
  return &p->module->computations[p->entry].instructions[i];
}

/* ---- What belongs where ---------------------------------------------------------------------- */

bool trm_program_can_be_pipeline(const trm_program *program, const trm_module *module) {
  const trm_computation *entry = &module->computations[module->entry];
  if (program->pipeline.present || program->options.io_tiles > 0) return false;
  for (uint32_t n = 0; n < entry->num_parameters; ++n) {
    if (!trm_shape_is_array(&entry->instructions[entry->parameters[n]].shape)) return false;
  }
  for (trm_index i = 0; i < entry->num_instructions; ++i) {
    const trm_instruction *o = &entry->instructions[i];
    const bool loops = o->opcode == TRM_OP_WHILE || o->opcode == TRM_OP_CONDITIONAL;
    if (loops || trm_instruction_has_side_effect(module, o) || o->sharding != NULL) return false;
  }
  for (uint32_t a = 0; a < module->num_aliases; ++a) {
    if (module->aliases[a].output_index.count > 1) return false;
  }
  return true;
}

static bool is_source(const trm_instruction *o) {
  return o->opcode == TRM_OP_PARAMETER || o->opcode == TRM_OP_CONSTANT;
}

/* Lists what the update reads of the iterations, and marks all that the iterations compute. */
static void find_gradients(pipeliner *p) {
  const trm_computation *entry = &p->module->computations[p->entry];
  for (trm_index i = 0; i < p->count; ++i) p->gradient_of[i] = NONE;
  for (trm_index i = 0; i < p->count; ++i) {
    const trm_instruction *o = at(p, i);
    for (uint32_t k = 0; k < o->num_operands && p->is_update[i]; ++k) {
      const trm_index g = o->operands[k];
      if (p->is_update[g] || (is_source(at(p, g)) && !p->is_data[g]) || p->gradient_of[g] != NONE) {
        continue;
      }
      p->gradient_of[g] = (int32_t)p->num_gradients;
      p->gradients[p->num_gradients++] = g;
    }
  }
  for (trm_index i = p->count; i-- > 0;) {
    const bool root = i == entry->root;
    p->in_iteration[i] |= (root || p->gradient_of[i] != NONE) && !p->is_update[i];
    const trm_instruction *o = at(p, i);
    for (uint32_t k = 0; k < o->num_operands && p->in_iteration[i]; ++k) {
      const trm_index operand = o->operands[k];
      p->in_iteration[operand] |= !p->is_update[operand] || (p->is_number[operand] && !root);
    }
  }
}

/* The inputs that stay on the IPU, those first that the iterations read. */
static void find_states(pipeliner *p) {
  const trm_computation *entry = &p->module->computations[p->entry];
  for (int used = 1; used >= 0; --used) {
    for (uint32_t n = 0; n < entry->num_parameters; ++n) {
      const trm_index parameter = entry->parameters[n];
      if (p->is_data[parameter] || p->in_iteration[parameter] != (used == 1)) continue;
      state *one = &p->states[p->num_states++];
      *one = (state){.parameter = parameter, .result = TRM_NO_INDEX, .in_iteration = used == 1};
      for (uint32_t a = 0; a < p->module->num_aliases; ++a) {
        const trm_alias *alias = &p->module->aliases[a];
        if (alias->parameter_number == (int64_t)n)
          one->result = trm_state_new_value(p->module, alias);
      }
    }
    if (used == 1) p->num_iteration_states = p->num_states;
  }
}

/* ---- Making computations --------------------------------------------------------------------- */

static trm_status add(pipeliner *p, uint32_t computation, trm_instruction prototype,
                      trm_index *out_index, trm_error *error) {
  return trm_computation_add(p->module, computation, &prototype, out_index, error);
}

static trm_status add_scalar(pipeliner *p, uint32_t c, trm_dtype dtype, const void *value,
                             trm_index *out_index, trm_error *error) {
  trm_arena *arena = &p->module->arena;
  trm_literal *literal = ARENA_NEW(arena, trm_literal, 1);
  const void **leaves = ARENA_NEW(arena, const void *, 1);
  void *data = trm_arena_copy(arena, value, trm_dtype_size(dtype));
  if (literal == NULL || leaves == NULL || data == NULL) FAIL_NO_MEMORY("a pipeline");
  leaves[0] = data;
  const trm_shape shape = {.dtype = dtype};
  *literal = (trm_literal){.shape = shape, .num_leaves = 1, .leaves = leaves};
  return add(p, c, (trm_instruction){.opcode = TRM_OP_CONSTANT, .shape = shape, .literal = literal},
             out_index, error);
}

static trm_status add_number(pipeliner *p, uint32_t c, int32_t value, trm_index *out_index,
                             trm_error *error) {
  return add_scalar(p, c, TRM_S32, &value, out_index, error);
}

static trm_status add_element(pipeliner *p, uint32_t c, trm_index tuple, int64_t number,
                              trm_index *out_index, trm_error *error) {
  const trm_shape shape = p->module->computations[c].instructions[tuple].shape.elements[number];
  return add(p, c,
             (trm_instruction){.opcode = TRM_OP_GET_TUPLE_ELEMENT,
                               .shape = shape,
                               .num_operands = 1,
                               .operands = &tuple,
                               .number = number},
             out_index, error);
}

static trm_status add_parameter(pipeliner *p, uint32_t c, trm_shape shape, int64_t number,
                                trm_index *out_index, trm_error *error) {
  return add(p, c, (trm_instruction){.opcode = TRM_OP_PARAMETER, .shape = shape, .number = number},
             out_index, error);
}

static trm_status add_tuple(pipeliner *p, uint32_t c, trm_shape shape, trm_index *elements,
                            trm_index *out_index, trm_error *error) {
  return add(p, c,
             (trm_instruction){.opcode = TRM_OP_TUPLE,
                               .shape = shape,
                               .num_operands = (uint32_t)shape.num_elements,
                               .operands = elements},
             out_index, error);
}

/* counter + 1, and in a computation of its own counter < limit. */
static trm_status add_condition(pipeliner *p, trm_shape shape, int32_t limit, uint32_t *out_c,
                                trm_error *error) {
  TRY(trm_module_add_computation(p->module, NULL, out_c, error));
  trm_index s, sides[2], less;
  TRY(add_parameter(p, *out_c, shape, 0, &s, error));
  TRY(add_element(p, *out_c, s, 0, &sides[0], error));
  TRY(add_number(p, *out_c, limit, &sides[1], error));
  TRY(add(p, *out_c,
          (trm_instruction){.opcode = TRM_OP_COMPARE,
                            .shape = {.dtype = TRM_PRED},
                            .num_operands = 2,
                            .operands = sides,
                            .comparison = TRM_CMP_LT},
          &less, error));
  p->module->computations[*out_c].root = less;
  return TRM_OK;
}

static trm_status add_next(pipeliner *p, uint32_t c, trm_index counter, trm_index *out_next,
                           trm_error *error) {
  trm_index sides[2] = {counter};
  TRY(add_number(p, c, 1, &sides[1], error));
  return add(
      p, c,
      (trm_instruction){
          .opcode = TRM_OP_ADD, .shape = {.dtype = TRM_S32}, .num_operands = 2, .operands = sides},
      out_next, error);
}

/* The attributes of an instruction and the stage's. */
static trm_status set_stage(pipeliner *p, trm_instruction *o, int32_t stage, const char *phase,
                            trm_error *error) {
  trm_arena *arena = &p->module->arena;
  size_t count = 0;
  while (o->frontend_attributes != NULL && o->frontend_attributes[count] != NULL) ++count;
  const char **attributes = ARENA_NEW(arena, const char *, count + 7);
  o->sharding = trm_arena_format(arena, "{maximal device=%d}", (int)stage);
  char *number = trm_arena_format(arena, "%d", (int)stage);
  if (attributes == NULL || o->sharding == NULL || number == NULL) FAIL_NO_MEMORY("a pipeline");
  size_t used = 0;
  const bool updates = phase != NULL && strcmp(phase, "update") == 0;
  for (size_t a = 0; a < count; a += 2) {
    if (updates && strcmp(o->frontend_attributes[a], "weight_update") == 0) continue;
    attributes[used++] = o->frontend_attributes[a];
    attributes[used++] = o->frontend_attributes[a + 1];
  }
  attributes[used++] = "pipeline_stage";
  attributes[used++] = number;
  if (phase != NULL) {
    attributes[used++] = "pipeline_phase";
    attributes[used++] = phase;
  }
  if (updates) {
    attributes[used++] = "weight_update";
    attributes[used++] = p->request->offload ? "offload" : "keep";
  }
  o->frontend_attributes = attributes;
  return TRM_OK;
}

/* Copies an instruction of the entry, with operands that have been copied; a constant when it is
 * first read. */
static trm_status copy(pipeliner *p, uint32_t c, trm_index i, int32_t stage, const char *phase,
                       trm_error *error) {
  trm_instruction o = *at(p, i);
  trm_index *operands = ARENA_NEW(&p->arena, trm_index, (size_t)o.num_operands + 1);
  CHECK_MEMORY(operands, "a pipeline");
  for (uint32_t k = 0; k < o.num_operands; ++k) {
    const trm_index operand = o.operands[k];
    if (p->copy[operand] == TRM_NO_INDEX && at(p, operand)->opcode == TRM_OP_CONSTANT) {
      TRY(copy(p, c, operand, NONE, NULL, error));
    }
    operands[k] = p->copy[operand];
  }
  o.operands = operands;
  o.num_control_predecessors = 0;
  o.name = NULL;
  o.id = 0;
  if (stage != NONE) TRY(set_stage(p, &o, stage, phase, error));
  return add(p, c, o, &p->copy[i], error);
}

static void forget_copies(pipeliner *p) {
  for (trm_index i = 0; i < p->count; ++i) p->copy[i] = TRM_NO_INDEX;
}

/* (s32[], the states, the gradients). */
static trm_status state_shape(pipeliner *p, uint32_t states, uint32_t gradients,
                              trm_shape *out_shape, trm_error *error) {
  const uint32_t count = 1 + states + gradients;
  trm_shape *elements = ARENA_NEW(&p->arena, trm_shape, count);
  CHECK_MEMORY(elements, "a pipeline");
  elements[0] = (trm_shape){.dtype = TRM_S32};
  for (uint32_t s = 0; s < states; ++s) elements[1 + s] = at(p, p->states[s].parameter)->shape;
  for (uint32_t g = 0; g < gradients; ++g) {
    elements[1 + states + g] = at(p, p->gradients[g])->shape;
  }
  if (!trm_shape_make_tuple(&p->module->arena, (int32_t)count, elements, out_shape)) {
    FAIL_NO_MEMORY("a pipeline");
  }
  return TRM_OK;
}

static trm_status make_call(pipeliner *p, trm_call_id id, trm_custom_call **out, trm_error *error) {
  *out = ARENA_NEW(&p->module->arena, trm_custom_call, 1);
  CHECK_MEMORY(*out, "a pipeline");
  **out = (trm_custom_call){.target = trm_call_target(id), .has_side_effect = true};
  return TRM_OK;
}

/* The data of a mini-batch, which a feed brings. */
static trm_status add_feed(pipeliner *p, uint32_t c, trm_error *error) {
  trm_custom_call *call;
  TRY(make_call(p, TRM_CALL_INFEED, &call, error));
  static const char config[] = "{\"feed\":\"in\"}";
  const trm_computation *entry = &p->module->computations[p->entry];
  trm_shape *shapes = ARENA_NEW(&p->arena, trm_shape, (size_t)entry->num_parameters + 1);
  trm_index *data = ARENA_NEW(&p->arena, trm_index, (size_t)entry->num_parameters + 1);
  if (shapes == NULL || data == NULL) FAIL_NO_MEMORY("a pipeline");
  int32_t count = 0;
  for (uint32_t n = 0; n < entry->num_parameters; ++n) {
    if (!p->is_data[entry->parameters[n]]) continue;
    data[count] = entry->parameters[n];
    shapes[count++] = at(p, entry->parameters[n])->shape;
  }
  if (count == 0) return TRM_OK;
  trm_instruction feed = {.opcode = TRM_OP_CUSTOM_CALL,
                          .custom_call = call,
                          .backend_config = config,
                          .backend_config_size = sizeof config - 1};
  if (!trm_shape_make_tuple(&p->module->arena, count, shapes, &feed.shape)) {
    FAIL_NO_MEMORY("a pipeline");
  }
  TRY(set_stage(p, &feed, 0, NULL, error));
  trm_index tuple;
  TRY(add(p, c, feed, &tuple, error));
  for (int32_t d = 0; d < count; ++d) {
    TRY(add_element(p, c, tuple, d, &p->copy[data[d]], error));
  }
  return TRM_OK;
}

/* What the program hands out besides its weights, in the last stage. */
static trm_status add_results(pipeliner *p, uint32_t c, trm_error *error) {
  trm_custom_call *call;
  TRY(make_call(p, TRM_CALL_OUTFEED, &call, error));
  static const char config[] = "{\"feed\":\"out\"}";
  const trm_index root = p->module->computations[p->entry].root;
  const bool is_tuple = at(p, root)->opcode == TRM_OP_TUPLE;
  const uint32_t count = is_tuple ? at(p, root)->num_operands : 1;
  trm_index *results = ARENA_NEW(&p->arena, trm_index, (size_t)count + 1);
  CHECK_MEMORY(results, "a pipeline");
  uint32_t used = 0;
  for (uint32_t k = 0; k < count; ++k) {
    const trm_index result = is_tuple ? at(p, root)->operands[k] : root;
    bool updates = is_source(at(p, result)) || p->copy[result] == TRM_NO_INDEX;
    for (uint32_t a = 0; a < p->module->num_aliases; ++a) {
      updates |= trm_state_new_value(p->module, &p->module->aliases[a]) == result;
    }
    if (!updates) results[used++] = p->copy[result];
  }
  if (used == 0) return TRM_OK;
  trm_instruction feed = {.opcode = TRM_OP_CUSTOM_CALL,
                          .shape = {.dtype = TRM_TUPLE},
                          .num_operands = used,
                          .operands = results,
                          .custom_call = call,
                          .backend_config = config,
                          .backend_config_size = sizeof config - 1};
  TRY(set_stage(p, &feed, (int32_t)p->request->num_stages - 1, NULL, error));
  trm_index ignored;
  return add(p, c, feed, &ignored, error);
}

/* ---- The iteration --------------------------------------------------------------------------- */

/* sum + gradient. */
static trm_status add_sum(pipeliner *p, uint32_t c, trm_index sum, trm_index gradient,
                          trm_index *out_index, trm_error *error) {
  trm_index sides[2] = {sum, p->copy[gradient]};
  trm_instruction o = {.opcode = TRM_OP_ADD,
                       .shape = at(p, gradient)->shape,
                       .num_operands = 2,
                       .operands = sides,
                       .metadata = at(p, gradient)->metadata};
  const int32_t stage = p->request->stage[gradient];
  const bool backward = p->request->is_backward[gradient];
  TRY(set_stage(p, &o, stage == NONE ? 0 : stage, backward ? "backward" : NULL, error));
  return add(p, c, o, out_index, error);
}

/* The parameter of a loop's body, and of it the counter and the first states. */
static trm_status begin_body(pipeliner *p, uint32_t c, trm_shape shape, uint32_t num_states,
                             trm_index *out_parameter, trm_index *out_counter, trm_error *error) {
  forget_copies(p);
  TRY(add_parameter(p, c, shape, 0, out_parameter, error));
  TRY(add_element(p, c, *out_parameter, 0, out_counter, error));
  for (uint32_t t = 0; t < num_states; ++t) {
    TRY(add_element(p, c, *out_parameter, 1 + t, &p->copy[p->states[t].parameter], error));
  }
  return TRM_OK;
}

static trm_status make_iteration(pipeliner *p, trm_shape shape, uint32_t *out_c, trm_error *error) {
  TRY(trm_module_add_computation(p->module, "iteration", out_c, error));
  const uint32_t c = *out_c, last = 1 + p->num_iteration_states;
  trm_index s, counter;
  trm_index *elements = ARENA_NEW(&p->arena, trm_index, (size_t)shape.num_elements + 1);
  CHECK_MEMORY(elements, "a pipeline");
  TRY(begin_body(p, c, shape, p->num_iteration_states, &s, &counter, error));
  TRY(add_feed(p, c, error));
  const trm_index root = p->module->computations[p->entry].root;
  for (trm_index i = 0; i < p->count; ++i) {
    const bool tuple = i == root && at(p, i)->opcode == TRM_OP_TUPLE;
    if (!p->in_iteration[i] || is_source(at(p, i)) || tuple) continue;
    const int32_t stage = p->request->stage[i];
    TRY(copy(p, c, i, stage == NONE ? 0 : stage, p->request->is_backward[i] ? "backward" : NULL,
             error));
  }
  TRY(add_results(p, c, error));
  TRY(add_next(p, c, counter, &elements[0], error));
  for (uint32_t t = 0; t < p->num_iteration_states; ++t) {
    const state *one = &p->states[t];
    const bool each_iteration = one->result != TRM_NO_INDEX && !p->is_update[one->result] &&
                                p->copy[one->result] != TRM_NO_INDEX;
    elements[1 + t] = p->copy[each_iteration ? one->result : one->parameter];
  }
  for (uint32_t g = 0; g < p->num_gradients; ++g) {
    trm_index sum;
    TRY(add_element(p, c, s, last + g, &sum, error));
    TRY(add_sum(p, c, sum, p->gradients[g], &elements[last + g], error));
  }
  trm_index result;
  TRY(add_tuple(p, c, shape, elements, &result, error));
  p->module->computations[c].root = result;
  return TRM_OK;
}

/* ---- The update ------------------------------------------------------------------------------ */

static trm_status add_while(pipeliner *p, uint32_t c, uint32_t condition, uint32_t body,
                            trm_index first, const char *pipeline, trm_index *out_index,
                            trm_error *error) {
  uint32_t called[2] = {condition, body};
  const char **attributes = NULL;
  if (pipeline != NULL) {
    attributes = ARENA_NEW(&p->module->arena, const char *, 3);
    CHECK_MEMORY(attributes, "a pipeline");
    attributes[0] = "pipeline";
    attributes[1] = pipeline;
  }
  return add(p, c,
             (trm_instruction){.opcode = TRM_OP_WHILE,
                               .shape = p->module->computations[c].instructions[first].shape,
                               .num_operands = 1,
                               .operands = &first,
                               .num_called = 2,
                               .called = called,
                               .frontend_attributes = attributes},
             out_index, error);
}

/* Sums begin with zeros. */
static trm_status add_zeros(pipeliner *p, uint32_t c, trm_index gradient, trm_index *out_index,
                            trm_error *error) {
  const trm_shape shape = at(p, gradient)->shape;
  static const char zero[16] = {0};
  trm_index number;
  TRY(add_scalar(p, c, shape.dtype, zero, &number, error));
  trm_instruction zeros = {
      .opcode = TRM_OP_BROADCAST, .shape = shape, .num_operands = 1, .operands = &number};
  const int32_t stage = p->request->stage[gradient];
  TRY(set_stage(p, &zeros, stage == NONE ? 0 : stage, NULL, error));
  return add(p, c, zeros, out_index, error);
}

static trm_status make_update(pipeliner *p, trm_shape shape, trm_shape inner, uint32_t iteration,
                              uint32_t until, uint32_t *out_c, trm_error *error) {
  TRY(trm_module_add_computation(p->module, "update", out_c, error));
  const uint32_t c = *out_c, most = (uint32_t)(shape.num_elements + inner.num_elements);
  trm_index s, counter, first, loop;
  trm_index *elements = ARENA_NEW(&p->arena, trm_index, (size_t)most + 1);
  CHECK_MEMORY(elements, "a pipeline");
  TRY(begin_body(p, c, shape, p->num_states, &s, &counter, error));
  TRY(add_number(p, c, 0, &elements[0], error));
  for (uint32_t t = 0; t < p->num_iteration_states; ++t) {
    elements[1 + t] = p->copy[p->states[t].parameter];
  }
  for (uint32_t g = 0; g < p->num_gradients; ++g) {
    TRY(add_zeros(p, c, p->gradients[g], &elements[1 + p->num_iteration_states + g], error));
  }
  TRY(add_tuple(p, c, inner, elements, &first, error));
  TRY(add_while(p, c, until, iteration, first, NULL, &loop, error));
  for (uint32_t t = 0; t < p->num_iteration_states; ++t) {
    const state *one = &p->states[t];
    TRY(add_element(p, c, loop, 1 + t, &p->copy[one->parameter], error));
  }
  for (uint32_t g = 0; g < p->num_gradients; ++g) {
    TRY(add_element(p, c, loop, 1 + p->num_iteration_states + g, &p->copy[p->gradients[g]], error));
  }
  for (trm_index i = 0; i < p->count; ++i) {
    const int32_t stage = p->request->stage[i];
    if (p->is_update[i]) TRY(copy(p, c, i, stage == NONE ? 0 : stage, "update", error));
  }
  TRY(add_next(p, c, counter, &elements[0], error));
  for (uint32_t t = 0; t < p->num_states; ++t) {
    const state *one = &p->states[t];
    const bool updated = one->result != TRM_NO_INDEX && p->is_update[one->result];
    elements[1 + t] = p->copy[updated ? one->result : one->parameter];
  }
  trm_index result;
  TRY(add_tuple(p, c, shape, elements, &result, error));
  p->module->computations[c].root = result;
  return TRM_OK;
}

/* ---- The entry ------------------------------------------------------------------------------- */

static trm_status describe(pipeliner *p, const char **out_text, trm_error *error) {
  trm_text text = {0};
  const bool trains = p->module->num_aliases > 0;
  trm_text_format(&text, "{\"stages\":%u,\"training\":%s,\"schedule\":\"%s\",\"device_mapping\":[",
                  p->request->num_stages, trains ? "true" : "false", p->request->schedule);
  for (uint32_t s = 0; s < p->request->num_stages; ++s) {
    trm_text_format(&text, "%s%u", s == 0 ? "" : ",", s);
  }
  trm_text_format(&text, "]}");
  *out_text =
      text.data == NULL ? NULL : trm_arena_string(&p->module->arena, text.data, strlen(text.data));
  trm_text_free(&text);
  CHECK_MEMORY(*out_text, "a pipeline");
  return TRM_OK;
}

/* The outputs are the weights that are updated. */
static trm_status add_outputs(pipeliner *p, uint32_t c, trm_index loop, trm_error *error) {
  trm_arena *arena = &p->module->arena;
  trm_index *outputs = ARENA_NEW(&p->arena, trm_index, (size_t)p->num_states + 1);
  trm_shape *shapes = ARENA_NEW(&p->arena, trm_shape, (size_t)p->num_states + 1);
  trm_alias *aliases = ARENA_NEW(arena, trm_alias, (size_t)p->num_states + 1);
  int64_t *indices = ARENA_NEW(arena, int64_t, (size_t)p->num_states + 1);
  if (outputs == NULL || shapes == NULL || aliases == NULL || indices == NULL) {
    FAIL_NO_MEMORY("a pipeline");
  }
  int32_t count = 0;
  for (uint32_t t = 0; t < p->num_states; ++t) {
    if (p->states[t].result == TRM_NO_INDEX) continue;
    TRY(add_element(p, c, loop, 1 + t, &outputs[count], error));
    shapes[count] = at(p, p->states[t].parameter)->shape;
    indices[count] = count;
    aliases[count] = (trm_alias){
        .output_index = {1, &indices[count]}, .parameter_number = t, .must_alias = true};
    ++count;
  }
  trm_shape shape;
  if (!trm_shape_make_tuple(arena, count, shapes, &shape)) FAIL_NO_MEMORY("a pipeline");
  trm_index root;
  TRY(add_tuple(p, c, shape, outputs, &root, error));
  p->module->computations[c].root = root;
  p->module->aliases = aliases;
  p->module->num_aliases = (uint32_t)count;
  return TRM_OK;
}

static trm_status make_entry(pipeliner *p, trm_shape shape, uint32_t update, uint32_t until,
                             trm_error *error) {
  uint32_t c;
  const char *pipeline;
  TRY(describe(p, &pipeline, error));
  TRY(trm_module_add_computation(p->module, "pipelined", &c, error));
  trm_index *elements = ARENA_NEW(&p->arena, trm_index, (size_t)p->num_states + 1), first, loop;
  CHECK_MEMORY(elements, "a pipeline");
  TRY(add_number(p, c, 0, &elements[0], error));
  for (uint32_t t = 0; t < p->num_states; ++t) {
    trm_instruction parameter = *at(p, p->states[t].parameter);
    parameter.number = t;
    parameter.num_control_predecessors = 0;
    parameter.id = 0;
    parameter.name = NULL;
    TRY(add(p, c, parameter, &elements[1 + t], error));
  }
  TRY(add_tuple(p, c, shape, elements, &first, error));
  TRY(add_while(p, c, until, update, first, pipeline, &loop, error));
  TRY(add_outputs(p, c, loop, error));
  p->module->entry = c;
  p->module->frontend_side_table = NULL; /* it numbers the inputs as they were */
  return trm_module_compact(p->module, error);
}

static trm_status make(pipeliner *p, trm_error *error) {
  const size_t room = (size_t)p->count + ROOM;
  p->in_iteration = ARENA_NEW(&p->arena, bool, room);
  p->states = ARENA_NEW(&p->arena, state, room);
  p->gradients = ARENA_NEW(&p->arena, trm_index, room);
  p->gradient_of = ARENA_NEW(&p->arena, int32_t, room);
  p->copy = ARENA_NEW(&p->arena, trm_index, room);
  if (p->in_iteration == NULL || p->states == NULL || p->gradients == NULL ||
      p->gradient_of == NULL || p->copy == NULL) {
    FAIL_NO_MEMORY("a pipeline");
  }
  find_gradients(p);
  find_states(p);
  uint32_t updated = 0, weights = 0;
  for (uint32_t t = 0; t < p->num_states; ++t) {
    const bool is_updated = p->states[t].result != TRM_NO_INDEX;
    updated += is_updated;
    weights += is_updated && p->states[t].in_iteration;
  }
  p->request->states = weights > 0 ? (updated + weights - 1) / weights : 0;
  trm_shape outer, inner;
  TRY(state_shape(p, p->num_states, 0, &outer, error));
  TRY(state_shape(p, p->num_iteration_states, p->num_gradients, &inner, error));
  uint32_t until_iterations, until_updates, iteration, update;
  TRY(add_condition(p, inner, (int32_t)p->request->mini_batches, &until_iterations, error));
  TRY(make_iteration(p, inner, &iteration, error));
  TRY(make_update(p, outer, inner, iteration, until_iterations, &update, error));
  TRY(add_condition(p, outer, 1, &until_updates, error));
  return make_entry(p, outer, update, until_updates, error);
}

trm_status trm_program_make_pipeline(trm_module *module, trm_pipeline_request *request,
                                     trm_error *error) {
  pipeliner p = {.module = module,
                 .request = request,
                 .is_data = request->updates->is_data,
                 .is_number = request->updates->is_number,
                 .is_update = request->is_update,
                 .entry = module->entry,
                 .count = module->computations[module->entry].num_instructions};
  const trm_status status = make(&p, error);
  trm_arena_free(&p.arena);
  return status;
}
