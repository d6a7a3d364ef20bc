/* Owns: infeeds and outfeeds, the queues between a program and its host.
 *
 * An infeed is a ring of `depth` element tuples in one block of memory. Its lock is held while an
 * element is copied: there is one producer and one consumer, and a copy is short. An outfeed has no
 * bound, because a program may run long before anybody reads its results. */
#include "host/exec/feeds.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/wait.h"

typedef struct elements {
  trm_tensor_info *infos;
  size_t count;
  size_t *offsets;
  size_t bytes; /* of one tuple, every element 64-byte aligned */
} elements;

static trm_status elements_create(elements *e, const trm_tensor_info *infos, size_t count,
                                  trm_error *error) {
  e->count = count;
  e->infos = trm_allocate_zeroed(count, sizeof *e->infos);
  e->offsets = trm_allocate_zeroed(count, sizeof *e->offsets);
  if (e->infos == NULL || e->offsets == NULL) FAIL_NO_MEMORY("a feed");
  for (size_t i = 0; i < count; ++i) {
    e->infos[i] = infos[i];
    e->infos[i].name = "";
    e->offsets[i] = e->bytes;
    if (infos[i].bytes > SIZE_MAX / 1024 || e->bytes > SIZE_MAX / 1024) { /* depth <= 255 */
      FAIL(INVALID_ARGUMENT, "the elements of a feed are too large");
    }
    e->bytes += (infos[i].bytes + 63) / 64 * 64;
  }
  return TRM_OK;
}

static void elements_free(elements *e) {
  trm_free(e->infos);
  trm_free(e->offsets);
}

/* num_replicas > 1: the queue's elements have one more dimension, in front, of that size. */
static trm_status elements_check(const elements *e, const char *kind, const char *id,
                                 const trm_tensor_info *infos, size_t count, uint32_t num_replicas,
                                 trm_error *error) {
  if (e->count != count) {
    FAIL(FAILED_PRECONDITION, "the %s '%s' has %zu elements, the program uses %zu", kind, id,
         e->count, count);
  }
  for (size_t i = 0; i < count; ++i) {
    const trm_tensor_info *mine = &e->infos[i], *theirs = &infos[i];
    const int32_t extra = num_replicas > 1 ? 1 : 0;
    bool same = mine->dtype == theirs->dtype && mine->rank == theirs->rank + extra &&
                mine->bytes == theirs->bytes * num_replicas;
    if (same && extra == 1) same = mine->dims[0] == num_replicas;
    for (int32_t d = 0; same && d < theirs->rank; ++d) {
      same = mine->dims[d + extra] == theirs->dims[d];
    }
    if (!same) {
      FAIL(FAILED_PRECONDITION,
           "element %zu of the %s '%s' has type %s and rank %d, the program uses %s of rank %d "
           "with other dimensions, on %u replica%s",
           i, kind, id, trm_dtype_name(mine->dtype), mine->rank, trm_dtype_name(theirs->dtype),
           theirs->rank, num_replicas, num_replicas > 1 ? "s" : "");
    }
  }
  return TRM_OK;
}

/* ---- Infeeds -------------------------------------------------------------------------------- */

struct trm_infeed {
  atomic_int references;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  elements elements;
  size_t depth, first, count; /* of the ring */
  char *ring;
  char *repeated; /* the element tuple that every read gives, or NULL */
  int consumers;  /* runs that are open */
  int waiting;    /* reads in progress that wait for an element */
  uint64_t popped,
      expected;  /* tuples since the start; the run reads at least up to number `expected` */
  double waited; /* seconds */
  bool ended;
  trm_error end;
};

trm_status trm_infeed_create(const trm_tensor_info *infos, size_t num_elements, size_t depth,
                             trm_infeed **out_infeed, trm_error *error) {
  if (depth < 1 || depth > 255) {
    FAIL(INVALID_ARGUMENT, "the depth of an infeed must be from 1 to 255, not %zu", depth);
  }
  trm_infeed *infeed = trm_allocate_zeroed(1, sizeof *infeed);
  CHECK_MEMORY(infeed, "an infeed");
  pthread_mutex_init(&infeed->mutex, NULL);
  pthread_cond_init(&infeed->changed, NULL);
  atomic_init(&infeed->references, 1);
  infeed->depth = depth;
  infeed->expected = UINT64_MAX;
  trm_status status = elements_create(&infeed->elements, infos, num_elements, error);
  if (status == TRM_OK) {
    infeed->ring = trm_allocate_aligned(infeed->elements.bytes * depth);
    if (infeed->ring == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while allocating an infeed");
    }
  }
  if (status != TRM_OK) {
    trm_infeed_release(infeed);
    return status;
  }
  *out_infeed = infeed;
  return TRM_OK;
}

