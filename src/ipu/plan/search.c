/* Owns: the space of plans and the exact search through it (branch and bound).
 *
 * The space: transforms x methods x grains (try_methods), and for each all partitions where
 *   - a dimension of n grains is split in p = ceil(n / s) blocks for some s: p is the smallest
 *     number of blocks that gives a tile s grains;
 *   - serial splits divide the number of grains and are at most 1024, and only one of the two is
 *     above 1;
 *   - the product of the parallel splits is at most the number of tiles;
 *   - the innermost dimension of the kernel is not split.
 * Where output channels are cut serially, each partition is tried with and without a broadcast of
 * the input before the loop.
 *
 * The search: a node is a choice of everything but the splits of batch and field. The tiles that it
 * leaves for these bound the positions of a tile from below, and so cycles and bytes. Nodes are
 * expanded in the order of their bound, until the bound is above the cost of the best plan so far.
 * Nodes whose bound equals that cost are expanded too, so the result is the minimum of (cycles,
 * temporary bytes) over all partitions. Unusual shapes could take seconds: after
 * MAX_CANDIDATES the search stops, and the plan says which bound it proved. */
#include <stdlib.h>
#include <string.h>

#include "ipu/plan/internal.h"

enum { MAX_DIMS = TRM_PLAN_MAX_DIMS, MAX_SERIAL = 1024, MAX_CANDIDATES = 500000 };

typedef struct split_list {
  uint32_t count;
  const uint32_t *splits;
} split_list;

static const uint32_t one_split = 1;

typedef struct search_node {
  plan_channels channels;
  uint32_t rest;       /* tiles that remain for positions */
  uint32_t index;      /* in the order of enumeration */
  uint64_t bound;      /* on cycles, or on bytes in a search for the least bytes */
  uint64_t least_rest; /* cycles of an iteration beside those of the vertices, at least */
  int64_t weight_bytes;
} search_node;

typedef struct search {
  const trm_target *target;
  const trm_conv_params *canonical;
  const trm_plan_options *options;
  const plan_constraints *constraints;
  int64_t bound;
  trm_arena arena; /* of one problem */
  plan_problem problem;
  uint32_t tiles;
  uint32_t num_positions;
  plan_positions *positions; /* sorted by inner cycles */
  /* [r], for r from 1 to tiles: the least over all cuts into at most r blocks. */
  uint64_t *least_inner, *least_inner_zero;
  int64_t *least_count, *least_inputs;
  VECTOR(search_node) nodes;
  uint64_t least_bound; /* of the nodes of this problem */
  bool found;
  plan_choice best;
  uint64_t candidates;
  uint64_t open_bound; /* the least bound of nodes that were not expanded; UINT64_MAX: none */
} search;

/* ---- Splits ---------------------------------------------------------------------------------- */

/* Lists the splits that the search tries, or the given one alone. */
static trm_status list_splits(search *s, int64_t grains, uint32_t given, split_list *out,
                              trm_error *error) {
  const int64_t most = plan_min(grains, s->tiles);
  uint32_t *splits = ARENA_NEW(&s->arena, uint32_t, (size_t)(given > 0 ? 1 : most));
  CHECK_MEMORY(splits, "the splits of a plan");
  *out = (split_list){0, splits};
  if (given > 0) {
    if (given <= s->tiles) splits[out->count++] = given;
    return TRM_OK;
  }
  for (int64_t p = 1; p <= most; ++p) {
    if (plan_ceil_div(grains, plan_ceil_div(grains, p)) == p) splits[out->count++] = (uint32_t)p;
  }
  return TRM_OK;
}

static int by_inner(const void *a, const void *b) {
  const plan_positions *x = a, *y = b;
  if (x->inner_zero != y->inner_zero) return x->inner_zero < y->inner_zero ? -1 : 1;
  return x->split < y->split ? -1 : x->split > y->split;
}

/* The cuts of batch and field that the search tries; busy[d][i] is for fields[d].splits[i]. */
typedef struct cuts {
  split_list batches, fields[MAX_DIMS];
  plan_busy *busy[MAX_DIMS];
} cuts;

/* The splits that the constraints ask for; 0: any. The constraints name dimensions of the
 * canonical shape. A dimension without a window is a part of the batch. */
