/* Accelerators: what computes whole regions of a module in place of the CPU's kernels, through a
 * PJRT plugin, which its maker ships as one library (docs/accelerators.md).
 *
 * The environment variable TREMULA_ACCELERATOR chooses: the path of a plugin, or a name of which
 * Python has found the plugin (python/tremula/accelerators.py), with ":N" behind it for the N-th
 * device, or ":N,M" for several, on which replicas take turns. A plugin is loaded once, when it is
 * first asked for, and stays. */
#ifndef TREMULA_ACCELERATOR_ACCELERATOR_H_
#define TREMULA_ACCELERATOR_ACCELERATOR_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tremula/tremula.h"

typedef struct trm_accelerator trm_accelerator;   /* devices of a plugin; lives for ever */
typedef struct trm_region trm_region;             /* a compiled region, counted */
typedef struct trm_device_array trm_device_array; /* contents that do not change; counted */
typedef struct trm_device_event trm_device_event; /* the end of a run */

/* The accelerator of that name; NULL: the one that the environment chooses. *out is NULL where none
 * is chosen, or the name is "". Fails where the plugin cannot be loaded or is too old, or has no
 * such device: with what to do. A plugin that could not be loaded is not tried again. */
trm_status trm_accelerator_get(const char *wanted, trm_accelerator **out_accelerator,
                               trm_error *error);
/* "cuda:0" or "cuda:0,1", for messages. */
const char *trm_accelerator_name(const trm_accelerator *accelerator);
/* Whether arrays of the type can be on an accelerator. */
bool trm_accelerator_has_type(trm_dtype dtype);

typedef struct trm_region_source {
  const void *module; /* a serialised HloModuleProto */
  size_t size;
  const uint32_t *updated; /* the operands that results may be written over (its aliases) */
  size_t num_updated;
} trm_region_source;

/* Compiles, or finds what was compiled of an equal source: in this process, or in the cache of
 * files. */
trm_status trm_region_compile(trm_accelerator *accelerator, const trm_region_source *source,
                              trm_region **out_region, trm_error *error);
void trm_region_release(trm_region *region);
/* The pass that cuts regions compiles them and hands them over to kernels by their keys: `take`
 * gives the region of a key, whose count the pass has raised. NULL: there is none. */
const char *trm_region_key(const trm_region *region);
trm_region *trm_region_take(const char *key);
trm_accelerator *trm_region_accelerator(const trm_region *region);

/* A dense row-major array on the host. */
typedef struct trm_host_array {
  trm_dtype dtype;
  int32_t rank;
  const int64_t *dims;
  void *data;
  size_t bytes;
} trm_host_array;

/* Copies an array to the device of a replica; `data` is not needed any more when this returns,
 * though the copy may go on. */
trm_status trm_device_array_create(trm_accelerator *accelerator, uint32_t replica,
                                   const trm_host_array *array, trm_device_array **out_array,
                                   trm_error *error);
trm_device_array *trm_device_array_retain(trm_device_array *array);
void trm_device_array_release(trm_device_array *array); /* NULL is allowed */
/* Whether somebody else has retained it too. */
bool trm_device_array_is_shared(const trm_device_array *array);
bool trm_device_array_has_shape(const trm_device_array *array, const trm_host_array *shape);
/* Whether it is on the device of the replica. */
bool trm_device_array_is_at(const trm_device_array *array, uint32_t replica);
size_t trm_device_array_bytes(const trm_device_array *array);
/* Waits for the array's contents and copies them to the host. */
trm_status trm_device_array_read(const trm_device_array *array, void *data, trm_error *error);

/* Starts a region on the device of a replica, where its operands are: results[r], of the shapes
 * given, will have their contents when the event has come. Operands stay the caller's; those with
 * may_donate, which must have no other owner, have no contents after that. */
trm_status trm_region_run(const trm_region *region, uint32_t replica,
                          trm_device_array *const *operands, const bool *may_donate,
                          size_t num_operands, const trm_host_array *shapes,
                          trm_device_array **results, size_t num_results,
                          trm_device_event **out_done, trm_error *error);
/* Waits for an event, unless it is NULL, and frees it; the failure of its run, if it has failed. */
trm_status trm_device_event_await(trm_accelerator *accelerator, trm_device_event *event,
                                  trm_error *error);

/* left.c: arrays whose contents were left on an accelerator, by the places on the host that stand
 * for them. Whoever reads such a place fetches it first (trm_fetch_left); whoever writes it or
 * gives its memory back forgets it (trm_forget_left). */
trm_status trm_left_put(void *place, trm_device_array *array, trm_error *error);
/* The array of a place, retained, or NULL; *out_is_home: the host has its contents too. */
trm_device_array *trm_left_find(const void *place, bool *out_is_home);

#endif /* TREMULA_ACCELERATOR_ACCELERATOR_H_ */
