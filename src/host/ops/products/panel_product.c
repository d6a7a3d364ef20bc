/* Owns: products of packed panels (panel_product.h): which side is packed, and the tasks. */
#include "host/ops/products/panel_product.h"
#include "base/integers.h"

#include "base/limits.h"
#include "host/ops/products/panel_tiles.h"
#include "host/ops/threads.h"

enum {
  TILES = 7, /* of rows that use a panel before the next panel, about a hundred rows */
  GROUP = 8  /* panels that are packed for more rows than that */
};

enum { PAGE = 1024 }; /* floats */

/* How the right side is read. */
typedef enum way {
  BY_PANELS, /* a task packs the panels that it needs */
  BY_LINES,  /* where it is */
  IS_SWAPPED /* as the left side of the transposed product, whose right side a task packs */
} way;

/* A product as it is computed: the transposed one where it is swapped. */
typedef struct job {
  trm_panel_product p;
  const trm_panel_tiles *tiles;
  bool is_swapped;
  const void *lhs, *rhs; /* rhs: NULL where it is packed */
  const float *packed;
  void *out;
  char *scratch;
  int64_t chunks; /* ranges of rows */
} job;

static way way_of(const trm_panel_product *p, const trm_panel_tiles *tiles) {
  if (!tiles->reads_lines) return BY_PANELS;
  return p->rhs_column == 1 ? BY_LINES : IS_SWAPPED;
}

/* The transposed product. */
static trm_panel_product swapped(const trm_panel_product *p) {
  return (trm_panel_product){.rows = p->columns,
                             .columns = p->rows,
                             .inner = p->inner,
                             .lhs_row = p->rhs_column,
                             .lhs_inner = p->rhs_inner,
                             .rhs_inner = p->lhs_inner,
                             .rhs_column = p->lhs_row};
}

static int64_t panels_of(const trm_panel_product *p, const trm_panel_tiles *tiles) {
  return trm_divide_up(p->columns, tiles->wide);
}

/* The products of a panel are cut in about equal chunks. */
static int64_t depth_of(const job *own) {
  if (own->is_swapped || own->p.is_half) return own->p.inner;
  return trm_divide_up(own->p.inner, trm_divide_up(own->p.inner, own->tiles->most_depth));
}

/* Panels that are packed together. */
static int64_t group_of(const job *own) {
  const int64_t panels = panels_of(&own->p, own->tiles);
  if (own->is_swapped) return panels;
  return own->p.rows <= TILES * own->tiles->tall ? 1 : trm_least(GROUP, panels);
}

/* Of packed panels, or of rows that are widened. */
static size_t buffer_bytes(const job *own) {
  if (own->p.is_half) {
    return (size_t)(trm_least(own->p.rows, TILES * own->tiles->tall) * own->p.inner) *
           sizeof(float);
  }
  return (size_t)(group_of(own) * depth_of(own) * own->tiles->wide) * sizeof(float);
}

size_t trm_panel_product_packed_bytes(const trm_panel_product *p) {
  const trm_panel_tiles *tiles = trm_panel_tiles_get();
  return (size_t)(panels_of(p, tiles) * p->inner * tiles->wide) * sizeof(float);
}

static job begin_job(const trm_panel_product *p) {
  job own = {.p = *p, .tiles = trm_panel_tiles_get()};
  own.is_swapped = way_of(p, own.tiles) == IS_SWAPPED;
  if (own.is_swapped) own.p = swapped(p);
  return own;
}

/* Many rows are cut so that those of a task stay in the second-level cache. */
static int64_t row_chunks(const job *own, int threads) {
  const int64_t tall = own->tiles->tall, most = trm_divide_up(own->p.rows, tall);
  if (own->is_swapped) return trm_least(threads, most);
  if (own->tiles->reads_lines && own->p.rows >= 2 * TILES * tall) {
    return trm_divide_up(own->p.rows, TILES * tall);
  }
  return trm_least(trm_divide_up(threads, panels_of(&own->p, own->tiles)), most);
}

size_t trm_panel_product_scratch_bytes(const trm_panel_product *p) {
  const job own = begin_job(p);
  const way chosen = way_of(p, own.tiles);
  if (chosen == BY_LINES && !p->is_half) return 0;
  /* A buffer for each thread that has a task. */
  const int threads = trm_threads_limit();
  const int64_t tasks = panels_of(&own.p, own.tiles) * row_chunks(&own, threads);
  return buffer_bytes(&own) * (size_t)trm_least(threads, tasks);
}

int64_t trm_panel_product_row_chunks(const trm_panel_product *p, int threads) {
  const job own = begin_job(p);
  return row_chunks(&own, threads);
}

