/* Owns: where leaves that nothing computes are allocated: inputs, constants, elements of feeds. */
#include "ipu/program/draft.h"
#include "ipu/target/target.h"

const trm_tile_preference *trm_program_preference_for(const trm_program_draft *draft,
                                                      uint32_t computation, trm_index i,
                                                      uint32_t leaf) {
  const trm_placement *placements = draft->placements.preferences[computation][i];
  if (placements == NULL || placements[leaf].preference.kind == TRM_PREFERENCE_NONE) return NULL;
  return &placements[leaf].preference;
}

/* The IPU of a leaf that nothing computes: that of its own sharding, else of its first reader. */
uint32_t trm_program_ipu_for(const trm_program_draft *draft, uint32_t computation, trm_index i,
                             uint32_t leaf) {
  const trm_placement *placements = draft->placements.preferences[computation][i];
  const trm_instruction *instruction = &draft->module->computations[computation].instructions[i];
  const int32_t sharded = trm_program_sharded_ipu(draft->program, instruction->sharding);
  uint32_t ipu = sharded >= 0 ? (uint32_t)sharded : 0;
  if (sharded < 0 && placements != NULL && placements[leaf].ipu_plus_one > 0) {
    ipu = placements[leaf].ipu_plus_one - 1;
  }
  return ipu < draft->program->num_ipus ? ipu : 0;
}

/* A linear mapping that begins where the last one ended, so that small arrays spread over the
 * tiles. */
trm_mapping trm_program_next_linear(trm_program_draft *draft, const trm_shape *shape,
                                    uint32_t ipu) {
  const trm_mapping m = trm_mapping_linear(trm_program_target_of(draft, ipu), shape, ipu,
                                           draft->placements.next_tile[ipu]);
  if (m.regions > 0) {
    draft->placements.next_tile[ipu] = (draft->placements.next_tile[ipu] + m.regions) % m.tiles;
  }
  return m;
}

/* Where to allocate a leaf that nothing computes: an input, a constant, an element of a feed. */
trm_mapping trm_program_allocate(trm_program_draft *draft, uint32_t computation, trm_index i,
                                 uint32_t leaf, const trm_shape *shape, uint32_t ipu) {
  const trm_tile_preference *preference = trm_program_preference_for(draft, computation, i, leaf);
  /* In both cases, so that preferences of other leaves do not move it. */
  const trm_mapping linear = trm_program_next_linear(draft, shape, ipu);
  if (preference == NULL || preference->mapping.ipu != ipu) return linear;
  return trm_mapping_like(&preference->mapping, shape->dtype);
}

trm_status trm_program_make_placements(trm_program_draft *draft, uint32_t computation, trm_index i,
                                       int32_t leaves, trm_error *error) {
  if (!draft->finding || draft->placements.preferences[computation][i] != NULL) return TRM_OK;
  draft->placements.preferences[computation][i] =
      ARENA_NEW(&draft->program->arena, trm_placement, (size_t)leaves + 1);
  CHECK_MEMORY(draft->placements.preferences[computation][i], "a program");
  return TRM_OK;
}
