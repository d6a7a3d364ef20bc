/* Owns: the search for the plan of lookups (slice_plan.h). As in popops' planner of embeddings, the
 * bytes that stay on the fullest tile count ten times as much as its temporary bytes.
 * docs/cost_model.md, "Slices". */
#include "ipu/costs/slice_plan.h"

#include "ipu/target/target.h"
#include "ipu/tile/exchange.h"

enum {
  ATOM_BYTES = 4, /* the smallest write of a worker that touches no data of another */
  INDEX_BYTES = 4,
  SUM_BYTES = 4,
  INDICES_OF_A_TILE = 32, /* at least, where they are stored */
  INSTRUCTION_BYTES = 4,
  STAYS = 10 /* the weight of bytes that stay */
};

typedef struct search {
  const trm_slice_problem *problem;
  int64_t tiles, grain, bytes; /* elements of a grain of columns, bytes of an element */
  int64_t allowed;             /* temporary bytes of a tile */
} search;

typedef struct candidate {
  int64_t row_split, column_split, lookup_split;
  int64_t rows, columns, lookups; /* of the fullest tile */
} candidate;

static int64_t temporaries_of_lookup(const search *s, const candidate *c) {
  const int64_t row = c->columns * s->bytes, share = trm_ceil_divide(c->lookups, c->row_split);
  const int64_t table = c->lookup_split > 1 ? c->rows * row : 0;
  const int64_t first = c->row_split > 1 ? c->lookups * row : 0;
  const int64_t second = c->row_split > 1 ? c->row_split * share * row + share * INDEX_BYTES : 0;
  return trm_most(table + first + c->lookups * INDEX_BYTES, first + second);
}

static int64_t temporaries_of_update(const search *s, const candidate *c) {
  const int64_t share = trm_ceil_divide(c->lookups, c->row_split);
  const int64_t widened = s->bytes < SUM_BYTES ? share * c->columns * SUM_BYTES : 0;
  const int64_t updates = c->row_split > 1 ? c->lookups * c->columns * SUM_BYTES : 0;
  const int64_t sums = c->lookup_split > 1 ? c->rows * c->columns * SUM_BYTES : 0;
  return trm_most(trm_most(widened + updates, 2 * sums), updates + sums + c->lookups * INDEX_BYTES);
}

/* INT64_MAX for a plan whose temporaries do not fit. */
static int64_t weigh(const search *s, const candidate *c) {
  const trm_slice_problem *p = s->problem;
  const int64_t grains = trm_ceil_divide(c->columns, s->grain);
  const int64_t table = trm_ceil_divide(c->rows * grains, c->lookup_split) * s->grain * s->bytes;
  const int64_t results = trm_ceil_divide(c->lookups, c->row_split) * c->columns * s->bytes;
  const int64_t indices =
      trm_most(trm_least(p->lookups, INDICES_OF_A_TILE), trm_ceil_divide(p->lookups, s->tiles));
  const int64_t senders = trm_ceil_divide(c->lookups, indices);
  const int64_t others = c->lookup_split > 1 ? c->lookup_split : 0;
  int64_t messages = others + 2 * senders + (c->row_split > 1 ? c->row_split : 0);
  int64_t temporaries = temporaries_of_lookup(s, c);
  if (p->is_update) {
    messages += senders + others;
    temporaries = trm_most(temporaries, temporaries_of_update(s, c));
  }
  if (temporaries > s->allowed) return INT64_MAX;
  return STAYS * (table + results + indices * INDEX_BYTES + messages * INSTRUCTION_BYTES) +
         temporaries;
}

/* The next larger number of partitions whose largest one is smaller. */
static int64_t next_split(int64_t count, int64_t split) {
  const int64_t size = trm_ceil_divide(count, split);
  return size <= 1 ? count + 1 : trm_ceil_divide(count, size - 1);
}

/* Takes the better of *best and each split of the lookups. */
static void try_lookup_splits(const search *s, candidate *c, int64_t *best_weight,
                              candidate *best) {
  const int64_t lookups = s->problem->lookups;
  const int64_t most = trm_least(lookups, s->tiles / (c->row_split * c->column_split));
  for (int64_t l = 1; l <= most; l = next_split(lookups, l)) {
    c->lookup_split = l;
    c->lookups = trm_ceil_divide(lookups, l);
    const int64_t weight = weigh(s, c);
    if (weight >= *best_weight) continue;
    *best_weight = weight;
    *best = *c;
  }
}

/* Returns false if no plan fits. */
static bool find(const search *s, candidate *out_best) {
  const trm_slice_problem *p = s->problem;
  const int64_t grains = trm_ceil_divide(p->columns, s->grain);
  candidate c;
  int64_t best_weight = INT64_MAX;
  for (int64_t k = 1; k <= trm_least(s->tiles, grains); k = next_split(grains, k)) {
    c.column_split = k;
    c.columns = trm_least(p->columns, trm_ceil_divide(grains, k) * s->grain);
    /* A tile has at least two rows. */
    const int64_t most_rows = trm_least(s->tiles / k, trm_ceil_divide(p->rows, 2));
    for (int64_t r = 1; r <= most_rows; r = next_split(p->rows, r)) {
      c.row_split = r;
      c.rows = trm_ceil_divide(p->rows, r);
      try_lookup_splits(s, &c, &best_weight, out_best);
    }
  }
  return best_weight < INT64_MAX;
}

trm_slice_plan trm_slice_plan_make(const trm_tile_request *request,
                                   const trm_slice_problem *problem) {
  const trm_target *target = request->target;
  const int64_t bytes = trm_most(1, trm_tile_dtype_bytes(problem->dtype));
  search s = {
      .problem = problem,
      .tiles = target->tiles_per_ipu,
      .grain = trm_most(1, ATOM_BYTES / bytes),
      .bytes = bytes,
      .allowed = (int64_t)(request->options->slice_memory_proportion * target->bytes_per_tile)};
  candidate best = {1, 1, 1, problem->rows, problem->columns, problem->lookups};
  if (!find(&s, &best)) {
    s.allowed = INT64_MAX - 1;
    find(&s, &best);
  }
  trm_mapping m = {.rank = 2, .share = (uint32_t)best.lookup_split};
  m.dims[0] = problem->rows, m.dims[1] = problem->columns;
  m.cuts[0] = (uint32_t)best.row_split, m.cuts[1] = (uint32_t)best.column_split;
  m.block_size[0] = best.rows, m.block_size[1] = best.columns;
  m.strides[0] = m.cuts[1], m.strides[1] = 1;
  m.share_stride = m.cuts[0] * m.cuts[1];
  m.grain = s.grain;
  trm_mapping_finish_grid(target, &m, problem->dtype, request->ipu, 0);
  return (trm_slice_plan){m.cuts[0], m.cuts[1], m.share, best.rows, best.columns, best.lookups, m};
}
