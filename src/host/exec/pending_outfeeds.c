/* Owns: elements of outfeeds that the accelerator still computes. */
#include <string.h>

#include "base/memory.h"
#include "host/exec/feeds.h"
#include "host/exec/residence.h"

struct trm_pending_element {
  trm_pending_element *next; /* a later one */
  trm_outfeed *outfeed;
  const trm_step *step;
  char *data;
  trm_device_array *arrays[]; /* by operand; NULL: the data has its contents */
};

static size_t bytes_of(const trm_residence *r, const trm_step *step, uint32_t operand) {
  return r->schedule->slots[step->slots[operand]].bytes;
}

trm_status trm_residence_defer_outfeed(trm_residence *r, trm_outfeed *outfeed, const trm_step *step,
                                       const void *const *operands, trm_error *error) {
  const uint32_t count = step->num_operands;
  const size_t head = sizeof(trm_pending_element) + count * sizeof(trm_device_array *);
  size_t bytes = 0;
  for (uint32_t k = 0; k < count; ++k) bytes += bytes_of(r, step, k);
  trm_pending_element *pending = trm_allocate(head + bytes), **last = &r->pending;
  CHECK_MEMORY(pending, "an outfeed");
  *pending =
      (trm_pending_element){.outfeed = outfeed, .step = step, .data = (char *)pending + head};
  char *place = pending->data;
  for (uint32_t k = 0; k < count; place += bytes_of(r, step, k++)) {
    const trm_resident *resident = &r->slots[r->schedule->slots[step->slots[k]].parent];
    pending->arrays[k] = resident->is_stale ? trm_device_array_retain(resident->array) : NULL;
    if (!resident->is_stale && bytes > 0) memcpy(place, operands[k], bytes_of(r, step, k));
  }
  while (*last != NULL) last = &(*last)->next;
  *last = pending;
  return TRM_OK;
}

static trm_status push(trm_residence *r, const trm_pending_element *pending, trm_error *error) {
  const void *operands[TRM_MOST_PENDING];
  const trm_kernel_call call = {.operands = operands}, *calls = &call;
  char *place = pending->data;
  trm_status status = TRM_OK;
  for (uint32_t k = 0; k < pending->step->num_operands; ++k) {
    trm_device_array *array = pending->arrays[k];
    operands[k] = place;
    if (array != NULL && status == TRM_OK) {
      status = trm_device_array_read(array, place, error);
      ++r->arrays_down;
      r->bytes_down += trm_device_array_bytes(array);
    }
    place += bytes_of(r, pending->step, k);
    trm_device_array_release(array);
  }
  return status == TRM_OK ? trm_outfeed_push(pending->outfeed, &calls, 1, error) : status;
}

trm_status trm_residence_flush_outfeeds(trm_residence *r, const trm_outfeed *outfeed,
                                        trm_status status, trm_error *error) {
  uint32_t wanted = 0, count = 0;
  for (const trm_pending_element *one = r->pending; one != NULL; one = one->next) {
    ++count;
    if (outfeed == NULL || one->outfeed == outfeed) wanted = count;
  }
  for (; wanted > 0; --wanted) {
    trm_pending_element *first = r->pending;
    trm_error ignored, *failure = status == TRM_OK ? error : &ignored;
    const trm_status given = push(r, first, failure);
    if (status == TRM_OK) status = given;
    r->pending = first->next;
    trm_free(first);
  }
  return status;
}
