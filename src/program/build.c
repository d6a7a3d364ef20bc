/* Owns: the walk over a scheduled module that makes steps and variables.
 *
 * It is done twice. The first walk finds where inputs and constants should be allocated, which their
 * most demanding consumers say (builder.wishes); the second makes the program. Both see the same
 * instructions in the same order; the planner's cache makes the second one cheap. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/infer.h"
#include "program/builder.h"
#include "target/target.h"

static const uint64_t max_instructions = UINT64_C(32) << 20;

/* ---- Where an instruction runs -------------------------------------------------------------- */

/* The device of "{maximal device=3}", or of the first of a tuple's; -1: none. */
static int32_t device_of(const char *sharding) {
  const char *at = sharding == NULL ? NULL : strstr(sharding, "device=");
  if (at == NULL) return -1;
  const long device = strtol(at + 7, NULL, 10);
  return device < 0 || device > 1023 ? -1 : (int32_t)device;
}

static int32_t ipu_of(const trm_program_builder *builder, const trm_program_scope *scope,
                      trm_index i, bool *out_explicit) {
  const trm_instruction *instruction = trm_scope_at(builder, scope, i);
  int32_t device = device_of(instruction->sharding);
  *out_explicit = false;
  if (device < 0 && instruction->opcode == TRM_OP_FUSION && instruction->num_called > 0) {
    const trm_computation *body = &builder->module->computations[instruction->called[0]];
    for (trm_index b = 0; b < body->num_instructions && device < 0; ++b) {
      device = device_of(body->instructions[b].sharding);
    }
  }
  for (uint32_t k = 0; k < instruction->num_operands && device < 0; ++k) {
    if (scope->is_explicit[instruction->operands[k]]) device = scope->ipus[instruction->operands[k]];
  }
  *out_explicit = device >= 0;
  /* Nobody says: where the first operand lies. */
  for (uint32_t k = 0; k < instruction->num_operands && device < 0; ++k) {
    const trm_index operand = instruction->operands[k];
    const bool has_value =
        trm_shape_num_leaves(&trm_scope_at(builder, scope, operand)->shape) > 0 &&
        scope->leaves[operand] != NULL && scope->leaves[operand][0].variable != TRM_NO_INDEX;
    if (has_value && trm_scope_at(builder, scope, operand)->opcode != TRM_OP_CONSTANT) {
      device = (int32_t)trm_value_mapping(builder, scope->leaves[operand])->ipu;
    }
  }
  return device < 0 || (uint32_t)device >= builder->program->num_ipus ? 0 : device;
}

static uint32_t needed_ipus(const trm_module *module) {
  int32_t most = 0;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    const trm_computation *computation = &module->computations[c];
    for (trm_index i = 0; i < computation->num_instructions; ++i) {
      const int32_t device = device_of(computation->instructions[i].sharding);
      if (device > most) most = device;
    }
  }
  return (uint32_t)most + 1;
}

/* ---- When values die ------------------------------------------------------------------------ */

static bool hands_on(const trm_program_builder *builder, const trm_computation *computation,
                     const trm_instruction *instruction) {
  const trm_cost_class class = trm_program_cost_class(builder->module, computation, instruction);
  return class == TRM_COST_VIEW || class == TRM_COST_NONE;
}

static void raise(uint32_t *last, uint32_t position) {
  if (*last < position) *last = position;
}

/* What an instruction at `position` means for how long its operands must last. */
static void spread_last(const trm_program_builder *builder, const trm_program_scope *scope,
                        trm_index i, uint32_t position) {
  const trm_computation *computation = &builder->module->computations[scope->computation];
  const trm_instruction *instruction = &computation->instructions[i];
  const uint32_t *mine = scope->last[i];
  const int32_t my_leaves = trm_shape_num_leaves(&instruction->shape);
  int32_t offset = 0;
  const bool passes = hands_on(builder, computation, instruction);
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    const int32_t leaves = trm_shape_num_leaves(&computation->instructions[operand].shape);
    uint32_t *last = scope->last[operand];
    for (int32_t l = 0; l < leaves; ++l) raise(&last[l], position);
    if (instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT) {
      const int32_t first = trm_shape_leaf_offset(&computation->instructions[operand].shape,
                                                  (int32_t)instruction->number);
      for (int32_t l = 0; l < my_leaves; ++l) raise(&last[first + l], mine[l]);
    } else if (instruction->opcode == TRM_OP_TUPLE) {
      for (int32_t l = 0; l < leaves; ++l) raise(&last[l], mine[offset + l]);
      offset += leaves;
    } else if (instruction->opcode == TRM_OP_WHILE) {
      const trm_computation *body = &builder->module->computations[instruction->called[1]];
      const trm_instruction *root = &body->instructions[body->root];
      for (int32_t e = 0, l = 0; e < (int32_t)root->num_operands && root->opcode == TRM_OP_TUPLE;
           ++e) {
        const trm_instruction *element = &body->instructions[root->operands[e]];
        const int32_t n = trm_shape_num_leaves(&element->shape);
        const bool same = element->opcode == TRM_OP_GET_TUPLE_ELEMENT && element->number == e &&
                          body->instructions[element->operands[0]].opcode == TRM_OP_PARAMETER;
        for (int32_t j = 0; j < n && l < leaves; ++j, ++l) {
          if (same) raise(&last[l], mine[l]);
        }
      }
    } else if (passes && my_leaves > 0) {
      for (int32_t l = 0; l < leaves; ++l) raise(&last[l], mine[l < my_leaves ? l : my_leaves - 1]);
    }
  }
}

