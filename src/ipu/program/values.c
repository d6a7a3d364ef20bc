/* Owns: the variables of a program, and the values that are views of them. */
#include <string.h>

#include "ipu/program/draft.h"
#include "ipu/target/target.h"

trm_status trm_program_add_variable(trm_program_draft *draft, const trm_new_variable *wanted,
                                    uint32_t *out_variable, trm_error *error) {
  const uint32_t index = (uint32_t)draft->values.variables.count;
  const uint32_t now = draft->steps.all.count > 0 ? (uint32_t)draft->steps.all.count - 1 : 0;
  const trm_program_variable variable = {
      .name = wanted->name,
      .source = wanted->source,
      .dtype = wanted->shape == NULL ? TRM_U8 : wanted->shape->dtype,
      .count = wanted->shape == NULL ? wanted->mapping.count : trm_shape_count(wanted->shape),
      .mapping = wanted->mapping,
      .category = wanted->category,
      .always_live = wanted->always_live,
      .live = {now, now},
      .worst_bytes = trm_mapping_worst_bytes(&wanted->mapping),
      .total_bytes = trm_mapping_total_bytes(&wanted->mapping),
  };
  if (!VECTOR_PUSH(&draft->values.variables, variable) ||
      !VECTOR_PUSH(&draft->values.last_use, 0) ||
      !VECTOR_PUSH(&draft->values.copy_preferences_of, TRM_NO_INDEX) ||
      !VECTOR_PUSH(&draft->values.follows, TRM_NO_INDEX) ||
      !VECTOR_PUSH(&draft->values.first, index)) {
    FAIL_NO_MEMORY("variables");
  }
  *out_variable = index;
  if (draft->stages.nesting < 2) return TRM_OK;
  while (draft->values.stage_uses.count <= index) {
    const trm_stage_use none = {-1, -1, 0, TRM_NO_INDEX, 0, false};
    if (!VECTOR_PUSH(&draft->values.stage_uses, none)) FAIL_NO_MEMORY("a pipeline");
  }
  draft->values.stage_uses.items[index] = trm_pipeline_made(draft, now);
  return TRM_OK;
}

void trm_program_follow(trm_program_draft *draft, uint32_t variable, uint32_t earlier) {
  draft->values.follows.items[variable] = earlier;
  draft->values.first.items[variable] = draft->values.first.items[earlier];
}

trm_value trm_value_plain(const trm_program_draft *draft, uint32_t variable) {
  const int64_t count = draft->values.variables.items[variable].count;
  return (trm_value){
      .variable = variable, .place = TRM_NO_INDEX, .source_count = count, .contiguous = count};
}

static trm_status touch_until(trm_program_draft *draft, uint32_t v, uint32_t now,
                              trm_error *error) {
  if (v == TRM_NO_INDEX) return TRM_OK;
  trm_program_variable *variable = &draft->values.variables.items[v];
  if (variable->is_remote) return TRM_OK;
  if (variable->live.end < now) variable->live.end = now;
  if (v < draft->values.stage_uses.count && draft->stages.nesting >= 2) {
    trm_stage_use *use = &draft->values.stage_uses.items[v];
    if (draft->stages.current > use->last_in) use->last_in = draft->stages.current;
    if (draft->stages.current == use->made_in && use->forward_end < now) use->forward_end = now;
    const int32_t last = 2 * (int32_t)draft->program->pipeline.num_stages - 1;
    if (draft->stages.current == last - use->made_in && use->backward_begin > draft->walk.reading) {
      use->backward_begin = draft->walk.reading;
    }
  }
  if (variable->always_live || draft->walk.loops.count == 0) return TRM_OK;
  trm_program_loop *loop = draft->walk.loops.items[draft->walk.loops.count - 1];
  if (variable->live.begin < loop->first_step && !VECTOR_PUSH(&loop->touched, v)) {
    FAIL_NO_MEMORY("a loop");
  }
  return TRM_OK;
}

trm_status trm_program_touch_variable(trm_program_draft *draft, uint32_t v, trm_error *error) {
  return touch_until(draft, v, (uint32_t)draft->steps.all.count, error);
}

trm_status trm_program_touch_until(trm_program_draft *draft, const trm_value *value, uint32_t end,
                                   trm_error *error) {
  TRY(touch_until(draft, value->variable, end, error));
  for (uint32_t k = 0; k < value->num_more; ++k) {
    TRY(touch_until(draft, draft->values.more.items[value->more + k], end, error));
  }
  return TRM_OK;
}