trm_infeed *trm_infeed_retain(trm_infeed *infeed) {
  atomic_fetch_add(&infeed->references, 1);
  return infeed;
}

void trm_infeed_release(trm_infeed *infeed) {
  if (infeed == NULL || atomic_fetch_sub(&infeed->references, 1) != 1) return;
  elements_free(&infeed->elements);
  trm_free(infeed->ring);
  trm_free(infeed->repeated);
  pthread_cond_destroy(&infeed->changed);
  pthread_mutex_destroy(&infeed->mutex);
  trm_free(infeed);
}

trm_status trm_infeed_push(trm_infeed *infeed, const void *const *data, bool *out_accepted,
                           trm_error *error) {
  (void)error;
  pthread_mutex_lock(&infeed->mutex);
  while (infeed->count == infeed->depth && infeed->consumers > 0) {
    pthread_cond_wait(&infeed->changed, &infeed->mutex);
  }
  const bool accepted = infeed->count < infeed->depth;
  if (accepted) {
    const size_t place = (infeed->first + infeed->count) % infeed->depth;
    char *tuple = infeed->ring + place * infeed->elements.bytes;
    for (size_t i = 0; i < infeed->elements.count; ++i) {
      const size_t bytes = infeed->elements.infos[i].bytes;
      if (bytes > 0) memcpy(tuple + infeed->elements.offsets[i], data[i], bytes);
    }
    ++infeed->count;
    pthread_cond_broadcast(&infeed->changed);
  }
  pthread_mutex_unlock(&infeed->mutex);
  *out_accepted = accepted;
  return TRM_OK;
}

void trm_infeed_end(trm_infeed *infeed, trm_status status, const char *message) {
  pthread_mutex_lock(&infeed->mutex);
  infeed->ended = true;
  trm_fail(&infeed->end, status, "%s", message);
  pthread_cond_broadcast(&infeed->changed);
  pthread_mutex_unlock(&infeed->mutex);
}

void trm_infeed_reset(trm_infeed *infeed) {
  pthread_mutex_lock(&infeed->mutex);
  infeed->ended = false;
  infeed->first = infeed->count = 0;
  pthread_cond_broadcast(&infeed->changed);
  pthread_mutex_unlock(&infeed->mutex);
}

static void change_consumers(trm_infeed *infeed, int by) {
  pthread_mutex_lock(&infeed->mutex);
  infeed->consumers += by;
  pthread_cond_broadcast(&infeed->changed);
  pthread_mutex_unlock(&infeed->mutex);
}

void trm_infeed_open(trm_infeed *infeed) { change_consumers(infeed, 1); }
void trm_infeed_close(trm_infeed *infeed) { change_consumers(infeed, -1); }

void trm_infeed_expect(trm_infeed *infeed, uint64_t num_tuples) {
  pthread_mutex_lock(&infeed->mutex);
  if (__builtin_add_overflow(infeed->popped, num_tuples, &infeed->expected)) {
    infeed->expected = UINT64_MAX;
  }
  pthread_cond_broadcast(&infeed->changed);
  pthread_mutex_unlock(&infeed->mutex);
}

/* Call with the lock held. */
static bool wants_one(const trm_infeed *infeed) {
  if (infeed->count == 0 && infeed->waiting > 0) return true;
  return infeed->count < infeed->depth && infeed->count < infeed->expected - infeed->popped;
}

bool trm_infeed_wanted(trm_infeed *infeed) {
  pthread_mutex_lock(&infeed->mutex);
  while (infeed->consumers > 0 && !wants_one(infeed)) {
    pthread_cond_wait(&infeed->changed, &infeed->mutex);
  }
  const bool wanted = infeed->consumers > 0;
  pthread_mutex_unlock(&infeed->mutex);
  return wanted;
}

