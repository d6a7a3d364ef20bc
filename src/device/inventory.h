/* The struct of an inventory, and declarations that the files of this folder share. */
#ifndef TREMULA_DEVICE_INVENTORY_H_
#define TREMULA_DEVICE_INVENTORY_H_

#include <stdatomic.h>

#include "base/memory.h"
#include "tremula/device.h"

struct trm_inventory {
  atomic_uint_least32_t references;
  trm_arena arena; /* everything below */
  const char *name, *partition;
  const char *lock_folder; /* the name; for a file, with a hash, so that two files differ */
  trm_ipu_info *ipus;
  uint32_t num_ipus, num_ids;
  uint32_t *singles; /* 0, 1, 2, ...: the members of single ids */
  uint32_t *order;   /* routing order: every id of several IPUs is a block of it */
  struct trm_id_block {
    uint32_t start, count;
  } *blocks; /* num_ids - num_ipus of them */
};

/* Numbers the ids: fills num_ids and blocks from num_ipus and order. */
trm_status trm_inventory_number_ids(trm_inventory *inventory, trm_error *error);

/* The JSON text of a preset; NULL when there is none of that name. */
const char *trm_preset_text(const char *name);

#endif /* TREMULA_DEVICE_INVENTORY_H_ */