trm_status trm_program_touch(trm_program_draft *draft, const trm_value *value, trm_error *error) {
  return trm_program_touch_until(draft, value, (uint32_t)draft->steps.all.count, error);
}

const trm_mapping *trm_value_mapping(const trm_program_draft *draft, const trm_value *value) {
  static const trm_mapping nowhere = {.kind = TRM_MAPPING_NONE};
  if (value->place != TRM_NO_INDEX) return &draft->values.places.items[value->place];
  if (value->variable == TRM_NO_INDEX) return &nowhere;
  return &draft->values.variables.items[value->variable].mapping;
}

bool trm_value_is_last_use(const trm_program_draft *draft, const trm_value *value,
                           uint32_t position) {
  if (value->variable == TRM_NO_INDEX || value->num_more > 0 || value->is_constant) return false;
  return draft->values.last_use.items[value->variable] <= position;
}

bool trm_value_dies(const trm_program_draft *draft, const trm_value *value, uint32_t position) {
  return trm_value_is_last_use(draft, value, position) &&
         !draft->values.variables.items[value->variable].is_streamed;
}

/* The placement of the leaf from which a value's array comes; follows variables that took over a
 * place. */
static trm_placement *placement_of(trm_program_draft *draft, const trm_value *value,
                                   const trm_program_variable **out_variable) {
  if (value->variable == TRM_NO_INDEX || value->num_more > 0 || !draft->finding) return NULL;
  const uint32_t v = draft->values.first.items[value->variable];
  *out_variable = &draft->values.variables.items[v];
  const uint32_t preference = draft->values.copy_preferences_of.items[v];
  if (preference != TRM_NO_INDEX) return &draft->copies.preferences.items[preference].placement;
  if ((*out_variable)->source == TRM_NO_INDEX) return NULL;
  const trm_program_source *source = &draft->steps.sources.items[(*out_variable)->source];
  trm_placement *placements =
      draft->placements.preferences[source->computation][source->instruction];
  return placements == NULL ? NULL : &placements[(*out_variable)->leaf];
}

trm_placement *trm_program_placement_of(trm_program_draft *draft, const trm_value *value) {
  const trm_program_variable *variable;
  return placement_of(draft, value, &variable);
}

trm_tile_operand trm_value_operand(trm_program_draft *draft, const trm_value *value,
                                   const trm_shape *shape, uint32_t position) {
  const trm_program_variable *variable;
  trm_tile_operand operand = {.shape = *shape,
                              .mapping = *trm_value_mapping(draft, value),
                              .source_count = value->source_count,
                              .contiguous = value->contiguous,
                              .is_view = value->is_view,
                              .is_constant = value->is_constant,
                              .scalar = value->scalar,
                              .is_movable = placement_of(draft, value, &variable) != NULL,
                              .dies = trm_value_dies(draft, value, position)};
  operand.mapping.element_bytes = trm_tile_dtype_bytes(shape->dtype);
  return operand;
}

void trm_program_note_preference(trm_program_draft *draft, const trm_value *value,
                                 const trm_tile_preference *preference) {
  const trm_program_variable *variable;
  trm_placement *placement = placement_of(draft, value, &variable);
  /* Padding and combined groups make the array of a plan larger than the tensor. */
  if (placement == NULL || variable->count != value->source_count ||
      preference->mapping.count < variable->count ||
      placement->preference.kind >= preference->kind) {
    return;
  }
  placement->preference = *preference;
}

void trm_program_note_reader(trm_program_draft *draft, const trm_value *value, uint32_t ipu,
                             uint32_t source) {
  const trm_program_variable *variable;
  trm_placement *placement = placement_of(draft, value, &variable);
  if (placement == NULL) return;
  if (placement->ipu_plus_one == 0) placement->ipu_plus_one = ipu + 1;
  const char *name = draft->steps.sources.items[source].op_name;
  if (placement->reader == NULL && name[0] != '\0') placement->reader = name;
}

/* ---- Views ---------------------------------------------------------------------------------- */

