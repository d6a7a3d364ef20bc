/* Fuzz target: inventories of virtual IPUs; of one that is accepted, every id can be asked for. */
#include <stdint.h>
#include <stdlib.h>

#include "tremula/device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  trm_inventory *inventory = NULL;
  if (trm_inventory_parse(data, size, "fuzz", &inventory, NULL) != TRM_OK) return 0;
  const uint32_t ids = trm_inventory_num_ids(inventory), ipus = trm_inventory_num_ipus(inventory);
  for (uint32_t id = 0; id < ids; ++id) {
    uint32_t count = 0;
    const uint32_t *members = trm_inventory_members(inventory, id, &count);
    if (members == NULL || count == 0) abort();
    for (uint32_t i = 0; i < count; ++i) {
      if (members[i] >= ipus || trm_inventory_ipu(inventory, members[i]) == NULL) abort();
    }
  }
  trm_inventory_release(inventory);
  return 0;
}
