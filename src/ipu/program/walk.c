/* Owns: the walk over the instructions of a computation, in order of execution: the operands, the
 * IPU and the results of each. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ipu/program/draft.h"
#include "ipu/target/target.h"

static const uint64_t max_instructions = UINT64_C(32) << 20;

/* ---- Where an instruction runs -------------------------------------------------------------- */

static int32_t ipu_of(trm_program_draft *draft, const trm_program_scope *scope, trm_index i,
                      bool *out_explicit) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  int32_t device = trm_program_sharded_ipu(draft->program, instruction->sharding);
  *out_explicit = false;
  if (device < 0 && instruction->opcode == TRM_OP_FUSION && instruction->num_called > 0) {
    const trm_computation *body = &draft->module->computations[instruction->called[0]];
    for (trm_index b = 0; b < body->num_instructions && device < 0; ++b) {
      device = trm_program_sharded_ipu(draft->program, body->instructions[b].sharding);
    }
  }
  for (uint32_t k = 0; k < instruction->num_operands && device < 0; ++k) {
    const trm_index operand = instruction->operands[k];
    if (scope->is_explicit[operand]) device = scope->ipus[operand];
  }
  *out_explicit = device >= 0;
  /* No sharding: the IPU of the first operand that has one; a scalar is not worth a copy. */
  int32_t any = -1, scalar = -1;
  for (uint32_t k = 0; k < instruction->num_operands && device < 0; ++k) {
    const trm_index operand = instruction->operands[k];
    const trm_value *value = scope->leaves[operand];
    const trm_instruction *made_by = trm_scope_at(draft, scope, operand);
    const bool has_value = trm_shape_num_leaves(&made_by->shape) > 0 && value != NULL &&
                           value->variable != TRM_NO_INDEX;
    if (!has_value || made_by->opcode == TRM_OP_CONSTANT) continue;
    const trm_placement *placement = trm_program_placement_of(draft, value);
    const int32_t ipu = placement != NULL && placement->ipu_plus_one > 0
                            ? (int32_t)placement->ipu_plus_one - 1
                            : (int32_t)trm_value_mapping(draft, value)->ipu;
    if (trm_shape_is_scalar(&made_by->shape)) {
      if (scalar < 0) scalar = ipu;
    } else if (placement == NULL || placement->ipu_plus_one > 0) {
      device = ipu;
    } else if (any < 0) { /* an input that is read here first, such as a momentum */
      any = ipu;
    }
  }
  if (device < 0) device = any >= 0 ? any : scalar;
  return device < 0 || (uint32_t)device >= draft->program->num_ipus ? 0 : device;
}

/* ---- Plain instructions --------------------------------------------------------------------- */

static trm_status new_leaves(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                             int32_t *out_count, trm_error *error) {
  const int32_t count = trm_shape_num_leaves(&trm_scope_at(draft, scope, i)->shape);
  scope->leaves[i] = ARENA_NEW(&draft->scratch, trm_value, (size_t)count + 1);
  CHECK_MEMORY(scope->leaves[i], "values");
  for (int32_t l = 0; l < count; ++l) {
    scope->leaves[i][l] = (trm_value){.variable = TRM_NO_INDEX, .place = TRM_NO_INDEX};
  }
  *out_count = count;
  return TRM_OK;
}

