/* Owns: slice-apply. An elementwise instruction of an array and a concatenation is computed in the
 * array's place, one operand of the concatenation after the other, each on a slice of the array. */
#include <inttypes.h>

#include "ipu/program/draft.h"
#include "ipu/target/target.h"

bool trm_slices_apply(const trm_program_draft *draft, const trm_program_scope *scope,
                      const trm_instruction *instruction, uint32_t k) {
  return k == 0 && instruction->num_operands == 2 &&
         trm_opcode_is_elementwise(instruction->opcode) &&
         trm_scope_at(draft, scope, instruction->operands[1])->opcode == TRM_OP_CONCATENATE;
}

/* Whether nothing but the shapes decides how instruction i is computed. */
static bool is_plain(const trm_program_draft *draft, const trm_program_scope *scope, trm_index i) {
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  if (draft->finding || scope->updates.first[i] != TRM_NO_INDEX ||
      !trm_slices_apply(draft, scope, instruction, 0)) {
    return false;
  }
  const trm_shape *from = &trm_scope_at(draft, scope, instruction->operands[0])->shape;
  const trm_value *array = scope->leaves[instruction->operands[0]];
  const trm_value *concatenated = scope->leaves[instruction->operands[1]];
  const trm_mapping *place = trm_value_mapping(draft, array);
  return !array->is_view && concatenated->num_more > 0 && place->ipu == (uint32_t)scope->ipus[i] &&
         place->kind != TRM_MAPPING_NONE && place->kind != TRM_MAPPING_SPREAD &&
         trm_tile_dtype_bytes(from->dtype) == trm_tile_dtype_bytes(instruction->shape.dtype) &&
         trm_value_is_last_use(draft, array, scope->position);
}

/* A slice of the array, which lies on all of its tiles: the fullest tile of a published program of
 * this form (a serialised matmul) holds 1 % more than the mean. */
static trm_tile_operand slice_of(trm_program_draft *draft, const trm_value *array,
                                 const trm_shape *shape, uint32_t position) {
  trm_tile_operand slice = trm_value_operand(draft, array, shape, position);
  const int64_t count = trm_shape_count(shape);
  const int64_t regions = trm_most(1, trm_least(slice.mapping.regions, count));
  const uint32_t ipu = slice.mapping.ipu;
  slice.mapping =
      trm_mapping_linear_grain(trm_program_target_of(draft, ipu), shape->dtype, count, 1,
                               trm_ceil_divide(count, regions), ipu, slice.mapping.first_tile);
  slice.source_count = slice.contiguous = count;
  slice.is_movable = false;
  slice.dies = true;
  return slice;
}

/* Applies one operand, a value that lies on the array's IPU. */
static trm_status apply(trm_program_draft *draft, const trm_program_scope *scope, trm_index i,
                        const trm_value *array, const trm_value *operand, const trm_shape *shape,
                        trm_error *error) {
  trm_instruction one = *trm_scope_at(draft, scope, i);
  trm_shape slice = *shape;
  slice.dtype = trm_scope_at(draft, scope, one.operands[0])->shape.dtype;
  const trm_dtype result = one.shape.dtype;
  one.shape = *shape;
  one.shape.dtype = result;
  const trm_tile_operand operands[2] = {slice_of(draft, array, &slice, scope->position),
                                        trm_value_operand(draft, operand, shape, scope->position)};
  const uint32_t ipu = (uint32_t)scope->ipus[i];
  uint32_t source, count;
  TRY(trm_program_add_source(draft, scope->computation, i, &source, error));
  TRY(trm_program_count_word(draft, "slice-apply", &count, error));
  const char *name =
      count == 1 ? "slice-apply"
                 : trm_arena_format(&draft->program->arena, "slice-apply.%" PRIu32, count - 1);
  CHECK_MEMORY(name, "names");
  draft->steps.sources.items[source].hlo_name = name;
  const trm_tile_request request = {.target = trm_program_target_of(draft, ipu),
                                    .options = trm_pipeline_options(draft, &one),
                                    .module = draft->module,
                                    .computation = &draft->module->computations[scope->computation],
                                    .instruction = &one,
                                    .num_operands = 2,
                                    .operands = operands,
                                    .ipu = ipu,
                                    .next_tile = draft->placements.next_tile[ipu],
                                    .plans = draft->plans,
                                    .roles = (trm_tile_role *const *)draft->roles};
  trm_tile_cost cost = {.arena = &draft->program->arena};
  const char *note;
  trm_cost_steps steps;
  trm_status status = trm_program_cost(&request, &cost, &note, error);
  if (status == TRM_OK) {
    trm_tile_cost_place(&cost, &request);
    status = trm_program_add_cost(draft, &cost, source, ipu, &steps, error);
  }
  trm_tile_cost_free(&cost);
  TRY(status);
  TRY(trm_program_touch(draft, array, error));
  return trm_program_touch(draft, operand, error);
}

trm_status trm_slices_walk(trm_program_draft *draft, trm_program_scope *scope, trm_index i,
                           bool *out_done, trm_error *error) {
  *out_done = is_plain(draft, scope, i);
  if (!*out_done) return TRM_OK;
  const trm_instruction *instruction = trm_scope_at(draft, scope, i);
  const trm_instruction *concatenated = trm_scope_at(draft, scope, instruction->operands[1]);
  const trm_value array = *scope->leaves[instruction->operands[0]];
  for (uint32_t p = 0; p < concatenated->num_operands; ++p) {
    const trm_shape *shape = &trm_scope_at(draft, scope, concatenated->operands[p])->shape;
    if (trm_shape_count(shape) == 0) continue;
    TRY(apply(draft, scope, i, &array, scope->leaves[concatenated->operands[p]], shape, error));
  }
  scope->leaves[i] = ARENA_NEW(&draft->scratch, trm_value, 1);
  CHECK_MEMORY(scope->leaves[i], "values");
  scope->leaves[i][0] = trm_value_plain(draft, array.variable);
  draft->values.last_use.items[array.variable] = scope->last[i][0];
  if (array.variable < draft->copies.of.count) {
    draft->copies.of.items[array.variable] = TRM_NO_INDEX;
  }
  return TRM_OK;
}
