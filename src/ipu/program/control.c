/* Owns: loops and conditionals.
 *
 * The state of a loop has variables of its own; an element whose first value has no further use
 * takes over the variable of that value. Elements that the body returns unchanged stay where they
 * are. A loop with a known count is a Repeat, without its condition. Any other loop is a
 * RepeatWhile, which counts as often as the inputs of the run say (known.c), or else
 * options.assumed_trip_count times. */
#include <inttypes.h>
#include <string.h>

#include "hlo/loops.h"
#include "ipu/program/draft.h"

static const char *step_name(const trm_instruction *instruction) {
  return instruction->metadata.op_name == NULL ? instruction->name : instruction->metadata.op_name;
}

/* ---- Loops ---------------------------------------------------------------------------------- */

static const void *first_value(const void *init, int32_t leaf) {
  return ((const trm_value *)init)[leaf].scalar;
}

/* Bytes that a copy step moves, summed by IPU. */
typedef struct pending_copies {
  int64_t worst, total;
  uint32_t ipu;
} pending_copies;

static trm_status flush_copies(trm_program_draft *draft, pending_copies *copies, const char *what,
                               uint32_t source, trm_error *error) {
  if (!draft->finding && copies->worst > 0) {
    TRY(trm_program_add_copies(draft, what, source, copies->ipu, copies->worst, copies->total,
                               error));
  }
  *copies = (pending_copies){0, 0, copies->ipu};
  return TRM_OK;
}

/* Adds a variable with a place like that of the value. */
static trm_status own_variable(trm_program_draft *draft, const trm_value *value,
                               const trm_shape *shape, const char *name, uint32_t source,
                               uint32_t leaf, uint32_t *out_variable, trm_error *error) {
  trm_mapping mapping = *trm_value_mapping(draft, value);
  const int64_t count = trm_shape_count(shape);
  const trm_program_source *s = &draft->steps.sources.items[source];
  const trm_tile_preference *preference =
      trm_program_preference_for(draft, s->computation, s->instruction, leaf);
  const bool repeats = value->source_count < count; /* such as zeros as first values */
  if (repeats)
    mapping =
        (trm_mapping){.ipu = trm_program_ipu_for(draft, s->computation, s->instruction, leaf)};
  if (repeats && preference != NULL && preference->mapping.ipu == mapping.ipu) {
    mapping = preference->mapping;
  } else if (value->source_count != count || mapping.kind == TRM_MAPPING_NONE ||
             (value->is_view && mapping.count != count)) {
    const uint32_t ipu = mapping.ipu;
    mapping = trm_mapping_linear(trm_program_target_of(draft, ipu), shape, ipu,
                                 draft->placements.next_tile[ipu]);
    if (mapping.regions > 0) {
      draft->placements.next_tile[ipu] =
          (draft->placements.next_tile[ipu] + mapping.regions) % mapping.tiles;
    }
  }
  mapping.element_bytes = trm_tile_dtype_bytes(shape->dtype);
  const trm_new_variable wanted = {.name = name,
                                   .source = source,
                                   .shape = shape,
                                   .mapping = mapping,
                                   .category = TRM_CATEGORY_VARIABLE};
  TRY(trm_program_add_variable(draft, &wanted, out_variable, error));
  trm_program_variable *made = &draft->values.variables.items[*out_variable];
  made->leaf = leaf;
  made->is_remote = trm_remote_is(draft, s->computation, s->instruction, leaf, shape) ||
                    (!value->is_view && value->variable != TRM_NO_INDEX &&
                     draft->values.variables.items[value->variable].is_remote);
  if (!value->is_view && value->num_more == 0 && value->source_count == count &&
      value->variable != TRM_NO_INDEX) {
    trm_program_follow(draft, *out_variable, value->variable);
    made->shards = draft->values.variables.items[value->variable].shards;
  }
  return TRM_OK;
}

/* Values in remote memory need no copy. */
static void add_pending(const trm_program_draft *draft, pending_copies *copies, uint32_t variable) {
  const trm_program_variable *v = &draft->values.variables.items[variable];
  if (v->is_remote) return;
  copies->worst += trm_mapping_worst_bytes(&v->mapping);
  copies->total += trm_mapping_total_bytes(&v->mapping);
  copies->ipu = v->mapping.ipu;
}

