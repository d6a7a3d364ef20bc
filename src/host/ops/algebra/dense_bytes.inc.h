/* The product of bytes of dense.c, modulo 2^32. Neighbouring products of a sum are added by one
 * instruction: four of bytes with AVX512-VNNI, two of 16-bit numbers elsewhere. A group is the four
 * bytes that one lane reads. All forms are exact, so all give the same bits.
 *
 * vpdpbusd multiplies unsigned bytes by signed ones. A signed left side is read as a + 128, and
 * sums start at -128 times the sum of the column. */
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define BYTES_TARGET __attribute__((target("avx512vnni")))
typedef uint8_t byte_number;
#else
#define BYTES_TARGET
typedef uint16_t byte_number;
#endif

typedef uint32_t words __attribute__((vector_size(VECTOR_BYTES)));
enum {
  NUMBERS = 4 / sizeof(byte_number), /* in a group */
  WORDS = VECTOR_BYTES / 4,
  WIDE = 2 * WORDS, /* columns of a panel */
  GROUPS = 64,      /* of a sum in registers */
  BYTE_PANELS = 8
};

static inline BYTES_TARGET words add_products(words sum, words a, words b) {
#if defined(__AVX512F__)
  return (words)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return sum + (words)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
  return sum + (words)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  typedef int32_t signed_words __attribute__((vector_size(VECTOR_BYTES)));
  const signed_words low_a = (signed_words)(a << 16) >> 16, high_a = (signed_words)a >> 16;
  const signed_words low_b = (signed_words)(b << 16) >> 16, high_b = (signed_words)b >> 16;
  return sum + (words)(low_a * low_b) + (words)(high_a * high_b);
#endif
}

/* The byte as the number that a group holds, in the group's place k. */
static inline uint32_t place_byte(uint8_t byte, bool is_signed, int k) {
  const uint32_t wide = is_signed ? (uint32_t)(int32_t)(int8_t)byte : byte;
  return (uint32_t)(byte_number)wide << (k * 8 * (int)sizeof(byte_number));
}

/* `count` rows of up to `depth` bytes as ROWS rows of groups. `flipped`: 0x80, or 0. */
static void pack_left_bytes(const trm_dense_product *p, int64_t row, int64_t from, int64_t count,
                            int64_t depth, uint8_t flipped, uint32_t *out) {
  const uint8_t *const a = (const uint8_t *)p->a.data + row * p->a.rows + from * p->a.columns;
  const bool is_signed = p->are_signed[0] && sizeof(byte_number) > 1;
  for (int64_t r = 0; r < ROWS; ++r) {
    const uint8_t *const line = a + r * p->a.rows;
    for (int64_t g = 0; g * NUMBERS < depth; ++g) {
      uint32_t group = 0;
      for (int k = 0; k < NUMBERS && r < count && g * NUMBERS + k < depth; ++k) {
        const uint8_t byte = line[(g * NUMBERS + k) * p->a.columns] ^ flipped;
        group |= place_byte(byte, is_signed, k);
      }
      out[g * ROWS + r] = group;
    }
  }
}

/* One group of each of `count` columns: `numbers` bytes, `step` apart. */
static inline void pack_groups(const uint8_t *b, int64_t step, int64_t columns, int64_t count,
                               int64_t numbers, bool is_signed, uint32_t *out) {
  for (int64_t j = 0; j < count; ++j) {
    uint32_t group = 0;
    for (int k = 0; k < numbers; ++k) {
      group |= place_byte(b[k * step + j * columns], is_signed, k);
    }
    out[j] = group;
  }
}

/* A panel of up to WIDE columns of `depth` bytes. */
static void pack_right_bytes(const trm_dense_product *p, int64_t from, int64_t column,
                             int64_t count, int64_t depth, uint32_t *out) {
  const uint8_t *b = (const uint8_t *)p->b.data + from * p->b.rows + column * p->b.columns;
  const bool is_signed = p->are_signed[1];
  for (int64_t at = 0; at < depth; at += NUMBERS, out += WIDE, b += NUMBERS * p->b.rows) {
    const int64_t numbers = trm_least(depth - at, NUMBERS);
    if (p->b.columns == 1 && count == WIDE && numbers == NUMBERS) {
      if (is_signed) pack_groups(b, p->b.rows, 1, WIDE, NUMBERS, true, out);
      else pack_groups(b, p->b.rows, 1, WIDE, NUMBERS, false, out);
    } else {
      pack_groups(b, p->b.rows, p->b.columns, count, numbers, is_signed, out);
      memset(out + count, 0, (size_t)(WIDE - count) * sizeof *out);
    }
  }
}

