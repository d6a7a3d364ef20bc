/* Owns: bytes by tile of mappings, kept for the next variable that lies in the same way. A mapping
 * that takes another's slot replaces it. */
#include "ipu/program/expansions.h"

#include <string.h>
#include <xxhash.h>

enum { FEW_REGIONS = 32 }; /* which are as quickly added one by one */

static void add(const int64_t *from, int sign, uint32_t tiles, int64_t *to) {
  if (sign > 0) {
    for (uint32_t t = 0; t < tiles; ++t) to[t] += from[t];
  } else {
    for (uint32_t t = 0; t < tiles; ++t) to[t] -= from[t];
  }
}

/* The slot with the bytes of a mapping; NULL: there is no memory for them. */
static const trm_expansion *find(trm_expansions *expansions, const trm_mapping *mapping,
                                 uint32_t alignment) {
  const uint64_t hash = XXH3_64bits_withSeed(mapping, sizeof *mapping, alignment);
  trm_expansion *slot = &expansions->slots[hash % TRM_NUM_EXPANSIONS];
  if (slot->alignment == alignment && memcmp(&slot->mapping, mapping, sizeof *mapping) == 0) {
    return slot;
  }
  const bool has_room = slot->bytes != NULL && slot->mapping.tiles >= mapping->tiles;
  if (!has_room) slot->bytes = ARENA_NEW(&expansions->arena, int64_t, mapping->tiles);
  if (slot->bytes == NULL) {
    slot->alignment = 0;
    return NULL;
  }
  memset(slot->bytes, 0, mapping->tiles * sizeof *slot->bytes);
  trm_mapping_add_bytes(mapping, 1, alignment, slot->bytes);
  memcpy(&slot->mapping, mapping, sizeof *mapping);
  slot->alignment = alignment;
  return slot;
}

void trm_expansions_add(trm_expansions *expansions, const trm_mapping *mapping, int sign,
                        uint32_t alignment, int64_t *bytes_by_tile) {
  if (mapping->kind == TRM_MAPPING_NONE) return;
  const trm_expansion *found =
      mapping->regions < FEW_REGIONS ? NULL : find(expansions, mapping, alignment);
  if (found == NULL) trm_mapping_add_bytes(mapping, sign, alignment, bytes_by_tile);
  else add(found->bytes, sign, mapping->tiles, bytes_by_tile);
}

void trm_expansions_free(trm_expansions *expansions) { trm_arena_free(&expansions->arena); }
