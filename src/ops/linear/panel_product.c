/* Owns: products of packed panels with AVX2 (panel_product.h). */
#include "ops/linear/panel_product.h"

#include <string.h>

#include "ops/elementwise/vector.h"
#include "ops/threads.h"

enum {
  WIDE = 16,        /* columns of a panel: two vectors */
  TALL = 6,         /* the most rows of a tile, whose sums stay in registers */
  MOST_DEPTH = 320, /* products of a panel that are added at a time: it stays in the first cache */
  MANY_ROWS = 96,   /* rows that use a panel before the next panel */
  GROUP = 8         /* panels that are packed for more rows than that */
};

/* What gains, as measured on a Zen 3. Fewer rows do not pay for packing. sgemm packs a left side
 * whose columns lie together too. */
enum { LEAST_ROWS = 32, MOST_ROWS = 192, MOST_INNER = 512 };
#define TINY 65536 /* products that take less time than a call of sgemm */

typedef struct job {
  const trm_panel_product *p;
  const float *lhs, *rhs; /* rhs: NULL where it is packed */
  const float *packed;
  float *out;
  char *scratch;
  int64_t parts; /* ranges of rows */
} job;

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t panels_of(const trm_panel_product *p) { return divide_up(p->columns, WIDE); }

/* The products of a panel are cut in about equal parts. */
static int64_t depth_of(const trm_panel_product *p) {
  return divide_up(p->inner, divide_up(p->inner, MOST_DEPTH));
}

/* Panels that are packed together. */
static int64_t group_of(const trm_panel_product *p) {
  return p->rows <= MANY_ROWS ? 1 : least(GROUP, panels_of(p));
}

static size_t buffer_bytes(const trm_panel_product *p) {
  return (size_t)(group_of(p) * depth_of(p) * WIDE) * sizeof(float);
}

size_t trm_panel_product_packed_bytes(const trm_panel_product *p) {
  return (size_t)(panels_of(p) * p->inner * WIDE) * sizeof(float);
}

size_t trm_panel_product_scratch_bytes(const trm_panel_product *p) {
  return buffer_bytes(p) * (size_t)trm_threads_limit();
}

int64_t trm_panel_product_row_parts(const trm_panel_product *p, int threads) {
  const int64_t wanted = divide_up(threads, panels_of(p)), most = divide_up(p->rows, TALL);
  return least(wanted, most);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma"))) static
#define INLINE __attribute__((target("avx2,fma"), always_inline)) static inline

bool trm_panel_product_serves(const trm_panel_product *p, bool packs_once) {
  const char *name = trm_vector_ops_get()->name;
  if (strcmp(name, "avx2") != 0 && strcmp(name, "avx512") != 0) return false;
  if (packs_once) return p->rows >= 4 && p->rows <= MOST_ROWS;
  if (p->lhs_row == 1) return p->rows >= LEAST_ROWS && p->inner <= MOST_INNER;
  return (p->rows >= LEAST_ROWS && p->rows <= MOST_ROWS) ||
         (double)p->rows * (double)p->inner * (double)p->columns <= TINY;
}

/* ---- Packing --------------------------------------------------------------------------------- */

INLINE __m256i mask_of(int64_t count) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const int some = count >= 8 ? 8 : count <= 0 ? 0 : (int)count;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(some), lanes);
}

/* Packs lines of columns that lie together. */
INLINE void pack_lines(const float *from, int64_t stride, int64_t depth, int64_t columns,
                       float *to) {
  if (columns >= WIDE) {
    for (int64_t k = 0; k < depth; ++k, from += stride, to += WIDE) {
      _mm256_store_ps(to, _mm256_loadu_ps(from));
      _mm256_store_ps(to + 8, _mm256_loadu_ps(from + 8));
    }
    return;
  }
  const __m256i low = mask_of(columns), high = mask_of(columns - 8);
  for (int64_t k = 0; k < depth; ++k, from += stride, to += WIDE) {
    _mm256_store_ps(to, _mm256_maskload_ps(from, low));
    _mm256_store_ps(to + 8, _mm256_maskload_ps(from + 8, high));
  }
}