static trm_status find_last_uses(trm_program_builder *builder, trm_program_scope *scope,
                                 const uint32_t *order, trm_error *error) {
  const trm_computation *computation = &builder->module->computations[scope->computation];
  const uint32_t count = computation->num_instructions;
  for (uint32_t p = 0; p < count; ++p) {
    const trm_index i = order[p];
    const int32_t leaves = trm_shape_num_leaves(&computation->instructions[i].shape);
    scope->last[i] = ARENA_NEW(&builder->scratch, uint32_t, (size_t)leaves + 1);
    CHECK_MEMORY(scope->last[i], "values");
    for (int32_t l = 0; l < leaves; ++l) scope->last[i][l] = p;
  }
  const int32_t leaves = trm_shape_num_leaves(&computation->instructions[computation->root].shape);
  for (int32_t l = 0; l < leaves; ++l) scope->last[computation->root][l] = TRM_NEVER_DIES;
  for (uint32_t p = count; p-- > 0;) spread_last(builder, scope, order[p], p);
  return TRM_OK;
}

/* ---- Plain instructions --------------------------------------------------------------------- */

static trm_status new_leaves(trm_program_builder *builder, trm_program_scope *scope, trm_index i,
                             int32_t *out_count, trm_error *error) {
  const int32_t count = trm_shape_num_leaves(&trm_scope_at(builder, scope, i)->shape);
  scope->leaves[i] = ARENA_NEW(&builder->scratch, trm_value, (size_t)count + 1);
  CHECK_MEMORY(scope->leaves[i], "values");
  for (int32_t l = 0; l < count; ++l) {
    scope->leaves[i][l] = (trm_value){.variable = TRM_NO_INDEX, .place = TRM_NO_INDEX};
  }
  *out_count = count;
  return TRM_OK;
}

const trm_tile_wish *trm_program_wish_for(const trm_program_builder *builder, uint32_t computation,
                                     trm_index i, uint32_t leaf) {
  const trm_placement *placements = builder->wishes[computation][i];
  return placements == NULL || placements[leaf].wish.kind == TRM_WISH_NONE ? NULL : &placements[leaf].wish;
}

/* The IPU of a leaf that nothing computes: its own sharding, else its first reader's. */
uint32_t trm_program_ipu_for(const trm_program_builder *builder, uint32_t computation, trm_index i,
                        uint32_t leaf) {
  const trm_placement *placements = builder->wishes[computation][i];
  const trm_instruction *instruction = &builder->module->computations[computation].instructions[i];
  const int32_t device = device_of(instruction->sharding);
  uint32_t ipu = device >= 0 ? (uint32_t)device : 0;
  if (device < 0 && placements != NULL && placements[leaf].ipu_plus_one > 0) {
    ipu = placements[leaf].ipu_plus_one - 1;
  }
  return ipu < builder->program->num_ipus ? ipu : 0;
}

/* A linear mapping, after the one before it, so that small arrays spread over the tiles. */
static trm_mapping next_linear(trm_program_builder *builder, const trm_shape *shape,
                               uint32_t ipu) {
  const trm_mapping m =
      trm_mapping_linear(builder->target, shape, ipu, builder->next_tile[ipu]);
  if (m.parts > 0) {
    builder->next_tile[ipu] = (builder->next_tile[ipu] + m.parts) % m.tiles;
  }
  return m;
}

/* Where a leaf that nothing has computed is allocated: inputs, constants, feeds. */
static trm_mapping allocate(trm_program_builder *builder, uint32_t computation, trm_index i,
                            uint32_t leaf, const trm_shape *shape, uint32_t ipu) {
  const trm_tile_wish *wish = trm_program_wish_for(builder, computation, i, leaf);
  /* Always, so that what others wished to follow stays where it was. */
  const trm_mapping linear = next_linear(builder, shape, ipu);
  if (wish == NULL || wish->mapping.ipu != ipu) return linear;
  return trm_mapping_like(&wish->mapping, shape->dtype);
}

trm_status trm_program_make_placements(trm_program_builder *builder, uint32_t computation, trm_index i,
                              int32_t leaves, trm_error *error) {
  if (!builder->finding || builder->wishes[computation][i] != NULL) return TRM_OK;
  builder->wishes[computation][i] =
      ARENA_NEW(&builder->program->arena, trm_placement, (size_t)leaves + 1);
  CHECK_MEMORY(builder->wishes[computation][i], "a program");
  return TRM_OK;
}

