/* Owns: device memory: a pool with a free list for each size class.
 *
 * A training step allocates and frees the same sizes again and again, and fresh memory costs a page
 * fault every 4 KiB. So the pool keeps freed blocks. */
#define _POSIX_C_SOURCE 200809L
#include "pool.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/memory.h"
#include "tremula/tremula.h"

enum {
  CLASSES_PER_OCTAVE = 4, /* so at most a quarter of a block is wasted */
  NUM_CLASSES = 64 * CLASSES_PER_OCTAVE,
  NUM_BUCKETS = 4096,
};
/* Idle blocks beyond this many bytes go back to the system. */
static const size_t MAX_IDLE_BYTES = (size_t)2 << 30;

/* Lies in the TRM_TF_POOL_ALIGNMENT bytes before the block. */
typedef struct header {
  struct header *next; /* in its free list, or in its bucket of live blocks */
  size_t bytes;
  uint64_t generation;
  unsigned size_class;
} header;
_Static_assert(sizeof(header) <= TRM_TF_POOL_ALIGNMENT, "the header must fit before the block");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static header *free_lists[NUM_CLASSES];
static header *live[NUM_BUCKETS];
static size_t idle_bytes;
static uint64_t last_generation;

/* The smallest class for `size` bytes, and the size of its blocks. */
static unsigned class_of(size_t size, size_t *out_bytes) {
  size_t units = (size + TRM_TF_POOL_ALIGNMENT - 1) / TRM_TF_POOL_ALIGNMENT;
  if (units < CLASSES_PER_OCTAVE) {
    *out_bytes = (units ? units : 1) * TRM_TF_POOL_ALIGNMENT;
    return (unsigned)(units ? units : 1);
  }
  unsigned octave = 63u - (unsigned)__builtin_clzll(units);
  size_t step = ((size_t)1 << octave) / CLASSES_PER_OCTAVE;
  size_t steps = (units + step - 1) / step; /* CLASSES_PER_OCTAVE up to twice that */
  *out_bytes = steps * step * TRM_TF_POOL_ALIGNMENT;
  return octave * CLASSES_PER_OCTAVE + (unsigned)(steps - CLASSES_PER_OCTAVE);
}

static void *block_of(header *h) { return (char *)h + TRM_TF_POOL_ALIGNMENT; }

static header **bucket_of(const void *block) {
  uintptr_t bits = (uintptr_t)block / TRM_TF_POOL_ALIGNMENT;
  return &live[(bits ^ (bits >> 12)) % NUM_BUCKETS];
}

/* The link that points to the header of a live block, or to NULL. Call with the lock held. */
static header **find(const void *block) {
  header **link = bucket_of(block);
  while (*link && block_of(*link) != block) link = &(*link)->next;
  return link;
}

void *trm_tf_pool_allocate(size_t size) {
  if (size > SIZE_MAX / 4) return NULL;
  size_t bytes;
  unsigned size_class = class_of(size, &bytes);
  pthread_mutex_lock(&lock);
  header *h = free_lists[size_class];
  if (h) {
    free_lists[size_class] = h->next;
    idle_bytes -= h->bytes;
  } else {
    pthread_mutex_unlock(&lock);
    h = trm_allocate_aligned(TRM_TF_POOL_ALIGNMENT + bytes);
    if (!h) return NULL;
    h->bytes = bytes;
    h->size_class = size_class;
    pthread_mutex_lock(&lock);
  }
  h->generation = ++last_generation;
  header **bucket = bucket_of(block_of(h));
  h->next = *bucket;
  *bucket = h;
  pthread_mutex_unlock(&lock);
  return block_of(h);
}

void trm_tf_pool_release(void *block) {
  if (!block) return;
  trm_forget_resident(block);
  pthread_mutex_lock(&lock);
  header **link = find(block);
  header *h = *link;
  bool keep = h && idle_bytes + h->bytes <= MAX_IDLE_BYTES;
  if (h) *link = h->next;
  if (keep) {
    h->next = free_lists[h->size_class];
    free_lists[h->size_class] = h;
    idle_bytes += h->bytes;
  }
  pthread_mutex_unlock(&lock);
  if (!keep) trm_free(h);
}

uint64_t trm_tf_pool_generation(const void *block) {
  pthread_mutex_lock(&lock);
  header *h = *find(block);
  uint64_t generation = h ? h->generation : 0;
  pthread_mutex_unlock(&lock);
  return generation;
}

void trm_tf_pool_touch(const void *block) {
  pthread_mutex_lock(&lock);
  header *h = *find(block);
  if (h) h->generation = ++last_generation;
  pthread_mutex_unlock(&lock);
}
