/* Copying to memory that is not read soon, past the caches. The CPU need not read the lines before
 * it writes them, and the caches keep their contents. */
#ifndef TREMULA_HOST_OPS_STREAM_H_
#define TREMULA_HOST_OPS_STREAM_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

/* Like memcpy. After the last copy trm_stream_end must follow, before another thread reads. */
static inline void trm_stream_copy(void *to, const void *from, size_t bytes) {
#if defined(__x86_64__)
  const size_t head = -(uintptr_t)to % 64;
  if (bytes >= 256 && ((uintptr_t)to | (uintptr_t)from) % 4 == 0) {
    memcpy(to, from, head);
    size_t at = head;
    for (; at + 64 <= bytes; at += 64) {
      const __m128i *in = (const __m128i *)(const void *)((const char *)from + at);
      __m128i *out = (__m128i *)(void *)((char *)to + at);
      const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
      const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
      _mm_stream_si128(out, a);
      _mm_stream_si128(out + 1, b);
      _mm_stream_si128(out + 2, c);
      _mm_stream_si128(out + 3, d);
    }
    memcpy((char *)to + at, (const char *)from + at, bytes - at);
    return;
  }
#endif
  memcpy(to, from, bytes);
}

static inline void trm_stream_end(void) {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

#endif /* TREMULA_HOST_OPS_STREAM_H_ */