static trm_status walk_constant(trm_program_builder *builder, trm_program_scope *scope,
                                trm_index i, trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(builder, scope, i);
  int32_t count;
  TRY(new_leaves(builder, scope, i, &count, error));
  TRY(trm_program_make_placements(builder, scope->computation, i, count, error));
  for (int32_t l = 0; l < count; ++l) {
    const trm_shape *shape = trm_shape_leaf(&instruction->shape, l);
    uint32_t source, variable;
    TRY(trm_program_add_source(builder, scope->computation, i, &source, error));
    const uint32_t ipu = trm_program_ipu_for(builder, scope->computation, i, (uint32_t)l);
    const trm_new_variable wanted = {
        .name = instruction->name, .source = source, .shape = shape,
        .mapping = allocate(builder, scope->computation, i, (uint32_t)l, shape, ipu),
        .category = TRM_CATEGORY_CONSTANT, .always_live = true};
    TRY(trm_program_add_variable(builder, &wanted, &variable, error));
    builder->variables.items[variable].leaf = (uint32_t)l;
    builder->last_use.items[variable] = TRM_NEVER_DIES;
    scope->leaves[i][l] = trm_value_plain(builder, variable);
    scope->leaves[i][l].is_constant = true;
    if (trm_shape_count(shape) == 1 && instruction->literal != NULL) {
      scope->leaves[i][l].scalar = instruction->literal->leaves[l];
    }
  }
  return TRM_OK;
}

/* An array that is on another IPU is copied to this one, once for all that need it there. */
static trm_status bring_to_ipu(trm_program_builder *builder, trm_value *value,
                               const trm_shape *shape, uint32_t ipu, uint32_t source,
                               trm_error *error) {
  trm_program_note_ipu(builder, value, ipu);
  const trm_mapping *from = trm_value_mapping(builder, value);
  if (value->variable == TRM_NO_INDEX || from->kind == TRM_MAPPING_NONE || from->ipu == ipu ||
      (value->is_constant && value->source_count <= 1)) {
    return TRM_OK;
  }
  if (value->num_more == 0 && !value->is_view && builder->copies_of.count > value->variable) {
    const uint32_t copy = builder->copies_of.items[value->variable];
    if (copy != TRM_NO_INDEX && builder->variables.items[copy].mapping.ipu == ipu) {
      *value = trm_value_plain(builder, copy);
      return TRM_OK;
    }
  }
  trm_mapping to = *from;
  to.ipu = ipu;
  to.layout = trm_layout_combine(to.layout, ipu + 1);
  if (value->is_view) to = next_linear(builder, shape, ipu);
  to.element_bytes = trm_tile_dtype_bytes(shape->dtype);
  const int64_t bytes = trm_most(1, value->source_count) * to.element_bytes;
  const trm_target *target = builder->target;
  const double rate = target->ipu_link_bytes_per_second * target->ipu_link_efficiency;
  trm_tile_cost cost = {.arena = &builder->program->arena};
  const trm_phase phase = {
      .kind = TRM_PHASE_GLOBAL_EXCHANGE, .name = "InterIpuCopy",
      .cycles = rate > 0 ? (int64_t)((double)bytes / rate * target->clock_frequency) + 1 : 1,
      .sync_cycles = target->global_sync_cycles,
      .cycles_mean = rate > 0 ? (double)bytes / rate * target->clock_frequency : 0,
      .active_tiles = trm_most(from->parts, to.parts) > target->tiles_per_ipu
                          ? target->tiles_per_ipu
                          : (uint32_t)trm_most(from->parts, to.parts),
      .bytes_in_worst = trm_mapping_worst_bytes(&to), .bytes_in_total = bytes,
      .bytes_out_worst = trm_mapping_worst_bytes(from), .bytes_out_total = bytes,
      .messages_worst = 2};
  uint32_t first, last, writes;
  trm_status status = trm_tile_cost_add(&cost, &phase, error);
  if (status == TRM_OK && !builder->finding) {
    status = trm_program_add_cost(builder, &cost, source, ipu, &first, &last, &writes, error);
  }
  trm_tile_cost_free(&cost);
  TRY(status);
  TRY(trm_program_touch(builder, value, error));
  const trm_new_variable wanted = {.name = builder->variables.items[value->variable].name,
                                   .source = source, .shape = shape, .mapping = to,
                                   .category = TRM_CATEGORY_VARIABLE};
  uint32_t copy;
  TRY(trm_program_add_variable(builder, &wanted, &copy, error));
  builder->last_use.items[copy] = TRM_NEVER_DIES;
  if (copy < builder->stage_uses.count) builder->stage_uses.items[copy].comes_in = true;
  while (builder->copies_of.count <= value->variable) {
    if (!VECTOR_PUSH(&builder->copies_of, TRM_NO_INDEX)) FAIL_NO_MEMORY("copies");
  }
  /* In a loop the copy is of this turn only. */
  if (builder->loops.count == 0 && !value->is_view) {
    builder->copies_of.items[value->variable] = copy;
  }
  *value = trm_value_plain(builder, copy);
  return TRM_OK;
}

static bool is_infeed(const trm_instruction *instruction) {
  return instruction->opcode == TRM_OP_INFEED ||
         (instruction->opcode == TRM_OP_CUSTOM_CALL && instruction->custom_call != NULL &&
          strcmp(instruction->custom_call->target, "tremula.infeed") == 0);
}