trm_status trm_infeed_repeat(trm_infeed *infeed, const void *const *data, trm_error *error) {
  char *tuple = NULL;
  if (data != NULL) {
    tuple = trm_allocate_aligned(infeed->elements.bytes + 1);
    CHECK_MEMORY(tuple, "an element of an infeed");
    for (size_t i = 0; i < infeed->elements.count; ++i) {
      const size_t bytes = infeed->elements.infos[i].bytes;
      if (bytes > 0) memcpy(tuple + infeed->elements.offsets[i], data[i], bytes);
    }
  }
  pthread_mutex_lock(&infeed->mutex);
  char *before = infeed->repeated;
  infeed->repeated = tuple;
  pthread_cond_broadcast(&infeed->changed);
  pthread_mutex_unlock(&infeed->mutex);
  trm_free(before);
  return TRM_OK;
}

static void give(const elements *e, const char *tuple, void *const *results) {
  for (size_t i = 0; i < e->count; ++i) {
    if (e->infos[i].bytes > 0) memcpy(results[i], tuple + e->offsets[i], e->infos[i].bytes);
  }
}

static double seconds_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double trm_infeed_waited(trm_infeed *infeed) {
  pthread_mutex_lock(&infeed->mutex);
  const double waited = infeed->waited;
  pthread_mutex_unlock(&infeed->mutex);
  return waited;
}

trm_status trm_infeed_pop(trm_infeed *infeed, void *const *results, const atomic_bool *cancelled,
                          trm_error *error) {
  trm_status status = TRM_OK;
  pthread_mutex_lock(&infeed->mutex);
  if (infeed->count == 0) pthread_cond_broadcast(&infeed->changed);
  ++infeed->waiting;
  while (infeed->repeated == NULL && infeed->count == 0 && !infeed->ended &&
         !atomic_load(cancelled)) {
    /* A cancellation from a signal handler cannot take the lock, so the wait has a time limit. */
    const double began = seconds_now();
    trm_cond_wait_briefly(&infeed->changed, &infeed->mutex, 100);
    infeed->waited += seconds_now() - began;
  }
  --infeed->waiting;
  if (atomic_load(cancelled)) {
    status = trm_fail(error, TRM_CANCELLED, "the run was cancelled");
  } else if (infeed->repeated != NULL) {
    give(&infeed->elements, infeed->repeated, results);
  } else if (infeed->count > 0) {
    give(&infeed->elements, infeed->ring + infeed->first * infeed->elements.bytes, results);
    infeed->first = (infeed->first + 1) % infeed->depth;
    --infeed->count;
    if (++infeed->popped > infeed->expected) infeed->expected = infeed->popped;
    /* Whoever fills the ring is woken once for half of it, not for each element. */
    if (2 * infeed->count <= infeed->depth) pthread_cond_broadcast(&infeed->changed);
  } else {
    status = trm_fail(error, infeed->end.status, "%s", infeed->end.message);
  }
  pthread_mutex_unlock(&infeed->mutex);
  return status;
}

bool trm_infeed_is_empty(trm_infeed *infeed) {
  pthread_mutex_lock(&infeed->mutex);
  const bool is_empty = infeed->repeated == NULL && infeed->count == 0;
  pthread_mutex_unlock(&infeed->mutex);
  return is_empty;
}

trm_status trm_infeed_check(const trm_infeed *infeed, const char *id, const trm_tensor_info *infos,
                            size_t count, trm_error *error) {
  return elements_check(&infeed->elements, "infeed", id, infos, count, 1, error);
}

/* ---- Outfeeds ------------------------------------------------------------------------------- */

struct trm_outfeed {
  atomic_int references;
  pthread_mutex_t mutex;
  elements elements;
  bool keep_last;
  size_t count, capacity; /* element tuples */
  char **blocks;          /* one growing block for each element */
};

