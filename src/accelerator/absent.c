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
#define NONE FAIL(UNIMPLEMENTED, "there is no accelerator")

const char *trm_accelerator_name(const trm_accelerator *accelerator) {
  return (void)accelerator, "";
}

trm_status trm_region_compile(trm_accelerator *accelerator, const void *module, size_t size,
                              const uint32_t *updated, size_t num_updated, trm_region **out,
                              trm_error *error) {
  (void)accelerator, (void)module, (void)size, (void)updated, (void)num_updated, (void)out;
  NONE;
}

void trm_region_release(trm_region *region) { (void)region; }
void trm_region_key(const trm_region *region, char out_key[33]) { (void)region, out_key[0] = '\0'; }
trm_region *trm_region_take(const char *key) { return (void)key, NULL; }
trm_accelerator *trm_region_accelerator(const trm_region *region) { return (void)region, NULL; }

trm_status trm_device_array_create(trm_accelerator *accelerator, uint32_t replica,
                                   const trm_host_array *array, trm_device_array **out,
                                   trm_error *error) {
  (void)accelerator, (void)replica, (void)array, (void)out;
  NONE;
}

trm_device_array *trm_device_array_retain(trm_device_array *array) { return array; }
void trm_device_array_release(trm_device_array *array) { (void)array; }
bool trm_device_array_is_shared(const trm_device_array *array) { return (void)array, true; }
bool trm_device_array_has_shape(const trm_device_array *array, const trm_host_array *shape) {
  return (void)array, (void)shape, false;
}
bool trm_device_array_is_at(const trm_device_array *array, uint32_t replica) {
  return (void)array, (void)replica, false;
}
size_t trm_device_array_bytes(const trm_device_array *array) { return (void)array, 0; }
trm_status trm_device_array_read(const trm_device_array *array, void *data, trm_error *error) {
  (void)array, (void)data;
  NONE;
}

trm_status trm_region_run(const trm_region *region, uint32_t replica,
                          trm_device_array *const *operands, const bool *may_donate,
                          size_t num_operands, const trm_host_array *shapes,
                          trm_device_array **results, size_t num_results,
                          trm_device_event **out_done, trm_error *error) {
  (void)region, (void)replica, (void)operands, (void)may_donate, (void)num_operands;
  (void)shapes, (void)results, (void)num_results, (void)out_done;
  NONE;
}

trm_status trm_device_event_await(trm_accelerator *accelerator, trm_device_event *event,
                                  trm_error *error) {
  (void)accelerator, (void)event, (void)error;
  return TRM_OK;
}