static trm_status own_place(trm_program_draft *draft, trm_value *value, trm_mapping mapping,
                            trm_error *error) {
  value->place = (uint32_t)draft->values.places.count;
  if (!VECTOR_PUSH(&draft->values.places, mapping)) FAIL_NO_MEMORY("views");
  return TRM_OK;
}

/* The place of a slice of an array: the tiles that hold it. */
static trm_mapping slice_of(const trm_program_draft *draft, const trm_mapping *from,
                            trm_dtype dtype, int64_t count, uint64_t what, bool in_one_piece) {
  int64_t regions = from->regions;
  if (in_one_piece && from->count > 0) {
    regions =
        trm_ceil_divide(count, trm_most(1, trm_ceil_divide(from->count, trm_most(1, regions))));
  }
  regions = trm_most(1, trm_least(regions, count));
  trm_mapping m = trm_mapping_linear_grain(trm_program_target_of(draft, from->ipu), dtype, count, 1,
                                           trm_ceil_divide(trm_most(1, count), regions), from->ipu,
                                           from->first_tile);
  m.layout = trm_layout_combine(trm_layout_combine(from->layout, what), (uint64_t)count);
  return m;
}

static uint64_t hash_numbers(uint64_t h, const int64_t *numbers, int32_t count) {
  for (int32_t k = 0; k < count; ++k) h = trm_layout_combine(h, (uint64_t)numbers[k]);
  return h;
}

static trm_status view_transpose(trm_program_draft *draft, const trm_instruction *instruction,
                                 const trm_shape *from, trm_value *value, trm_error *error) {
  const trm_dims *permutation = &instruction->dimensions;
  /* Whether the order of all dimensions but those of size 1 is kept. */
  int64_t previous = -1, run = 1;
  bool kept = true;
  for (int32_t d = 0; d < permutation->count; ++d) {
    const int64_t source = permutation->items[d];
    if (from->dims[source] == 1) continue;
    kept = kept && source > previous;
    previous = source;
  }
  if (kept) return TRM_OK;
  for (int32_t d = permutation->count - 1; d >= 0 && permutation->items[d] == d; --d) {
    run *= from->dims[d];
  }
  trm_mapping mapping = *trm_value_mapping(draft, value);
  uint64_t what = hash_numbers(7, permutation->items, permutation->count);
  what = hash_numbers(what, from->dims, from->rank);
  mapping.layout = trm_layout_combine(mapping.layout, what);
  value->contiguous = trm_least(value->contiguous, run);
  value->is_view = true;
  return own_place(draft, value, mapping, error);
}

static trm_status view_slice(trm_program_draft *draft, const trm_instruction *instruction,
                             const trm_shape *from, trm_value *value, trm_error *error) {
  const trm_shape *to = &instruction->shape;
  const int64_t count = trm_shape_count(to), all = trm_shape_count(from);
  if (count == all) return TRM_OK;
  int64_t run = 1;
  bool in_one_piece = true;
  int32_t d = from->rank - 1;
  while (d >= 0 && to->dims[d] == from->dims[d]) run *= from->dims[d--];
  if (d >= 0 && instruction->slice[d].stride == 1) run *= to->dims[d];
  for (--d; d >= 0; --d) in_one_piece = in_one_piece && to->dims[d] == 1;
  uint64_t what = 11;
  for (int32_t k = 0; k < from->rank; ++k) {
    const int64_t numbers[3] = {instruction->slice[k].start, instruction->slice[k].limit,
                                instruction->slice[k].stride};
    what = hash_numbers(what, numbers, 3);
  }
  const trm_mapping mapping =
      slice_of(draft, trm_value_mapping(draft, value), to->dtype, count, what, in_one_piece);
  value->contiguous = trm_least(value->contiguous, run);
  value->source_count = value->source_count == all
                            ? count
                            : trm_most(1, (int64_t)((double)value->source_count * (double)count /
                                                    (double)trm_most(1, all)));
  value->is_view = true;
  return own_place(draft, value, mapping, error);
}

static trm_status view_broadcast(trm_program_draft *draft, const trm_instruction *instruction,
                                 const trm_shape *from, trm_value *value, trm_error *error) {
  const int64_t count = trm_shape_count(&instruction->shape);
  if (count == trm_shape_count(from)) return TRM_OK; /* dimensions of size 1 */
  trm_mapping mapping = *trm_value_mapping(draft, value);
  mapping.layout = trm_layout_combine(
      mapping.layout, hash_numbers(13, instruction->shape.dims, instruction->shape.rank));
  value->is_view = true;
  return own_place(draft, value, mapping, error);
}