/* Writes the 8 x 8 numbers of lines `stride` apart as columns. */
INLINE void transpose(const float *from, int64_t stride, float *to) {
  __m256 line[8], pair[8], four[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) line[i] = _mm256_loadu_ps(from + i * stride);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(line[i], line[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(line[i], line[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      four[i + 2 * k] = _mm256_shuffle_ps(pair[i + k], pair[i + 2 + k], 0x44);
      four[i + 2 * k + 1] = _mm256_shuffle_ps(pair[i + k], pair[i + 2 + k], 0xee);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_store_ps(to + i * WIDE, _mm256_permute2f128_ps(four[i], four[4 + i], 0x20));
    _mm256_store_ps(to + (4 + i) * WIDE, _mm256_permute2f128_ps(four[i], four[4 + i], 0x31));
  }
}

/* Packs columns whose numbers lie together. */
INLINE void pack_columns(const float *from, int64_t stride, int64_t depth, int64_t columns,
                         float *to) {
  int64_t done = 0;
  for (; done + 8 <= depth && columns >= WIDE; done += 8) {
    transpose(from + done, stride, to + done * WIDE);
    transpose(from + 8 * stride + done, stride, to + done * WIDE + 8);
  }
  for (int64_t c = 0; c < WIDE; ++c) {
    for (int64_t k = done; k < depth; ++k) {
      to[k * WIDE + c] = c < columns ? from[c * stride + k] : 0.0f;
    }
  }
}

/* Packs `depth` numbers of a panel's columns, from number `first` on. */
TARGET void pack_panel(const trm_panel_product *p, const float *rhs, int64_t panel, int64_t first,
                       int64_t depth, float *to) {
  const int64_t column = panel * WIDE, columns = p->columns - column;
  const float *from = rhs + column * p->rhs_column + first * p->rhs_inner;
  if (p->rhs_column == 1) pack_lines(from, p->rhs_inner, depth, columns, to);
  else pack_columns(from, p->rhs_column, depth, columns, to);
}

/* ---- Multiplying ----------------------------------------------------------------------------- */

/* A part of the left side, a part of a panel, and where the sums go. */
typedef struct tile {
  const float *lhs, *panel;
  int64_t row, inner, depth; /* strides of lhs; products of a sum */
  float *out;
  int64_t line; /* floats from row to row of `out` */
  int64_t columns;
  bool adds; /* to what is there */
} tile;

INLINE void multiply_rows(const tile *t, const float *lhs, float *out, const int rows) {
  __m256 sums[TALL][2];
  const __m256i low = mask_of(t->columns), high = mask_of(t->columns - 8);
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i) {
    sums[i][0] = sums[i][1] = _mm256_setzero_ps();
    if (!t->adds) continue;
    sums[i][0] = _mm256_maskload_ps(out + i * t->line, low);
    sums[i][1] = _mm256_maskload_ps(out + i * t->line + 8, high);
  }
  const float *panel = t->panel;
#pragma GCC unroll 2
  for (int64_t k = 0; k < t->depth; ++k, panel += WIDE, lhs += t->inner) {
    const __m256 a = _mm256_load_ps(panel), b = _mm256_load_ps(panel + 8);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      const __m256 v = _mm256_broadcast_ss(lhs + i * t->row);
      sums[i][0] = _mm256_fmadd_ps(v, a, sums[i][0]);
      sums[i][1] = _mm256_fmadd_ps(v, b, sums[i][1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i) {
    if (t->columns >= WIDE) {
      _mm256_storeu_ps(out + i * t->line, sums[i][0]);
      _mm256_storeu_ps(out + i * t->line + 8, sums[i][1]);
    } else {
      _mm256_maskstore_ps(out + i * t->line, low, sums[i][0]);
      _mm256_maskstore_ps(out + i * t->line + 8, high, sums[i][1]);
    }
  }
}

/* Rows [begin, end), in tiles of about as many rows. */
TARGET void multiply_panel(const tile *t, int64_t begin, int64_t end) {
  const int64_t tiles = divide_up(end - begin, TALL);
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t row = begin + trm_range_begin(end - begin, i, tiles);
    const float *lhs = t->lhs + row * t->row;
    float *out = t->out + row * t->line;
    switch (begin + trm_range_begin(end - begin, i + 1, tiles) - row) {
      case 6: multiply_rows(t, lhs, out, 6); break;
      case 5: multiply_rows(t, lhs, out, 5); break;
      case 4: multiply_rows(t, lhs, out, 4); break;
      case 3: multiply_rows(t, lhs, out, 3); break;
      case 2: multiply_rows(t, lhs, out, 2); break;
      default: multiply_rows(t, lhs, out, 1); break;
    }
  }
}

/* Some panels, for the rows [begin, end) and products from `first` on. */
TARGET void multiply_group(const job *own, int64_t panel, int64_t panels, int64_t begin,
                           int64_t end, int64_t first, float *buffer) {
  const trm_panel_product *p = own->p;
  const int64_t depth = least(depth_of(p), p->inner - first);
  for (int64_t i = 0; i < panels && own->rhs != NULL; ++i) {
    pack_panel(p, own->rhs, panel + i, first, depth, buffer + i * depth * WIDE);
  }
  for (int64_t row = begin; row < end; row += MANY_ROWS) {
    for (int64_t i = 0; i < panels; ++i) {
      const int64_t column = (panel + i) * WIDE;
      const tile t = {.lhs = own->lhs + first * p->lhs_inner,
                      .panel = own->rhs != NULL
                                   ? buffer + i * depth * WIDE
                                   : own->packed + ((panel + i) * p->inner + first) * WIDE,
                      .row = p->lhs_row,
                      .inner = p->lhs_inner,
                      .depth = depth,
                      .out = own->out + column,
                      .line = p->columns,
                      .columns = p->columns - column,
                      .adds = first > 0};
      multiply_panel(&t, row, least(end, row + MANY_ROWS));
    }
  }
}

#else

bool trm_panel_product_serves(const trm_panel_product *p, bool packs_once) {
  (void)p, (void)packs_once;
  return false;
}

/* Nobody calls these where the product does not serve. */
static void pack_panel(const trm_panel_product *p, const float *rhs, int64_t panel, int64_t first,
                       int64_t depth, float *to) {
  (void)p, (void)rhs, (void)panel, (void)first, (void)depth, (void)to;
}
static void multiply_group(const job *own, int64_t panel, int64_t panels, int64_t begin,
                           int64_t end, int64_t first, float *buffer) {
  (void)own, (void)panel, (void)panels, (void)begin, (void)end, (void)first, (void)buffer;
}

#endif

/* ---- Running --------------------------------------------------------------------------------- */

static void run_tasks(const void *context, int64_t begin, int64_t end, int thread) {
  const job *own = context;
  const trm_panel_product *p = own->p;
  const int64_t all = panels_of(p), group = group_of(p);
  float *buffer = NULL; /* of a panel that is not packed yet */
  if (own->rhs != NULL) {
    buffer = (float *)(void *)(own->scratch + (size_t)thread * buffer_bytes(p));
  }
  for (int64_t task = begin; task < end;) {
    const int64_t part = task / all, panel = task % all;
    const int64_t panels = least(all - panel, end - task);
    const int64_t row = trm_range_begin(p->rows, part, own->parts);
    const int64_t last = trm_range_begin(p->rows, part + 1, own->parts);
    for (int64_t first = 0; first < p->inner; first += depth_of(p)) {
      for (int64_t i = 0; i < panels; i += group) {
        multiply_group(own, panel + i, least(group, panels - i), row, last, first, buffer);
      }
    }
    task += panels;
  }
}

static void run(const trm_panel_product *p, const void *lhs, const void *rhs, const void *packed,
                void *out, void *scratch) {
  /* Four operations cost as much as a byte. */
  const double work = (double)p->rows * (double)p->columns * (double)p->inner / 2;
  const int threads = trm_threads_for(work < 0x1p60 ? (size_t)work : (size_t)1 << 60);
  const job own = {p, lhs, rhs, packed, out, scratch, trm_panel_product_row_parts(p, threads)};
  trm_parallel_ranges(threads, panels_of(p) * own.parts, run_tasks, &own);
}

void trm_panel_product_run_packed(const void *data, const void *lhs, const void *packed,
                                  void *out) {
  run(data, lhs, NULL, packed, out, NULL);
}

void trm_panel_product_run(const void *data, const void *lhs, const void *rhs, void *out,
                           void *scratch) {
  run(data, lhs, rhs, NULL, out, scratch);
}

typedef struct packing {
  const trm_panel_product *p;
  const float *rhs;
  float *packed;
} packing;

static void pack_panels(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const packing *own = context;
  const trm_panel_product *p = own->p;
  for (int64_t panel = begin; panel < end; ++panel) {
    pack_panel(p, own->rhs, panel, 0, p->inner, own->packed + panel * p->inner * WIDE);
  }
}

void trm_panel_product_pack(const void *data, const void *rhs, const void *unused, void *packed) {
  (void)unused;
  const trm_panel_product *p = data;
  const packing own = {p, rhs, packed};
  trm_parallel_ranges(trm_threads_for(trm_panel_product_packed_bytes(p)), panels_of(p), pack_panels,
                      &own);
}