static trm_status begin_loop(trm_program_draft *draft, trm_program_loop **out_loop,
                             trm_error *error) {
  trm_program_loop *loop = ARENA_NEW(&draft->scratch, trm_program_loop, 1);
  CHECK_MEMORY(loop, "a loop");
  loop->first_step = (uint32_t)draft->steps.all.count;
  if (!VECTOR_PUSH(&draft->walk.loops, loop)) FAIL_NO_MEMORY("a loop");
  *out_loop = loop;
  return TRM_OK;
}

/* Values from outside that the loop reads stay alive until it ends. */
static trm_status end_loop(trm_program_draft *draft, trm_program_loop *loop, trm_error *error) {
  --draft->walk.loops.count;
  trm_status status = TRM_OK;
  for (size_t t = 0; t < loop->touched.count && status == TRM_OK; ++t) {
    status = trm_program_touch_variable(draft, loop->touched.items[t], error);
  }
  VECTOR_FREE(&loop->touched);
  return status;
}

typedef struct while_walk {
  trm_program_draft *draft;
  trm_program_scope *scope;
  const trm_instruction *instruction;
  int32_t count;
  const trm_value *init;
  trm_value *state;
  bool *invariant, *owned, *not_owned;
  uint32_t *saved; /* the last uses before the loop */
  uint32_t source;
  uint64_t iterations;
  bool is_known;   /* when compiling */
  bool is_assumed; /* neither that nor from the inputs of the run */
} while_walk;

/* Makes the variables of the state. First values that have other uses are copied. */
static trm_status make_state(while_walk *w, trm_index i, trm_error *error) {
  trm_program_draft *draft = w->draft;
  pending_copies copies = {0};
  for (int32_t l = 0; l < w->count; ++l) {
    const trm_shape *shape = trm_shape_leaf(&w->instruction->shape, l);
    w->state[l] = w->init[l];
    if (w->invariant[l] || w->init[l].variable == TRM_NO_INDEX) continue;
    w->owned[l] = true;
    bool twice = false; /* one array is the first value of two leaves */
    for (int32_t k = 0; k < l && !twice; ++k) {
      twice = w->state[k].variable == w->init[l].variable && !w->invariant[k];
    }
    const bool whole = !w->init[l].is_view && w->init[l].num_more == 0 &&
                       w->init[l].source_count == trm_shape_count(shape);
    if (whole && !twice && trm_value_dies(draft, &w->init[l], w->scope->position)) {
      w->state[l].scalar = NULL;
      w->state[l].known = NULL;
      continue;
    }
    uint32_t variable;
    TRY(own_variable(draft, &w->init[l], shape, w->instruction->name, w->source, (uint32_t)l,
                     &variable, error));
    add_pending(draft, &copies, variable);
    w->state[l] = trm_value_plain(draft, variable);
  }
  (void)i;
  TRY(flush_copies(draft, &copies, "state_to_body", w->source, error));
  for (int32_t l = 0; l < w->count; ++l) {
    TRY(trm_program_touch(draft, &w->init[l], error));
    TRY(trm_program_touch(draft, &w->state[l], error));
  }
  return TRM_OK;
}

static trm_status walk_body(while_walk *w, uint32_t computation, const bool *owned,
                            const trm_value **out_root, trm_error *error) {
  const trm_value *parameters[1] = {w->state};
  const bool *owners[1] = {owned};
  return trm_program_walk(w->draft, computation, parameters, owners, out_root, error);
}

/* Makes the body's results the state of the next iteration. */
static trm_status loop_back(while_walk *w, const trm_value *root, trm_error *error) {
  pending_copies copies = {0};
  for (int32_t l = 0; l < w->count; ++l) {
    if (w->invariant[l] || w->state[l].variable == TRM_NO_INDEX) continue;
    TRY(trm_program_touch(w->draft, &root[l], error));
    if (w->draft->finding) {
      TRY(trm_remote_note_result(w->draft, &w->state[l], &root[l], error));
    }
    const bool in_place = root[l].variable == w->state[l].variable && !root[l].is_view;
    if (in_place) continue;
    add_pending(w->draft, &copies, w->state[l].variable);
  }
  TRY(flush_copies(w->draft, &copies, "state_to_body", w->source, error));
  for (int32_t l = 0; l < w->count; ++l) {
    TRY(trm_program_touch(w->draft, &w->state[l], error));
    if (!w->invariant[l]) TRY(trm_program_touch(w->draft, &root[l], error));
  }
  return TRM_OK;
}