/* Whether panels of halves gain, many rows of which are widened together. */
static bool halves_gain(const trm_panel_product *p, const trm_panel_tiles *tiles) {
  const int64_t columns = panels_of(p, tiles) * tiles->wide;
  return tiles->reads_lines && p->rhs_column == 1 && p->lhs_inner == 1 && p->lhs_row == p->inner &&
         2 * p->columns > columns && p->inner >= TRM_PANEL_LEAST_SUM &&
         p->inner <= TRM_PANEL_MOST_HALF_SUM && p->inner * columns <= TRM_PANEL_MOST_RIGHT &&
         (p->rows < TRM_PANEL_LEAST_MANY_ROWS || p->rhs_inner % PAGE != 0);
}

bool trm_panel_product_serves(const trm_panel_product *p, bool packs_once) {
  const trm_panel_tiles *tiles = trm_panel_tiles_get();
  if (tiles == NULL) return false;
  if (p->is_half) return halves_gain(p, tiles);
  const bool is_swapped = !packs_once && way_of(p, tiles) == IS_SWAPPED;
  /* Missing columns of a panel are multiplied too; those of a swapped product are missing rows. */
  const int64_t unused = trm_divide_up(p->rows, tiles->wide) * tiles->wide - p->rows;
  const int64_t rows = is_swapped ? p->rows + unused : p->rows;
  const int64_t columns = is_swapped ? p->columns : panels_of(p, tiles) * tiles->wide;
  const bool is_tiny = (double)rows * (double)p->inner * (double)columns <= TRM_PANEL_MOST_TINY;
  if (!is_tiny && 2 * p->columns <= columns) return false;
  if (tiles->reads_lines) {
    const bool swaps_well =
        unused <= TRM_PANEL_MOST_UNUSED && p->rows * p->inner <= TRM_PANEL_MOST_SWAPPED;
    return is_tiny ||
           (p->inner >= TRM_PANEL_LEAST_SUM && p->inner * columns <= TRM_PANEL_MOST_RIGHT &&
            p->rows <= TRM_PANEL_MOST_ROWS && (!is_swapped || swaps_well));
  }
  if (packs_once)
    return p->rows >= TRM_PANEL_AVX2_LEAST_KEPT_ROWS && p->rows <= TRM_PANEL_AVX2_MOST_ROWS;
  if (p->lhs_row == 1)
    return p->rows >= TRM_PANEL_AVX2_LEAST_ROWS && p->inner <= TRM_PANEL_AVX2_MOST_INNER;
  return (p->rows >= TRM_PANEL_AVX2_LEAST_ROWS && p->rows <= TRM_PANEL_AVX2_MOST_ROWS) || is_tiny;
}

/* Packs `depth` numbers of a panel's columns, from number `first` on. */
static void pack_panel(const trm_panel_product *p, const trm_panel_tiles *tiles, const float *rhs,
                       int64_t panel, int64_t first, int64_t depth, float *to) {
  const int64_t column = panel * tiles->wide, columns = p->columns - column;
  const float *from = rhs + column * p->rhs_column + first * p->rhs_inner;
  if (p->rhs_column == 1) tiles->pack_lines(from, p->rhs_inner, depth, columns, to);
  else tiles->pack_columns(from, p->rhs_column, depth, columns, to);
}

/* Where tile `t` of a panel finds the panel and the next one. */
static void place_panel(const job *own, int64_t panel, int64_t first, trm_panel_tile *t) {
  const trm_panel_product *p = &own->p;
  const int64_t wide = own->tiles->wide;
  if (own->packed != NULL) {
    t->rhs = own->packed + (panel * p->inner + first) * wide;
    t->next = p->inner * wide;
  } else {
    const size_t at = (size_t)(panel * wide + first * p->rhs_inner);
    t->rhs = (const char *)own->rhs + at * (p->is_half ? sizeof(uint16_t) : sizeof(float));
    t->rhs_line = p->rhs_inner, t->next = wide;
  }
}

