/* Owns: reading the devices of shardings (sharding.h). proto_sharding.c converts whole shardings.
 */
#include "hlo/sharding.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICE = 1023 };

/* The number after the next "device=" from *at, which moves behind it; -1: there is none. */
static long next_device(const char **at) {
  static const char word[] = "maximal device=";
  const char *found = strstr(*at, word);
  if (found == NULL) return -1;
  *at = found + sizeof word - 1;
  return strtol(*at, NULL, 10);
}

int32_t trm_sharding_device(const char *sharding) {
  if (sharding == NULL) return -1;
  const long device = next_device(&sharding);
  return device > MOST_DEVICE ? -1 : (int32_t)device;
}

long trm_sharding_highest_device(const char *sharding) {
  long highest = -1;
  if (sharding == NULL) return highest;
  for (long device = next_device(&sharding); device >= 0; device = next_device(&sharding)) {
    if (device > highest) highest = device;
  }
  return highest;
}

uint32_t trm_module_num_shards(const trm_module *module) {
  const char *text = module->frontend_side_table;
  json_t *table = text == NULL ? NULL : json_loads(text, 0, NULL);
  const json_int_t shards = json_integer_value(json_object_get(table, TRM_SHARDS_KEY));
  json_decref(table);
  return shards >= 1 && shards <= TRM_MAX_SHARDS ? (uint32_t)shards : 1;
}