/* What the sums of a panel start at. */
static BYTES_TARGET void start_bytes(const uint32_t *panel, int64_t groups, bool is_flipped,
                                     uint32_t *starts) {
  words sums[2] = {(words){0}, (words){0}};
  const words flips = (words){0} + UINT32_C(0x80808080);
  for (int64_t g = 0; g < groups && is_flipped; ++g) {
    for (int v = 0; v < 2; ++v) {
      words right;
      memcpy(&right, panel + g * WIDE + v * WORDS, sizeof right);
      sums[v] = add_products(sums[v], flips, right);
    }
  }
  for (int v = 0; v < 2; ++v) {
    sums[v] = -sums[v];
    memcpy(starts + v * WORDS, &sums[v], sizeof sums[v]);
  }
}

/* ROWS x WIDE sums of `groups` groups are added to `count` x `width` of c. */
static BYTES_TARGET void tile_bytes(const uint32_t *a, const uint32_t *b, const uint32_t *starts,
                                    int64_t groups, uint32_t *c, int64_t stride, int64_t count,
                                    int64_t width) {
  words sums[ROWS][2];
#pragma GCC unroll 6
  for (int r = 0; r < ROWS; ++r) memcpy(sums[r], starts, sizeof sums[r]);
  for (int64_t g = 0; g < groups; ++g) {
    words right[2];
    memcpy(right, b + g * WIDE, sizeof right);
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; ++r) {
      const words left = (words){0} + a[g * ROWS + r];
      sums[r][0] = add_products(sums[r][0], left, right[0]);
      sums[r][1] = add_products(sums[r][1], left, right[1]);
    }
  }
  uint32_t parts[ROWS][WIDE];
#pragma GCC unroll 6
  for (int r = 0; r < ROWS; ++r) memcpy(parts[r], sums[r], sizeof sums[r]);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t j = 0; j < width; ++j) c[r * stride + j] += parts[r][j];
  }
}

static void multiply_bytes(const trm_dense_product *p) {
  enum { DEEP = GROUPS * NUMBERS, COLUMNS_AT_ONCE = BYTE_PANELS * WIDE };
  uint32_t right[BYTE_PANELS][GROUPS * WIDE] __attribute__((aligned(64)));
  uint32_t left[GROUPS * ROWS] __attribute__((aligned(64)));
  uint32_t starts[BYTE_PANELS][WIDE] __attribute__((aligned(64)));
  const bool is_flipped = sizeof(byte_number) == 1 && p->are_signed[0];
  for (int64_t j0 = 0; j0 < p->n; j0 += COLUMNS_AT_ONCE) {
    const int64_t n = trm_least(p->n - j0, COLUMNS_AT_ONCE);
    for (int64_t p0 = 0; p0 < p->k; p0 += DEEP) {
      const int64_t depth = trm_least(p->k - p0, DEEP), groups = (depth + NUMBERS - 1) / NUMBERS;
      for (int64_t j = 0; j < n; j += WIDE) {
        pack_right_bytes(p, p0, j0 + j, trm_least(n - j, WIDE), depth, right[j / WIDE]);
        start_bytes(right[j / WIDE], groups, is_flipped, starts[j / WIDE]);
      }
      for (int64_t i = 0; i < p->m; i += ROWS) {
        const int64_t count = trm_least(p->m - i, ROWS);
        pack_left_bytes(p, i, p0, count, depth, is_flipped ? 0x80 : 0, left);
        for (int64_t j = 0; j < n; j += WIDE) {
          tile_bytes(left, right[j / WIDE], starts[j / WIDE], groups,
                     (uint32_t *)p->c + i * p->stride + j0 + j, p->stride, count,
                     trm_least(n - j, WIDE));
        }
      }
    }
  }
}