/* Whether the k-th of a loop's results is used. */
static bool is_result_used(const trm_computation *c, trm_index loop, uint32_t k) {
  if (c->root == loop) return true;
  for (trm_index r = 0; r < c->num_instructions; ++r) {
    const trm_instruction *reader = &c->instructions[r];
    for (uint32_t o = 0; o < reader->num_operands; ++o) {
      if (reader->operands[o] != loop) continue;
      if (reader->opcode != TRM_OP_GET_TUPLE_ELEMENT || reader->number == (int64_t)k) return true;
    }
  }
  return false;
}

/* Leaves out, for a loop with a known count, the increments of counters that only the condition
 * reads: a Repeat counts by itself. `loop` is an instruction of the computation `caller`. */
static void leave_out_counters(trm_program_draft *draft, uint32_t caller, trm_index loop) {
  const trm_computation *outside = &draft->module->computations[caller];
  const uint32_t computation = outside->instructions[loop].called[1];
  const trm_computation *body = &draft->module->computations[computation];
  const trm_instruction *root = &body->instructions[body->root];
  if (root->opcode != TRM_OP_TUPLE) return;
  for (uint32_t k = 0; k < root->num_operands; ++k) {
    const trm_index i = root->operands[k];
    const trm_instruction *sum = &body->instructions[i];
    if (sum->opcode != TRM_OP_ADD || trm_shape_count(&sum->shape) != 1) continue;
    const trm_instruction *old = &body->instructions[sum->operands[0]];
    const trm_instruction *step = &body->instructions[sum->operands[1]];
    if (old->opcode != TRM_OP_GET_TUPLE_ELEMENT || old->number != (int64_t)k ||
        step->opcode != TRM_OP_CONSTANT ||
        body->instructions[old->operands[0]].opcode != TRM_OP_PARAMETER ||
        is_result_used(outside, loop, k)) {
      continue;
    }
    uint32_t reads = 0;
    for (trm_index r = 0; r < body->num_instructions; ++r) {
      const trm_instruction *reader = &body->instructions[r];
      for (uint32_t o = 0; o < reader->num_operands; ++o) {
        const trm_instruction *read = &body->instructions[reader->operands[o]];
        reads += reader->operands[o] == i;
        reads += read->opcode == TRM_OP_GET_TUPLE_ELEMENT && read->number == (int64_t)k &&
                 read->operands[0] == old->operands[0];
      }
    }
    if (reads == 2) draft->roles[computation][i].call.is_absorbed = true;
  }
}

static trm_status make_room(while_walk *w, trm_error *error) {
  trm_arena *scratch = &w->draft->scratch;
  const size_t room = (size_t)w->count + 1;
  w->state = ARENA_NEW(scratch, trm_value, room);
  w->invariant = ARENA_NEW(scratch, bool, room);
  w->owned = ARENA_NEW(scratch, bool, room);
  w->not_owned = ARENA_NEW(scratch, bool, room);
  w->saved = ARENA_NEW(scratch, uint32_t, room);
  if (w->state == NULL || w->invariant == NULL || w->owned == NULL || w->not_owned == NULL ||
      w->saved == NULL) {
    FAIL_NO_MEMORY("a loop");
  }
  return TRM_OK;
}

/* The first value of a leaf in the run that is estimated, on whose inputs the count then depends.
 */
static const void *first_known(const void *context, int32_t leaf) {
  const while_walk *w = context;
  const trm_known *known = w->init[leaf].known;
  if (known == NULL) return NULL;
  w->draft->program->counted_by |= known->inputs;
  return &known->number;
}

