/* Owns: products of halves on AMX tiles: tasks, packing, the instructions for tiles. */
#define _GNU_SOURCE
#include "host/ops/products/half_tiles.h"
#include "base/integers.h"

#include <string.h>

#include "base/limits.h"
#include "host/ops/products/half_products.h"
#include "host/ops/threads.h"

/* The inner dimension is cut into chunks. A chunk of 32 columns of weights, in two pieces, fills
 * two thirds of the first-level cache. */
enum { CHUNK = 256, STEP = 32 };
enum { BLOCK = 32, TILE = 16 }; /* columns and rows */
enum { AHEAD = 6 };             /* a row is prefetched so many rows before it is packed */
enum { TILE_BYTES = 1024, PIECES_BYTES = 2 * TILE_BYTES };

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static int64_t inner_of(const trm_half_tiles *p) {
  return p->k_size[0] * p->k_size[1] * p->channels;
}
static int64_t rows_of(const trm_half_tiles *p) { return p->batch * p->y_size[0] * p->y_size[1]; }
static int64_t groups_of(const trm_half_tiles *p) {
  int64_t count = 1;
  for (int32_t d = 0; d < p->group_rank; ++d) count *= p->groups[d];
  return count;
}
/* Packed weights are [group][chunk][block][pair of inner][column][2]. */
static int64_t packed_columns(const trm_half_tiles *p) { return round_up(p->outputs, TILE); }
static int64_t packed_count(const trm_half_tiles *p) {
  return round_up(inner_of(p), STEP) * packed_columns(p);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* The cycles of the thread with the most work, for each element of the inner product. A tile unit
 * makes 512 products a cycle. Splitting a half takes a third of a cycle, or twice that for weights
 * that come from memory. */
static double cost_of(const trm_half_tiles *p, int64_t rows, int64_t columns) {
  const int64_t tasks =
      groups_of(p) * trm_divide_up(rows_of(p), rows) * trm_divide_up(p->outputs, columns);
  const double r = (double)rows, c = (double)columns;
  return (double)trm_divide_up(tasks, p->threads) * (r * c * 3 / 512 + r / 3 + c * 2 / 3);
}

/* The number of sums that a task keeps at a time. With a single chunk, these are the sums of one
 * block. */
static int64_t sums_of(const trm_half_tiles *p, int64_t rows, int64_t columns) {
  return rows * (inner_of(p) <= CHUNK ? trm_least(columns, BLOCK) : columns);
}

static void plan(trm_half_tiles *p) {
  const int64_t rows = round_up(rows_of(p), TILE), columns = round_up(p->outputs, TILE);
  double best = 0;
  p->task_rows = p->task_columns = 0;
  for (int64_t down = trm_divide_up(rows, TRM_HALF_TILES_MOST_ROWS); down <= rows / TILE; ++down) {
    const int64_t r = round_up(trm_divide_up(rows, down), TILE);
    for (int64_t across = 1; across <= trm_divide_up(columns, BLOCK); ++across) {
      const int64_t c = round_up(trm_divide_up(columns, across), BLOCK);
      if (sums_of(p, r, c) > TRM_HALF_TILES_MOST_SUMS) continue;
      const double cost = cost_of(p, r, c);
      if (p->task_rows == 0 || cost < best) best = cost, p->task_rows = r, p->task_columns = c;
    }
    if (r <= 4 * TILE && p->task_rows > 0) break;
  }
}

static size_t packed_bytes(const trm_half_tiles *p) {
  return (size_t)(groups_of(p) * packed_count(p)) * sizeof(uint16_t);
}

/* The buffers of a thread. */
typedef struct workspace {
  char *left, *left_masked;   /* [tile of rows][step][hi, lo], and [tile of rows][step] */
  char *right, *right_masked; /* [step][tile of columns][hi, lo], and [step][tile of columns] */
  float *sums;                /* [block][row][column] */
} workspace;

/* Bytes of one kind of pieces of a chunk: high, low or masked. */
static size_t chunk_bytes(int64_t lines) { return (size_t)(lines * CHUNK) * sizeof(uint16_t); }

static size_t workspace_bytes(const trm_half_tiles *p) {
  return 3 * (chunk_bytes(p->task_rows) + chunk_bytes(BLOCK)) +
         (size_t)sums_of(p, p->task_rows, p->task_columns) * sizeof(float);
}

static workspace lay_out(const trm_half_tiles *p, char *at) {
  const size_t left = chunk_bytes(p->task_rows), right = chunk_bytes(BLOCK);
  char *const rights = at + 3 * left;
  return (workspace){.left = at,
                     .left_masked = at + 2 * left,
                     .right = rights,
                     .right_masked = rights + 2 * right,
                     .sums = (float *)(void *)(rights + 3 * right)};
}

/* ---- Weights --------------------------------------------------------------------------------- */

typedef struct pack_job {
  const trm_half_tiles *p;
  const uint16_t *from;
  uint16_t *to;
} pack_job;

static int64_t group_offset(const trm_half_tiles *p, const int64_t *strides, int64_t group) {
  int64_t offset = 0;
  for (int32_t d = p->group_rank - 1; d >= 0; --d) {
    offset += group % p->groups[d] * strides[d];
    group /= p->groups[d];
  }
  return offset;
}

/* The address of element (k, 0) of a group's weights; NULL past the end. */
static const uint16_t *weight_row(const trm_half_tiles *p, const uint16_t *from, int64_t k) {
  if (k >= inner_of(p)) return NULL;
  const int64_t tap = k / p->channels, row = tap / p->k_size[1], column = tap % p->k_size[1];
  return from + row * p->w_spatial[0] + column * p->w_spatial[1] + k % p->channels * p->w_channel;
}

static void pack_block(const trm_half_tiles *p, const uint16_t *from, int64_t begin, int64_t end,
                       int64_t column, int64_t width, uint16_t *to) {
  const int64_t count = trm_least(width, p->outputs - column), stride = p->w_output;
  memset(to, 0, (size_t)((end - begin) * width) * sizeof *to);
  for (int64_t k = begin; k < end; k += 2, to += 2 * width) {
    for (int64_t odd = 0; odd < 2; ++odd) {
      const uint16_t *row = weight_row(p, from, k + odd);
      if (row == NULL) continue;
      row += column * stride;
      for (int64_t i = 0; i < count; ++i) to[2 * i + odd] = row[i * stride];
    }
  }
}

static void pack_chunks(const void *context, int64_t first, int64_t last, int thread) {
  (void)thread;
  const pack_job *job = context;
  const trm_half_tiles *p = job->p;
  const int64_t padded = round_up(inner_of(p), STEP), chunks = trm_divide_up(padded, CHUNK);
  for (int64_t i = first; i < last; ++i) {
    const int64_t group = i / chunks, begin = i % chunks * CHUNK;
    const int64_t end = trm_least(begin + CHUNK, padded);
    const uint16_t *from = job->from + p->w_start + group_offset(p, p->w_group, group);
    uint16_t *to = job->to + group * packed_count(p) + begin * packed_columns(p);
    for (int64_t column = 0; column < p->outputs; column += BLOCK) {
      const int64_t width = trm_least(BLOCK, packed_columns(p) - column);
      pack_block(p, from, begin, end, column, width, to + column * (end - begin));
    }
  }
}

static void run_packing(const void *data, const void *w, const void *unused, void *packed) {
  (void)unused;
  const trm_half_tiles *p = data;
  const pack_job job = {p, w, packed};
  trm_parallel_ranges(trm_threads_for(packed_bytes(p)),
                      groups_of(p) * trm_divide_up(inner_of(p), CHUNK), pack_chunks, &job);
}

#if defined(__x86_64__)
#include <immintrin.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FEATURES "avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16"
#define TARGET __attribute__((target(FEATURES))) static
#define INLINE __attribute__((target(FEATURES), always_inline)) static inline

static bool is_permitted;

static void ask_permission(void) {
  enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM */
  is_permitted = syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

bool trm_half_tiles_serve(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!trm_half_units_here().amx_bfloat16) return false;
  pthread_once(&once, ask_permission);
  return is_permitted;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

INLINE __m512 widen_bfloat16(__m256i from) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(from), 16));
}

