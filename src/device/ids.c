/* Owns: the numbering of ids (the table in tremula/device.h). */
#include "device/inventory.h"

trm_status trm_inventory_number_ids(trm_inventory *inventory, trm_error *error) {
  const uint32_t n = inventory->num_ipus;
  uint32_t count = 0;
  for (uint32_t size = 2; size <= n; size *= 2) count += n / size;
  const bool all_has_block = (n & (n - 1)) == 0;
  if (!all_has_block) ++count;
  inventory->blocks = ARENA_NEW(&inventory->arena, struct trm_id_block, count);
  inventory->singles = ARENA_NEW(&inventory->arena, uint32_t, n);
  if (inventory->blocks == NULL || inventory->singles == NULL) FAIL_NO_MEMORY("an inventory");
  uint32_t block = 0;
  for (uint32_t size = 2; size <= n; size *= 2) {
    for (uint32_t start = 0; n - start >= size; start += size) {
      inventory->blocks[block++] = (struct trm_id_block){start, size};
    }
  }
  if (!all_has_block) inventory->blocks[block++] = (struct trm_id_block){0, n};
  for (uint32_t i = 0; i < n; ++i) inventory->singles[i] = i;
  inventory->num_ids = n + block;
  return TRM_OK;
}

uint32_t trm_inventory_num_ipus(const trm_inventory *inventory) { return inventory->num_ipus; }
uint32_t trm_inventory_num_ids(const trm_inventory *inventory) { return inventory->num_ids; }

const uint32_t *trm_inventory_members(const trm_inventory *inventory, uint32_t id,
                                      uint32_t *out_count) {
  if (id >= inventory->num_ids) {
    *out_count = 0;
    return NULL;
  }
  if (id < inventory->num_ipus) {
    *out_count = 1;
    return &inventory->singles[id];
  }
  const struct trm_id_block *block = &inventory->blocks[id - inventory->num_ipus];
  *out_count = block->count;
  return &inventory->order[block->start];
}