/* How often the loop runs: known when compiling, or from the inputs of the run, or assumed. */
static void count_iterations(while_walk *w) {
  const trm_program_draft *draft = w->draft;
  const trm_computation *computations = draft->module->computations;
  trm_loop view = {.condition = &computations[w->instruction->called[0]],
                   .body = &computations[w->instruction->called[1]],
                   .state = &w->instruction->shape,
                   .invariant = w->invariant,
                   .first_value = first_value,
                   .context = w->init};
  trm_loop_find_invariant(view.body, w->invariant, w->count);
  w->iterations = draft->program->options.assumed_trip_count;
  bool is_exact;
  w->is_known = trm_loop_trip_count(&view, &w->iterations, &is_exact);
  if (w->is_known) return;
  if (draft->program->options.inputs == NULL) draft->program->counted_by = UINT64_MAX;
  view.first_value = first_known;
  view.context = w;
  w->is_assumed = !trm_loop_trip_count(&view, &w->iterations, &is_exact);
}

/* Opens the loop's step. */
static trm_status open_loop(while_walk *w, uint32_t *out_step, trm_error *error) {
  trm_program_draft *draft = w->draft;
  const char *name = step_name(w->instruction);
  if (!draft->finding) {
    TRY(trm_program_open(draft, w->is_known ? TRM_STEP_TYPE_REPEAT : TRM_STEP_TYPE_REPEAT_WHILE,
                         name, w->source, -1, out_step, error));
    draft->steps.all.items[*out_step].repeat_count = w->iterations;
    draft->steps.all.items[*out_step].repeat_is_assumed = w->is_assumed;
  }
  if (!w->is_assumed) return TRM_OK;
  return trm_program_add_note(draft,
                              "the loop %s has a count that is not known when compiling: "
                              "it is counted %" PRIu64 " time%s",
                              name, w->iterations, w->iterations == 1 ? "" : "s");
}

/* The condition, where its result matters, and the body. */
static trm_status walk_iteration(while_walk *w, trm_error *error) {
  const trm_value *root;
  if (!w->is_known) TRY(walk_body(w, w->instruction->called[0], w->not_owned, &root, error));
  TRY(walk_body(w, w->instruction->called[1], w->owned, &root, error));
  return loop_back(w, root, error);
}

/* The state lives until its last use behind the loop; what the loop does not change, until its last
 * use before. */
static trm_status restore_last_uses(while_walk *w, const uint32_t *last_behind, trm_error *error) {
  for (int32_t l = 0; l < w->count; ++l) {
    if (w->state[l].variable == TRM_NO_INDEX) continue;
    uint32_t *last = &w->draft->values.last_use.items[w->state[l].variable];
    *last = w->invariant[l] ? w->saved[l] : last_behind[l];
    TRY(trm_program_touch(w->draft, &w->state[l], error));
  }
  return TRM_OK;
}

trm_status trm_program_walk_while(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                                  trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  while_walk w = {.draft = draft,
                  .scope = scope,
                  .instruction = instruction,
                  .count = trm_shape_num_leaves(&instruction->shape),
                  .init = scope->leaves[instruction->operands[0]]};
  TRY(make_room(&w, error));
  TRY(trm_program_add_source(draft, scope->computation, i, &w.source, error));
  count_iterations(&w);
  if (w.is_known) leave_out_counters(draft, scope->computation, i);
  bool is_pipeline;
  TRY(trm_pipeline_begin(draft, instruction, &is_pipeline, error));
  TRY(trm_program_make_placements(draft, scope->computation, i, w.count, error));
  const bool is_mini_batches = draft->stages.nesting == 1;
  TRY(make_state(&w, i, error));
  trm_program_loop *loop;
  uint32_t step = 0;
  TRY(begin_loop(draft, &loop, error));
  TRY(open_loop(&w, &step, error));
  for (int32_t l = 0; l < w.count; ++l) {
    if (w.state[l].variable != TRM_NO_INDEX) {
      w.saved[l] = draft->values.last_use.items[w.state[l].variable];
    }
  }
  const bool nests = is_pipeline || draft->stages.nesting > 0;
  if (nests) ++draft->stages.nesting;
  TRY(walk_iteration(&w, error));
  if (is_mini_batches && !draft->finding) TRY(trm_pipeline_end(draft, step, w.iterations, error));
  if (nests) --draft->stages.nesting;
  draft->stages.current = -1;
  if (!draft->finding) trm_program_close(draft, step);
  TRY(end_loop(draft, loop, error));
  TRY(restore_last_uses(&w, scope->last[i], error));
  scope->leaves[i] = w.state;
  return TRM_OK;
}

/* ---- Conditionals --------------------------------------------------------------------------- */