static uint32_t given_split(const search *s, uint32_t fields[MAX_DIMS]) {
  const trm_plan_partition *given = &s->constraints->partition;
  const uint32_t laid_out = plan_laid_out(&s->problem.transform);
  uint32_t batch = given->batch, kept = 0;
  for (uint32_t d = 0; d < MAX_DIMS; ++d) {
    if (d < s->canonical->num_dims && (laid_out >> d & 1) == 0) {
      fields[kept++] = given->field[d];
    } else if (given->field[d] > 0) {
      const uint64_t product = (uint64_t)(batch == 0 ? 1 : batch) * given->field[d];
      batch = product > UINT32_MAX ? UINT32_MAX : (uint32_t)product; /* refused as too many */
    }
  }
  return batch;
}

static trm_status list_cuts(search *s, plan_busy *none, cuts *out, trm_error *error) {
  const plan_problem *p = &s->problem;
  uint32_t fields[MAX_DIMS] = {0};
  const uint32_t batch = given_split(s, fields);
  TRY(list_splits(s, p->shape.batch, batch, &out->batches, error));
  for (uint32_t d = 0; d < MAX_DIMS; ++d) {
    out->fields[d] = (split_list){1, &one_split};
    out->busy[d] = none;
    if (d >= p->shape.num_dims) continue;
    TRY(list_splits(s, p->output[d], fields[d], &out->fields[d], error));
    out->busy[d] = ARENA_NEW(&s->arena, plan_busy, out->fields[d].count);
    CHECK_MEMORY(out->busy[d], "the cuts of a plan");
    for (uint32_t i = 0; i < out->fields[d].count; ++i) {
      const uint32_t split = out->fields[d].splits[i];
      out->busy[d][i] = plan_count_busy(p, d, split, plan_ceil_div(p->output[d], split));
    }
  }
  return TRM_OK;
}

/* Sets the positions with splits batches[b] of the batch and fields[d][at[d]] of field d. */
static void set_position(const search *s, const cuts *c, uint32_t b, const uint32_t at[MAX_DIMS],
                         uint64_t split, plan_positions *out) {
  const plan_problem *p = &s->problem;
  out->batch = c->batches.splits[b];
  out->split = (uint32_t)split;
  out->tile_batch = plan_ceil_div(p->shape.batch, out->batch);
  out->count = out->tile_batch;
  const plan_busy *busy[MAX_DIMS];
  for (uint32_t d = 0; d < MAX_DIMS; ++d) {
    out->field[d] = c->fields[d].splits[at[d]];
    busy[d] = c->busy[d] + at[d];
    if (d >= p->shape.num_dims) continue;
    out->tile_field[d] = plan_ceil_div(p->output[d], out->field[d]);
    out->count *= out->tile_field[d];
  }
  plan_inner_cycles(p, busy, out);
}

/* Counts the cuts into at most `tiles` blocks, and writes them to `out` unless it is NULL. */
static uint32_t walk_positions(const search *s, const cuts *c, plan_positions *out) {
  uint32_t n = 0, at[MAX_DIMS];
  for (uint32_t b = 0; b < c->batches.count; ++b) {
    for (at[0] = 0; at[0] < c->fields[0].count; ++at[0]) {
      const uint64_t two = (uint64_t)c->batches.splits[b] * c->fields[0].splits[at[0]];
      if (two > s->tiles) break;
      for (at[1] = 0; at[1] < c->fields[1].count; ++at[1]) {
        const uint64_t three = two * c->fields[1].splits[at[1]];
        if (three > s->tiles) break;
        for (at[2] = 0; at[2] < c->fields[2].count; ++at[2]) {
          const uint64_t split = three * c->fields[2].splits[at[2]];
          if (split > s->tiles) break;
          if (out != NULL) set_position(s, c, b, at, split, &out[n]);
          ++n;
        }
      }
    }
  }
  return n;
}

