/* Owns: where the elements of an array are (mapping.h). */
#include "ipu/tile/mapping.h"
#include "base/integers.h"

#include "ipu/target/target.h"

static int64_t ceil_divide(int64_t a, int64_t b) { return a / b + (a % b > 0); }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

uint32_t trm_tile_dtype_bytes(trm_dtype dtype) {
  const size_t size = trm_dtype_size(dtype);
  if (size <= 4) return (uint32_t)size;
  return dtype == TRM_C64 || dtype == TRM_C128 ? 8 : 4;
}

int64_t trm_tile_shape_bytes(const trm_shape *shape) {
  int64_t bytes = 0;
  const int32_t leaves = trm_shape_num_leaves(shape);
  for (int32_t l = 0; l < leaves; ++l) {
    const trm_shape *leaf = trm_shape_leaf(shape, l);
    bytes += trm_shape_count(leaf) * (int64_t)trm_tile_dtype_bytes(leaf->dtype);
  }
  return bytes;
}

uint32_t trm_tile_vector_width(trm_dtype dtype) {
  const uint32_t bytes = trm_tile_dtype_bytes(dtype);
  return bytes == 0 || bytes > 8 ? 1 : 8 / bytes;
}

uint64_t trm_layout_combine(uint64_t layout, uint64_t what) {
  uint64_t x = layout ^ (what + UINT64_C(0x9e3779b97f4a7c15) + (layout << 6) + (layout >> 2));
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  x ^= x >> 31;
  return x == 0 ? 1 : x;
}

/* Mappings that cut equal element counts in the same way, from the same tile on, get equal layouts.
 */
static void give_layout(trm_mapping *m) {
  uint64_t x = trm_layout_combine((uint64_t)m->kind + 1, (uint64_t)m->count);
  x = trm_layout_combine(x, ((uint64_t)m->first_tile << 32) | m->regions);
  x = trm_layout_combine(x, ((uint64_t)m->ipu << 1) | m->descending);
  x = trm_layout_combine(x, (uint64_t)m->grain);
  for (int32_t d = 0; m->kind == TRM_MAPPING_GRID && d < m->rank; ++d) {
    x = trm_layout_combine(x, (uint64_t)m->dims[d]);
    x = trm_layout_combine(x, ((uint64_t)m->cuts[d] << 32) ^ m->strides[d]);
    x = trm_layout_combine(x, ((uint64_t)m->serial[d] << 48) ^ (uint64_t)m->block_size[d]);
  }
  if (m->kind == TRM_MAPPING_GRID) {
    x = trm_layout_combine(x, ((uint64_t)m->share << 32) | m->share_stride);
  }
  m->layout = x;
}

trm_mapping trm_mapping_linear_grain(const trm_target *target, trm_dtype dtype, int64_t count,
                                     int64_t grain, int64_t min_elements, uint32_t ipu,
                                     uint32_t first_tile) {
  trm_mapping m = {.kind = TRM_MAPPING_NONE,
                   .ipu = ipu,
                   .tiles = target->tiles_per_ipu,
                   .element_bytes = trm_tile_dtype_bytes(dtype),
                   .count = count,
                   .grain = 1};
  if (count <= 0 || m.element_bytes == 0) return m;
  m.kind = TRM_MAPPING_LINEAR;
  m.first_tile = first_tile % m.tiles;
  m.grain = most(grain, 1);
  const int64_t grains = ceil_divide(count, m.grain);
  const int64_t min_grains = most(1, ceil_divide(min_elements, m.grain));
  const int64_t per_tile =
      most(ceil_divide(grains, m.tiles), ceil_divide(grains, most(1, grains / min_grains)));
  m.regions = (uint32_t)ceil_divide(grains, per_tile);
  m.worst = trm_least(count, ceil_divide(grains, m.regions) * m.grain);
  give_layout(&m);
  return m;
}