/* The results of a cost: new variables, or operands written in place. */
static trm_status make_results(trm_program_builder *builder, trm_program_scope *scope, trm_index i,
                               const trm_tile_cost *cost, const trm_tile_request *request,
                               const trm_value *operands, uint32_t source, uint32_t writes,
                               trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(builder, scope, i);
  int32_t count;
  TRY(new_leaves(builder, scope, i, &count, error));
  const bool feed = is_infeed(instruction);
  if (feed) TRY(trm_program_make_placements(builder, scope->computation, i, count, error));
  for (int32_t l = 0; l < count; ++l) {
    const trm_shape *shape = trm_shape_leaf(&instruction->shape, l);
    const trm_tile_result *result = &cost->results[l];
    uint32_t variable;
    const bool in_place = result->in_place >= 0 &&
                          (uint32_t)result->in_place < request->num_operands &&
                          request->operands[result->in_place].dies &&
                          !request->operands[result->in_place].is_view;
    if (in_place) {
      variable = operands[result->in_place].variable;
      if (variable < builder->copies_of.count) builder->copies_of.items[variable] = TRM_NO_INDEX;
    } else {
      trm_mapping mapping = result->mapping;
      const trm_tile_wish *wish =
          trm_program_wish_for(builder, scope->computation, i, (uint32_t)l);
      if (feed && wish != NULL && wish->mapping.ipu == request->ipu) {
        mapping = trm_mapping_like(&wish->mapping, shape->dtype);
      }
      const trm_new_variable wanted = {.name = instruction->name, .source = source,
                                       .shape = shape, .mapping = mapping,
                                       .category = TRM_CATEGORY_VARIABLE};
      TRY(trm_program_add_variable(builder, &wanted, &variable, error));
      builder->variables.items[variable].leaf = (uint32_t)l;
      builder->variables.items[variable].live = (trm_program_interval){writes, writes};
      for (uint32_t k = 0; k < request->num_operands; ++k) {
        const trm_tile_operand *operand = &request->operands[k];
        if (!operand->is_view && operands[k].num_more == 0 &&
            operand->mapping.layout == mapping.layout && mapping.layout != 0 &&
            operands[k].variable != TRM_NO_INDEX &&
            builder->variables.items[operands[k].variable].count == trm_shape_count(shape)) {
          builder->follows.items[variable] = operands[k].variable;
          break;
        }
      }
    }
    builder->last_use.items[variable] = scope->last[i][l];
    TRY(trm_program_touch_variable(builder, variable, error));
    scope->leaves[i][l] = trm_value_plain(builder, variable);
    if (in_place) scope->leaves[i][l].contiguous = trm_shape_count(shape);
  }
  return TRM_OK;
}

static trm_status walk_family(trm_program_builder *builder, trm_program_scope *scope, trm_index i,
                              trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(builder, scope, i);
  const uint32_t ipu = (uint32_t)scope->ipus[i];
  uint32_t count = 0, used = 0, source;
  TRY(trm_program_add_source(builder, scope->computation, i, &source, error));
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    count += (uint32_t)trm_shape_num_leaves(
        &trm_scope_at(builder, scope, instruction->operands[k])->shape);
  }
  trm_value *values = ARENA_NEW(&builder->scratch, trm_value, (size_t)count + 1);
  trm_tile_operand *operands = ARENA_NEW(&builder->scratch, trm_tile_operand, (size_t)count + 1);
  if (values == NULL || operands == NULL) FAIL_NO_MEMORY("operands");
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_index operand = instruction->operands[k];
    const trm_shape *shape = &trm_scope_at(builder, scope, operand)->shape;
    const int32_t leaves = trm_shape_num_leaves(shape);
    for (int32_t l = 0; l < leaves; ++l) {
      const trm_shape *leaf = trm_shape_leaf(shape, l);
      values[used] = scope->leaves[operand][l];
      TRY(bring_to_ipu(builder, &values[used], leaf, ipu, source, error));
      operands[used] = trm_value_operand(builder, &values[used], leaf, scope->position);
      ++used;
    }
  }
  const trm_tile_request request = {
      .target = builder->target, .options = &builder->tile_options, .module = builder->module,
      .computation = &builder->module->computations[scope->computation],
      .instruction = instruction, .num_operands = count, .operands = operands, .ipu = ipu,
      .next_tile = builder->next_tile[ipu], .plans = builder->plans};
  trm_tile_cost cost = {.arena = builder->finding ? &builder->scratch : &builder->program->arena};
  const char *note;
  char text[512];
  trm_status status = trm_program_cost(&request, &cost, &note, error);
  if (status != TRM_OK) {
    trm_tile_cost_free(&cost);
    return trm_note(error, status, "while planning %s",
                    trm_instruction_text(builder->module, instruction, text, sizeof text));
  }
  for (uint32_t w = 0; w < cost.num_wishes; ++w) {
    trm_program_note_wish(builder, &values[cost.wishes[w].operand], &cost.wishes[w]);
  }
  if (note != NULL) {
    TRY_OR_GOTO(trm_program_add_note(
                    builder, "custom call %s %s",
                    instruction->custom_call == NULL ? "" : instruction->custom_call->target, note),
                done);
  }
  builder->sources.items[source].plan = cost.plan;
  builder->sources.items[source].note = cost.note;
  if (cost.note != NULL) {
    const trm_program_source *s = &builder->sources.items[source];
    TRY_OR_GOTO(trm_program_add_note(builder, "%s: %s",
                                     s->op_name[0] != '\0' ? s->op_name : s->hlo_name, cost.note),
                done);
  }
  if (cost.num_results > 0 && cost.results[0].in_place < 0 && cost.results[0].mapping.parts > 0) {
    /* A linear result took its tiles. */
    const trm_mapping *m = &cost.results[0].mapping;
    if (m->kind == TRM_MAPPING_LINEAR && m->first_tile == builder->next_tile[ipu]) {
      builder->next_tile[ipu] = (m->first_tile + m->parts) % m->tiles;
    }
  }
  uint32_t first = 0, last = 0, writes = 0;
  if (!builder->finding) {
    TRY_OR_GOTO(trm_program_add_cost(builder, &cost, source, ipu, &first, &last, &writes, error),
                done);
    const bool linear = instruction->opcode == TRM_OP_CONVOLUTION ||
                        instruction->opcode == TRM_OP_DOT;
    if (linear && last + 1 > first) writes = last; /* partial sums are temporaries until then */
  }
  for (uint32_t k = 0; k < count; ++k) {
    TRY_OR_GOTO(trm_program_touch(builder, &values[k], error), done);
  }
  status = make_results(builder, scope, i, &cost, &request, values, source, writes, error);