/* Sets least_inner and the other bounds. */
static trm_status bound_positions(search *s, trm_error *error) {
  const plan_problem *p = &s->problem;
  const size_t entries = (size_t)s->tiles + 1;
  s->least_inner = ARENA_NEW(&s->arena, uint64_t, entries);
  s->least_inner_zero = ARENA_NEW(&s->arena, uint64_t, entries);
  s->least_count = ARENA_NEW(&s->arena, int64_t, entries);
  s->least_inputs = ARENA_NEW(&s->arena, int64_t, entries);
  if (s->least_inner == NULL || s->least_inner_zero == NULL || s->least_count == NULL ||
      s->least_inputs == NULL) {
    FAIL_NO_MEMORY("the bounds of a plan");
  }
  for (size_t r = 0; r < entries; ++r) {
    s->least_inner[r] = s->least_inner_zero[r] = UINT64_MAX;
    s->least_count[r] = s->least_inputs[r] = INT64_MAX;
  }
  for (uint32_t i = 0; i < s->num_positions; ++i) {
    const plan_positions *at = &s->positions[i];
    uint64_t *inner = &s->least_inner[at->split], *zero = &s->least_inner_zero[at->split];
    if (at->inner < *inner) *inner = at->inner;
    if (at->inner_zero < *zero) *zero = at->inner_zero;
    s->least_count[at->split] = plan_min(s->least_count[at->split], at->count);
    int64_t inputs = at->tile_batch; /* for a kernel of one position */
    for (uint32_t d = 0; d < p->shape.num_dims; ++d) {
      inputs *= plan_input_extent(&p->shape.dims[d], at->tile_field[d], 1);
    }
    s->least_inputs[at->split] = plan_min(s->least_inputs[at->split], inputs);
  }
  for (size_t r = 1; r < entries; ++r) {
    if (s->least_inner[r - 1] < s->least_inner[r]) s->least_inner[r] = s->least_inner[r - 1];
    if (s->least_inner_zero[r - 1] < s->least_inner_zero[r]) {
      s->least_inner_zero[r] = s->least_inner_zero[r - 1];
    }
    s->least_count[r] = plan_min(s->least_count[r - 1], s->least_count[r]);
    s->least_inputs[r] = plan_min(s->least_inputs[r - 1], s->least_inputs[r]);
  }
  return TRM_OK;
}

/* Lists all cuts of batch and field into at most `tiles` blocks. */
static trm_status list_positions(search *s, trm_error *error) {
  plan_busy none = {0};
  cuts c = {0};
  TRY(list_cuts(s, &none, &c, error));
  s->num_positions = walk_positions(s, &c, NULL);
  s->positions = ARENA_NEW(&s->arena, plan_positions, s->num_positions + 1);
  CHECK_MEMORY(s->positions, "the cuts of a plan");
  walk_positions(s, &c, s->positions);
  qsort(s->positions, s->num_positions, sizeof *s->positions, by_inner);
  return bound_positions(s, error);
}

/* ---- Nodes and leaves ------------------------------------------------------------------------ */

static bool better(const search *s, uint64_t cycles, int64_t temp) {
  if (!s->found) return true;
  if (s->bound < 0) {
    if (temp != s->best.temp) return temp < s->best.temp;
    return cycles < s->best.cycles;
  }
  if (cycles != s->best.cycles) return cycles < s->best.cycles;
  return temp < s->best.temp;
}

static void try_leaf(search *s, const plan_channels *c, const plan_positions *at, bool broadcast) {
  plan_cost cost;
  plan_cost_evaluate(&s->problem, c, at, broadcast, &cost);
  ++s->candidates;
  if (s->bound >= 0 && cost.temp > s->bound) return;
  if (!better(s, cost.cycles, cost.temp)) return;
  s->found = true;
  s->best = (plan_choice){.problem = s->problem,
                          .channels = *c,
                          .positions = *at,
                          .broadcast = broadcast,
                          .cycles = cost.cycles,
                          .temp = cost.temp};
}

static void expand(search *s, const search_node *node);

/* Adds a node that takes `used` tiles, unless its bound excludes it. A node with the lowest bound
 * so far is expanded at once, so that the search soon has a good plan to compare with. */