static trm_status walk_constant(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                                trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  int32_t count;
  TRY(new_leaves(draft, scope, i, &count, error));
  TRY(trm_program_make_placements(draft, scope->computation, i, count, error));
  for (int32_t l = 0; l < count; ++l) {
    const trm_shape *shape = trm_shape_leaf(&instruction->shape, l);
    uint32_t source, variable;
    TRY(trm_program_add_source(draft, scope->computation, i, &source, error));
    const uint32_t ipu = trm_program_ipu_for(draft, scope->computation, i, (uint32_t)l);
    const trm_new_variable wanted = {
        .name = instruction->name,
        .source = source,
        .shape = shape,
        .mapping = trm_program_allocate(draft, scope->computation, i, (uint32_t)l, shape, ipu),
        .category = TRM_CATEGORY_CONSTANT,
        .always_live = true};
    TRY(trm_program_add_variable(draft, &wanted, &variable, error));
    draft->values.variables.items[variable].leaf = (uint32_t)l;
    draft->values.last_use.items[variable] = TRM_NEVER_DIES;
    scope->leaves[i][l] = trm_value_plain(draft, variable);
    scope->leaves[i][l].is_constant = true;
    if (trm_shape_count(shape) == 1 && instruction->literal != NULL) {
      scope->leaves[i][l].scalar = instruction->literal->leaves[l];
    }
  }
  return TRM_OK;
}

/* Makes the results of a cost: new variables, or operands that are overwritten. */
static trm_status make_results(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                               const trm_tile_cost *cost, const trm_tile_request *request,
                               const trm_value *operands, uint32_t source, uint32_t writes,
                               trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  int32_t count;
  TRY(new_leaves(draft, scope, i, &count, error));
  const bool feed = trm_instruction_acts_as(instruction) == TRM_OP_INFEED;
  if (feed) TRY(trm_program_make_placements(draft, scope->computation, i, count, error));
  for (int32_t l = 0; l < count; ++l) {
    const trm_shape *shape = trm_shape_leaf(&instruction->shape, l);
    const trm_tile_result *result = &cost->results[l];
    uint32_t variable;
    const bool in_place =
        result->in_place >= 0 && (uint32_t)result->in_place < request->num_operands &&
        request->operands[result->in_place].dies && !request->operands[result->in_place].is_view;
    if (in_place) {
      variable = operands[result->in_place].variable;
      if (variable < draft->copies.of.count) draft->copies.of.items[variable] = TRM_NO_INDEX;
    } else {
      trm_mapping mapping = result->mapping;
      const trm_tile_preference *preference =
          trm_program_preference_for(draft, scope->computation, i, (uint32_t)l);
      if (feed && preference != NULL && preference->mapping.ipu == request->ipu) {
        mapping = trm_mapping_like(&preference->mapping, shape->dtype);
      }
      const trm_new_variable wanted = {.name = instruction->name,
                                       .source = source,
                                       .shape = shape,
                                       .mapping = mapping,
                                       .category = TRM_CATEGORY_VARIABLE};
      TRY(trm_program_add_variable(draft, &wanted, &variable, error));
      trm_program_variable *made = &draft->values.variables.items[variable];
      made->leaf = (uint32_t)l;
      made->live = (trm_program_interval){writes, writes};
      made->is_remote = trm_remote_is(draft, scope->computation, i, (uint32_t)l, shape);
      if (made->is_remote) {
        made->shards = trm_remote_shards(draft, scope->computation, i, (uint32_t)l);
      }
      for (uint32_t k = 0; k < request->num_operands; ++k) {
        const trm_tile_operand *operand = &request->operands[k];
        if (!operand->is_view && operands[k].num_more == 0 &&
            operand->mapping.layout == mapping.layout && mapping.layout != 0 &&
            operands[k].variable != TRM_NO_INDEX &&
            draft->values.variables.items[operands[k].variable].count == trm_shape_count(shape)) {
          trm_program_follow(draft, variable, operands[k].variable);
          break;
        }
      }
    }
    draft->values.last_use.items[variable] = scope->last[i][l];
    TRY(trm_program_touch_variable(draft, variable, error));
    scope->leaves[i][l] = trm_value_plain(draft, variable);
    if (in_place) scope->leaves[i][l].contiguous = trm_shape_count(shape);
  }
  return TRM_OK;
}

/* The leaves of an instruction's operands, all of them on its IPU. */
typedef struct family_operands {
  uint32_t count;
  trm_value *values;
  trm_tile_operand *operands;
} family_operands;

