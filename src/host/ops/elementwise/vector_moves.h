/* The part of vector.c that moves elements: selects, copies, strided loads, transposed tiles. */
#ifndef TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_MOVES_H_
#define TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_MOVES_H_

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "host/ops/elementwise/vector_bits.h"
#include "host/ops/elementwise/vector_loops.h"
#include "host/ops/transposes.h"

#define MOVES(index, T)                                                                           \
  static void select_##index(SIGNATURE) {                                                         \
    T *const o = out;                                                                             \
    const uint8_t *const p = a;                                                                   \
    const T *const q = b, *const s = c;                                                           \
    IVDEP for (size_t i = 0; i < n; ++i) o[i] = p[i] != 0 ? q[i] : s[i];                          \
  }                                                                                               \
  static void copy_##index(SIGNATURE) {                                                           \
    UNUSED(b), UNUSED(c);                                                                         \
    memcpy(out, a, n * sizeof(T));                                                                \
  }                                                                                               \
  static void strided_##index(void *out, const void *a, int64_t stride, size_t n) {               \
    T *const o = out;                                                                             \
    const T *const p = a;                                                                         \
    if (stride == 0) {                                                                            \
      const T x = p[0];                                                                           \
      for (size_t i = 0; i < n; ++i) o[i] = x;                                                    \
    } else if (stride == -1) { /* whole vectors, turned */                                        \
      IVDEP for (size_t i = 0; i < n; ++i) o[i] = p[-(int64_t)i];                                 \
    } else {                                                                                      \
      IVDEP for (size_t i = 0; i < n; ++i) o[i] = p[(int64_t)i * stride];                         \
    }                                                                                             \
  }                                                                                               \
  static void transpose_any_##index(void *out, int64_t out_stride, const void *a, int64_t stride, \
                                    size_t rows, size_t columns) {                                \
    T *const o = out;                                                                             \
    const T *const p = a;                                                                         \
    const size_t tile = 16;                                                                       \
    for (size_t r = 0; r < rows; r += tile) {                                                     \
      const size_t r_end = r + tile < rows ? r + tile : rows;                                     \
      for (size_t j = 0; j < columns; ++j) {                                                      \
        T *const line = o + (int64_t)j * out_stride;                                              \
        if (r_end - r == tile) {                                                                  \
          IVDEP for (size_t i = 0; i < tile; ++i) line[r + i] =                                   \
              p[(int64_t)(r + i) * stride + (int64_t)j];                                          \
        } else {                                                                                  \
          for (size_t i = r; i < r_end; ++i) line[i] = p[(int64_t)i * stride + (int64_t)j];       \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
  }
MOVES(0, uint8_t)
MOVES(1, uint16_t)
MOVES(2, uint32_t)
MOVES(3, uint64_t)

/* Source lines that are a multiple of this apart push each other out of the first-level cache.
 * Blocks of a cache line on both sides are then copied first, so that each line is read once. */
#define CROWDED_BYTES 2048
#define CROWDED_TRANSPOSE(index, T)                                                               \
  static void transpose_lines_##index(void *out, int64_t out_stride, const void *a,               \
                                      int64_t stride, size_t rows, size_t columns) {              \
    enum { LINE = 64 / sizeof(T) };                                                               \
    T *const o = out;                                                                             \
    const T *const p = a;                                                                         \
    const size_t whole_rows = rows / LINE * LINE, whole_columns = columns / LINE * LINE;          \
    for (size_t r = 0; r < whole_rows; r += LINE) {                                               \
      for (size_t j = 0; j < whole_columns; j += LINE) {                                          \
        T lines[LINE][LINE] __attribute__((aligned(64)));                                         \
        for (size_t i = 0; i < LINE; ++i) {                                                       \
          memcpy(lines[i], p + (int64_t)(r + i) * stride + (int64_t)j, sizeof lines[i]);          \
        }                                                                                         \
        transpose_any_##index(o + (int64_t)j * out_stride + (int64_t)r, out_stride, lines, LINE,  \
                              LINE, LINE);                                                        \
      }                                                                                           \
    }                                                                                             \
    transpose_any_##index(o + (int64_t)whole_columns * out_stride, out_stride, p + whole_columns, \
                          stride, whole_rows, columns - whole_columns);                           \
    transpose_any_##index(o + whole_rows, out_stride, p + (int64_t)whole_rows * stride, stride,   \
                          rows - whole_rows, columns);                                            \
  }                                                                                               \
  static void transpose_##index(void *out, int64_t out_stride, const void *a, int64_t stride,     \
                                size_t rows, size_t columns) {                                    \
    const bool is_crowded = stride % (CROWDED_BYTES / (int64_t)sizeof(T)) == 0;                   \
    (is_crowded ? transpose_lines_##index : transpose_any_##index)(out, out_stride, a, stride,    \
                                                                   rows, columns);                \
  }
