/* Accelerators compute whole regions of a module in place of the CPU's kernels. They are reached
 * through PJRT plugins, each a library of the accelerator's maker (docs/accelerators.md).
 *
 * The environment variable TREMULA_ACCELERATOR chooses one: the path of a plugin, or the name of an
 * installed one (files.h), followed by ":N" for the N-th device, or ":N,M" for several, on which
 * replicas take turns. A plugin is loaded when it is first asked for, and stays loaded. */
#ifndef TREMULA_HOST_ACCELERATOR_ACCELERATOR_H_
#define TREMULA_HOST_ACCELERATOR_ACCELERATOR_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hlo/hlo.h"

typedef struct trm_accelerator trm_accelerator;   /* the chosen devices of a plugin; never freed */
typedef struct trm_region trm_region;             /* compiled code; reference-counted */
typedef struct trm_device_array trm_device_array; /* constant contents; reference-counted */
typedef struct PJRT_Event trm_device_event;       /* the end of a run */

/* Gives the accelerator `wanted`, or for NULL the one that the environment chooses.
 * *out_accelerator is NULL where none is chosen or the name is "". Fails where the plugin cannot be
 * loaded, is too old, or lacks the device; the message says what to do. A plugin that failed to
 * load is not tried again. */
trm_status trm_accelerator_get(const char *wanted, trm_accelerator **out_accelerator,
                               trm_error *error);
/* Such as "cuda:0" or "cuda:0,1", for messages. */
const char *trm_accelerator_name(const trm_accelerator *accelerator);
/* Whether an accelerator can hold arrays of the type. */
bool trm_accelerator_has_type(trm_dtype dtype);

enum { TRM_REGION_KEY = 33 }; /* the bytes of a key */

/* Compiles a module, or finds the code of an equal one in this process or in the cache of files,
 * the folder `cache` (NULL or "": none; files.h). The pass that cuts regions does so; the kernel of
 * the region takes the code over, by the key. */
trm_status trm_region_compile(trm_accelerator *accelerator, const trm_module *module,
                              const char *cache, char out_key[TRM_REGION_KEY], trm_error *error);
trm_region *trm_region_take(const char *key); /* NULL: there is none */
void trm_region_release(trm_region *region);
trm_accelerator *trm_region_accelerator(const trm_region *region);

/* Copies a dense row-major array to the device of a replica. `data` may change when this returns,
 * though the transfer may still run. The caller owns a reference to *out. */
trm_status trm_device_array_create(trm_accelerator *accelerator, uint32_t replica,
                                   const trm_shape *shape, const void *data,
                                   trm_device_array **out_array, trm_error *error);
trm_device_array *trm_device_array_retain(trm_device_array *array);
void trm_device_array_release(trm_device_array *array); /* NULL is allowed */
/* Whether the array is on the device of the replica, and has the shape. */
bool trm_device_array_fits(const trm_device_array *array, uint32_t replica, const trm_shape *shape);
size_t trm_device_array_bytes(const trm_device_array *array);
/* Waits for the array's contents and copies them to `data` on the host. */
trm_status trm_device_array_read(const trm_device_array *array, void *data, trm_error *error);

/* Starts a region on the device of a replica, where the operands are. `arrays` has the operands,
 * and gets the results behind them; `shape` is the results' tuple. Results have their contents
 * after the event; the caller owns them and the event, and keeps the operands. A result may
 * overwrite an operand that the module aliases with it, where nobody else has a reference. */
trm_status trm_region_run(const trm_region *region, uint32_t replica, uint32_t num_operands,
                          const trm_shape *shape, trm_device_array **arrays,
                          trm_device_event **out_done, trm_error *error);
/* Waits for an event and frees it; NULL is allowed. Fails as the event's run failed. */
trm_status trm_device_event_await(trm_accelerator *accelerator, trm_device_event *event,
                                  trm_error *error);

/* resident.c: arrays whose contents are only on an accelerator, by the place in host memory that
 * stands for each. Before the host reads such a place it fetches the contents (trm_fetch_resident).
 * When it writes the place or frees it, it forgets the array (trm_forget_resident). */
trm_status trm_resident_put(void *place, trm_device_array *array, trm_error *error);
/* The array of a place, with a reference for the caller, or NULL. *out_is_home: the host has the
 * contents too. */
trm_device_array *trm_resident_find(const void *place, bool *out_is_home);

#endif /* TREMULA_HOST_ACCELERATOR_ACCELERATOR_H_ */