static trm_status gather_operands(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                                  uint32_t source, family_operands *out, trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  const uint32_t ipu = (uint32_t)scope->ipus[i];
  *out = (family_operands){0};
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    out->count += (uint32_t)trm_shape_num_leaves(
        &trm_scope_at(draft, scope, instruction->operands[k])->shape);
  }
  out->values = ARENA_NEW(&draft->scratch, trm_value, (size_t)out->count + 1);
  out->operands = ARENA_NEW(&draft->scratch, trm_tile_operand, (size_t)out->count + 1);
  if (out->values == NULL || out->operands == NULL) FAIL_NO_MEMORY("operands");
  uint32_t used = 0;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    const trm_shape *shape = &trm_scope_at(draft, scope, operand)->shape;
    const int32_t leaves = trm_shape_num_leaves(shape);
    for (int32_t l = 0; l < leaves; ++l, ++used) {
      const trm_shape *leaf = trm_shape_leaf(shape, l);
      trm_value *value = &out->values[used];
      *value = scope->leaves[operand][l];
      trm_remote_note_use(draft, instruction, value);
      TRY(trm_program_bring_to_ipu(draft, value, leaf, ipu, source, error));
      out->operands[used] = trm_value_operand(draft, value, leaf, scope->position);
      out->operands[used].dies |= trm_slices_apply(draft, scope, instruction, k) &&
                                  trm_value_is_last_use(draft, value, scope->position);
    }
  }
  return TRM_OK;
}

/* By result leaf: the operand leaf whose new value it is, -1: none. NULL if the instruction updates
 * none of its operands. */
static trm_status find_replaced(trm_program_draft *draft, const trm_program_scope *scope,
                                trm_index i, const family_operands *in, const int32_t **out,
                                trm_error *error) {
  *out = NULL;
  uint32_t u = scope->updates.first[i];
  if (u == TRM_NO_INDEX) return TRM_OK;
  const int32_t count = trm_shape_num_leaves(&trm_scope_at(draft, scope, i)->shape);
  int32_t *replaced = ARENA_NEW(&draft->scratch, int32_t, (size_t)count + 1);
  CHECK_MEMORY(replaced, "updates");
  for (int32_t l = 0; l < count; ++l) replaced[l] = -1;
  for (; u != TRM_NO_INDEX; u = scope->updates.items[u].next) {
    const trm_update *update = &scope->updates.items[u];
    const uint32_t variable = scope->parameters[update->parameter][update->leaf].variable;
    for (uint32_t k = 0; k < in->count && variable != TRM_NO_INDEX; ++k) {
      if (in->values[k].variable == variable) replaced[update->by_leaf] = (int32_t)k;
    }
  }
  *out = replaced;
  return TRM_OK;
}

/* Keeps what a cost says of its instruction: its plan, notes, and where it wants its operands. */
static trm_status keep_remarks(trm_program_draft *draft, const trm_instruction *instruction,
                               const trm_tile_cost *cost, const char *note, uint32_t source,
                               const family_operands *in) {
  for (uint32_t w = 0; w < cost->num_preferences; ++w) {
    const uint32_t k = cost->preferences[w].operand;
    /* An array whose elements a broadcast repeats is smaller than the preferred place. */
    if (in->values[k].source_count < trm_shape_count(&in->operands[k].shape)) continue;
    trm_program_note_preference(draft, &in->values[k], &cost->preferences[w]);
  }
  if (note != NULL) {
    const trm_custom_call *call = instruction->custom_call;
    TRY(trm_program_add_note(draft, "custom call %s %s", call == NULL ? "" : call->target, note));
  }
  trm_program_source *s = &draft->steps.sources.items[source];
  s->plan = cost->plan;
  s->note = cost->note;
  if (cost->note == NULL) return TRM_OK;
  return trm_program_add_note(draft, "%s: %s", s->op_name[0] != '\0' ? s->op_name : s->hlo_name,
                              cost->note);
}