done:
  trm_tile_cost_free(&cost);
  return status;
}

/* Values with another name: tuples, barriers, the ends of asynchronous pairs. */
static trm_status walk_name(trm_program_builder *builder, trm_program_scope *scope, trm_index i,
                            trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(builder, scope, i);
  if (instruction->opcode == TRM_OP_CONSTANT) return walk_constant(builder, scope, i, error);
  if (instruction->opcode == TRM_OP_PARAMETER) {
    scope->leaves[i] = (trm_value *)(uintptr_t)scope->parameters[instruction->number];
    return TRM_OK;
  }
  if (instruction->opcode == TRM_OP_GET_TUPLE_ELEMENT) {
    scope->leaves[i] =
        scope->leaves[instruction->operands[0]] +
        trm_shape_leaf_offset(&trm_scope_at(builder, scope, instruction->operands[0])->shape,
                              (int32_t)instruction->number);
    return TRM_OK;
  }
  int32_t count, used = 0;
  TRY(new_leaves(builder, scope, i, &count, error));
  for (uint32_t k = 0; k < instruction->num_operands && used < count; ++k) {
    const trm_index operand = instruction->operands[k];
    const int32_t leaves = trm_shape_num_leaves(&trm_scope_at(builder, scope, operand)->shape);
    for (int32_t l = 0; l < leaves && used < count; ++l) {
      scope->leaves[i][used++] = scope->leaves[operand][l];
    }
  }
  return TRM_OK;
}

static trm_status walk_instruction(trm_program_builder *builder, trm_program_scope *scope,
                                   trm_index i, trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(builder, scope, i);
  scope->ipus[i] = ipu_of(builder, scope, i, &scope->is_explicit[i]);
  builder->stage = trm_pipeline_stage_of(builder, instruction, (uint32_t)scope->ipus[i]);
  const trm_computation *computation = &builder->module->computations[scope->computation];
  switch (trm_program_cost_class(builder->module, computation, instruction)) {
    case TRM_COST_NONE: return walk_name(builder, scope, i, error);
    case TRM_COST_VIEW: {
      int32_t count;
      TRY(new_leaves(builder, scope, i, &count, error));
      if (count == 0 || instruction->num_operands == 0) return TRM_OK;
      if (instruction->opcode == TRM_OP_CONCATENATE && instruction->num_operands > 1) {
        uint32_t sources = 0, source;
        for (uint32_t k = 0; k < instruction->num_operands; ++k) {
          const trm_index operand = instruction->operands[k];
          sources += 1 + scope->leaves[operand]->num_more;
          TRY(trm_program_add_source(builder, scope->computation, i, &source, error));
          TRY(bring_to_ipu(builder, scope->leaves[operand],
                           &trm_scope_at(builder, scope, operand)->shape, (uint32_t)scope->ipus[i],
                           source, error));
        }
        if (sources > 64) return walk_family(builder, scope, i, error);
      }
      return trm_program_view(builder, scope, i, &scope->leaves[i][0], error);
    }
    case TRM_COST_CONTROL:
      if (instruction->opcode == TRM_OP_WHILE) {
        return trm_program_walk_while(builder, scope, i, error);
      }
      return trm_program_walk_conditional(builder, scope, i, error);
    case TRM_COST_FAMILY: break;
  }
  return walk_family(builder, scope, i, error);
}