/* A view of several arrays side by side. */
static trm_status view_concatenate(trm_program_draft *draft, const trm_program_scope *scope,
                                   const trm_instruction *instruction, trm_value *value,
                                   trm_error *error) {
  const trm_shape *shape = &instruction->shape;
  int64_t run = 1, regions = 0, worst = 0, sources = 0;
  uint64_t layout = 17;
  const uint32_t first = (uint32_t)draft->values.more.count;
  const int64_t along = instruction->dimensions.items[0];
  for (int32_t d = shape->rank - 1; d > along; --d) run *= shape->dims[d];
  int64_t shortest = INT64_MAX;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_value *operand = scope->leaves[instruction->operands[k]];
    const trm_shape *joined = &trm_scope_at(draft, scope, instruction->operands[k])->shape;
    const trm_mapping *mapping = trm_value_mapping(draft, operand);
    if (trm_shape_count(joined) == 0) continue;
    layout = trm_layout_combine(layout, mapping->layout);
    regions += mapping->regions;
    worst += mapping->worst;
    sources += operand->source_count;
    shortest = trm_least(shortest, joined->dims[instruction->dimensions.items[0]] * run);
    shortest = trm_least(shortest, operand->contiguous);
    if (operand->variable == TRM_NO_INDEX) continue;
    if (value->variable == TRM_NO_INDEX) value->variable = operand->variable;
    else if (!VECTOR_PUSH(&draft->values.more, operand->variable)) FAIL_NO_MEMORY("views");
    for (uint32_t m = 0; m < operand->num_more; ++m) {
      const uint32_t other = draft->values.more.items[operand->more + m];
      if (!VECTOR_PUSH(&draft->values.more, other)) FAIL_NO_MEMORY("views");
    }
  }
  value->more = first;
  value->num_more = (uint32_t)draft->values.more.count - first;
  value->source_count = sources;
  value->contiguous = shortest == INT64_MAX ? 1 : trm_most(1, shortest);
  value->is_view = true;
  const uint32_t ipu = (uint32_t)scope->ipus[instruction->operands[0]];
  const trm_target *target = trm_program_target_of(draft, ipu);
  const int64_t tiles = target->tiles_per_ipu;
  const int64_t count = trm_shape_count(shape);
  regions = trm_most(1, trm_least(trm_least(regions, tiles), count));
  trm_mapping mapping = trm_mapping_linear_grain(
      target, shape->dtype, count, 1, trm_ceil_divide(trm_most(1, count), regions), ipu, 0);
  mapping.worst = trm_most(mapping.worst, trm_least(worst, mapping.worst * 4));
  mapping.layout = layout;
  return own_place(draft, value, mapping, error);
}

trm_status trm_program_view(trm_program_draft *draft, const trm_program_scope *scope, trm_index i,
                            trm_value *out_value, trm_error *error) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  if (instruction->opcode == TRM_OP_CONCATENATE && instruction->num_operands > 1) {
    *out_value = (trm_value){.variable = TRM_NO_INDEX, .place = TRM_NO_INDEX};
    return view_concatenate(draft, scope, instruction, out_value, error);
  }
  const trm_shape *from = &trm_scope_at(draft, scope, instruction->operands[0])->shape;
  *out_value = *scope->leaves[instruction->operands[0]];
  switch (instruction->opcode) {
    case TRM_OP_TRANSPOSE: return view_transpose(draft, instruction, from, out_value, error);
    case TRM_OP_SLICE: return view_slice(draft, instruction, from, out_value, error);
    case TRM_OP_BROADCAST: return view_broadcast(draft, instruction, from, out_value, error);
    case TRM_OP_REVERSE: {
      trm_mapping mapping = *trm_value_mapping(draft, out_value);
      mapping.layout = trm_layout_combine(
          mapping.layout,
          hash_numbers(19, instruction->dimensions.items, instruction->dimensions.count));
      out_value->contiguous = 1;
      out_value->is_view = true;
      return own_place(draft, out_value, mapping, error);
    }
    default: /* reshape, bitcast, conversions between types that are equal on an IPU */
      if (instruction->opcode == TRM_OP_CONVERT) out_value->scalar = NULL;
      return TRM_OK;
  }
}
