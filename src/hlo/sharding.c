/* Owns: reading the devices of shardings (sharding.h). proto_sharding.c converts whole shardings.
 */
#include "hlo/sharding.h"

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