trm_mapping trm_mapping_linear(const trm_target *target, const trm_shape *shape, uint32_t ipu,
                               uint32_t first_tile) {
  const uint32_t bytes = trm_tile_dtype_bytes(shape->dtype);
  return trm_mapping_linear_grain(target, shape->dtype, trm_shape_count(shape),
                                  trm_tile_vector_width(shape->dtype),
                                  bytes == 0 ? 1 : ceil_divide(128, bytes), ipu, first_tile);
}

/* Elements of dimension d on the tiles of block p. */
static int64_t grid_block(const trm_mapping *m, int32_t d, uint32_t p) {
  int64_t elements = 0;
  for (uint32_t s = 0; s < m->serial[d]; ++s) {
    const int64_t begin = trm_least(m->dims[d], m->block_size[d] * ((int64_t)s * m->cuts[d] + p));
    elements += trm_least(m->dims[d], begin + m->block_size[d]) - begin;
  }
  return elements;
}

/* Elements of a run of a piece that several tiles share; the last runs may be shorter. */
static int64_t shared_run(const trm_mapping *m, int64_t piece) {
  if (m->share == 1) return piece;
  return trm_least(piece, ceil_divide(ceil_divide(piece, m->grain), m->share) * m->grain);
}

/* Elements of run j of such a piece. */
static int64_t run_elements(int64_t piece, int64_t run, uint32_t j) {
  const int64_t begin = trm_least(piece, run * j);
  return trm_least(piece, begin + run) - begin;
}

void trm_mapping_finish_grid(const trm_target *target, trm_mapping *m, trm_dtype dtype,
                             uint32_t ipu, uint32_t first_tile) {
  m->kind = TRM_MAPPING_GRID;
  m->ipu = ipu;
  m->tiles = target->tiles_per_ipu;
  m->first_tile = first_tile % m->tiles;
  m->descending = false;
  m->element_bytes = trm_tile_dtype_bytes(dtype);
  m->grain = most(1, m->grain);
  m->share = m->share == 0 ? 1 : m->share;
  m->count = m->worst = 1;
  m->regions = m->share;
  for (int32_t d = 0; d < m->rank; ++d) {
    if (m->cuts[d] == 0) m->cuts[d] = 1;
    if (m->serial[d] == 0) m->serial[d] = 1;
    m->count *= m->dims[d];
    m->regions *= m->cuts[d];
    m->worst *= grid_block(m, d, 0);
  }
  if (m->count <= 0 || m->element_bytes == 0) {
    m->kind = TRM_MAPPING_NONE;
    m->count = m->worst = 0;
    return;
  }
  m->worst = shared_run(m, m->worst);
  if (m->regions > m->tiles) m->worst *= ceil_divide(m->regions, m->tiles);
  give_layout(m);
}

trm_mapping trm_mapping_grid(const trm_target *target, trm_dtype dtype, int32_t rank,
                             const int64_t *dims, const uint32_t *cuts, const int64_t *grains,
                             uint32_t ipu, uint32_t first_tile) {
  trm_mapping m = {.rank = rank};
  uint32_t stride = 1;
  for (int32_t d = rank - 1; d >= 0; --d) {
    const int64_t grain = grains == NULL ? 1 : most(1, grains[d]);
    m.dims[d] = dims[d];
    m.cuts[d] = cuts[d] == 0 ? 1 : cuts[d];
    m.block_size[d] = ceil_divide(ceil_divide(dims[d], grain), m.cuts[d]) * grain;
    m.strides[d] = stride;
    stride *= m.cuts[d];
  }
  trm_mapping_finish_grid(target, &m, dtype, ipu, first_tile);
  return m;
}

trm_mapping trm_spread_mapping(const trm_spread *spread) {
  trm_mapping m = {.kind = TRM_MAPPING_NONE,
                   .ipu = spread->ipu,
                   .tiles = spread->tiles,
                   .first_tile = spread->first_tile,
                   .element_bytes = 1,
                   .grain = 1};
  if (spread->worst <= 0 && spread->total <= 0) return m;
  m.kind = TRM_MAPPING_SPREAD;
  m.worst = most(spread->worst, ceil_divide(spread->total, m.tiles));
  m.count = most(spread->total, m.worst);
  m.regions = (uint32_t)ceil_divide(m.count, m.worst);
  return m;
}