trm_status trm_program_walk(trm_program_builder *builder, uint32_t computation,
                            const trm_value *const *parameters, const bool *const *owned,
                            const trm_value **out_root, trm_error *error) {
  if (builder->depth >= TRM_PROGRAM_MAX_DEPTH) {
    FAIL(UNIMPLEMENTED, "loops and conditionals are nested more than %d deep",
         TRM_PROGRAM_MAX_DEPTH);
  }
  const trm_computation *c = &builder->module->computations[computation];
  const uint32_t count = c->num_instructions;
  builder->walked += (uint64_t)count + 1;
  if (builder->walked > 2 * max_instructions) {
    FAIL(RESOURCE_EXHAUSTED, "the program has more than %" PRIu64 " instructions when the "
         "computations of its loops and conditionals are written out", max_instructions);
  }
  if (builder->orders[computation] == NULL) {
    TRY(trm_program_schedule(builder->module, computation,
                             builder->program->options.schedule_as_written,
                             &builder->program->arena, &builder->orders[computation], error));
  }
  const uint32_t *order = builder->orders[computation];
  trm_program_scope scope = {.computation = computation, .parameters = parameters};
  scope.leaves = ARENA_NEW(&builder->scratch, trm_value *, (size_t)count + 1);
  scope.ipus = ARENA_NEW(&builder->scratch, int32_t, (size_t)count + 1);
  scope.last = ARENA_NEW(&builder->scratch, uint32_t *, (size_t)count + 1);
  scope.is_explicit = ARENA_NEW(&builder->scratch, bool, (size_t)count + 1);
  if (scope.leaves == NULL || scope.is_explicit == NULL || scope.ipus == NULL || scope.last == NULL) FAIL_NO_MEMORY("values");
  TRY(find_last_uses(builder, &scope, order, error));
  for (uint32_t p = 0; p < c->num_parameters; ++p) {
    const trm_index i = c->parameters[p];
    const int32_t leaves = trm_shape_num_leaves(&c->instructions[i].shape);
    for (int32_t l = 0; l < leaves; ++l) {
      const uint32_t variable = parameters[p][l].variable;
      if (variable == TRM_NO_INDEX) continue;
      builder->last_use.items[variable] = owned[p][l] ? scope.last[i][l] : TRM_NEVER_DIES;
    }
  }
  ++builder->depth;
  trm_status status = TRM_OK;
  for (uint32_t p = 0; p < count && status == TRM_OK; ++p) {
    scope.position = p;
    status = walk_instruction(builder, &scope, order[p], error);
  }
  --builder->depth;
  if (status == TRM_OK) *out_root = scope.leaves[c->root];
  return status;
}

/* ---- The entry ------------------------------------------------------------------------------ */

/* The leaf that a path of tuple indices leads to, or -1. */
static int64_t leaf_of_path(const trm_shape *shape, const trm_dims *path) {
  int64_t leaf = 0;
  for (int32_t i = 0; i < path->count; ++i) {
    const int64_t element = path->items[i];
    if (shape->dtype != TRM_TUPLE || element < 0 || element >= shape->num_elements) return -1;
    leaf += trm_shape_leaf_offset(shape, (int32_t)element);
    shape = &shape->elements[element];
  }
  return trm_shape_is_array(shape) ? leaf : -1;
}

typedef struct entry_values {
  const trm_value **parameters;
  const bool **owned;
  bool *output_is_update; /* by output leaf: it updates an input */
} entry_values;

/* An input is a weight (it stays on the IPU) when an output updates it, or when it is used as
 * weights are; one that is only read and is used as activations are, or holds integers, is sent for
 * each run. */
static bool is_weight(const trm_program_builder *builder, uint32_t computation, trm_index i,
                      uint32_t leaf, const trm_shape *shape, bool updated) {
  if (updated) return true;
  const trm_tile_wish *wish = trm_program_wish_for(builder, computation, i, leaf);
  if (wish != NULL && wish->kind == TRM_WISH_ACTIVATION) return false;
  if (wish != NULL && wish->kind == TRM_WISH_WEIGHTS) return true;
  return trm_dtype_is_floating(shape->dtype);
}