CROWDED_TRANSPOSE(0, uint8_t)
CROWDED_TRANSPOSE(1, uint16_t)
CROWDED_TRANSPOSE(3, uint64_t)

/* Moves 32-bit elements in blocks of 4 x 4 by shuffles, which are faster than gathers and scalar
 * loads. */
typedef uint32_t quad __attribute__((vector_size(16)));

INLINE void transpose_quad(uint32_t *o, int64_t out_stride, const uint32_t *p, int64_t stride) {
  quad a, b, c, d;
  memcpy(&a, p, sizeof a);
  memcpy(&b, p + stride, sizeof b);
  memcpy(&c, p + 2 * stride, sizeof c);
  memcpy(&d, p + 3 * stride, sizeof d);
  const quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const quad ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const quad cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  a = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  b = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  c = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
  d = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
  memcpy(o, &a, sizeof a);
  memcpy(o + out_stride, &b, sizeof b);
  memcpy(o + 2 * out_stride, &c, sizeof c);
  memcpy(o + 3 * out_stride, &d, sizeof d);
}

/* 16 x 16: a cache line of both sides. Each line is read and written once and whole, because lines
 * that are a multiple of a page apart push each other out of the first-level cache. Wide stores
 * matter, because stores wait in a short queue for lines to come. */
INLINE void transpose_lines(uint32_t *o, int64_t out_stride, const uint32_t *p, int64_t stride) {
#if defined(__AVX512F__)
  trm_transpose_16x16((const float *)(const void *)p, stride, (float *)(void *)o, out_stride);
#else
  uint32_t lines[16][16] __attribute__((aligned(64)));
  for (int i = 0; i < 16; ++i) memcpy(lines[i], p + i * stride, sizeof lines[i]);
#if defined(__AVX2__)
  for (int64_t j = 0; j < 16; j += 8) {
    for (int64_t i = 0; i < 16; i += 8) {
      trm_transpose_8x8((const float *)(const void *)&lines[i][j], 16,
                        (float *)(void *)(o + j * out_stride + i), out_stride);
    }
  }
#else
  for (int64_t j = 0; j < 16; j += 4) {
    for (int64_t i = 0; i < 16; i += 4) {
      transpose_quad(o + j * out_stride + i, out_stride, &lines[i][j], 16);
    }
  }
#endif
#endif
}

static void transpose_words(void *out, int64_t out_stride, const void *a, int64_t stride,
                            size_t rows, size_t columns) {
  uint32_t *const o = out;
  const uint32_t *const p = a;
  const size_t whole_rows = rows & ~(size_t)3, whole_columns = columns & ~(size_t)3;
  for (size_t r = 0; r < whole_rows; r += 16) {
    const size_t end = r + 16 < whole_rows ? r + 16 : whole_rows;
    size_t j = 0;
    for (; r + 16 <= whole_rows && j + 16 <= whole_columns; j += 16) {
      transpose_lines(o + (int64_t)j * out_stride + (int64_t)r, out_stride,
                      p + (int64_t)r * stride + (int64_t)j, stride);
    }
    for (; j < whole_columns; j += 4) {
      for (size_t i = r; i < end; i += 4) {
        transpose_quad(o + (int64_t)j * out_stride + (int64_t)i, out_stride,
                       p + (int64_t)i * stride + (int64_t)j, stride);
      }
    }
  }
  transpose_any_2(o + (int64_t)whole_columns * out_stride, out_stride, p + whole_columns, stride,
                  whole_rows, columns - whole_columns);
  transpose_any_2(o + whole_rows, out_stride, p + (int64_t)whole_rows * stride, stride,
                  rows - whole_rows, columns);
}

#endif /* TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_MOVES_H_ */