trm_mapping trm_mapping_spread(const trm_target *target, int64_t worst_bytes, int64_t total_bytes,
                               uint32_t ipu, uint32_t first_tile) {
  const uint32_t tiles = target->tiles_per_ipu;
  return trm_spread_mapping(
      &(trm_spread){worst_bytes, total_bytes, tiles, ipu, first_tile % tiles});
}

trm_mapping trm_mapping_like(const trm_mapping *other, trm_dtype dtype) {
  trm_mapping m = *other;
  m.element_bytes = trm_tile_dtype_bytes(dtype);
  return m;
}

int64_t trm_mapping_worst_bytes(const trm_mapping *mapping) {
  return mapping->worst * mapping->element_bytes;
}

int64_t trm_mapping_total_bytes(const trm_mapping *mapping) {
  return mapping->count * mapping->element_bytes;
}

int64_t trm_mapping_region_elements(const trm_mapping *m, uint32_t region) {
  if (region >= m->regions) return 0;
  switch (m->kind) {
    case TRM_MAPPING_LINEAR: {
      const int64_t grains = ceil_divide(m->count, m->grain);
      /* grains is at most 2^40 and regions at most 2^16: no overflow. */
      const int64_t begin = grains * region / m->regions * m->grain;
      const int64_t end = trm_least(m->count, grains * (region + 1) / m->regions * m->grain);
      return end - begin;
    }
    case TRM_MAPPING_GRID: {
      const uint32_t run = region % m->share;
      region /= m->share;
      int64_t elements = 1;
      for (int32_t d = m->rank - 1; d >= 0; --d) {
        elements *= grid_block(m, d, region % m->cuts[d]);
        region /= m->cuts[d];
      }
      return run_elements(elements, shared_run(m, elements), run);
    }
    case TRM_MAPPING_SPREAD: return trm_least(m->worst, m->count - m->worst * region);
    case TRM_MAPPING_NONE: break;
  }
  return 0;
}

static uint32_t tile_at(const trm_mapping *m, uint64_t step) {
  const uint32_t offset = (uint32_t)(step < m->tiles ? step : step % m->tiles);
  const uint32_t tile = m->first_tile + (m->descending ? m->tiles - offset : offset);
  return tile < m->tiles ? tile : tile - m->tiles;
}

uint32_t trm_mapping_tile(const trm_mapping *m, uint32_t region) {
  if (m->kind != TRM_MAPPING_GRID) return tile_at(m, region);
  uint64_t step = (uint64_t)(region % m->share) * m->share_stride;
  region /= m->share;
  for (int32_t d = m->rank - 1; d >= 0; --d) {
    step += (uint64_t)(region % m->cuts[d]) * m->strides[d];
    region /= m->cuts[d];
  }
  return tile_at(m, step);
}

/* So that the two ways are two loops. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* What becomes of the pieces of a mapping: bytes, or hashes of them, by tile; or bytes of one tile.
 */
typedef struct sink {
  int sign;
  uint32_t alignment;
  int64_t *bytes;
  bool only_one; /* `bytes` are those of `tile` */
  uint32_t tile;
  uint64_t *hashes; /* or NULL */
  uint64_t seed, hash;
  int64_t elements; /* which have that hash: most pieces are like the one before */
} sink;

ALWAYS_INLINE void add_piece(const trm_mapping *m, uint64_t step, int64_t elements, sink *to) {
  if (elements <= 0) return;
  if (to->hashes == NULL) {
    const uint32_t tile = tile_at(m, step);
    if (to->only_one && tile != to->tile) return;
    const int64_t last = to->alignment - 1;
    const int64_t bytes = (elements * m->element_bytes + last) & ~last;
    to->bytes[to->only_one ? 0 : tile] += to->sign * bytes;
    return;
  }
  if (elements != to->elements) {
    to->elements = elements;
    to->hash = trm_layout_combine(to->seed, (uint64_t)(elements * m->element_bytes));
  }
  to->hashes[tile_at(m, step)] += to->hash;
}