static trm_status add_inputs(trm_program_builder *builder, entry_values *v, int64_t *out_bytes,
                             trm_error *error) {
  const trm_module *module = builder->module;
  const trm_computation *entry = &module->computations[module->entry];
  const trm_shape *root = &entry->instructions[entry->root].shape;
  v->parameters = ARENA_NEW(&builder->scratch, const trm_value *, (size_t)entry->num_parameters + 1);
  v->owned = ARENA_NEW(&builder->scratch, const bool *, (size_t)entry->num_parameters + 1);
  v->output_is_update = ARENA_NEW(&builder->scratch, bool, (size_t)trm_shape_num_leaves(root) + 1);
  if (v->parameters == NULL || v->owned == NULL || v->output_is_update == NULL) {
    FAIL_NO_MEMORY("inputs");
  }
  *out_bytes = 0;
  for (uint32_t p = 0; p < entry->num_parameters; ++p) {
    const trm_index i = entry->parameters[p];
    const trm_instruction *parameter = &entry->instructions[i];
    const int32_t leaves = trm_shape_num_leaves(&parameter->shape);
    trm_value *values = ARENA_NEW(&builder->scratch, trm_value, (size_t)leaves + 1);
    bool *owned = ARENA_NEW(&builder->scratch, bool, (size_t)leaves + 1);
    if (values == NULL || owned == NULL) FAIL_NO_MEMORY("inputs");
    for (uint32_t a = 0; a < module->num_aliases; ++a) {
      const trm_alias *alias = &module->aliases[a];
      if (alias->parameter_number != (int64_t)p) continue;
      const int64_t leaf = leaf_of_path(&parameter->shape, &alias->parameter_index);
      const int64_t output = leaf_of_path(root, &alias->output_index);
      if (leaf >= 0) owned[leaf] = true;
      if (leaf >= 0 && output >= 0) v->output_is_update[output] = true;
    }
    TRY(trm_program_make_placements(builder, module->entry, i, leaves, error));
    for (int32_t l = 0; l < leaves; ++l) {
      const trm_shape *shape = trm_shape_leaf(&parameter->shape, l);
      uint32_t variable, source;
      TRY(trm_program_add_source(builder, module->entry, i, &source, error));
      const uint32_t ipu = trm_program_ipu_for(builder, module->entry, i, (uint32_t)l);
      const bool weight =
          is_weight(builder, module->entry, i, (uint32_t)l, shape, owned[l]);
      const trm_new_variable wanted = {
          .name = parameter->name, .source = source, .shape = shape,
          .mapping = allocate(builder, module->entry, i, (uint32_t)l, shape, ipu),
          .category = TRM_CATEGORY_VARIABLE, .always_live = weight};
      TRY(trm_program_add_variable(builder, &wanted, &variable, error));
      trm_program_variable *added = &builder->variables.items[variable];
      added->leaf = (uint32_t)l;
      added->is_input = true;
      added->is_weight = weight;
      values[l] = trm_value_plain(builder, variable);
      if (!weight) {
        *out_bytes += added->total_bytes;
        owned[l] = true; /* sent again for the next run */
      }
    }
    v->parameters[p] = values;
    v->owned[p] = owned;
  }
  return TRM_OK;
}

/* One copy with the host for all inputs, or all outputs. */
static trm_status add_stream(trm_program_builder *builder, const char *name, trm_phase_kind kind,
                             int64_t bytes, trm_error *error) {
  if (bytes <= 0 || builder->finding) return TRM_OK;
  const trm_target *target = builder->target;
  const bool in = kind == TRM_PHASE_HOST_READ;
  const int64_t share = trm_ceil_divide(bytes, target->tiles_per_ipu);
  const trm_phase phase = {
      .kind = kind, .name = name,
      .cycles = (int64_t)(target->host_latency_seconds * target->clock_frequency +
                          (double)bytes / target->host_bytes_per_second * target->clock_frequency),
      .sync_cycles = target->global_sync_cycles,
      .cycles_mean = (double)bytes / target->host_bytes_per_second * target->clock_frequency,
      .active_tiles = target->tiles_per_ipu, .messages_worst = 1,
      .bytes_in_worst = in ? share : 0, .bytes_in_total = in ? bytes : 0,
      .bytes_out_worst = in ? 0 : share, .bytes_out_total = in ? 0 : bytes,
      .temporary_worst = share, .temporary_total = bytes, .temporary_is_message = true};
  trm_tile_cost cost = {.arena = &builder->program->arena};
  uint32_t first, last, writes;
  trm_status status = trm_tile_cost_add(&cost, &phase, error);
  if (status == TRM_OK) {
    status = trm_program_add_cost(builder, &cost, TRM_NO_INDEX, 0, &first, &last, &writes, error);
  }
  trm_tile_cost_free(&cost);
  return status;
}

static trm_status add_outputs(trm_program_builder *builder, const entry_values *v,
                              const trm_value *root, trm_error *error) {
  const trm_module *module = builder->module;
  const trm_computation *entry = &module->computations[module->entry];
  const trm_shape *shape = &entry->instructions[entry->root].shape;
  const int32_t leaves = trm_shape_num_leaves(shape);
  int64_t bytes = 0, worst = 0, total = 0;
  for (int32_t l = 0; l < leaves; ++l) {
    const trm_shape *leaf = trm_shape_leaf(shape, l);
    const int64_t size = trm_shape_count(leaf) * (int64_t)trm_tile_dtype_bytes(leaf->dtype);
    if (!v->output_is_update[l]) {
      bytes += size;
    } else if (root[l].variable != TRM_NO_INDEX &&
               (!builder->variables.items[root[l].variable].is_input || root[l].is_view)) {
      /* A new value of a weight, not computed in place: copied over it. */
      worst += trm_mapping_worst_bytes(trm_value_mapping(builder, &root[l]));
      total += size;
    }
    if (root[l].variable != TRM_NO_INDEX) {
      builder->variables.items[root[l].variable].is_output = true;
    }
  }
  if (!builder->finding) {
    TRY(trm_program_add_copies(builder, "UpdateVariables", TRM_NO_INDEX, 0, worst, total, error));
  }
  TRY(add_stream(builder, "Outputs", TRM_PHASE_HOST_WRITE, bytes, error));
  for (int32_t l = 0; l < leaves; ++l) TRY(trm_program_touch(builder, &root[l], error));
  return TRM_OK;
}