/* Splits 32 halves. Returns the mask of infinities and NaNs, whose lower piece is zero. */
INLINE __mmask32 split(__m512i halves, char *high, char *low) {
  const __m512i exponent = _mm512_set1_epi16(0x7c00);
  const __mmask32 special = _mm512_cmpeq_epi16_mask(_mm512_and_si512(halves, exponent), exponent);
  const __m512 first = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
  const __m512 second = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
  const __m512i rounded = (__m512i)_mm512_cvtne2ps_pbh(second, first);
  const __m512 rest0 = _mm512_sub_ps(first, widen_bfloat16(_mm512_castsi512_si256(rounded)));
  const __m512 rest1 = _mm512_sub_ps(second, widen_bfloat16(_mm512_extracti64x4_epi64(rounded, 1)));
  const __m512i rest = (__m512i)_mm512_cvtne2ps_pbh(rest1, rest0); /* exact */
  _mm512_store_si512(high, rounded);
  _mm512_store_si512(low, _mm512_maskz_mov_epi16((__mmask32)~special, rest));
  return special;
}

/* Copies the upper pieces of `count` tiles, with zeros in place of infinities and NaNs. */
TARGET void mask_tiles(const char *tiles, int64_t count, char *masked) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t line = 0; line < TILE_BYTES; line += 64) {
      const __m512i bits = _mm512_load_si512(tiles + i * PIECES_BYTES + line);
      const __mmask32 finite = _mm512_cmpneq_epi16_mask(_mm512_and_si512(bits, exponent), exponent);
      _mm512_store_si512(masked + i * TILE_BYTES + line, _mm512_maskz_mov_epi16(finite, bits));
    }
  }
}