static trm_status add_node(search *s, const plan_channels *c, uint64_t used, trm_error *error) {
  const plan_problem *p = &s->problem;
  search_node node = {.channels = *c,
                      .rest = (uint32_t)(s->tiles / used),
                      .index = (uint32_t)s->nodes.count,
                      .weight_bytes = c->tile_groups * c->tile_in * c->tile_out * p->in_bytes};
  const int64_t count = s->least_count[node.rest];
  if (count == INT64_MAX) return TRM_OK;
  for (uint32_t d = 0; d < p->shape.num_dims; ++d) node.weight_bytes *= c->tile_kernel[d];
  const int64_t partial = c->tile_groups * c->tile_out;
  const int64_t inputs = c->tile_groups * c->tile_in * s->least_inputs[node.rest] * p->in_bytes;
  const int64_t bytes = node.weight_bytes + inputs + partial * count * p->partial_bytes;
  if (s->bound >= 0 ? bytes > s->bound : s->found && bytes > s->best.temp) return TRM_OK;

  const trm_target *target = s->target;
  const uint64_t iterations = (uint64_t)c->in_serial * c->out_serial;
  const int64_t depth = (int64_t)(used / ((uint64_t)c->groups * c->out_parallel));
  /* A tile exchanges at least half of its partial sums. */
  if (depth > 1) {
    node.least_rest =
        (uint64_t)(partial * count / 2 * p->exchanged_bytes) / target->exchange_bytes_per_cycle +
        trm_target_step_cycles(target);
  }
  if (iterations > 1) node.least_rest += target->loop_iteration_cycles;
  if (s->bound >= 0) {
    node.bound = iterations * (plan_partial_cycles(p, c, count, s->least_inner[node.rest],
                                                   s->least_inner_zero[node.rest]) +
                               node.least_rest);
    if (s->found && node.bound > s->best.cycles) return TRM_OK;
  } else {
    node.bound = (uint64_t)bytes;
  }
  if (node.bound < s->least_bound) {
    s->least_bound = node.bound;
    expand(s, &node);
    return TRM_OK;
  }
  if (!VECTOR_PUSH(&s->nodes, node)) FAIL_NO_MEMORY("the nodes of a plan");
  return TRM_OK;
}

