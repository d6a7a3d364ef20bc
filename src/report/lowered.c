/* Owns: expanding mappings into bytes by tile (lowered.h). */
#include "report/lowered.h"

#include <string.h>

enum { BYTES_ALIGNMENT = 4 };

static trm_status expand(trm_lowered *lowered, const trm_program *program, uint32_t v,
                         int64_t *bytes, trm_error *error) {
  const trm_program_variable *variable = &program->variables[v];
  const uint32_t tiles = program->tiles_per_ipu;
  uint32_t *distribution = &lowered->of_variable[v];
  memset(bytes, 0, tiles * sizeof *bytes);
  if (variable->mapping.kind == TRM_MAPPING_NONE) {
    return trm_distributions_add(&lowered->distributions, bytes, 0, 0, distribution, error);
  }
  const uint32_t base = variable->mapping.ipu * tiles;
  trm_mapping_add_bytes(&variable->mapping, 1, BYTES_ALIGNMENT, bytes);
  if (variable->always_live) {
    int64_t **row = &lowered->always[variable->category];
    if (*row == NULL) *row = ARENA_NEW(&lowered->arena, int64_t, program->memory.num_tiles);
    CHECK_MEMORY(*row, "lowered variables");
    for (uint32_t t = 0; t < tiles; ++t) (*row)[base + t] += bytes[t];
  }
  return trm_distributions_add(&lowered->distributions, bytes, tiles, base, distribution, error);
}

trm_status trm_lowered_create(const trm_program *program, trm_lowered *out_lowered,
                              trm_error *error) {
  *out_lowered = (trm_lowered){0};
  trm_status status = TRM_OK;
  int64_t *bytes = trm_allocate_zeroed(program->tiles_per_ipu, sizeof *bytes);
  out_lowered->of_variable =
      ARENA_NEW(&out_lowered->arena, uint32_t, (size_t)program->num_variables + 1);
  if (bytes == NULL || out_lowered->of_variable == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while expanding variables");
  }
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    TRY_OR_GOTO(expand(out_lowered, program, v, bytes, error), done);
  }
done:
  trm_free(bytes);
  if (status != TRM_OK) trm_lowered_free(out_lowered);
  return status;
}

void trm_lowered_free(trm_lowered *lowered) {
  trm_distributions_free(&lowered->distributions);
  trm_arena_free(&lowered->arena);
}