INLINE void copy_halves(const uint16_t *from, int64_t count, uint16_t *to) {
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
  if (i == count) return;
  const __mmask32 rest = (__mmask32)((UINT64_C(1) << (count - i)) - 1);
  _mm512_mask_storeu_epi16(to + i, rest, _mm512_maskz_loadu_epi16(rest, from + i));
}

/* Where the inner product of an output pixel begins. */
typedef struct pixel {
  const uint16_t *image; /* of the group */
  int64_t row, column;   /* of the first tap; may be outside of the image */
} pixel;

INLINE pixel pixel_of(const trm_half_tiles *p, const uint16_t *x, int64_t m) {
  const int64_t column = m % p->y_size[1], rest = m / p->y_size[1];
  return (pixel){x + rest / p->y_size[0] * p->x_batch,
                 rest % p->y_size[0] * p->stride[0] - p->pad[0], column * p->stride[1] - p->pad[1]};
}

/* Copies elements [begin, end) of a pixel's inner product, which belong to one row of taps. The row
 * begins at element `first`. Elements outside of the image stay zero. */
INLINE void copy_taps(const trm_half_tiles *p, const pixel *at, int64_t row, int64_t first,
                      int64_t begin, int64_t end, uint16_t *line) {
  const int64_t source = at->row + row * p->dilation[0];
  if (source < 0 || source >= p->x_size[0]) return;
  const uint16_t *from = at->image + source * p->x_spatial[0];
  if (p->x_channel == 1 && p->dilation[1] == 1 && p->x_spatial[1] == p->channels) {
    /* A row of taps is contiguous. */
    const int64_t left = at->column * p->channels; /* where the taps begin in the image's row */
    int64_t low = begin, high = end;
    if (left + low - first < 0) low = first - left;
    if (left + high - first > p->x_size[1] * p->channels) {
      high = first - left + p->x_size[1] * p->channels;
    }
    if (low < high) copy_halves(from + left + low - first, high - low, line + low - begin);
    return;
  }
  for (int64_t k = begin; k < end;) {
    const int64_t tap = (k - first) / p->channels, channel = (k - first) % p->channels;
    const int64_t count = trm_least(p->channels - channel, end - k);
    const int64_t column = at->column + tap * p->dilation[1];
    if (column >= 0 && column < p->x_size[1]) {
      const uint16_t *c = from + column * p->x_spatial[1] + channel * p->x_channel;
      if (p->x_channel == 1) copy_halves(c, count, line + k - begin);
      else
        for (int64_t i = 0; i < count; ++i) line[k - begin + i] = c[i * p->x_channel];
    }
    k += count;
  }
}