static trm_status walk_entry(trm_program_builder *builder, trm_error *error) {
  entry_values v;
  int64_t bytes;
  uint32_t top = TRM_NO_INDEX;
  builder->parent = TRM_NO_INDEX;
  if (!builder->finding) {
    TRY(trm_program_open(builder, TRM_STEP_TYPE_SEQUENCE, builder->module->name, TRM_NO_INDEX, -1,
                         &top, error));
  }
  TRY(add_inputs(builder, &v, &bytes, error));
  TRY(add_stream(builder, "Inputs", TRM_PHASE_HOST_READ, bytes, error));
  const trm_value *root;
  TRY(trm_program_walk(builder, builder->module->entry, v.parameters, v.owned, &root, error));
  TRY(add_outputs(builder, &v, root, error));
  if (!builder->finding) trm_program_close(builder, top);
  return TRM_OK;
}

/* Forgets what one walk made, but for wishes and orders. */
static void clear_walk(trm_program_builder *builder) {
  builder->steps.count = builder->compute_sets.count = builder->variables.count = 0;
  builder->sources.count = builder->places.count = builder->more.count = 0;
  builder->last_use.count = builder->follows.count = builder->copies_of.count = 0;
  builder->signatures.count = builder->stage_uses.count = 0;
  builder->stage = -1;
  builder->pipeline_nesting = 0;
  builder->program->pipeline = builder->finding ? (trm_pipeline){0} : builder->program->pipeline;
  trm_arena_free(&builder->scratch);
  memset(builder->next_tile, 0, builder->program->num_ipus * sizeof *builder->next_tile);
}

static trm_status prepare(trm_program_builder *builder, trm_error *error) {
  trm_program *program = builder->program;
  const trm_module *module = builder->module;
  trm_arena *arena = &program->arena;
  const uint32_t needed = needed_ipus(module);
  program->num_ipus = program->options.num_ipus > needed ? program->options.num_ipus : needed;
  program->tiles_per_ipu = program->target->tiles_per_ipu;
  builder->wishes = ARENA_NEW(arena, trm_placement **, module->num_computations);
  builder->orders = ARENA_NEW(arena, uint32_t *, module->num_computations);
  builder->next_tile = ARENA_NEW(arena, uint32_t, program->num_ipus);
  if (builder->wishes == NULL || builder->orders == NULL || builder->next_tile == NULL) {
    FAIL_NO_MEMORY("a program");
  }
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    builder->wishes[c] =
        ARENA_NEW(arena, trm_placement *, (size_t)module->computations[c].num_instructions + 1);
    CHECK_MEMORY(builder->wishes[c], "a program");
  }
  return TRM_OK;
}

/* Hands the vectors over to the program. */
static trm_status finish(trm_program_builder *builder, trm_error *error) {
  trm_program *program = builder->program;
#define HAND_OVER(member, number)                                                          \
  program->number = (uint32_t)builder->member.count;                                       \
  program->member = trm_arena_copy(&program->arena, builder->member.items,                 \
                                   builder->member.count * sizeof *builder->member.items); \
  CHECK_MEMORY(program->member, "a program")
  HAND_OVER(steps, num_steps);
  HAND_OVER(compute_sets, num_compute_sets);
  HAND_OVER(variables, num_variables);
  HAND_OVER(sources, num_sources);
  HAND_OVER(notes, num_notes);
#undef HAND_OVER
  return TRM_OK;
}

trm_status trm_program_build(trm_program_builder *builder, trm_error *error) {
  TRY(prepare(builder, error));
  trm_status status = TRM_OK;
  builder->stage = -1;
  builder->finding = true;
  TRY_OR_GOTO(walk_entry(builder, error), done);
  clear_walk(builder);
  builder->finding = false;
  TRY_OR_GOTO(walk_entry(builder, error), done);
  if (builder->program->options.recompute && !builder->program->pipeline.present) {
    TRY_OR_GOTO(trm_program_add_note(builder, "allow_recompute changes pipelines only, and this "
                                     "program has none"), done);
  }
  TRY_OR_GOTO(trm_program_add_always_live(builder, error), done);
  TRY_OR_GOTO(finish(builder, error), done);
done:
  clear_walk(builder);
  VECTOR_FREE(&builder->steps);
  VECTOR_FREE(&builder->compute_sets);
  VECTOR_FREE(&builder->variables);
  VECTOR_FREE(&builder->sources);
  VECTOR_FREE(&builder->places);
  VECTOR_FREE(&builder->more);
  VECTOR_FREE(&builder->notes);
  VECTOR_FREE(&builder->last_use);
  VECTOR_FREE(&builder->follows);
  VECTOR_FREE(&builder->copies_of);
  VECTOR_FREE(&builder->signatures);
  VECTOR_FREE(&builder->stage_uses);
  for (size_t l = 0; l < builder->loops.count; ++l) {
    VECTOR_FREE(&builder->loops.items[l]->touched);
  }
  VECTOR_FREE(&builder->loops);
  trm_free(builder->outline_table);
  builder->outline_table = NULL;
  return status;
}
