/* Owns: the accessors of inventories, and their end. */
#include "device/inventory.h"

void trm_inventory_retain(trm_inventory *inventory) {
  atomic_fetch_add_explicit(&inventory->references, 1, memory_order_relaxed);
}

void trm_inventory_release(trm_inventory *inventory) {
  if (inventory == NULL) return;
  if (atomic_fetch_sub_explicit(&inventory->references, 1, memory_order_acq_rel) != 1) return;
  trm_arena_free(&inventory->arena);
  trm_free(inventory);
}

const char *trm_inventory_name(const trm_inventory *inventory) { return inventory->name; }
const char *trm_inventory_partition(const trm_inventory *inventory) { return inventory->partition; }

const trm_ipu_info *trm_inventory_ipu(const trm_inventory *inventory, uint32_t id) {
  return id < inventory->num_ipus ? &inventory->ipus[id] : NULL;
}