/* Some panels, for the rows [begin, end) and products from `first` on. */
static void multiply_group(const job *own, int64_t panel, int64_t panels, int64_t begin,
                           int64_t end, int64_t first, float *buffer) {
  const trm_panel_product *p = &own->p;
  const trm_panel_tiles *tiles = own->tiles;
  const int64_t depth = trm_least(depth_of(own), p->inner - first), size = depth * tiles->wide;
  const bool packs = buffer != NULL && !p->is_half;
  for (int64_t i = 0; i < panels && packs; ++i) {
    pack_panel(p, tiles, own->rhs, panel + i, first, depth, buffer + i * size);
  }
  const int64_t many = TILES * tiles->tall;
  for (int64_t row = begin; row < end; row += many) {
    const int64_t rows = trm_least(end - row, many);
    const float *lhs = buffer;
    if (p->is_half)
      tiles->widen((const uint16_t *)own->lhs + row * p->inner, rows * p->inner, buffer);
    else lhs = (const float *)own->lhs + row * p->lhs_row + first * p->lhs_inner;
    for (int64_t i = 0; i < panels; ++i) {
      const int64_t column = (panel + i) * tiles->wide, at = row * p->columns + column;
      trm_panel_tile t = {.lhs = lhs,
                          .rhs = buffer + i * size,
                          .lhs_row = p->lhs_row,
                          .lhs_inner = p->lhs_inner,
                          .rhs_line = tiles->wide,
                          .depth = depth,
                          .out = p->is_half ? (void *)((uint16_t *)own->out + at)
                                            : (void *)((float *)own->out + at),
                          .out_row = p->columns,
                          .columns = p->columns - column,
                          .is_half = p->is_half,
                          .adds = first > 0,
                          .is_swapped = own->is_swapped};
      if (!packs) place_panel(own, panel + i, first, &t);
      if (i + 1 == panels) t.next = 0;
      if (own->is_swapped) t.out = (float *)own->out + column * p->rows + row, t.out_row = p->rows;
      tiles->multiply(&t, rows);
    }
  }
}

static void run_tasks(const void *context, int64_t begin, int64_t end, int thread) {
  const job *own = context;
  const trm_panel_product *p = &own->p;
  const int64_t all = panels_of(p, own->tiles), group = group_of(own), depth = depth_of(own);
  float *buffer = NULL;
  if (own->scratch != NULL) {
    buffer = (float *)(void *)(own->scratch + (size_t)thread * buffer_bytes(own));
  }
  for (int64_t task = begin; task < end;) {
    const int64_t chunk = task / all, panel = task % all;
    const int64_t panels = trm_least(all - panel, end - task);
    const int64_t row = trm_range_begin(p->rows, chunk, own->chunks);
    const int64_t last = trm_range_begin(p->rows, chunk + 1, own->chunks);
    for (int64_t first = 0; first < p->inner; first += depth) {
      const int64_t step = buffer != NULL && !p->is_half ? group : panels;
      for (int64_t i = 0; i < panels; i += step) {
        multiply_group(own, panel + i, trm_least(step, panels - i), row, last, first, buffer);
      }
    }
    task += panels;
  }
}

static void run(job *own) {
  const trm_panel_product *p = &own->p;
  /* Four operations cost as much as a byte. */
  const double work = (double)p->rows * (double)p->columns * (double)p->inner / 2;
  const int threads = trm_threads_for(work < 0x1p60 ? (size_t)work : (size_t)1 << 60);
  own->chunks = row_chunks(own, threads);
  trm_parallel_ranges(threads, panels_of(p, own->tiles) * own->chunks, run_tasks, own);
}

void trm_panel_product_run_packed(const void *data, const void *lhs, const void *packed,
                                  void *out) {
  job own = {.p = *(const trm_panel_product *)data,
             .tiles = trm_panel_tiles_get(),
             .lhs = lhs,
             .packed = packed,
             .out = out};
  run(&own);
}

void trm_panel_product_run(const void *data, const void *lhs, const void *rhs, void *out,
                           void *scratch) {
  const trm_panel_product *p = data;
  job own = begin_job(p);
  const way chosen = way_of(p, own.tiles);
  own.lhs = own.is_swapped ? rhs : lhs, own.rhs = own.is_swapped ? lhs : rhs;
  own.out = out, own.scratch = chosen == BY_LINES && !p->is_half ? NULL : scratch;
  run(&own);
}

typedef struct packing {
  const trm_panel_product *p;
  const trm_panel_tiles *tiles;
  const float *rhs;
  float *packed;
} packing;

static void pack_panels(const void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const packing *own = context;
  const trm_panel_product *p = own->p;
  for (int64_t panel = begin; panel < end; ++panel) {
    pack_panel(p, own->tiles, own->rhs, panel, 0, p->inner,
               own->packed + panel * p->inner * own->tiles->wide);
  }
}

void trm_panel_product_pack(const void *data, const void *rhs, const void *unused, void *packed) {
  (void)unused;
  const trm_panel_product *p = data;
  const packing own = {p, trm_panel_tiles_get(), rhs, packed};
  trm_parallel_ranges(trm_threads_for(trm_panel_product_packed_bytes(p)), panels_of(p, own.tiles),
                      pack_panels, &own);
}