/* Elements [begin, end) of a pixel's inner product, in the image or copied to `line`. */
INLINE const uint16_t *line_of(const trm_half_tiles *p, const uint16_t *x, int64_t m, int64_t begin,
                               int64_t end, uint16_t *line) {
  const pixel at = pixel_of(p, x, m);
  const int64_t across = p->k_size[1] * p->channels, last = trm_least(end, inner_of(p));
  const bool is_point = p->k_size[0] * p->k_size[1] == 1 && p->pad[0] == 0 && p->pad[1] == 0;
  if (is_point && p->x_channel == 1 && last == end) {
    const uint16_t *from =
        at.image + at.row * p->x_spatial[0] + at.column * p->x_spatial[1] + begin;
    for (int64_t i = 0; i < end - begin; i += 32) { /* usually of a later pixel */
      _mm_prefetch(from + AHEAD * p->x_spatial[1] * p->stride[1] + i, _MM_HINT_T0);
    }
    return from;
  }
  memset(line, 0, CHUNK * sizeof *line);
  for (int64_t k = begin; k < last;) {
    const int64_t row = k / across, stop = trm_least(last, (row + 1) * across);
    copy_taps(p, &at, row, row * across, k, stop, line + k - begin);
    k = stop;
  }
  return line;
}

/* Packs rows [first, first + count) of a chunk. Returns whether all numbers are finite. */
TARGET bool pack_left(const trm_half_tiles *p, const uint16_t *x, int64_t first, int64_t count,
                      int64_t begin, int64_t end, const workspace *own) {
  const int64_t steps = (end - begin) / STEP;
  uint16_t line[CHUNK] __attribute__((aligned(64)));
  __mmask32 special = 0;
  for (int64_t m = 0; m < count; ++m) {
    const uint16_t *from = line_of(p, x, first + m, begin, end, line);
    char *to = own->left + m / TILE * steps * PIECES_BYTES + m % TILE * 64;
    for (int64_t s = 0; s < steps; ++s, to += PIECES_BYTES) {
      special |= split(_mm512_loadu_si512(from + s * STEP), to, to + TILE_BYTES);
    }
  }
  if (special == 0) return true;
  mask_tiles(own->left, trm_divide_up(count, TILE) * steps, own->left_masked);
  return false;
}

TARGET bool pack_right(const uint16_t *from, int64_t steps, int64_t tiles, const workspace *own) {
  __mmask32 special = 0;
  for (int64_t s = 0; s < steps; ++s) {
    for (int64_t pair = 0; pair < TILE; ++pair) {
      for (int64_t t = 0; t < tiles; ++t, from += 32) {
        char *to = own->right + (s * tiles + t) * PIECES_BYTES + pair * 64;
        special |= split(_mm512_loadu_si512(from), to, to + TILE_BYTES);
      }
    }
  }
  if (special == 0) return true;
  mask_tiles(own->right, steps * tiles, own->right_masked);
  return false;
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* An operand of a product of up to 2 x 2 tiles. If all numbers are finite, `masked` is `tiles`. */
typedef struct factor {
  const char *tiles, *masked;
  int64_t step, masked_step; /* bytes from a step to the next */
  int64_t next, masked_next; /* bytes from a tile to its neighbour */
} factor;

#define LOAD(first, second, from, next, is_two)           \
  do {                                                    \
    _tile_loadd(first, (from), 64);                       \
    if (is_two) _tile_loadd(second, (from) + (next), 64); \
  } while (0)

/* Tiles 0 to 3 are sums, 4 and 5 left factors, 6 and 7 right ones. */
#define MULTIPLY()                              \
  do {                                          \
    _tile_dpbf16ps(0, 4, 6);                    \
    if (two_columns) _tile_dpbf16ps(1, 4, 7);   \
    if (two_rows) {                             \
      _tile_dpbf16ps(2, 5, 6);                  \
      if (two_columns) _tile_dpbf16ps(3, 5, 7); \
    }                                           \
  } while (0)

/* Adds the products of `steps` steps to `sums`, whose lines are `line` bytes apart. */
INLINE void multiply(trm_half_products products, const factor *a, const factor *b, int64_t steps,
                     bool two_rows, bool two_columns, bool is_first, float *sums, int64_t line) {
  char *const upper = (char *)sums, *const lower = upper + TILE * line;
  if (is_first) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, upper, line);
    if (two_columns) _tile_loadd(1, upper + 64, line);
    if (two_rows) _tile_loadd(2, lower, line);
    if (two_rows && two_columns) _tile_loadd(3, lower + 64, line);
  }
  for (int64_t s = 0; s < steps; ++s) {
    const char *left = a->tiles + s * a->step, *right = b->tiles + s * b->step;
    LOAD(4, 5, left, a->next, two_rows);
    LOAD(6, 7, right, b->next, two_columns);
    MULTIPLY();
    if (products == TRM_HALF_PRODUCTS_BFLOAT16) continue;
    LOAD(4, 5, left + TILE_BYTES, a->next, two_rows);
    if (b->masked != b->tiles) {
      LOAD(6, 7, b->masked + s * b->masked_step, b->masked_next, two_columns);
    }
    MULTIPLY();
    LOAD(6, 7, right + TILE_BYTES, b->next, two_columns);
    if (products == TRM_HALF_PRODUCTS_PIECES4) MULTIPLY();
    LOAD(4, 5, a->masked + s * a->masked_step, a->masked_next, two_rows);
    MULTIPLY();
  }
  _tile_stored(0, upper, line);
  if (two_columns) _tile_stored(1, upper + 64, line);
  if (two_rows) _tile_stored(2, lower, line);
  if (two_rows && two_columns) _tile_stored(3, lower + 64, line);
}

