/* Owns: the table of distributions (distributions.h). */
#include "report/distributions.h"

#include <string.h>
#include <xxhash.h>

static trm_status grow(trm_distributions *d, trm_error *error) {
  const uint32_t size = d->slots == NULL ? 256 : 2 * (d->mask + 1);
  uint32_t *slots = trm_allocate_zeroed(size, sizeof *slots);
  CHECK_MEMORY(slots, "numbers by tile");
  trm_free(d->slots);
  d->slots = slots, d->mask = size - 1;
  for (uint32_t i = 0; i < d->items.count; ++i) {
    uint32_t at = (uint32_t)d->items.items[i].hash & d->mask;
    while (slots[at] != 0) at = (at + 1) & d->mask;
    slots[at] = i + 1;
  }
  return TRM_OK;
}

/* Adds the runs from `first_run` on as a distribution, or drops them if an equal one exists. */
static trm_status intern(trm_distributions *d, uint32_t first_run, int64_t total,
                         uint32_t *out_index, trm_error *error) {
  const trm_tile_run *runs = d->runs.items + first_run;
  const uint32_t count = (uint32_t)d->runs.count - first_run;
  const size_t bytes = count * sizeof *runs;
  const uint64_t hash = count == 0 ? 0 : XXH3_64bits(runs, bytes);
  uint32_t at = (uint32_t)hash & d->mask;
  for (; d->slots[at] != 0; at = (at + 1) & d->mask) {
    const uint32_t index = d->slots[at] - 1;
    const trm_distribution *o = &d->items.items[index];
    if (o->hash != hash || o->num_runs != count ||
        (count > 0 && memcmp(d->runs.items + o->first_run, runs, bytes) != 0)) {
      continue;
    }
    d->runs.count = first_run;
    *out_index = index;
    return TRM_OK;
  }
  const trm_distribution made = {first_run, count, hash, total};
  *out_index = (uint32_t)d->items.count;
  if (!VECTOR_PUSH(&d->items, made)) FAIL_NO_MEMORY("numbers by tile");
  d->slots[at] = *out_index + 1;
  return 2 * d->items.count > d->mask ? grow(d, error) : TRM_OK;
}

trm_status trm_distributions_add(trm_distributions *d, const int64_t *values, uint32_t num_tiles,
                                 uint32_t first_tile, uint32_t *out_index, trm_error *error) {
  if (d->slots == NULL) {
    TRY(grow(d, error));
    uint32_t empty;
    TRY(intern(d, 0, 0, &empty, error));
  }
  const uint32_t first_run = (uint32_t)d->runs.count;
  int64_t total = 0;
  for (uint32_t t = 0, end; t < num_tiles; t = end) {
    for (end = t + 1; end < num_tiles && values[end] == values[t];) ++end;
    if (values[t] == 0) continue;
    const trm_tile_run run = {first_tile + t, end - t, values[t]};
    if (!VECTOR_PUSH(&d->runs, run)) FAIL_NO_MEMORY("numbers by tile");
    total += values[t] * (end - t);
  }
  return intern(d, first_run, total, out_index, error);
}

void trm_distributions_free(trm_distributions *d) {
  VECTOR_FREE(&d->runs);
  VECTOR_FREE(&d->items);
  trm_free(d->slots);
  d->slots = NULL;
}
