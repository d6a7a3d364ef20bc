/* Owns: expanding mappings into bytes by tile. */
#include "report/lowered.h"

#include <string.h>
#include <xxhash.h>

enum { BYTES_ALIGNMENT = 4 };

typedef struct interned {
  uint32_t *slots; /* distribution + 1 */
  uint32_t mask;
} interned;

static trm_status grow(interned *table, const trm_lowered *lowered, trm_error *error) {
  const uint32_t size = table->slots == NULL ? 256 : 2 * (table->mask + 1);
  uint32_t *slots = trm_allocate_zeroed(size, sizeof *slots);
  CHECK_MEMORY(slots, "lowered variables");
  trm_free(table->slots);
  *table = (interned){slots, size - 1};
  for (uint32_t d = 0; d < lowered->distributions.count; ++d) {
    uint32_t at = (uint32_t)lowered->distributions.items[d].hash & table->mask;
    while (slots[at] != 0) at = (at + 1) & table->mask;
    slots[at] = d + 1;
  }
  return TRM_OK;
}

/* Enters the runs from `first_run` on as a distribution, or finds an equal one and drops them. */
static trm_status intern(trm_lowered *lowered, interned *table, uint32_t first_run, int64_t total,
                         uint32_t *out_index, trm_error *error) {
  const trm_lowered_run *runs = lowered->runs.items + first_run;
  const uint32_t count = (uint32_t)lowered->runs.count - first_run;
  const size_t bytes = count * sizeof *runs;
  const uint64_t hash = count == 0 ? 0 : XXH3_64bits(runs, bytes);
  uint32_t at = (uint32_t)hash & table->mask;
  for (; table->slots[at] != 0; at = (at + 1) & table->mask) {
    const uint32_t index = table->slots[at] - 1;
    const trm_lowered_distribution *d = &lowered->distributions.items[index];
    if (d->hash != hash || d->num_runs != count ||
        (count > 0 && memcmp(lowered->runs.items + d->first_run, runs, bytes) != 0)) {
      continue;
    }
    lowered->runs.count = first_run;
    *out_index = index;
    return TRM_OK;
  }
  const trm_lowered_distribution made = {first_run, count, hash, total};
  *out_index = (uint32_t)lowered->distributions.count;
  if (!VECTOR_PUSH(&lowered->distributions, made)) FAIL_NO_MEMORY("lowered variables");
  table->slots[at] = *out_index + 1;
  if (2 * lowered->distributions.count > table->mask) return grow(table, lowered, error);
  return TRM_OK;
}

static trm_status expand(trm_lowered *lowered, interned *table, const trm_program *program,
                         uint32_t v, int64_t *bytes, trm_error *error) {
  const trm_program_variable *variable = &program->variables[v];
  const uint32_t tiles = program->tiles_per_ipu;
  const uint32_t first_run = (uint32_t)lowered->runs.count;
  int64_t total = 0;
  if (variable->mapping.kind != TRM_MAPPING_NONE) {
    const uint32_t base = variable->mapping.ipu * tiles;
    memset(bytes, 0, tiles * sizeof *bytes);
    trm_mapping_add_bytes(&variable->mapping, 1, BYTES_ALIGNMENT, bytes);
    int64_t *always = NULL;
    if (variable->always_live) {
      int64_t **row = &lowered->always[variable->category];
      if (*row == NULL) *row = ARENA_NEW(&lowered->arena, int64_t, program->memory.num_tiles);
      CHECK_MEMORY(*row, "lowered variables");
      always = *row + base;
    }
    for (uint32_t t = 0; t < tiles;) {
      uint32_t end = t + 1;
      while (end < tiles && bytes[end] == bytes[t]) ++end;
      const trm_lowered_run run = {base + t, end - t, bytes[t]};
      if (bytes[t] != 0 && !VECTOR_PUSH(&lowered->runs, run)) FAIL_NO_MEMORY("lowered variables");
      total += bytes[t] * (end - t);
      for (; t < end; ++t) {
        if (always != NULL) always[t] += bytes[t];
      }
    }
  }
  return intern(lowered, table, first_run, total, &lowered->of_variable[v], error);
}

trm_status trm_lowered_create(const trm_program *program, trm_lowered *out_lowered,
                              trm_error *error) {
  *out_lowered = (trm_lowered){0};
  interned table = {0};
  trm_status status = TRM_OK;
  int64_t *bytes = trm_allocate_zeroed(program->tiles_per_ipu, sizeof *bytes);
  out_lowered->of_variable =
      ARENA_NEW(&out_lowered->arena, uint32_t, (size_t)program->num_variables + 1);
  if (bytes == NULL || out_lowered->of_variable == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while expanding variables");
  }
  TRY_OR_GOTO(grow(&table, out_lowered, error), done);
  uint32_t empty;
  TRY_OR_GOTO(intern(out_lowered, &table, 0, 0, &empty, error), done);
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    TRY_OR_GOTO(expand(out_lowered, &table, program, v, bytes, error), done);
  }
done:
  trm_free(bytes);
  trm_free(table.slots);
  if (status != TRM_OK) trm_lowered_free(out_lowered);
  return status;
}

void trm_lowered_free(trm_lowered *lowered) {
  VECTOR_FREE(&lowered->runs);
  VECTOR_FREE(&lowered->distributions);
  trm_arena_free(&lowered->arena);
}