/* ---- Running --------------------------------------------------------------------------------- */

typedef struct run_job {
  const trm_half_tiles *p;
  const uint16_t *x, *w;
  char *y, *scratch;
} run_job;

/* One task: `rows` rows from `row` on, `columns` columns from `column` on. */
typedef struct task {
  const uint16_t *x, *w;
  char *y;
  int64_t row, rows, column, columns;
} task;

static int64_t block_width(const trm_half_tiles *p, int64_t column) {
  return trm_least(BLOCK, packed_columns(p) - column);
}

/* Writes the sums of a block of columns to the results. */
TARGET void write_block(const trm_half_tiles *p, const task *t, int64_t column, const float *sums) {
  const int64_t width = block_width(p, column), count = trm_least(width, p->outputs - column);
  const __mmask16 first = (__mmask16)((1u << trm_least(count, 16)) - 1);
  const __mmask16 second = (__mmask16)(count > 16 ? (1u << (count - 16)) - 1 : 0);
  for (int64_t m = 0; m < t->rows; ++m, sums += width) {
    const int64_t at = (t->row + m) * p->y_pixel + column;
    const __m512 a = _mm512_load_ps(sums);
    const __m512 b = second ? _mm512_load_ps(sums + 16) : a;
    if (p->rounds) {
      uint16_t *to = (uint16_t *)(void *)t->y + at;
      enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
      _mm256_mask_storeu_epi16(to, first, _mm512_cvtps_ph(a, NEAREST));
      if (second) _mm256_mask_storeu_epi16(to + 16, second, _mm512_cvtps_ph(b, NEAREST));
    } else {
      float *to = (float *)(void *)t->y + at;
      _mm512_mask_storeu_ps(to, first, a);
      if (second) _mm512_mask_storeu_ps(to + 16, second, b);
    }
  }
}

/* Multiplies the packed rows of a chunk with one block of columns. Prefetches the weights of the
 * next block, at `ahead`, because they come from memory. */
TARGET void multiply_block(const trm_half_tiles *p, const workspace *own, int64_t rows,
                           int64_t width, int64_t steps, bool is_first, const bool finite[2],
                           const uint16_t *ahead, float *sums) {
  const int64_t tiles = width / TILE;
  const factor b = {.tiles = own->right,
                    .masked = finite[1] ? own->right : own->right_masked,
                    .step = tiles * PIECES_BYTES,
                    .masked_step = tiles * TILE_BYTES,
                    .next = PIECES_BYTES,
                    .masked_next = TILE_BYTES};
  const int64_t lines = width * steps, share = trm_divide_up(lines, trm_divide_up(rows, 2 * TILE));
  for (int64_t m = 0; m < rows; m += 2 * TILE) {
    const int64_t fetched = m / (2 * TILE) * share;
    for (int64_t i = fetched; i < fetched + share; ++i) _mm_prefetch(ahead + i * 32, _MM_HINT_T1);
    const int64_t at = m / TILE * steps;
    factor a = {.tiles = own->left + at * PIECES_BYTES,
                .step = PIECES_BYTES,
                .masked_step = finite[0] ? PIECES_BYTES : TILE_BYTES};
    a.masked = finite[0] ? a.tiles : own->left_masked + at * TILE_BYTES;
    a.next = steps * a.step, a.masked_next = steps * a.masked_step;
    multiply(p->products, &a, &b, steps, m + TILE < rows, tiles == 2, is_first, sums + m * width,
             width * (int64_t)sizeof(float));
  }
}