/* A hash of a branch: Poplar compiles equal branches once. 0 for a branch that draws random
 * numbers, loops or has a side effect. */
static uint64_t branch_key(const trm_module *module, uint32_t computation) {
  const trm_computation *c = &module->computations[computation];
  uint64_t h = trm_layout_combine(1, c->num_instructions);
  if (c->has_side_effect) return 0;
  for (trm_index i = 0; i < c->num_instructions; ++i) {
    const trm_instruction *instruction = &c->instructions[i];
    switch (instruction->opcode) {
      case TRM_OP_RNG:
      case TRM_OP_RNG_BIT_GENERATOR:
      case TRM_OP_WHILE:
      case TRM_OP_CONDITIONAL:
      case TRM_OP_CALL:
      case TRM_OP_CUSTOM_CALL: return 0;
      default: break;
    }
    h = trm_layout_combine(h, ((uint64_t)instruction->opcode << 32) ^
                                  ((uint64_t)instruction->shape.dtype << 16) ^
                                  (uint64_t)instruction->number);
    h = trm_layout_combine(h, (uint64_t)trm_shape_num_leaves(&instruction->shape));
    if (trm_shape_is_array(&instruction->shape)) {
      for (int32_t d = 0; d < instruction->shape.rank; ++d) {
        h = trm_layout_combine(h, (uint64_t)instruction->shape.dims[d]);
      }
    }
    for (uint32_t k = 0; k < instruction->num_operands; ++k) {
      h = trm_layout_combine(h, instruction->operands[k]);
    }
    if (instruction->opcode == TRM_OP_FUSION) {
      const trm_computation *body = &module->computations[instruction->called[0]];
      for (trm_index b = 0; b < body->num_instructions; ++b) {
        h = trm_layout_combine(h, ((uint64_t)body->instructions[b].opcode << 32) ^
                                      (uint64_t)body->instructions[b].num_operands);
      }
    }
  }
  return h;
}

typedef struct branch_walk {
  trm_program_draft *draft;
  trm_program_scope *scope;
  trm_index index; /* of the conditional, or of a call that no pass has inlined */
  const trm_instruction *instruction;
  bool is_call;
  uint32_t source;
  trm_value *results;
  /* Of the branch that is walked, by its parameters: */
  const trm_computation *called;
  const trm_value **parameters;
  const bool **owned;
  uint32_t **saved; /* the last uses before the branch */
} branch_walk;

/* The number of leaves of parameter `p` of branch `b`, and where they are. */
static int32_t parameter_leaves(const branch_walk *w, uint32_t b, uint32_t p,
                                const trm_value **out_leaves) {
  const trm_index operand = w->instruction->operands[w->is_call ? p : b + 1];
  *out_leaves = w->scope->leaves[operand];
  return trm_shape_num_leaves(&trm_scope_at(w->draft, w->scope, operand)->shape);
}

static trm_status begin_branch(branch_walk *w, uint32_t b, trm_error *error) {
  trm_arena *scratch = &w->draft->scratch;
  w->called = &w->draft->module->computations[w->instruction->called[b]];
  const size_t room = (size_t)w->called->num_parameters + 1;
  w->parameters = ARENA_NEW(scratch, const trm_value *, room);
  w->owned = ARENA_NEW(scratch, const bool *, room);
  w->saved = ARENA_NEW(scratch, uint32_t *, room);
  if (w->parameters == NULL || w->owned == NULL || w->saved == NULL) {
    FAIL_NO_MEMORY("a conditional");
  }
  for (uint32_t p = 0; p < w->called->num_parameters; ++p) {
    const int32_t leaves = parameter_leaves(w, b, p, &w->parameters[p]);
    w->owned[p] = ARENA_NEW(scratch, bool, (size_t)leaves + 1);
    w->saved[p] = ARENA_NEW(scratch, uint32_t, (size_t)leaves + 1);
    if (w->owned[p] == NULL || w->saved[p] == NULL) FAIL_NO_MEMORY("a conditional");
    for (int32_t l = 0; l < leaves; ++l) {
      const uint32_t variable = w->parameters[p][l].variable;
      if (variable != TRM_NO_INDEX) w->saved[p][l] = w->draft->values.last_use.items[variable];
    }
  }
  return TRM_OK;
}

