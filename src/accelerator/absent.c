/* Owns: accelerators in a build without PJRT's header: trm_accelerator_get says that there are
 * none. */
#include <stdlib.h>

#include "accelerator/accelerator.h"

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
#define NEVER(type, name, value, ...) \
  type name(__VA_ARGS__) { return value; }
#define NOTHING(name, ...) \
  void name(__VA_ARGS__) {}
typedef const trm_device_array *array;

NEVER(bool, trm_accelerator_has_type, false, trm_dtype dtype)
NEVER(const char *, trm_accelerator_name, "", const trm_accelerator *a)
NEVER(trm_status, trm_region_compile, TRM_UNIMPLEMENTED, trm_accelerator *a,
      const trm_region_source *source, trm_region **out, trm_error *error)
NOTHING(trm_region_release, trm_region *region)
NEVER(const char *, trm_region_key, "", const trm_region *region)
NEVER(trm_region *, trm_region_take, NULL, const char *key)
NEVER(trm_accelerator *, trm_region_accelerator, NULL, const trm_region *region)
NEVER(trm_status, trm_device_array_create, TRM_UNIMPLEMENTED, trm_accelerator *a, uint32_t replica,
      const trm_shape *shape, const void *data, trm_device_array **out, trm_error *error)
NEVER(trm_device_array *, trm_device_array_retain, a, trm_device_array *a)
NOTHING(trm_device_array_release, trm_device_array *a)
NEVER(bool, trm_device_array_is_shared, true, array a)
NEVER(bool, trm_device_array_fits, false, array a, uint32_t replica, const trm_shape *shape)
NEVER(size_t, trm_device_array_bytes, 0, array a)
NEVER(trm_status, trm_device_array_read, TRM_UNIMPLEMENTED, array a, void *data, trm_error *error)
NEVER(trm_status, trm_region_run, TRM_UNIMPLEMENTED, const trm_region *region,
      const trm_region_call *call, trm_device_event **out_done, trm_error *error)
NEVER(trm_status, trm_device_event_await, TRM_OK, trm_accelerator *a, trm_device_event *event,
      trm_error *error)
/* NOLINTEND(misc-unused-parameters) */
