/* Fuzz target: any bytes as a HloModuleProto give a status; what parses can be verified, and what
 * verifies can be written and read again. libFuzzer's entry point; the replay calls it too. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "hlo/hlo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  trm_error error;
  trm_module *module, *copy;
  if (trm_hlo_parse_proto(data, size, &module, &error) != TRM_OK) return 0;
  void *again;
  size_t again_size;
  if (trm_module_verify(module, &error) == TRM_OK &&
      trm_module_serialize(module, &again, &again_size, &error) == TRM_OK) {
    if (trm_hlo_parse_proto(again, again_size, &copy, &error) != TRM_OK) abort();
    if (trm_module_verify(copy, &error) != TRM_OK) abort();
    trm_module_free(copy);
    trm_free(again);
  }
  trm_module_free(module);
  return 0;
}