/* The other branches and what follows read the parameters too. */
static void restore_parameters(branch_walk *w, uint32_t b) {
  for (uint32_t p = 0; p < w->called->num_parameters; ++p) {
    const trm_value *leaves;
    const int32_t count = parameter_leaves(w, b, p, &leaves);
    for (int32_t l = 0; l < count; ++l) {
      if (leaves[l].variable == TRM_NO_INDEX) continue;
      w->draft->values.last_use.items[leaves[l].variable] = w->saved[p][l];
    }
  }
}

/* A call's results are the computation's; those of branches are copied into common variables. */
static trm_status take_results(branch_walk *w, uint32_t b, const trm_value *root,
                               trm_error *error) {
  trm_program_draft *draft = w->draft;
  const int32_t count = trm_shape_num_leaves(&w->instruction->shape);
  pending_copies copies = {0};
  for (int32_t l = 0; l < count; ++l) {
    const trm_shape *shape = trm_shape_leaf(&w->instruction->shape, l);
    if (w->is_call) {
      w->results[l] = root[l];
      continue;
    }
    if (b == 0) {
      uint32_t variable;
      TRY(own_variable(draft, &root[l], shape, w->instruction->name, w->source, (uint32_t)l,
                       &variable, error));
      draft->values.last_use.items[variable] = w->scope->last[w->index][l];
      w->results[l] = trm_value_plain(draft, variable);
    }
    TRY(trm_program_touch(draft, &root[l], error));
    add_pending(draft, &copies, w->results[l].variable);
  }
  TRY(flush_copies(draft, &copies, "result_to_results", w->source, error));
  for (int32_t l = 0; l < count; ++l) {
    TRY(trm_program_touch(draft, &root[l], error));
    TRY(trm_program_touch(draft, &w->results[l], error));
  }
  return TRM_OK;
}

static trm_status walk_branch(branch_walk *w, uint32_t b, trm_error *error) {
  trm_program_draft *draft = w->draft;
  const uint32_t called = w->instruction->called[b];
  uint32_t step = 0;
  TRY(begin_branch(w, b, error));
  if (!draft->finding) {
    TRY(trm_program_open(draft, TRM_STEP_TYPE_SEQUENCE, w->called->name, w->source, -1, &step,
                         error));
  }
  const trm_value *root;
  const uint64_t around = draft->sets.branch;
  if (!w->is_call) draft->sets.branch = branch_key(draft->module, called);
  const trm_status walked = trm_program_walk(draft, called, w->parameters, w->owned, &root, error);
  draft->sets.branch = around;
  TRY(walked);
  TRY(take_results(w, b, root, error));
  restore_parameters(w, b);
  if (!draft->finding) trm_program_close(draft, step);
  return TRM_OK;
}

trm_status trm_program_walk_conditional(trm_program_draft *draft, trm_program_scope *scope,
                                        trm_index i, trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  branch_walk w = {.draft = draft,
                   .scope = scope,
                   .index = i,
                   .instruction = instruction,
                   .is_call = instruction->opcode == TRM_OP_CALL};
  w.results =
      ARENA_NEW(&draft->scratch, trm_value, (size_t)trm_shape_num_leaves(&instruction->shape) + 1);
  CHECK_MEMORY(w.results, "a conditional");
  TRY(trm_program_add_source(draft, scope->computation, i, &w.source, error));
  uint32_t step = 0;
  if (!draft->finding) {
    trm_program_step_type type = TRM_STEP_TYPE_CALL;
    if (!w.is_call) {
      const trm_dtype dtype = trm_scope_at(draft, scope, instruction->operands[0])->shape.dtype;
      type = dtype == TRM_PRED ? TRM_STEP_TYPE_IF : TRM_STEP_TYPE_SWITCH;
    }
    TRY(trm_program_open(draft, type, step_name(instruction), w.source, -1, &step, error));
  }
  if (!w.is_call && instruction->num_called > 1) {
    TRY(trm_program_add_note(draft, "of a conditional the slowest branch is counted"));
  }
  for (uint32_t b = 0; b < instruction->num_called; ++b) TRY(walk_branch(&w, b, error));
  if (!draft->finding) trm_program_close(draft, step);
  scope->leaves[i] = w.results;
  return TRM_OK;
}
