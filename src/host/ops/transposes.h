/* Small transposes in registers. */
#ifndef TREMULA_HOST_OPS_TRANSPOSES_H_
#define TREMULA_HOST_OPS_TRANSPOSES_H_

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* Writes 8 x 8 floats of lines `stride` apart as columns, in lines `line` apart. */
__attribute__((target("avx2"), always_inline)) static inline void trm_transpose_8x8(
    const float *from, int64_t stride, float *to, int64_t line) {
  __m256 a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) a[i] = _mm256_loadu_ps(from + i * stride);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * line, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * line, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
  }
}

/* The same with 16 x 16. */
__attribute__((target("avx512f"), always_inline)) static inline void trm_transpose_16x16(
    const float *from, int64_t stride, float *to, int64_t line) {
  __m512 a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_ps(from + i * stride);
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
  /* a[4 g + k] has the numbers k, 4 + k, 8 + k and 12 + k of the lines 4 g to 4 g + 3. */
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const __m512 even[2] = {_mm512_shuffle_f32x4(a[k], a[4 + k], 0x88),
                            _mm512_shuffle_f32x4(a[8 + k], a[12 + k], 0x88)};
    const __m512 odd[2] = {_mm512_shuffle_f32x4(a[k], a[4 + k], 0xdd),
                           _mm512_shuffle_f32x4(a[8 + k], a[12 + k], 0xdd)};
    _mm512_storeu_ps(to + k * line, _mm512_shuffle_f32x4(even[0], even[1], 0x88));
    _mm512_storeu_ps(to + (4 + k) * line, _mm512_shuffle_f32x4(odd[0], odd[1], 0x88));
    _mm512_storeu_ps(to + (8 + k) * line, _mm512_shuffle_f32x4(even[0], even[1], 0xdd));
    _mm512_storeu_ps(to + (12 + k) * line, _mm512_shuffle_f32x4(odd[0], odd[1], 0xdd));
  }
}
#endif

#endif /* TREMULA_HOST_OPS_TRANSPOSES_H_ */
