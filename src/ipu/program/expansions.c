/* Owns: classes of tiles, and the bytes of mappings by class, kept for the next variable that lies
 * in the same way. A mapping that takes another's slot replaces it. */
#include "ipu/program/expansions.h"

#include <string.h>
#include <xxhash.h>

#include "ipu/tile/exchange.h"

enum { FEW_REGIONS = 32 }; /* which are as quickly added one by one */

/* ---- Classes --------------------------------------------------------------------------------- */

/* Equal tiles get equal sums of hashes of the pieces that they hold. */
typedef struct tile_hashes {
  uint64_t *sums;     /* by tile of all IPUs */
  uint64_t *known;    /* hashes of mappings that are in the sums; one that is added again does no
                         harm */
  uint32_t *variable; /* with that mapping, plus 1; 0: none */
} tile_hashes;

static void hash_variables(const trm_program *program, const trm_tile_classes *classes,
                           tile_hashes *h) {
  for (uint32_t v = 0; v < program->num_variables; ++v) {
    const trm_mapping *m = &program->variables[v].mapping;
    if (m->kind == TRM_MAPPING_NONE) continue;
    const uint64_t seed = XXH3_64bits(m, sizeof *m);
    const size_t slot = seed % TRM_NUM_EXPANSIONS;
    if (h->variable[slot] > 0 && h->known[slot] == seed &&
        memcmp(&program->variables[h->variable[slot] - 1].mapping, m, sizeof *m) == 0) {
      continue;
    }
    h->known[slot] = seed;
    h->variable[slot] = v + 1;
    trm_mapping_add_hashes(m, seed, h->sums + (size_t)m->ipu * classes->tiles);
  }
}

/* Numbers the classes of an IPU by their first tiles, from classes->first[ipu] on. `table` has
 * `places`, a power of two. */
static void number_classes(trm_tile_classes *classes, uint32_t ipu, const uint64_t *sums,
                           uint32_t *table, size_t places) {
  uint32_t count = classes->first[ipu];
  memset(table, 0xff, places * sizeof *table);
  for (uint32_t t = ipu * classes->tiles; t < (ipu + 1) * classes->tiles; ++t) {
    size_t at = sums[t] & (places - 1);
    while (table[at] != UINT32_MAX && sums[classes->tile[table[at]]] != sums[t]) {
      at = (at + 1) & (places - 1);
    }
    if (table[at] == UINT32_MAX) {
      table[at] = count;
      classes->tile[count++] = t;
    }
    classes->class_of[t] = table[at];
    ++classes->size[table[at]];
  }
  classes->first[ipu + 1] = count;
}

trm_status trm_tile_classes_find(const trm_program *program, trm_arena *arena,
                                 trm_tile_classes *out_classes, trm_error *error) {
  trm_tile_classes c = {.tiles = program->tiles_per_ipu, .num_ipus = program->num_ipus};
  const size_t all = (size_t)c.num_ipus * c.tiles;
  size_t places = 16;
  while (places < 2 * (size_t)c.tiles) places *= 2;
  c.first = ARENA_NEW(arena, uint32_t, c.num_ipus + (size_t)1);
  c.class_of = ARENA_NEW(arena, uint32_t, all);
  c.tile = ARENA_NEW(arena, uint32_t, all);
  c.size = ARENA_NEW(arena, uint32_t, all);
  tile_hashes h = {.sums = ARENA_NEW(arena, uint64_t, all),
                   .known = ARENA_NEW(arena, uint64_t, TRM_NUM_EXPANSIONS),
                   .variable = ARENA_NEW(arena, uint32_t, TRM_NUM_EXPANSIONS)};
  uint32_t *table = ARENA_NEW(arena, uint32_t, places);
  if (c.first == NULL || c.class_of == NULL || c.tile == NULL || c.size == NULL || table == NULL ||
      h.sums == NULL || h.known == NULL || h.variable == NULL) {
    FAIL_NO_MEMORY("classes of tiles");
  }
  hash_variables(program, &c, &h);
  for (uint32_t ipu = 0; ipu < c.num_ipus; ++ipu) {
    number_classes(&c, ipu, h.sums, table, places);
  }
  *out_classes = c;
  return TRM_OK;
}

/* ---- Bytes by class -------------------------------------------------------------------------- */

/* The slot with the bytes of a mapping; NULL: there is no memory for them. */
static const trm_expansion *find(trm_expansions *e, const trm_mapping *mapping,
                                 uint32_t alignment) {
  const uint64_t hash = XXH3_64bits_withSeed(mapping, sizeof *mapping, alignment);
  trm_expansion *slot = &e->slots[hash % TRM_NUM_EXPANSIONS];
  if (slot->alignment == alignment && memcmp(&slot->mapping, mapping, sizeof *mapping) == 0) {
    return slot;
  }
  const uint32_t *first = e->classes->first + mapping->ipu;
  const uint32_t count = first[1] - first[0];
  if (slot->room < count) {
    slot->bytes = ARENA_NEW(&e->arena, int64_t, count);
    slot->room = slot->bytes == NULL ? 0 : count;
  }
  slot->alignment = 0;
  if (slot->bytes == NULL) return NULL;
  trm_mapping_add_bytes(mapping, 1, alignment, e->by_tile);
  const uint32_t base = mapping->ipu * e->classes->tiles;
  for (uint32_t k = 0; k < count; ++k) {
    slot->bytes[k] = e->by_tile[e->classes->tile[first[0] + k] - base];
  }
  memset(e->by_tile, 0, e->classes->tiles * sizeof *e->by_tile);
  memcpy(&slot->mapping, mapping, sizeof *mapping);
  slot->alignment = alignment;
  return slot;
}

static int64_t region_bytes(const trm_mapping *mapping, uint32_t region, uint32_t alignment) {
  const int64_t elements = trm_most(0, trm_mapping_region_elements(mapping, region));
  return (elements * mapping->element_bytes + alignment - 1) & -(int64_t)alignment;
}

/* Adds each region to the class of its tile, if that tile stands for the class. */
static void add_regions(const trm_tile_classes *classes, const trm_mapping *mapping, int sign,
                        uint32_t alignment, int64_t *by_class) {
  const uint32_t base = mapping->ipu * classes->tiles;
  for (uint32_t r = 0; r < mapping->regions; ++r) {
    const uint32_t tile = base + trm_mapping_tile(mapping, r);
    const uint32_t class = classes->class_of[tile];
    if (classes->tile[class] != tile) continue;
    by_class[class] += sign * region_bytes(mapping, r, alignment);
  }
}

void trm_expansions_add(trm_expansions *e, const trm_mapping *mapping, int sign, uint32_t alignment,
                        int64_t *by_class) {
  if (mapping->kind == TRM_MAPPING_NONE) return;
  const trm_expansion *found = mapping->regions < FEW_REGIONS ? NULL : find(e, mapping, alignment);
  if (found == NULL) {
    add_regions(e->classes, mapping, sign, alignment, by_class);
    return;
  }
  int64_t *to = by_class + e->classes->first[mapping->ipu];
  const uint32_t count = e->classes->first[mapping->ipu + 1] - e->classes->first[mapping->ipu];
  if (sign > 0) {
    for (uint32_t k = 0; k < count; ++k) to[k] += found->bytes[k];
  } else {
    for (uint32_t k = 0; k < count; ++k) to[k] -= found->bytes[k];
  }
}

void trm_expansions_free(trm_expansions *expansions) { trm_arena_free(&expansions->arena); }
