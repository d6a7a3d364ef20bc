/* The custom call "tremula.region": a region that an accelerator computes (passes/accelerate.c).
 *
 * An operand whose contents number is that of the call before (a variable that nobody has changed,
 * a constant) is not copied to the accelerator again. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "accelerator/accelerator.h"
#include "hlo/config.h"
#include "ops/reference.h"
#include "timeline/mark.h"

/* What an engine keeps on the accelerator between calls. */
typedef struct residents {
  struct residents *next; /* of the kernel's */
  uint64_t *versions;     /* by operand; 0: none */
  trm_device_array **arrays;
} residents;

typedef struct region {
  trm_region *compiled;
  uint32_t num_operands, num_results;
  trm_host_array *operands, *results; /* without data */
  pthread_mutex_t lock;               /* guards all */
  residents *all;
} region;

/* The block of `persistent`. */
typedef struct slot {
  residents *kept;
} slot;

static trm_status kept_of(region *r, slot *own, residents **out, trm_error *error) {
  if (own->kept == NULL) {
    residents *made = trm_allocate_zeroed(1, sizeof *made);
    CHECK_MEMORY(made, "an accelerator's arrays");
    made->versions = trm_allocate_zeroed((size_t)r->num_operands + 1, sizeof *made->versions);
    made->arrays = trm_allocate_zeroed((size_t)r->num_operands + 1, sizeof *made->arrays);
    pthread_mutex_lock(&r->lock);
    made->next = r->all;
    r->all = made;
    pthread_mutex_unlock(&r->lock);
    own->kept = made;
  }
  *out = own->kept;
  if ((*out)->versions == NULL || (*out)->arrays == NULL) {
    FAIL_NO_MEMORY("an accelerator's arrays");
  }
  return TRM_OK;
}

static trm_status send(const region *r, const trm_kernel_call *call, residents *kept,
                       trm_error *error) {
  trm_accelerator *accelerator = trm_region_accelerator(r->compiled);
  for (uint32_t i = 0; i < r->num_operands; ++i) {
    const uint64_t version = call->versions != NULL ? call->versions[i] : 0;
    if (kept->arrays[i] != NULL && version != 0 && version == kept->versions[i]) continue;
    trm_device_array_free(accelerator, kept->arrays[i]);
    kept->arrays[i] = NULL;
    trm_host_array array = r->operands[i];
    array.data = (void *)(uintptr_t)call->operands[i];
    TRY(trm_device_array_create(accelerator, &array, &kept->arrays[i], error));
    kept->versions[i] = version;
  }
  return TRM_OK;
}

static trm_status run_region(const trm_kernel *kernel, const trm_kernel_call *call,
                             trm_error *error) {
  region *r = kernel->state;
  residents *kept;
  TRY(kept_of(r, call->persistent, &kept, error));
  const trm_mark mark = trm_mark_begin(TRM_TIMELINE_DRIVERS, "%s",
                                       trm_accelerator_name(trm_region_accelerator(r->compiled)));
  trm_status status = send(r, call, kept, error);
  trm_host_array *results = call->scratch;
  for (uint32_t i = 0; i < r->num_results; ++i) {
    results[i] = r->results[i];
    results[i].data = call->results[i];
  }
  if (status == TRM_OK) {
    status =
        trm_region_run(r->compiled, kept->arrays, r->num_operands, results, r->num_results, error);
  }
  trm_mark_end(&mark);
  return status;
}

static void destroy_region(trm_kernel *kernel) {
  region *r = kernel->state;
  trm_accelerator *accelerator = trm_region_accelerator(r->compiled);
  for (residents *kept = r->all, *next; kept != NULL; kept = next) {
    next = kept->next;
    for (uint32_t i = 0; kept->arrays != NULL && i < r->num_operands; ++i) {
      trm_device_array_free(accelerator, kept->arrays[i]);
    }
    trm_free(kept->arrays);
    trm_free(kept->versions);
    trm_free(kept);
  }
  trm_region_release(r->compiled);
  pthread_mutex_destroy(&r->lock);
}

static void describe(const trm_shape *shape, trm_host_array *out) {
  *out = (trm_host_array){.dtype = shape->dtype,
                          .rank = shape->rank,
                          .dims = shape->dims,
                          .bytes = trm_shape_bytes(shape)};
}

static trm_status find_compiled(const trm_kernel_request *request, trm_region **out,
                                trm_error *error) {
  json_t *config = trm_instruction_config(request->instruction, 0, NULL);
  const char *key = json_string_value(json_object_get(config, "region"));
  *out = trm_region_take(key != NULL ? key : "");
  json_decref(config);
  if (*out == NULL) {
    FAIL(INTERNAL, "%s was not compiled for the accelerator", request->instruction->name);
  }
  return TRM_OK;
}

trm_status trm_region_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                             bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  region *r = ARENA_NEW(request->arena, region, 1);
  CHECK_MEMORY(r, "a region");
  r->num_results = (uint32_t)trm_shape_num_leaves(&instruction->shape);
  r->num_operands = instruction->num_operands;
  r->operands = ARENA_NEW(request->arena, trm_host_array, (size_t)r->num_operands + 1);
  r->results = ARENA_NEW(request->arena, trm_host_array, (size_t)r->num_results + 1);
  if (r->operands == NULL || r->results == NULL) FAIL_NO_MEMORY("a region");
  for (uint32_t i = 0; i < r->num_operands; ++i) {
    describe(trm_operand_shape(request, i), &r->operands[i]);
  }
  for (uint32_t i = 0; i < r->num_results; ++i) {
    describe(trm_shape_leaf(&instruction->shape, (int32_t)i), &r->results[i]);
  }
  TRY(find_compiled(request, &r->compiled, error));
  pthread_mutex_init(&r->lock, NULL);
  out_kernel->name = "accelerator.region";
  out_kernel->persistent_bytes = sizeof(slot);
  out_kernel->scratch_bytes = ((size_t)r->num_results + 1) * sizeof(trm_host_array);
  out_kernel->state = r;
  out_kernel->run = run_region;
  out_kernel->destroy = destroy_region;
  *out_supported = true;
  return TRM_OK;
}