TARGET void run_task(const trm_half_tiles *p, const task *t, const workspace *own) {
  const int64_t padded = round_up(inner_of(p), STEP), rows = round_up(t->rows, TILE);
  for (int64_t begin = 0; begin < padded; begin += CHUNK) {
    const int64_t end = trm_least(begin + CHUNK, padded), steps = (end - begin) / STEP;
    bool finite[2] = {pack_left(p, t->x, t->row, t->rows, begin, end, own), true};
    const uint16_t *w = t->w + begin * packed_columns(p);
    for (int64_t column = t->column; column < t->column + t->columns; column += BLOCK) {
      const int64_t width = block_width(p, column);
      /* With one chunk, the sums of a block are written at once, and all blocks share a buffer. */
      float *sums = own->sums + (padded <= CHUNK ? 0 : (column - t->column) * rows);
      const uint16_t *block = w + column * (end - begin);
      finite[1] = pack_right(block, steps, width / TILE, own);
      multiply_block(p, own, rows, width, steps, begin == 0, finite, block + width * (end - begin),
                     sums);
      if (end == padded) write_block(p, t, column, sums);
    }
  }
}

TARGET void run_tasks(const void *context, int64_t begin, int64_t end, int thread) {
  const run_job *job = context;
  const trm_half_tiles *p = job->p;
  static const struct {
    uint8_t palette, start, reserved[14];
    uint16_t line_bytes[16];
    uint8_t lines[16];
  } shapes = {.palette = 1,
              .line_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
              .lines = {TILE, TILE, TILE, TILE, TILE, TILE, TILE, TILE}};
  _tile_loadconfig(&shapes);
  const workspace own = lay_out(p, job->scratch + (size_t)thread * workspace_bytes(p));
  const int64_t across = trm_divide_up(p->outputs, p->task_columns);
  const int64_t down = trm_divide_up(rows_of(p), p->task_rows);
  const size_t y_bytes = p->rounds ? sizeof(uint16_t) : sizeof(float);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t group = i / across / down;
    task t = {.x = job->x + p->x_start + group_offset(p, p->x_group, group),
              .w = job->w + group * packed_count(p),
              .y = job->y + group_offset(p, p->y_group, group) * (int64_t)y_bytes,
              .row = i / across % down * p->task_rows,
              .column = i % across * p->task_columns};
    t.rows = trm_least(p->task_rows, rows_of(p) - t.row);
    t.columns = trm_least(p->task_columns, p->outputs - t.column);
    run_task(p, &t, &own);
  }
  _tile_release();
}

static void run_product(const void *data, const void *x, const void *packed, void *y,
                        void *scratch) {
  const trm_half_tiles *p = data;
  const run_job job = {p, x, packed, y, scratch};
  const int64_t tasks = groups_of(p) * trm_divide_up(rows_of(p), p->task_rows) *
                        trm_divide_up(p->outputs, p->task_columns);
  trm_parallel_ranges(p->threads, tasks, run_tasks, &job);
}

trm_status trm_half_tiles_add(trm_sequence *sequence, const trm_kernel_request *request,
                              const trm_half_tiles *product, trm_error *error) {
  trm_half_tiles *own = trm_arena_copy(request->arena, product, sizeof *product);
  CHECK_MEMORY(own, "a product of halves");
  own->rounds = request->instruction->shape.dtype == TRM_F16;
  own->threads = trm_sequence_threads(sequence);
  plan(own);
  const size_t bytes = packed_bytes(own);
  const bool may_repeat = trm_operand_may_repeat(request, 1);
  const trm_place x = trm_place_operand(0, 0), w = trm_place_operand(1, 0);
  const trm_place packed =
      may_repeat ? trm_sequence_persistent(sequence, bytes) : trm_sequence_scratch(sequence, bytes);
  if (may_repeat) trm_sequence_pack_begin(sequence, 1);
  TRY(trm_sequence_add_function(sequence, run_packing, own, w, w, packed, error));
  trm_sequence_pack_end(sequence);
  return trm_sequence_add_worker(sequence, run_product, own, x, packed, trm_place_result(0),
                                 workspace_bytes(own) * (size_t)own->threads, error);
}

#else

bool trm_half_tiles_serve(void) { return false; }

/* Not called, because trm_half_tiles_serve() is false. */
trm_status trm_half_tiles_add(trm_sequence *sequence, const trm_kernel_request *request,
                              const trm_half_tiles *product, trm_error *error) {
  (void)sequence, (void)request, (void)product, (void)error;
  return TRM_UNIMPLEMENTED;
}

#endif