/* A linear result has used up its tiles. */
static void use_tiles(trm_program_draft *draft, const trm_tile_cost *cost, uint32_t ipu) {
  if (cost->num_results == 0 || cost->results[0].in_place >= 0) return;
  const trm_mapping *m = &cost->results[0].mapping;
  if (m->regions > 0 && m->kind == TRM_MAPPING_LINEAR &&
      m->first_tile == draft->placements.next_tile[ipu]) {
    draft->placements.next_tile[ipu] = (m->first_tile + m->regions) % m->tiles;
  }
}

/* Adds the steps of a cost. The results live from step out->writes on. */
static trm_status add_steps(trm_program_draft *draft, const trm_instruction *instruction,
                            const trm_tile_cost *cost, const family_operands *in, uint32_t source,
                            uint32_t ipu, trm_cost_steps *out, trm_error *error) {
  *out = (trm_cost_steps){.ends = {TRM_NO_INDEX, TRM_NO_INDEX}};
  if (draft->finding) return TRM_OK;
  TRY(trm_remote_read(draft, in->values, in->count, source, ipu, error));
  TRY(trm_program_add_cost(draft, cost, source, ipu, out, error));
  /* Until the last step of a product there are partial sums, which are temporaries. */
  if (trm_opcode_is_product(instruction->opcode) && out->last + 1 > out->first &&
      !cost->is_result_updated)
    out->writes = out->last;
  return TRM_OK;
}

/* Operands live until the last step that reads them. */
static trm_status touch_operands(trm_program_draft *draft, const family_operands *in,
                                 const trm_cost_steps *steps, trm_error *error) {
  for (uint32_t k = 0; k < in->count; ++k) {
    const bool ends = k < TRM_MAX_FREED && steps->ends[k] != TRM_NO_INDEX;
    TRY(trm_program_touch_until(draft, &in->values[k],
                                ends ? steps->ends[k] : (uint32_t)draft->steps.all.count, error));
  }
  return TRM_OK;
}

static trm_status walk_family(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                              trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  const uint32_t ipu = (uint32_t)scope->ipus[i];
  uint32_t source;
  trm_cost_steps steps;
  family_operands in;
  TRY(trm_program_add_source(draft, scope->computation, i, &source, error));
  TRY(gather_operands(draft, scope, i, source, &in, error));
  const int32_t *replaced;
  TRY(find_replaced(draft, scope, i, &in, &replaced, error));
  trm_tile_request request = {.target = trm_program_target_of(draft, ipu),
                              .options = trm_pipeline_options(draft, instruction),
                              .module = draft->module,
                              .computation = &draft->module->computations[scope->computation],
                              .instruction = instruction,
                              .num_operands = in.count,
                              .operands = in.operands,
                              .ipu = ipu,
                              .next_tile = draft->placements.next_tile[ipu],
                              .plans = draft->plans,
                              .replaced = replaced,
                              .roles = (trm_tile_role *const *)draft->roles};
  request.shards = trm_shards_of(draft, scope, i, &request);
  trm_tile_options io_options;
  trm_feed_way feed;
  TRY(trm_io_tiles_choose(draft, &request, &io_options, &feed));
  const uint32_t first_step = (uint32_t)draft->steps.all.count;
  trm_tile_cost cost = {.arena = draft->finding ? &draft->scratch : &draft->program->arena};
  const char *note;
  char text[512];
  trm_status status = trm_program_cost(&request, &cost, &note, error);
  if (status != TRM_OK) {
    draft->program->refuses_option = true; /* nothing else fails but memory */
    trm_note(error, status, "while planning %s",
             trm_instruction_text(draft->module, instruction, text, sizeof text));
    goto done;
  }
  TRY_OR_GOTO(trm_shards_gather(draft, scope, i, &request, in.values, &cost, error), done);
  TRY_OR_GOTO(keep_remarks(draft, instruction, &cost, note, source, &in), done);
  use_tiles(draft, &cost, ipu);
  trm_tile_cost_place(&cost, &request);
  TRY_OR_GOTO(add_steps(draft, instruction, &cost, &in, source, ipu, &steps, error), done);
  TRY_OR_GOTO(trm_io_tiles_place(draft, &request, feed, source, first_step, error), done);
  TRY_OR_GOTO(touch_operands(draft, &in, &steps, error), done);
  TRY_OR_GOTO(
      make_results(draft, scope, i, &cost, &request, in.values, source, steps.writes, error), done);
  status = trm_remote_write(draft, in.values, in.count, scope->leaves[i],
                            (size_t)trm_shape_num_leaves(&instruction->shape), first_step, source,
                            ipu, error);
done:
  trm_tile_cost_free(&cost);
  return status;
}

