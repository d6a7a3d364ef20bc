/* Owns: accelerators in a build without PJRT's header: there is none, and who asks hears why. */
#include <stdlib.h>

#include "accelerator/accelerator.h"

trm_status trm_accelerator_get(trm_accelerator **out, trm_error *error) {
  *out = NULL;
  const char *wanted = getenv("TREMULA_ACCELERATOR");
  if (wanted == NULL || *wanted == '\0') return TRM_OK;
  FAIL(UNIMPLEMENTED,
       "TREMULA_ACCELERATOR is %s, but this build of Tremula has no accelerators: PJRT's header, "
       "which comes with TensorFlow's package, was not found when it was built.",
       wanted);
}

bool trm_accelerator_has_type(trm_dtype dtype) { return (void)dtype, false; }

/* Nothing below is reached: there is no accelerator to hand in. */
const char *trm_accelerator_name(const trm_accelerator *accelerator) {
  return (void)accelerator, "";
}

trm_status trm_region_compile(trm_accelerator *accelerator, const void *module, size_t size,
                              trm_region **out, trm_error *error) {
  (void)accelerator, (void)module, (void)size, (void)out;
  FAIL(UNIMPLEMENTED, "there is no accelerator");
}

void trm_region_release(trm_region *region) { (void)region; }
void trm_region_key(const trm_region *region, char out_key[33]) { (void)region, out_key[0] = '\0'; }
trm_region *trm_region_take(const char *key) { return (void)key, NULL; }
trm_accelerator *trm_region_accelerator(const trm_region *region) { return (void)region, NULL; }

trm_status trm_device_array_create(trm_accelerator *accelerator, const trm_host_array *array,
                                   trm_device_array **out, trm_error *error) {
  (void)accelerator, (void)array, (void)out;
  FAIL(UNIMPLEMENTED, "there is no accelerator");
}

void trm_device_array_free(trm_accelerator *accelerator, trm_device_array *array) {
  (void)accelerator, (void)array;
}

trm_status trm_region_run(const trm_region *region, trm_device_array *const *operands,
                          size_t num_operands, const trm_host_array *results, size_t num_results,
                          trm_error *error) {
  (void)region, (void)operands, (void)num_operands, (void)results, (void)num_results;
  FAIL(UNIMPLEMENTED, "there is no accelerator");
}
