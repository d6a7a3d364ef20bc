/* Owns: on which tiles the elements of variables lie. */
#include <stdlib.h>
#include <string.h>

#include "poplar/graph.h"

/* poputil's defaults of mapTensorLinearly: 128 bytes at least on a tile, in multiples of 8 bytes.
 */
enum { LEAST_BYTES = 128, GRAIN_BYTES = 8 };

/* ---- Setting -------------------------------------------------------------------------------- */

/* The first place of the variable that ends after `begin`. */
static size_t place_at(const trm_poplar_variable *variable, uint64_t begin) {
  size_t low = 0, high = variable->places.count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (variable->places.items[middle].end > begin) high = middle;
    else low = middle + 1;
  }
  return low;
}

uint32_t trm_poplar_tile_at(const trm_poplar_variable *variable, uint64_t offset,
                            uint64_t *out_end) {
  const size_t p = place_at(variable, offset);
  const trm_poplar_placed *one = p < variable->places.count ? &variable->places.items[p] : NULL;
  const bool is_there = one != NULL && one->begin <= offset;
  *out_end = is_there ? one->end : one != NULL ? one->begin : variable->elements;
  return is_there ? one->tile : TRM_POPLAR_NO_TILE;
}

/* Puts [begin, end) on a tile; false when memory runs out. */
static bool place(trm_poplar_variable *variable, uint64_t begin, uint64_t end, uint32_t tile) {
  /* At most two more places than there are. */
  for (int i = 0; i < 2; ++i) {
    const trm_poplar_placed none = {0};
    if (!VECTOR_PUSH(&variable->places, none)) return false;
  }
  variable->places.count -= 2;
  trm_poplar_placed *items = variable->places.items;
  const size_t count = variable->places.count, first = place_at(variable, begin);
  size_t last = first; /* the first one that begins at the end or after */
  while (last < count && items[last].begin < end) ++last;
  trm_poplar_placed made[3];
  size_t num_made = 0;
  if (last > first && items[first].begin < begin) {
    made[num_made++] = (trm_poplar_placed){items[first].begin, begin, items[first].tile};
  }
  made[num_made++] = (trm_poplar_placed){begin, end, tile};
  if (last > first && items[last - 1].end > end) {
    made[num_made++] = (trm_poplar_placed){end, items[last - 1].end, items[last - 1].tile};
  }
  memmove(items + first + num_made, items + last, (count - last) * sizeof *items);
  memcpy(items + first, made, num_made * sizeof *made);
  variable->places.count = count - (last - first) + num_made;
  /* Neighbours on one tile are one place. */
  if (first > 0 && num_made == 1 && items[first - 1].end == begin &&
      items[first - 1].tile == tile) {
    items[first - 1].end = end;
    memmove(items + first, items + first + 1, (variable->places.count - first - 1) * sizeof *items);
    --variable->places.count;
  }
  return true;
}

static bool place_part(trm_poplar_core *core, const trm_poplar_tensor *tensor, uint64_t begin,
                       uint64_t end, uint32_t tile) {
  for (uint64_t r = begin < end ? trm_poplar_run_at(tensor, begin) : 0; begin < end; ++r) {
    const trm_poplar_run *run = &tensor->runs[r];
    const uint64_t skipped = begin - run->begin, rest = run->length - skipped;
    const uint64_t taken = end - begin < rest ? end - begin : rest;
    trm_poplar_variable *variable = &core->variables.items[run->variable];
    const int64_t at = run->offset + (int64_t)skipped * run->stride;
    if (run->stride == 1) {
      if (!place(variable, (uint64_t)at, (uint64_t)at + taken, tile)) return false;
    } else {
      for (uint64_t i = 0; i < taken; ++i) {
        const uint64_t one = (uint64_t)(at + (int64_t)i * run->stride);
        if (!place(variable, one, one + 1, tile)) return false;
      }
    }
    begin += taken;
  }
  return true;
}

int32_t trm_poplar_set_tile_mapping(trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                                    const trm_poplar_interval *intervals, uint64_t count,
                                    trm_poplar_error *error) {
  for (uint64_t i = 0; i < count; ++i) {
    const trm_poplar_interval *one = &intervals[i];
    if (one->tile >= graph->num_tiles) {
      THROW(TILE_MAPPING, "a tensor is mapped to tile %u of a graph of %u tiles", one->tile,
            graph->num_tiles);
    }
    if (one->begin > one->end || one->end > tensor->elements) {
      THROW(TILE_MAPPING, "the tile mapping [%llu, %llu) of a tensor of %llu elements",
            (unsigned long long)one->begin, (unsigned long long)one->end,
            (unsigned long long)tensor->elements);
    }
    const uint32_t tile = graph->tiles == NULL ? one->tile : graph->tiles[one->tile];
    if (!place_part(graph->core, tensor, one->begin, one->end, tile)) {
      THROW_NO_MEMORY("a tile mapping");
    }
  }
  return TRM_OK;
}

