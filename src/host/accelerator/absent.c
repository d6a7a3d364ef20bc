/* Owns: accelerators in a build without PJRT's header: trm_accelerator_get says that there are
 * none. */
#include <stdlib.h>

#include "host/accelerator/accelerator.h"

trm_status trm_accelerator_get(const char *wanted, trm_accelerator **out, trm_error *error) {
  *out = NULL;
  if (wanted == NULL) wanted = getenv("TREMULA_ACCELERATOR");
  if (wanted == NULL || *wanted == '\0') return TRM_OK;
  FAIL(UNIMPLEMENTED,
       "TREMULA_ACCELERATOR is '%s', but this build of Tremula has no accelerators: PJRT's header, "
       "which TensorFlow's package contains, was not found when Tremula was built.",
       wanted);
}

/* The functions below are never called, because there is no accelerator to pass to them. */
/* NOLINTBEGIN(misc-unused-parameters) */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NEVER(type, name, ...) \
  type name(__VA_ARGS__) { return (type)0; }
#define NOTHING(name, ...) \
  void name(__VA_ARGS__) {}
typedef const trm_device_array *array;

NEVER(bool, trm_accelerator_has_type, trm_dtype dtype)
NEVER(const char *, trm_accelerator_name, const trm_accelerator *a)
NEVER(trm_status, trm_region_compile, trm_accelerator *a, const trm_module *module,
      const char *cache, char out_key[TRM_REGION_KEY], trm_error *error)
NEVER(trm_region *, trm_region_take, const char *key)
NOTHING(trm_region_release, trm_region *region)
NEVER(trm_accelerator *, trm_region_accelerator, const trm_region *region)
NEVER(trm_status, trm_device_array_create, trm_accelerator *a, uint32_t replica,
      const trm_shape *shape, const void *data, trm_device_array **out, trm_error *error)
NEVER(trm_device_array *, trm_device_array_retain, trm_device_array *a)
NOTHING(trm_device_array_release, trm_device_array *a)
NEVER(bool, trm_device_array_fits, array a, uint32_t replica, const trm_shape *shape)
NEVER(size_t, trm_device_array_bytes, array a)
NEVER(trm_status, trm_device_array_read, array a, void *data, trm_error *error)
NEVER(trm_status, trm_region_run, const trm_region *region, uint32_t replica, uint32_t num_operands,
      const trm_shape *shape, trm_device_array **arrays, trm_device_event **out_done,
      trm_error *error)
NEVER(trm_status, trm_device_event_await, trm_accelerator *a, trm_device_event *event,
      trm_error *error)
/* NOLINTEND(misc-unused-parameters) */