static int by_bound(const void *a, const void *b) {
  const search_node *x = a, *y = b;
  if (x->bound != y->bound) return x->bound < y->bound ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* Tries all positions of a node. */
static void expand(search *s, const search_node *node) {
  const plan_problem *p = &s->problem;
  const plan_channels *c = &node->channels;
  const uint64_t iterations = (uint64_t)c->in_serial * c->out_serial;
  const int64_t count = s->least_count[node->rest];
  const bool cycles_bound = s->bound >= 0;
  for (uint32_t i = 0; i < s->num_positions; ++i) {
    const plan_positions *at = &s->positions[i];
    if (at->split > node->rest) continue;
    if (cycles_bound && s->found) {
      /* Positions are sorted by inner cycles: after one that is too slow, all are. */
      const uint64_t least =
          plan_partial_cycles(p, c, count, s->least_inner[node->rest], at->inner_zero);
      if (iterations * (least + node->least_rest) > s->best.cycles) break;
      const uint64_t vertices = plan_partial_cycles(p, c, at->count, at->inner, at->inner_zero);
      if (iterations * (vertices + node->least_rest) > s->best.cycles) continue;
    }
    int64_t inputs = c->tile_groups * c->tile_in * at->tile_batch * p->in_bytes;
    for (uint32_t d = 0; d < p->shape.num_dims; ++d) {
      inputs *= plan_input_extent(&p->shape.dims[d], at->tile_field[d], c->tile_kernel[d]);
    }
    const int64_t bytes =
        inputs + node->weight_bytes + c->tile_groups * c->tile_out * at->count * p->partial_bytes;
    if (cycles_bound ? bytes > s->bound : s->found && bytes > s->best.temp) continue;
    try_leaf(s, c, at, false);
    if (c->out_serial > 1) try_leaf(s, c, at, true);
  }
}

static void expand_nodes(search *s) {
  if (s->nodes.count > 1) {
    qsort(s->nodes.items, s->nodes.count, sizeof *s->nodes.items, by_bound);
  }
  for (size_t i = 0; i < s->nodes.count; ++i) {
    const search_node *node = &s->nodes.items[i];
    const uint64_t best = s->bound >= 0 ? s->best.cycles : (uint64_t)s->best.temp;
    if (s->found && node->bound > best) break;
    if (s->candidates > MAX_CANDIDATES) {
      if (node->bound < s->open_bound) s->open_bound = node->bound;
      break;
    }
    expand(s, node);
  }
  s->nodes.count = 0;
}

/* ---- A problem ------------------------------------------------------------------------------- */

/* Serial splits are the divisors of the grains, or the given one alone. */
static bool serial_allowed(int64_t grains, uint32_t serial, uint32_t given) {
  return given > 0 ? serial == given && serial <= grains : grains % serial == 0;
}

static trm_status search_channels(search *s, uint32_t in_serial, uint32_t out_serial,
                                  const split_list *groups, const split_list *kernels,
                                  trm_error *error) {
  const plan_problem *p = &s->problem;
  const trm_plan_partition *given = &s->constraints->partition;
  const int64_t in_grains = plan_ceil_div(p->in_grains, in_serial);
  const int64_t out_grains = plan_ceil_div(p->out_grains, out_serial);
  split_list ins, outs;
  TRY(list_splits(s, in_grains, given->in_channels, &ins, error));
  TRY(list_splits(s, out_grains, given->out_channels, &outs, error));
  plan_channels c = {.in_serial = in_serial, .out_serial = out_serial};
  for (uint32_t g = 0; g < groups->count; ++g) {
    c.groups = groups->splits[g];
    c.tile_groups = plan_ceil_div(p->group_grains, c.groups) * p->group_grain;
    for (uint32_t o = 0; o < outs.count; ++o) {
      const uint64_t two = (uint64_t)c.groups * outs.splits[o];
      if (two > s->tiles) break;
      c.out_parallel = outs.splits[o];
      c.tile_out = plan_ceil_div(out_grains, c.out_parallel) * p->out_grain;
      /* A vertex of SLIC has one grain of output channels and one of input channels. */
      if (p->method == TRM_METHOD_SLIC && c.tile_out > p->out_grain) continue;
      for (uint32_t i = 0; i < ins.count; ++i) {
        const uint64_t three = two * ins.splits[i];
        if (three > s->tiles) break;
        c.in_parallel = ins.splits[i];
        c.tile_in = plan_ceil_div(in_grains, c.in_parallel) * p->in_grain;
        if (p->method == TRM_METHOD_SLIC && c.tile_in > p->in_grain) continue;
        for (uint32_t x = 0; x < kernels[0].count; ++x) {
          for (uint32_t y = 0; y < kernels[1].count; ++y) {
            const uint64_t used = three * kernels[0].splits[x] * kernels[1].splits[y];
            if (used > s->tiles) break;
            c.kernel[0] = kernels[0].splits[x];
            c.kernel[1] = kernels[1].splits[y];
            c.kernel[2] = 1;
            for (uint32_t d = 0; d < p->shape.num_dims; ++d) {
              c.tile_kernel[d] = plan_ceil_div(p->shape.dims[d].kernel, c.kernel[d]);
            }
            TRY(add_node(s, &c, used, error));
          }
        }
      }
    }
  }
  return TRM_OK;
}

static trm_status search_problem_lists(search *s, trm_error *error) {
  const plan_problem *p = &s->problem;
  const trm_plan_partition *given = &s->constraints->partition;
  TRY(list_positions(s, error));
  if (s->num_positions == 0) return TRM_OK;
  split_list groups, kernels[2];
  TRY(list_splits(s, p->group_grains, given->groups, &groups, error));
  uint32_t kept = 0;
  kernels[0] = kernels[1] = (split_list){1, &one_split};
  for (uint32_t d = 0; d < s->canonical->num_dims; ++d) {
    if ((plan_laid_out(&p->transform) >> d & 1) != 0) {
      if (given->kernel[d] > 1) return TRM_OK;
      continue;
    }
    if (kept < 2 && p->shape.dims[kept].outer) {
      TRY(list_splits(s, p->shape.dims[kept].kernel, given->kernel[d], &kernels[kept], error));
    } else if (given->kernel[d] > 1) {
      return TRM_OK; /* no plan splits the innermost dimension */
    }
    ++kept;
  }
  const uint32_t given_in = given->in_channels_serial, given_out = given->out_channels_serial;
  if (given_in <= 1) {
    const int64_t most = plan_min(p->out_grains, MAX_SERIAL);
    for (int64_t serial = 1; serial <= most; ++serial) {
      if (!serial_allowed(p->out_grains, (uint32_t)serial, given_out)) continue;
      if (serial > 1 && p->method == TRM_METHOD_OUTER_PRODUCT) break;
      TRY(search_channels(s, 1, (uint32_t)serial, &groups, kernels, error));
    }
  }
  if (given_out <= 1) {
    const int64_t most = plan_min(p->in_grains, MAX_SERIAL);
    for (int64_t serial = 2; serial <= most; ++serial) {
      if (!serial_allowed(p->in_grains, (uint32_t)serial, given_in)) continue;
      TRY(search_channels(s, (uint32_t)serial, 1, &groups, kernels, error));
    }
  }
  return TRM_OK;
}

/* A bound on the cycles of all partitions: all tiles at the method's highest rate
 * (multiply-accumulates a cycle). */
static uint64_t least_cycles(const search *s) {
  const plan_problem *p = &s->problem;
  uint64_t rate = p->in_bytes == 4 ? 2 : p->partial_bytes == 4 ? 4 : 8;
  if (p->method == TRM_METHOD_AMP) {
    rate = (uint64_t)p->units * (p->in_bytes == 2 ? s->target->fp16_conv_unit_load_elements
                                                  : s->target->fp32_conv_unit_load_elements);
  } else if (p->method == TRM_METHOD_SLIC) {
    rate = (uint64_t)4 * p->in_grain * p->out_grain * (p->group_grain < 4 ? p->group_grain : 4);
  }
  double work = (double)p->shape.groups * (double)p->shape.batch * (double)p->shape.in_channels *
                (double)p->shape.out_channels;
  for (uint32_t d = 0; d < p->shape.num_dims; ++d) {
    work *= (double)p->output[d] * (double)p->shape.dims[d].kernel * p->busy[d];
  }
  return (uint64_t)(work / (double)rate / s->tiles);
}

static trm_status search_problem(search *s, trm_error *error) {
  if (s->bound >= 0 && s->found && least_cycles(s) > s->best.cycles) return TRM_OK;
  s->least_bound = UINT64_MAX;
  const trm_status status = search_problem_lists(s, error);
  if (status == TRM_OK) expand_nodes(s);
  trm_arena_free(&s->arena);
  return status;
}

/* ---- Candidates ------------------------------------------------------------------------------ */

static trm_status try_problem(search *s, const trm_plan_transform *transform,
                              trm_plan_method method, uint32_t units, uint32_t group_grain,
                              uint32_t in_grain, uint32_t out_grain, trm_error *error) {
  const plan_constraints *c = s->constraints;
  if (c->method >= 0 && (trm_plan_method)c->method != method) return TRM_OK;
  if ((c->conv_units > 0 && units > 0 && c->conv_units != units) ||
      (c->conv_groups_per_group > 0 && c->conv_groups_per_group != group_grain) ||
      (c->in_channels_per_group > 0 && c->in_channels_per_group != in_grain) ||
      (c->out_channels_per_group > 0 && c->out_channels_per_group != out_grain)) {
    return TRM_OK;
  }
  if (!plan_problem_init(s->target, s->canonical, s->options, transform, method, units, group_grain,
                         in_grain, out_grain, &s->problem)) {
    return TRM_OK;
  }
  return search_problem(s, error);
}

static uint32_t conv_units(const search *s) {
  if (s->canonical->input_type == TRM_F32) return s->target->fp32_in_fp32_out_conv_units;
  return s->options->partials_type == TRM_F16 ? s->target->fp16_in_fp16_out_conv_units
                                              : s->target->fp16_in_fp32_out_conv_units;
}

/* Tries all methods and grains with a transform. */
static trm_status try_methods(search *s, const trm_plan_transform *transform, trm_error *error) {
  const bool is_half = s->canonical->input_type == TRM_F16;
  const uint32_t all_units = conv_units(s);
  const uint32_t full = 4 * (is_half ? s->target->fp16_conv_unit_load_elements
                                     : s->target->fp32_conv_unit_load_elements);
  const uint32_t load = full / 4;
  /* A vertex may use eight of sixteen units. */
  for (uint32_t units = all_units; units == all_units || units == 8; units /= 2) {
    if (units == 0) break;
    for (uint32_t in_grain = full; in_grain >= load; in_grain /= 2) {
      TRY(try_problem(s, transform, TRM_METHOD_AMP, units, 1, in_grain, units, error));
      if (full > units) {
        TRY(try_problem(s, transform, TRM_METHOD_AMP, units, 1, in_grain, full, error));
      }
    }
  }
  static const struct {
    uint32_t groups, channels;
  } slic[] = {{1, 4}, {2, 2}, {4, 1}, {8, 1}, {16, 1}};
  for (size_t i = 0; i < sizeof slic / sizeof *slic; ++i) {
    TRY(try_problem(s, transform, TRM_METHOD_SLIC, all_units, slic[i].groups, slic[i].channels,
                    slic[i].channels, error));
  }
  for (uint32_t in_grain = is_half ? 2 : 1; in_grain <= 16; in_grain *= is_half ? 2 : 4) {
    if (is_half && in_grain == 8) continue;
    TRY(try_problem(s, transform, TRM_METHOD_HMAC, 0, 1, in_grain, 1, error));
  }
  for (uint32_t lanes = 4; lanes <= 16; lanes *= 2) {
    TRY(try_problem(s, transform, TRM_METHOD_VMAC, 0, lanes, 1, 1, error));
  }
  for (uint32_t out_grain = 16; out_grain <= 64; out_grain *= 4) {
    TRY(try_problem(s, transform, TRM_METHOD_OUTER_PRODUCT, 0, 1, 1, out_grain, error));
  }
  return TRM_OK;
}

static trm_status try_groups(search *s, trm_plan_transform transform, trm_error *error) {
  const trm_conv_params *c = s->canonical;
  const uint32_t given = s->constraints->combine_groups;
  for (uint32_t combine = 1; combine <= c->groups; combine *= 2) {
    if (given > 0 && given != combine) continue;
    /* Combining pays until a group fills a convolution unit. */
    if (combine > 1 && (c->in_channels * combine > 16 || combine > 16)) break;
    transform.combine_groups = combine;
    TRY(try_methods(s, &transform, error));
  }
  return TRM_OK;
}

/* Tries all ways to lay out dimensions as channels: the kernel as input channels where it is not
 * longer than the input, the output as output channels where the input is not longer than the
 * kernel. Otherwise most of what the units would hold is zeros. */
static trm_status try_dims(search *s, bool swap, trm_error *error) {
  const plan_constraints *given = s->constraints;
  const uint32_t dims = s->canonical->num_dims, all = (1u << dims) - 1;
  uint32_t may_expand = 0, may_flatten = 0;
  for (uint32_t d = 0; d < dims; ++d) {
    const trm_conv_dim *dim = &s->canonical->dims[d];
    const bool grows = trm_conv_output_size(dim) > 1 || dim->input < dim->kernel;
    if (dim->kernel > 1 && dim->kernel <= dim->input) may_expand |= 1u << d;
    if (grows && dim->input <= dim->kernel) may_flatten |= 1u << d;
  }
  for (uint32_t expand = 0; expand <= all; ++expand) {
    if (given->has_expand_dims ? expand != given->expand_dims : (expand & ~may_expand) != 0) {
      continue;
    }
    for (uint32_t flatten = 0; flatten <= all; ++flatten) {
      if ((flatten & expand) != 0) continue;
      if (given->has_flatten_dims ? flatten != given->flatten_dims
                                  : (flatten & ~may_flatten) != 0) {
        continue;
      }
      if (swap && (expand | flatten) != all) continue; /* operands with windows stay */
      TRY(try_groups(s, (trm_plan_transform){swap, expand, flatten, 1}, error));
    }
  }
  return TRM_OK;
}

trm_status plan_search(const trm_target *target, const trm_conv_params *canonical,
                       const trm_plan_options *options, const plan_constraints *constraints,
                       int64_t bound, const plan_choice *known, plan_result *out_result,
                       trm_error *error) {
  search *s = trm_allocate_zeroed(1, sizeof *s);
  CHECK_MEMORY(s, "a planner");
  s->target = target;
  s->canonical = canonical;
  s->options = options;
  s->constraints = constraints;
  s->bound = bound;
  s->tiles = target->tiles_per_ipu;
  s->open_bound = UINT64_MAX;
  if (known != NULL) {
    s->found = true;
    s->best = *known;
  }
  trm_status status = TRM_OK;
  for (uint32_t swap = 0; swap <= 1 && status == TRM_OK; ++swap) {
    if (constraints->swap_operands >= 0 && constraints->swap_operands != (int)swap) continue;
    status = try_dims(s, swap == 1, error);
  }
  if (status == TRM_OK) {
    out_result->found = s->found;
    if (s->found) out_result->choice = s->best;
    out_result->candidates = s->candidates;
    out_result->open_bound = s->open_bound;
  }
  VECTOR_FREE(&s->nodes);
  trm_free(s);
  return status;
}