trm_status trm_outfeed_create(const trm_tensor_info *infos, size_t num_elements, bool keep_last,
                              trm_outfeed **out_outfeed, trm_error *error) {
  trm_outfeed *outfeed = trm_allocate_zeroed(1, sizeof *outfeed);
  CHECK_MEMORY(outfeed, "an outfeed");
  pthread_mutex_init(&outfeed->mutex, NULL);
  atomic_init(&outfeed->references, 1);
  outfeed->keep_last = keep_last;
  outfeed->blocks = trm_allocate_zeroed(num_elements, sizeof *outfeed->blocks);
  trm_status status = elements_create(&outfeed->elements, infos, num_elements, error);
  if (outfeed->blocks == NULL || status != TRM_OK) {
    trm_outfeed_release(outfeed);
    if (status != TRM_OK) return status;
    FAIL_NO_MEMORY("an outfeed");
  }
  *out_outfeed = outfeed;
  return TRM_OK;
}

trm_outfeed *trm_outfeed_retain(trm_outfeed *outfeed) {
  atomic_fetch_add(&outfeed->references, 1);
  return outfeed;
}

static void free_blocks(char **blocks, size_t count) {
  if (blocks == NULL) return;
  for (size_t i = 0; i < count; ++i) trm_free(blocks[i]);
  trm_free(blocks);
}

void trm_outfeed_release(trm_outfeed *outfeed) {
  if (outfeed == NULL || atomic_fetch_sub(&outfeed->references, 1) != 1) return;
  free_blocks(outfeed->blocks, outfeed->elements.count);
  elements_free(&outfeed->elements);
  pthread_mutex_destroy(&outfeed->mutex);
  trm_free(outfeed);
}

static bool outfeed_grow(trm_outfeed *outfeed) {
  const size_t wanted = outfeed->keep_last ? 1 : outfeed->capacity < 8 ? 8 : outfeed->capacity * 2;
  for (size_t i = 0; i < outfeed->elements.count; ++i) {
    size_t bytes;
    if (!trm_multiply_sizes(wanted, outfeed->elements.infos[i].bytes, &bytes)) return false;
    char *grown = trm_reallocate(outfeed->blocks[i], bytes);
    if (grown == NULL) return false;
    outfeed->blocks[i] = grown;
  }
  outfeed->capacity = wanted;
  return true;
}

trm_status trm_outfeed_push(trm_outfeed *outfeed, const trm_kernel_call *const *calls,
                            uint32_t num_replicas, trm_error *error) {
  trm_status status = TRM_OK;
  pthread_mutex_lock(&outfeed->mutex);
  if (outfeed->keep_last) outfeed->count = 0;
  if (outfeed->count == outfeed->capacity && !outfeed_grow(outfeed)) {
    status = trm_fail(error, TRM_RESOURCE_EXHAUSTED,
                      "out of memory: an outfeed holds %zu element tuples that nobody has dequeued",
                      outfeed->count);
  } else {
    for (size_t i = 0; i < outfeed->elements.count; ++i) {
      const size_t bytes = outfeed->elements.infos[i].bytes, share = bytes / num_replicas;
      char *tuple = outfeed->blocks[i] + outfeed->count * bytes;
      for (uint32_t r = 0; share > 0 && r < num_replicas; ++r) {
        memcpy(tuple + r * share, calls[r]->operands[i], share);
      }
    }
    ++outfeed->count;
  }
  pthread_mutex_unlock(&outfeed->mutex);
  return status;
}

trm_status trm_outfeed_take(trm_outfeed *outfeed, size_t *out_count, void ***out_blocks,
                            trm_error *error) {
  const size_t elements_count = outfeed->elements.count;
  char **fresh = trm_allocate_zeroed(elements_count, sizeof *fresh);
  CHECK_MEMORY(fresh, "an outfeed");
  pthread_mutex_lock(&outfeed->mutex);
  char **taken = outfeed->blocks;
  *out_count = outfeed->count;
  outfeed->blocks = fresh;
  outfeed->count = outfeed->capacity = 0;
  pthread_mutex_unlock(&outfeed->mutex);
  *out_blocks = (void **)taken;
  return TRM_OK;
}

trm_status trm_outfeed_check(const trm_outfeed *outfeed, const char *id,
                             const trm_tensor_info *infos, size_t count, uint32_t num_replicas,
                             trm_error *error) {
  return elements_check(&outfeed->elements, "outfeed", id, infos, count, num_replicas, error);
}