int32_t trm_poplar_map_linearly(trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                                uint64_t min_elements, uint64_t grain, uint32_t first_tile,
                                trm_poplar_error *error) {
  const size_t size = trm_poplar_size(tensor);
  if (min_elements == 0) min_elements = size >= LEAST_BYTES ? 1 : LEAST_BYTES / size;
  if (grain == 0) grain = size >= GRAIN_BYTES ? 1 : GRAIN_BYTES / size;
  const uint64_t grains = (tensor->elements + grain - 1) / grain;
  const uint64_t least = (min_elements + grain - 1) / grain;
  uint64_t share = (grains + graph->num_tiles - 1) / graph->num_tiles;
  if (share < least) share = least;
  const uint64_t step = share * grain;
  uint32_t tile = first_tile % graph->num_tiles;
  for (uint64_t begin = 0; begin < tensor->elements; begin += step) {
    const uint64_t end = tensor->elements - begin < step ? tensor->elements : begin + step;
    const trm_poplar_interval one = {begin, end, tile};
    TRY(trm_poplar_set_tile_mapping(graph, tensor, &one, 1, error));
    tile = (tile + 1) % graph->num_tiles;
  }
  return TRM_OK;
}

/* ---- Getting -------------------------------------------------------------------------------- */

typedef struct found {
  VECTOR(trm_poplar_interval) list;
  bool failed, is_incomplete;
  const uint32_t *numbers; /* by tile of the core: its number in the graph; NULL: the same */
} found;

static void note(found *f, uint64_t begin, uint64_t end, uint32_t tile) {
  if (begin == end) return;
  if (tile == TRM_POPLAR_NO_TILE ||
      (f->numbers != NULL && f->numbers[tile] == TRM_POPLAR_NO_TILE)) {
    f->is_incomplete = true;
    return;
  }
  if (f->numbers != NULL) tile = f->numbers[tile];
  trm_poplar_interval *last = f->list.count == 0 ? NULL : &f->list.items[f->list.count - 1];
  if (last != NULL && last->end == begin && last->tile == tile) {
    last->end = end;
    return;
  }
  const trm_poplar_interval one = {begin, end, tile};
  f->failed = !VECTOR_PUSH(&f->list, one) || f->failed;
}

/* The tiles of a run of stride 1. */
static void note_run(found *f, const trm_poplar_variable *variable, uint64_t begin, uint64_t offset,
                     uint64_t length) {
  const uint64_t end = offset + length;
  uint64_t at = offset;
  for (size_t p = place_at(variable, offset); at < end; ++p) {
    const bool is_there = p < variable->places.count && variable->places.items[p].begin < end;
    const uint64_t next = is_there ? variable->places.items[p].begin : end;
    if (at < next) note(f, begin + (at - offset), begin + (next - offset), TRM_POPLAR_NO_TILE);
    if (!is_there) return;
    if (at < next) at = next;
    const trm_poplar_placed *one = &variable->places.items[p];
    const uint64_t until = one->end < end ? one->end : end;
    note(f, begin + (at - offset), begin + (until - offset), one->tile);
    at = until;
  }
}

/* By tile of the core, its number in a virtual graph. */
static trm_status numbers_of(const trm_poplar_graph *graph, uint32_t **out_numbers,
                             trm_poplar_error *error) {
  const uint32_t all = graph->core->num_ipus * graph->core->tiles_per_ipu;
  uint32_t *numbers = trm_allocate_zeroed(all, sizeof *numbers);
  if (numbers == NULL) THROW_NO_MEMORY("a tile mapping");
  memset(numbers, 0xff, all * sizeof *numbers);
  for (uint32_t t = 0; t < graph->num_tiles; ++t) numbers[graph->tiles[t]] = t;
  *out_numbers = numbers;
  return TRM_OK;
}

int32_t trm_poplar_get_tile_mapping(const trm_poplar_graph *graph, const trm_poplar_tensor *tensor,
                                    bool complete, trm_poplar_interval **out_intervals,
                                    uint64_t *out_count, trm_poplar_error *error) {
  uint32_t *numbers = NULL;
  if (graph->tiles != NULL) TRY(numbers_of(graph, &numbers, error));
  found f = {.numbers = numbers};
  for (uint64_t r = 0; r < tensor->num_runs && !f.failed; ++r) {
    const trm_poplar_run *run = &tensor->runs[r];
    const trm_poplar_variable *variable = &graph->core->variables.items[run->variable];
    if (run->stride == 1) {
      note_run(&f, variable, run->begin, (uint64_t)run->offset, run->length);
      continue;
    }
    for (uint64_t i = 0; i < run->length && !f.failed; ++i) {
      note_run(&f, variable, run->begin + i, (uint64_t)(run->offset + (int64_t)i * run->stride), 1);
    }
  }
  trm_free(numbers);
  if (f.failed || (complete && f.is_incomplete)) {
    VECTOR_FREE(&f.list);
    if (f.failed) THROW_NO_MEMORY("a tile mapping");
    THROW(TILE_MAPPING, "an element of the tensor has no tile: variable '%s'",
          graph->core->variables.items[tensor->runs->variable].name);
  }
  if (f.list.count > 0)
    qsort(f.list.items, f.list.count, sizeof *f.list.items, trm_poplar_compare_intervals);
  *out_intervals = f.list.items;
  *out_count = f.list.count;
  return TRM_OK;
}
