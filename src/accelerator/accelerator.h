/* Accelerators: what computes whole regions of a module in place of the CPU's kernels, through a
 * PJRT plugin, which its maker ships as one library (docs/accelerators.md).
 *
 * The environment variable TREMULA_ACCELERATOR chooses: the path of a plugin, or a name of which
 * Python has found the plugin (python/tremula/accelerators.py), with ":N" behind it for the N-th
 * device. A plugin is loaded once, at the first module that is compiled, and stays. */
#ifndef TREMULA_ACCELERATOR_ACCELERATOR_H_
#define TREMULA_ACCELERATOR_ACCELERATOR_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tremula/tremula.h"

typedef struct trm_accelerator trm_accelerator; /* a device of a plugin; lives for ever */
typedef struct trm_region trm_region;           /* a compiled region, counted */
typedef struct trm_device_array trm_device_array;

/* The accelerator that the environment chooses; NULL: none. Fails where the plugin cannot be loaded
 * or is too old, or has no such device: with what to do. A plugin that could not be loaded is not
 * tried again. */
trm_status trm_accelerator_get(trm_accelerator **out_accelerator, trm_error *error);
/* "cuda:0", for messages. */
const char *trm_accelerator_name(const trm_accelerator *accelerator);
/* Whether arrays of the type can be on an accelerator. */
bool trm_accelerator_has_type(trm_dtype dtype);

/* Compiles a serialised HloModuleProto, or finds what was compiled of an equal one. */
trm_status trm_region_compile(trm_accelerator *accelerator, const void *module, size_t size,
                              trm_region **out_region, trm_error *error);
void trm_region_release(trm_region *region);
/* The pass that cuts regions compiles them and hands them over to kernels by their keys: `take`
 * gives the region of a key, whose count the pass has raised. NULL: there is none. */
void trm_region_key(const trm_region *region, char out_key[33]);
trm_region *trm_region_take(const char *key);

/* A dense row-major array on the host. */
typedef struct trm_host_array {
  trm_dtype dtype;
  int32_t rank;
  const int64_t *dims;
  void *data;
  size_t bytes;
} trm_host_array;

/* Copies an array to the device; `data` is not needed any more when this returns. */
trm_status trm_device_array_create(trm_accelerator *accelerator, const trm_host_array *array,
                                   trm_device_array **out_array, trm_error *error);
void trm_device_array_free(trm_accelerator *accelerator, trm_device_array *array);

/* Runs a region and copies its results into `results`. Operands stay the caller's. */
trm_status trm_region_run(const trm_region *region, trm_device_array *const *operands,
                          size_t num_operands, const trm_host_array *results, size_t num_results,
                          trm_error *error);
trm_accelerator *trm_region_accelerator(const trm_region *region);

#endif /* TREMULA_ACCELERATOR_ACCELERATOR_H_ */
