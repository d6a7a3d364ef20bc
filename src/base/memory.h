/* Memory: the allocation seam, arenas, and growing arrays.
 *
 * Everything is allocated through trm_allocate, so that a test can make the n-th allocation fail.
 * An arena frees all it gave at once. Sizes are overflow-checked. */
#ifndef TREMULA_BASE_MEMORY_H_
#define TREMULA_BASE_MEMORY_H_

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Uninitialised bytes, or NULL. Free with trm_free. */
void *trm_allocate(size_t size) __attribute__((malloc));
/* Zeroed array, or NULL (also when count * size overflows). */
void *trm_allocate_zeroed(size_t count, size_t size) __attribute__((malloc));
void *trm_reallocate(void *block, size_t size);
/* 64-byte aligned; free with trm_free. */
void *trm_allocate_aligned(size_t size) __attribute__((malloc));
/* Zeroed, 64-byte aligned, or NULL. A large block is pages of the system, zeroed when they are
 * first touched, by the thread that does. Free with trm_free_block and the same size. */
void *trm_allocate_block(size_t size) __attribute__((malloc));
void trm_free_block(void *block, size_t size);

/* Frees a block of trm_allocate of at least `size` bytes. The system gets its whole pages back at
 * once; trm_free may leave those of a heap that another thread allocates from with the process. */
void trm_free_pages(void *block, size_t size);

/* For tests: the allocation that is `countdown` calls away fails, once (-1: none does). */
void trm_allocation_fail_after(int64_t countdown);

/* An arena: NULL chunks to start with; trm_arena_free empties it. Not for several threads. */
typedef struct trm_arena {
  struct trm_arena_chunk *chunk;
  size_t used, size;
  size_t total; /* bytes handed out */
} trm_arena;

/* Zeroed, 16-byte aligned; NULL when memory runs out or count * size overflows. */
void *trm_arena_allocate(trm_arena *arena, size_t count, size_t size);
/* A copy of `size` bytes; of a string (with its NUL). */
void *trm_arena_copy(trm_arena *arena, const void *data, size_t size);
char *trm_arena_string(trm_arena *arena, const char *text, size_t length);
char *trm_arena_format(trm_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void trm_arena_free(trm_arena *arena);

#define ARENA_NEW(arena, type, count) ((type *)trm_arena_allocate((arena), (count), sizeof(type)))

/* The failure of a function that runs out of memory. */
#define FAIL_NO_MEMORY(what) FAIL(RESOURCE_EXHAUSTED, "out of memory while allocating %s", (what))
#define CHECK_MEMORY(pointer, what)              \
  do {                                           \
    if ((pointer) == NULL) FAIL_NO_MEMORY(what); \
  } while (0)

/* A growing array. Declare with VECTOR(type) name = {0}; the items are freed by VECTOR_FREE. */
#define VECTOR(type)        \
  struct {                  \
    type *items;            \
    size_t count, capacity; \
  }

/* Makes room for one more; yields false when memory runs out. */
#define VECTOR_GROW(v)           \
  ((v)->count < (v)->capacity || \
   trm_vector_grow((void **)&(v)->items, &(v)->capacity, sizeof *(v)->items))
#define VECTOR_PUSH(v, value) (VECTOR_GROW(v) ? ((v)->items[(v)->count++] = (value), true) : false)
#define VECTOR_FREE(v)                                 \
  do {                                                 \
    trm_free((v)->items);                              \
    (v)->items = NULL, (v)->count = (v)->capacity = 0; \
  } while (0)
/* Walks the items: VECTOR_EACH(const widget, one, all->widgets) { use(one); } */
#define VECTOR_END(v) ((v).items == NULL ? NULL : (v).items + (v).count)
#define VECTOR_EACH(type, one, v) for (type *one = (v).items; one != VECTOR_END(v); ++one)
bool trm_vector_grow(void **items, size_t *capacity, size_t item_size);

/* Growing text. */
typedef struct trm_text {
  char *data; /* NUL-terminated when length > 0; NULL at first */
  size_t length, capacity;
  bool failed; /* out of memory: later text is dropped */
} trm_text;
void trm_text_append(trm_text *text, const char *data, size_t length);
void trm_text_format(trm_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trm_text_free(trm_text *text);

/* false on overflow. */
static inline bool trm_multiply_sizes(size_t a, size_t b, size_t *product) {
  return !__builtin_mul_overflow(a, b, product);
}

#endif /* TREMULA_BASE_MEMORY_H_ */