/* The regions of trm_mapping_region_elements() in order, whose ends are counted up, not divided. */
ALWAYS_INLINE void add_linear(const trm_mapping *m, sink *to) {
  const int64_t grains = ceil_divide(m->count, m->grain);
  const int64_t whole = grains / m->regions, rest = grains % m->regions;
  int64_t begin = 0, end = 0, carried = 0;
  for (uint32_t region = 0; region < m->regions; ++region, begin = end) {
    carried += rest;
    const bool one_more = carried >= m->regions;
    if (one_more) carried -= m->regions;
    end = trm_least(m->count, begin + (whole + one_more) * m->grain);
    add_piece(m, region, end - begin, to);
  }
}

/* Walks through the pieces of a grid in order, by counting up their coordinates. */
ALWAYS_INLINE void add_grid(const trm_mapping *m, sink *to) {
  uint32_t digits[TRM_MAPPING_RANK] = {0};
  int64_t block[TRM_MAPPING_RANK];
  for (int32_t d = 0; d < m->rank; ++d) block[d] = grid_block(m, d, 0);
  const uint32_t pieces = m->regions / m->share;
  int64_t last = -1, run = 0;
  for (uint32_t piece = 0; piece < pieces; ++piece) {
    int64_t elements = 1;
    uint64_t step = 0;
    for (int32_t d = 0; d < m->rank; ++d) {
      elements *= block[d];
      step += (uint64_t)digits[d] * m->strides[d];
    }
    if (elements != last) run = shared_run(m, elements), last = elements;
    for (uint32_t j = 0; j < m->share; ++j, step += m->share_stride) {
      add_piece(m, step, run_elements(elements, run, j), to);
    }
    for (int32_t d = m->rank - 1; d >= 0; --d) {
      if (m->cuts[d] == 1) continue;
      digits[d] = digits[d] + 1 == m->cuts[d] ? 0 : digits[d] + 1;
      block[d] = grid_block(m, d, digits[d]);
      if (digits[d] != 0) break;
    }
  }
}

ALWAYS_INLINE void add_pieces(const trm_mapping *m, sink *to) {
  if (m->kind == TRM_MAPPING_NONE) return;
  if (m->kind == TRM_MAPPING_GRID) {
    add_grid(m, to);
    return;
  }
  if (m->kind == TRM_MAPPING_LINEAR) {
    add_linear(m, to);
    return;
  }
  for (uint32_t region = 0; region + 1 < m->regions; ++region) add_piece(m, region, m->worst, to);
  const uint32_t last = m->regions - 1;
  add_piece(m, last, trm_mapping_region_elements(m, last), to);
}

void trm_mapping_add_bytes(const trm_mapping *m, int sign, uint32_t alignment,
                           int64_t *bytes_by_tile) {
  sink to = {.sign = sign, .alignment = alignment == 0 ? 1 : alignment, .bytes = bytes_by_tile};
  add_pieces(m, &to);
}

int64_t trm_mapping_bytes_on(const trm_mapping *m, uint32_t alignment, uint32_t tile) {
  int64_t bytes = 0;
  sink to = {.sign = 1, .alignment = alignment, .bytes = &bytes, .only_one = true, .tile = tile};
  if (m->kind == TRM_MAPPING_NONE || m->kind == TRM_MAPPING_GRID) {
    add_pieces(m, &to);
    return bytes;
  }
  const uint32_t first =
      m->descending ? m->first_tile + m->tiles - tile : tile + m->tiles - m->first_tile;
  for (uint32_t region = first % m->tiles; region < m->regions; region += m->tiles) {
    add_piece(m, region, trm_mapping_region_elements(m, region), &to);
  }
  return bytes;
}

void trm_mapping_add_hashes(const trm_mapping *m, uint64_t seed, uint64_t *by_tile) {
  sink to = {.hashes = by_tile, .seed = seed, .elements = -1};
  add_pieces(m, &to);
}

bool trm_mapping_same_place(const trm_mapping *a, const trm_mapping *b) {
  return a->layout != 0 && a->layout == b->layout && a->count == b->count && a->ipu == b->ipu;
}
