/* Owns: the table of arrays whose contents are on an accelerator, sorted by place. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "host/accelerator/accelerator.h"

typedef struct resident {
  char *place;
  trm_device_array *array;
  bool is_home; /* the host has the contents too */
} resident;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static VECTOR(resident) all;
static atomic_size_t count; /* of `all`, to be read without the lock */

/* The number of entries at `place` or before it. */
static size_t before(const void *place) {
  size_t low = 0, high = all.count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if ((uintptr_t)all.items[middle].place <= (uintptr_t)place) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* The entry whose array contains `place`, or NULL. */
static resident *find(const void *place) {
  const size_t i = before(place);
  if (i == 0) return NULL;
  resident *entry = &all.items[i - 1];
  const size_t offset = (size_t)((uintptr_t)place - (uintptr_t)entry->place);
  return offset == 0 || offset < trm_device_array_bytes(entry->array) ? entry : NULL;
}

trm_status trm_resident_put(void *place, trm_device_array *array, trm_error *error) {
  trm_forget_resident(place);
  pthread_mutex_lock(&lock);
  const size_t i = before(place);
  const bool fits = VECTOR_PUSH(&all, ((resident){0}));
  if (fits) {
    memmove(&all.items[i + 1], &all.items[i], (all.count - 1 - i) * sizeof *all.items);
    all.items[i] = (resident){place, trm_device_array_retain(array), false};
    atomic_store(&count, all.count);
  }
  pthread_mutex_unlock(&lock);
  if (!fits) FAIL_NO_MEMORY("an accelerator's arrays");
  return TRM_OK;
}

trm_device_array *trm_resident_find(const void *place, bool *out_is_home) {
  if (atomic_load(&count) == 0) return NULL;
  pthread_mutex_lock(&lock);
  const resident *entry = find(place);
  trm_device_array *array = NULL;
  if (entry != NULL && entry->place == place) {
    array = trm_device_array_retain(entry->array);
    *out_is_home = entry->is_home;
  }
  pthread_mutex_unlock(&lock);
  return array;
}

trm_status trm_fetch_resident(const void *place, trm_error *error) {
  if (atomic_load(&count) == 0) return TRM_OK;
  pthread_mutex_lock(&lock);
  resident *entry = find(place);
  trm_status status = TRM_OK;
  if (entry != NULL && !entry->is_home) {
    status = trm_device_array_read(entry->array, entry->place, error);
    entry->is_home = status == TRM_OK;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

void trm_forget_resident(const void *place) {
  if (atomic_load(&count) == 0) return;
  pthread_mutex_lock(&lock);
  resident *entry = find(place);
  trm_device_array *array = entry != NULL ? entry->array : NULL;
  if (entry != NULL) {
    memmove(entry, entry + 1, (size_t)(all.items + all.count - entry - 1) * sizeof *entry);
    atomic_store(&count, --all.count);
  }
  pthread_mutex_unlock(&lock);
  trm_device_array_release(array);
}
