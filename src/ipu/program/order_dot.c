/* Owns: the graph of a module with the position of each instruction in an IPU's order of execution.
 */
#include "hlo/dot.h"
#include "ipu/program/program.h"

/* Positions by computation and instruction, in the order of the first step of each. */
static uint32_t **find_places(const trm_program *program, trm_arena *arena) {
  const trm_module *module = program->module;
  uint32_t **places = ARENA_NEW(arena, uint32_t *, (size_t)module->num_computations + 1);
  uint32_t *counts = ARENA_NEW(arena, uint32_t, (size_t)module->num_computations + 1);
  if (places == NULL || counts == NULL) return NULL;
  for (uint32_t c = 0; c < module->num_computations; ++c) {
    places[c] = ARENA_NEW(arena, uint32_t, (size_t)module->computations[c].num_instructions + 1);
    if (places[c] == NULL) return NULL;
  }
  for (uint32_t s = 0; s < program->num_steps; ++s) {
    if (program->steps[s].source == TRM_NO_INDEX) continue;
    const trm_program_source *source = &program->sources[program->steps[s].source];
    uint32_t *place = &places[source->computation][source->instruction];
    if (*place == 0) *place = ++counts[source->computation];
  }
  return places;
}

trm_status trm_program_print_schedule(const trm_program *program, char **out_text,
                                      trm_error *error) {
  trm_arena arena = {0};
  trm_text text = {0};
  uint32_t **places = find_places(program, &arena);
  if (places != NULL) {
    trm_hlo_print_dot(program->module, true, (const uint32_t *const *)places, &text);
  }
  trm_arena_free(&arena);
  if (places == NULL || text.failed) {
    trm_text_free(&text);
    FAIL_NO_MEMORY("a graph of the schedule");
  }
  *out_text = text.data;
  return TRM_OK;
}