/* An instruction that another one's compute set computes: its result is its operand of full size.
 * One without operands, such as the number of replicas, is nowhere. */
static trm_status walk_absorbed(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                                trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  uint32_t best = 0;
  for (uint32_t k = instruction->num_operands; k-- > 0;) {
    const trm_instruction *operand = trm_scope_at(draft, scope, instruction->operands[k]);
    if (operand->opcode != TRM_OP_BROADCAST && operand->opcode != TRM_OP_CONSTANT &&
        trm_shape_count(&operand->shape) == trm_shape_count(&instruction->shape)) {
      best = k;
    }
  }
  int32_t count;
  TRY(new_leaves(draft, scope, i, &count, error));
  if (count > 0 && instruction->num_operands > 0) {
    scope->leaves[i][0] = scope->leaves[instruction->operands[best]][0];
  }
  return TRM_OK;
}

/* Other names for values: tuples, barriers, the ends of asynchronous pairs. */
static trm_status walk_name(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                            trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  if (instruction->opcode == TRM_OP_CONSTANT) return walk_constant(draft, scope, i, error);
  if (instruction->opcode == TRM_OP_PARAMETER) {
    scope->leaves[i] = (trm_value *)(uintptr_t)scope->parameters[instruction->number];
    return TRM_OK;
  }
  if (instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT) {
    scope->leaves[i] =
        scope->leaves[instruction->operands[0]] +
        trm_shape_leaf_offset(&trm_scope_at(draft, scope, instruction->operands[0])->shape,
                              (int32_t)instruction->number);
    return TRM_OK;
  }
  int32_t count, used = 0;
  TRY(new_leaves(draft, scope, i, &count, error));
  for (uint32_t k = 0; k < instruction->num_operands && used < count; ++k) {
    const trm_index operand = instruction->operands[k];
    const int32_t leaves = trm_shape_num_leaves(&trm_scope_at(draft, scope, operand)->shape);
    for (int32_t l = 0; l < leaves && used < count; ++l) {
      scope->leaves[i][used++] = scope->leaves[operand][l];
    }
  }
  return TRM_OK;
}

static trm_status walk_instruction(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                                   trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  scope->ipus[i] = ipu_of(draft, scope, i, &scope->is_explicit[i]);
  draft->stages.current = trm_pipeline_stage_of(draft, scope, i);
  draft->walk.reading = (uint32_t)draft->steps.all.count;
  const trm_computation *computation = &draft->module->computations[scope->computation];
  switch (trm_program_cost_class(draft->module, computation, instruction)) {
    case TRM_COST_NONE:
      TRY(walk_name(draft, scope, i, error));
      trm_pipeline_note_checkpoint(draft, instruction, scope->leaves[i]);
      return TRM_OK;
    case TRM_COST_VIEW: {
      int32_t count;
      TRY(new_leaves(draft, scope, i, &count, error));
      if (count == 0 || instruction->num_operands == 0) return TRM_OK;
      if (instruction->opcode == TRM_OP_CONCATENATE && instruction->num_operands > 1) {
        uint32_t sources = 0, source;
        for (uint32_t k = 0; k < instruction->num_operands; ++k) {
          const trm_index operand = instruction->operands[k];
          sources += 1 + scope->leaves[operand]->num_more;
          TRY(trm_program_add_source(draft, scope->computation, i, &source, error));
          TRY(trm_program_bring_to_ipu(draft, scope->leaves[operand],
                                       &trm_scope_at(draft, scope, operand)->shape,
                                       (uint32_t)scope->ipus[i], source, error));
        }
        if (sources > 64) return walk_family(draft, scope, i, error);
      }
      return trm_program_view(draft, scope, i, &scope->leaves[i][0], error);
    }
    case TRM_COST_CONTROL:
      if (instruction->opcode == TRM_OP_WHILE) {
        return trm_program_walk_while(draft, scope, i, error);
      }
      return trm_program_walk_conditional(draft, scope, i, error);
    case TRM_COST_FAMILY: break;
  }
  if (draft->roles[scope->computation][i].call.is_absorbed) {
    return walk_absorbed(draft, scope, i, error);
  }
  bool done;
  TRY(trm_slices_walk(draft, scope, i, &done, error));
  return done ? TRM_OK : walk_family(draft, scope, i, error);
}

