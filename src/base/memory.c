/* Owns: the allocation seam, arenas, growing arrays and text. */
#define _GNU_SOURCE
#include "base/memory.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNK_BYTES = 64 * 1024, ALIGNMENT = 16 };

static _Atomic int64_t fail_countdown = -1;

void trm_allocation_fail_after(int64_t countdown) { atomic_store(&fail_countdown, countdown); }

static bool must_fail(void) {
  if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) < 0) return false;
  return atomic_fetch_sub(&fail_countdown, 1) == 0;
}

void *trm_allocate(size_t size) { return must_fail() ? NULL : malloc(size == 0 ? 1 : size); }

void *trm_allocate_zeroed(size_t count, size_t size) {
  if (must_fail()) return NULL;
  return count == 0 || size == 0 ? calloc(1, 1) : calloc(count, size);
}

void *trm_reallocate(void *block, size_t size) {
  return must_fail() ? NULL : realloc(block, size == 0 ? 1 : size);
}

void *trm_allocate_aligned(size_t size) {
  if (must_fail() || size > SIZE_MAX - 64) return NULL;
  const size_t rounded = size == 0 ? 64 : (size + 63) / 64 * 64;
  return aligned_alloc(64, rounded);
}

void trm_free(void *block) { free(block); }

/* From here on a block is pages of the system. It asks for no large ones: they make a step of
 * ResNet-50 no faster, and under a hypervisor that takes free memory back the first touch of one
 * takes five times as long (measured: 2.5 s instead of 0.45 s a GB). */
static const size_t paged_bytes = (size_t)1 << 20;

void *trm_allocate_block(size_t size) {
  if (size < paged_bytes) {
    void *block = trm_allocate_aligned(size);
    return block == NULL ? NULL : memset(block, 0, size);
  }
  if (must_fail() || size > SIZE_MAX / 2) return NULL;
  void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return block == MAP_FAILED ? NULL : block;
}

void trm_free_block(void *block, size_t size) {
  if (size < paged_bytes) {
    trm_free(block);
  } else if (block != NULL) {
    munmap(block, size);
  }
}

void trm_free_pages(void *block, size_t size) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)block;
  const uintptr_t begin = (at + page - 1) / page * page, end = (at + size) / page * page;
  if (block != NULL && begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
  trm_free(block);
}

struct trm_arena_chunk {
  struct trm_arena_chunk *next;
  max_align_t align;
};

static size_t header_bytes(void) {
  return (sizeof(struct trm_arena_chunk) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t rounded(size_t bytes) {
  const size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return whole == 0 ? ALIGNMENT : whole;
}

static char *next_block(const trm_arena *arena) {
  return (char *)arena->chunk + header_bytes() + arena->used;
}

/* So many bytes of any content. */
static void *take(trm_arena *arena, size_t count, size_t size) {
  size_t bytes;
  if (!trm_multiply_sizes(count, size, &bytes) || bytes > SIZE_MAX / 2) return NULL;
  bytes = rounded(bytes);
  if (arena->chunk == NULL || arena->size - arena->used < bytes) {
    const size_t chunk_bytes = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES;
    struct trm_arena_chunk *chunk = trm_allocate(header_bytes() + chunk_bytes);
    if (chunk == NULL) return NULL;
    if (arena->chunk != NULL && chunk_bytes == bytes && arena->size > arena->used) {
      /* A large block gets a chunk of its own; the current chunk stays current. */
      chunk->next = arena->chunk->next;
      arena->chunk->next = chunk;
      arena->total += bytes;
      return (char *)chunk + header_bytes();
    }
    chunk->next = arena->chunk;
    arena->chunk = chunk;
    arena->used = 0;
    arena->size = chunk_bytes;
  }
  char *block = next_block(arena);
  arena->used += bytes;
  arena->total += bytes;
  return block;
}

void *trm_arena_allocate(trm_arena *arena, size_t count, size_t size) {
  void *block = take(arena, count, size);
  return block == NULL ? NULL : memset(block, 0, rounded(count * size));
}

void *trm_arena_copy(trm_arena *arena, const void *data, size_t size) {
  void *copy = take(arena, 1, size);
  if (copy != NULL && size > 0) memcpy(copy, data, size);
  return copy;
}

char *trm_arena_string(trm_arena *arena, const char *text, size_t length) {
  if (length == SIZE_MAX) return NULL;
  char *copy = take(arena, 1, length + 1);
  if (copy == NULL) return NULL;
  if (length > 0) memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

/* Most texts fit behind the last block, where they are written at once. */
char *trm_arena_format(trm_arena *arena, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const size_t room = arena->chunk == NULL ? 0 : arena->size - arena->used;
  char *behind = room == 0 ? NULL : next_block(arena);
  const int length = vsnprintf(behind, room, format, args);
  va_end(args);
  char *text = length < 0 ? NULL : take(arena, 1, (size_t)length + 1);
  if (text != NULL && text != behind) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

void trm_arena_free(trm_arena *arena) {
  struct trm_arena_chunk *chunk = arena->chunk;
  while (chunk != NULL) {
    struct trm_arena_chunk *next = chunk->next;
    trm_free(chunk);
    chunk = next;
  }
  *arena = (trm_arena){0};
}

bool trm_vector_grow(void **items, size_t *capacity, size_t item_size) {
  size_t bytes;
  const size_t wanted = *capacity < 8 ? 8 : *capacity * 2;
  if (!trm_multiply_sizes(wanted, item_size, &bytes)) return false;
  void *grown = trm_reallocate(*items, bytes);
  if (grown == NULL) return false;
  *items = grown;
  *capacity = wanted;
  return true;
}

static bool text_reserve(trm_text *text, size_t extra) {
  if (text->failed) return false;
  if (text->capacity - text->length > extra) return true;
  size_t wanted = text->capacity < 256 ? 256 : text->capacity;
  while (wanted - text->length <= extra) {
    if (wanted > SIZE_MAX / 2) return !(text->failed = true);
    wanted *= 2;
  }
  char *grown = trm_reallocate(text->data, wanted);
  if (grown == NULL) return !(text->failed = true);
  text->data = grown;
  text->capacity = wanted;
  return true;
}

void trm_text_append(trm_text *text, const char *data, size_t length) {
  if (!text_reserve(text, length)) return;
  if (length > 0) memcpy(text->data + text->length, data, length);
  text->length += length;
  text->data[text->length] = '\0';
}

void trm_text_format(trm_text *text, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length >= 0 && text_reserve(text, (size_t)length)) {
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
}

void trm_text_free(trm_text *text) {
  trm_free(text->data);
  *text = (trm_text){0};
}
