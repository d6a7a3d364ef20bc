/* Owns: copies of values on other IPUs: each is made once, where its readers want it. */
#include "ipu/program/draft.h"
#include "ipu/target/target.h"

/* The copy of a value that an IPU has already, or TRM_NO_INDEX. */
static uint32_t find_copy(const trm_program_draft *draft, const trm_value *value, uint32_t ipu) {
  if (value->num_more > 0 || value->is_view || draft->copies.of.count <= value->variable) {
    return TRM_NO_INDEX;
  }
  const uint32_t copy = draft->copies.of.items[value->variable];
  const bool is_there =
      copy != TRM_NO_INDEX && draft->values.variables.items[copy].mapping.ipu == ipu;
  return is_there ? copy : TRM_NO_INDEX;
}

/* The cost of copying `bytes` to another IPU. A message arrives in one piece, which is then put in
 * place. */
static trm_status cost_ipu_copy(const trm_target *target, const trm_mapping *from,
                                const trm_mapping *to, int64_t bytes, trm_tile_cost *cost,
                                trm_error *error) {
  const double rate = trm_target_link_rate(target);
  const double cycles = rate > 0 ? (double)bytes / rate * target->clock_frequency : 0;
  const int64_t regions = trm_most(from->regions, to->regions);
  const trm_phase phase = {
      .kind = TRM_PHASE_GLOBAL_EXCHANGE,
      .name = "inter-ipu-copy",
      .cycles = (int64_t)cycles + 1,
      .sync_cycles = target->global_sync_cycles,
      .cycles_mean = cycles,
      .active_tiles = regions > target->tiles_per_ipu ? target->tiles_per_ipu : (uint32_t)regions,
      .bytes_in_worst = trm_mapping_worst_bytes(to),
      .bytes_in_total = bytes,
      .bytes_out_worst = trm_mapping_worst_bytes(from),
      .bytes_out_total = bytes,
      .messages_worst = 2};
  TRY(trm_tile_cost_add(cost, &phase, error));
  const trm_tile_request request = {.target = target};
  return trm_tile_add_copy(&request, cost, "inter-ipu-copy", trm_mapping_worst_bytes(to),
                           trm_mapping_total_bytes(to), 8, to->regions, error);
}

/* Whether a value is there in all that the innermost loop still does: it was made in this
 * iteration, or there is no loop. */
static bool is_of_iteration(const trm_program_draft *draft, const trm_value *value) {
  const size_t loops = draft->walk.loops.count;
  if (loops == 0) return true;
  const trm_program_variable *o = &draft->values.variables.items[value->variable];
  return !o->always_live && o->live.begin >= draft->walk.loops.items[loops - 1]->first_step;
}

/* Remembers a copy for later readers. */
static trm_status remember_copy(trm_program_draft *draft, const trm_value *value, uint32_t copy,
                                trm_error *error) {
  while (draft->copies.of.count <= value->variable) {
    if (!VECTOR_PUSH(&draft->copies.of, TRM_NO_INDEX)) FAIL_NO_MEMORY("copies");
  }
  if (!value->is_view && is_of_iteration(draft, value)) {
    draft->copies.of.items[value->variable] = copy;
  }
  return TRM_OK;
}

/* The preference of a variable's copy on an IPU, which the first walk adds; TRM_NO_INDEX: none. */
static trm_status find_copy_preference(trm_program_draft *draft, uint32_t variable, uint32_t ipu,
                                       uint32_t *out_preference, trm_error *error) {
  const trm_program_variable *v = &draft->values.variables.items[variable];
  *out_preference = TRM_NO_INDEX;
  if (v->source == TRM_NO_INDEX) return TRM_OK;
  const trm_program_source *source = &draft->steps.sources.items[v->source];
  uint32_t *first = &draft->copies.first[source->computation][source->instruction];
  for (uint32_t next = *first; next != 0;) {
    const trm_copy_preference *one = &draft->copies.preferences.items[next - 1];
    if (one->leaf == v->leaf && one->ipu == ipu) {
      *out_preference = next - 1;
      return TRM_OK;
    }
    next = one->next;
  }
  if (!draft->finding) return TRM_OK;
  const trm_copy_preference wanted = {.leaf = v->leaf, .ipu = ipu, .next = *first};
  *out_preference = (uint32_t)draft->copies.preferences.count;
  if (!VECTOR_PUSH(&draft->copies.preferences, wanted)) FAIL_NO_MEMORY("copies");
  *first = *out_preference + 1;
  return TRM_OK;
}