trm_status trm_program_walk(trm_program_draft *draft, uint32_t computation,
                            const trm_value *const *parameters, const bool *const *owned,
                            const trm_value **out_root, trm_error *error) {
  if (draft->walk.depth >= TRM_PROGRAM_MAX_DEPTH) {
    FAIL(UNIMPLEMENTED, "loops and conditionals are nested more than %d deep",
         TRM_PROGRAM_MAX_DEPTH);
  }
  const trm_computation *c = &draft->module->computations[computation];
  const uint32_t count = c->num_instructions;
  draft->walk.instructions += (uint64_t)count + 1;
  if (draft->walk.instructions > 2 * max_instructions) {
    FAIL(RESOURCE_EXHAUSTED,
         "the program has more than %" PRIu64 " instructions when the "
         "computations of its loops and conditionals are written out",
         max_instructions);
  }
  if (draft->walk.orders[computation] == NULL) {
    TRY(trm_program_order(draft->module, computation,
                          trm_program_order_kind(&draft->program->options), &draft->program->arena,
                          &draft->walk.orders[computation], error));
  }
  const uint32_t *order = draft->walk.orders[computation];
  trm_program_scope scope = {.computation = computation, .parameters = parameters};
  scope.leaves = ARENA_NEW(&draft->scratch, trm_value *, (size_t)count + 1);
  scope.ipus = ARENA_NEW(&draft->scratch, int32_t, (size_t)count + 1);
  scope.last = ARENA_NEW(&draft->scratch, uint32_t *, (size_t)count + 1);
  scope.is_explicit = ARENA_NEW(&draft->scratch, bool, (size_t)count + 1);
  scope.turns = ARENA_NEW(&draft->scratch, uint32_t, (size_t)count + 1);
  if (scope.leaves == NULL || scope.is_explicit == NULL || scope.ipus == NULL ||
      scope.last == NULL || scope.turns == NULL) {
    FAIL_NO_MEMORY("values");
  }
  TRY(trm_program_find_last_uses(draft, &scope, order, error));
  TRY(trm_program_find_updates(draft->module, computation, &draft->scratch, &scope.updates, error));
  for (uint32_t p = 0; p < c->num_parameters; ++p) {
    const trm_index i = c->parameters[p];
    const int32_t leaves = trm_shape_num_leaves(&c->instructions[i].shape);
    for (int32_t l = 0; l < leaves; ++l) {
      const uint32_t variable = parameters[p][l].variable;
      if (variable == TRM_NO_INDEX) continue;
      draft->values.last_use.items[variable] = owned[p][l] ? scope.last[i][l] : TRM_NEVER_DIES;
    }
  }
  ++draft->walk.depth;
  trm_status status = TRM_OK;
  for (uint32_t p = 0; p < count && status == TRM_OK; ++p) {
    scope.position = p;
    status = walk_instruction(draft, &scope, order[p], error);
    if (status == TRM_OK) status = trm_program_note_known(draft, &scope, order[p], error);
  }
  --draft->walk.depth;
  if (status == TRM_OK) *out_root = scope.leaves[c->root];
  return status;
}