/* Where a copy of an array to another IPU lies: where its readers there want it, else as the array.
 */
static trm_mapping place_copy(trm_program_draft *draft, const trm_value *value,
                              const trm_shape *shape, uint32_t ipu, uint32_t preference) {
  trm_mapping place = *trm_value_mapping(draft, value);
  place.ipu = ipu;
  place.layout = trm_layout_combine(place.layout, ipu + 1);
  const uint32_t tiles = trm_program_target_of(draft, ipu)->tiles_per_ipu;
  if (value->is_view || place.regions > tiles) place = trm_program_next_linear(draft, shape, ipu);
  place.tiles = tiles;
  place.element_bytes = trm_tile_dtype_bytes(shape->dtype);
  if (draft->finding || preference == TRM_NO_INDEX) return place;
  const trm_tile_preference *wanted =
      &draft->copies.preferences.items[preference].placement.preference;
  const bool is_wanted = wanted->kind != TRM_PREFERENCE_NONE && wanted->mapping.ipu == ipu;
  return is_wanted ? trm_mapping_like(&wanted->mapping, shape->dtype) : place;
}

/* Copies an array of another IPU to this one, once for all its readers here. */
trm_status trm_program_bring_to_ipu(trm_program_draft *draft, trm_value *value,
                                    const trm_shape *shape, uint32_t ipu, uint32_t source,
                                    trm_error *error) {
  trm_program_note_reader(draft, value, ipu, source);
  const trm_mapping *from = trm_value_mapping(draft, value);
  if (value->variable == TRM_NO_INDEX || from->kind == TRM_MAPPING_NONE || from->ipu == ipu ||
      (value->is_constant && value->source_count <= 1)) {
    return TRM_OK;
  }
  uint32_t copy = find_copy(draft, value, ipu);
  if (copy != TRM_NO_INDEX) {
    *value = trm_value_plain(draft, copy);
    return TRM_OK;
  }
  uint32_t preference;
  TRY(find_copy_preference(draft, value->variable, ipu, &preference, error));
  const trm_mapping to = place_copy(draft, value, shape, ipu, preference);
  const int64_t bytes = trm_most(1, value->source_count) * to.element_bytes;
  trm_tile_cost cost = {.arena = &draft->program->arena};
  trm_cost_steps steps;
  trm_status status =
      cost_ipu_copy(trm_program_target_of(draft, ipu), from, &to, bytes, &cost, error);
  if (status == TRM_OK && !draft->finding) {
    status = trm_program_add_cost(draft, &cost, source, ipu, &steps, error);
  }
  trm_tile_cost_free(&cost);
  TRY(status);
  TRY(trm_program_touch(draft, value, error));
  const trm_new_variable wanted = {.name = draft->values.variables.items[value->variable].name,
                                   .source = source,
                                   .shape = shape,
                                   .mapping = to,
                                   .category = TRM_CATEGORY_VARIABLE};
  TRY(trm_program_add_variable(draft, &wanted, &copy, error));
  draft->values.variables.items[copy].copied = shape;
  draft->values.copy_preferences_of.items[copy] = preference;
  draft->values.last_use.items[copy] = TRM_NEVER_DIES;
  if (copy < draft->values.stage_uses.count) draft->values.stage_uses.items[copy].comes_in = true;
  TRY(remember_copy(draft, value, copy, error));
  *value = trm_value_plain(draft, copy);
  return TRM_OK;
}
