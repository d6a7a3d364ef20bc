/* The search against a brute force over the space that plan_search.c states: the same minimum of
 * (cycles, temporary bytes) on small convolutions and matmuls of every method. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/plan/internal.h"

/* ---- The brute force: all loops written out, nothing left out -------------------------------- */

typedef struct brute {
  const trm_target *target;
  const trm_plan_options *options;
  trm_conv_params shape; /* canonical */
  int64_t bound;
  bool found;
  uint64_t cycles;
  int64_t temp;
  uint64_t tried;
} brute;

static bool smallest_split(int64_t grains, int64_t parts) {
  if (parts > grains) return false;
  const int64_t each = (grains + parts - 1) / parts;
  return parts == 1 || (grains + parts - 2) / (parts - 1) != each;
}

static void leaf(brute *b, const plan_problem *p, const plan_channels *c, const int64_t parts[4]) {
  plan_positions at = {.batch = (uint32_t)parts[0],
                       .field = {(uint32_t)parts[1], (uint32_t)parts[2], (uint32_t)parts[3]}};
  at.split = at.batch * at.field[0] * at.field[1] * at.field[2];
  at.tile_batch = (p->shape.batch + parts[0] - 1) / parts[0];
  at.count = at.tile_batch;
  for (uint32_t d = 0; d < p->shape.num_dims; ++d) {
    at.tile_field[d] = (p->output[d] + parts[d + 1] - 1) / parts[d + 1];
    at.count *= at.tile_field[d];
  }
  plan_inner_cycles(p, NULL, &at);
  for (int broadcast = 0; broadcast <= (c->out_serial > 1 ? 1 : 0); ++broadcast) {
    plan_cost cost;
    plan_cost_evaluate(p, c, &at, broadcast == 1, &cost);
    ++b->tried;
    if (b->bound >= 0 && cost.temp > b->bound) continue;
    bool better = !b->found;
    if (!better && b->bound >= 0) {
      better = cost.cycles < b->cycles || (cost.cycles == b->cycles && cost.temp < b->temp);
    } else if (!better) {
      better = cost.temp < b->temp || (cost.temp == b->temp && cost.cycles < b->cycles);
    }
    if (better) {
      b->found = true;
      b->cycles = cost.cycles;
      b->temp = cost.temp;
    }
  }
}

static void positions(brute *b, const plan_problem *p, const plan_channels *c, int64_t tiles) {
  const uint32_t dims = p->shape.num_dims;
  int64_t n[4] = {p->shape.batch, 1, 1, 1};
  for (uint32_t d = 0; d < dims; ++d) n[d + 1] = p->output[d];
  int64_t x[4];
  for (x[0] = 1; x[0] <= tiles; ++x[0]) {
    for (x[1] = 1; x[0] * x[1] <= tiles; ++x[1]) {
      for (x[2] = 1; x[0] * x[1] * x[2] <= tiles; ++x[2]) {
        for (x[3] = 1; x[0] * x[1] * x[2] * x[3] <= tiles; ++x[3]) {
          bool allowed = true;
          for (int i = 0; i < 4; ++i) allowed = allowed && smallest_split(n[i], x[i]);
          if (allowed) leaf(b, p, c, x);
        }
      }
    }
  }
}

static void channels(brute *b, const plan_problem *p, int64_t in_serial, int64_t out_serial) {
  const int64_t tiles = b->target->tiles_per_ipu;
  const int64_t in = (p->in_grains + in_serial - 1) / in_serial;
  const int64_t out = (p->out_grains + out_serial - 1) / out_serial;
  const uint32_t dims = p->shape.num_dims;
  const int64_t k0 = dims >= 1 && p->shape.dims[0].outer ? p->shape.dims[0].kernel : 1;
  const int64_t k1 = dims >= 2 && p->shape.dims[1].outer ? p->shape.dims[1].kernel : 1;
  for (int64_t g = 1; g <= tiles; ++g) {
    for (int64_t o = 1; g * o <= tiles; ++o) {
      for (int64_t i = 1; g * o * i <= tiles; ++i) {
        for (int64_t y = 1; g * o * i * y <= tiles; ++y) {
          for (int64_t x = 1; g * o * i * y * x <= tiles; ++x) {
            if (!smallest_split(p->group_grains, g) || !smallest_split(out, o) ||
                !smallest_split(in, i) || !smallest_split(k0, y) || !smallest_split(k1, x)) {
              continue;
            }
            plan_channels c = {.groups = (uint32_t)g,
                               .in_parallel = (uint32_t)i,
                               .in_serial = (uint32_t)in_serial,
                               .out_parallel = (uint32_t)o,
                               .out_serial = (uint32_t)out_serial,
                               .kernel = {(uint32_t)y, (uint32_t)x, 1}};
            c.tile_groups = (p->group_grains + g - 1) / g * p->group_grain;
            c.tile_in = (in + i - 1) / i * p->in_grain;
            c.tile_out = (out + o - 1) / o * p->out_grain;
            for (uint32_t d = 0; d < dims; ++d) {
              c.tile_kernel[d] = (p->shape.dims[d].kernel + c.kernel[d] - 1) / c.kernel[d];
            }
            if (p->method == TRM_METHOD_SLIC &&
                (c.tile_in > p->in_grain || c.tile_out > p->out_grain)) {
              continue;
            }
            positions(b, p, &c, tiles / (g * o * i * y * x));
          }
        }
      }
    }
  }
}

static void problem(brute *b, const trm_plan_transform *transform, trm_plan_method method,
                    uint32_t units, uint32_t groups, uint32_t in, uint32_t out) {
  plan_problem p;
  if (!plan_problem_init(b->target, &b->shape, b->options, transform, method, units, groups, in,
                         out, &p)) {
    return;
  }
  for (int64_t serial = 1; serial <= p.out_grains && serial <= 1024; ++serial) {
    if (method == TRM_METHOD_OUTER_PRODUCT && serial > 1) break;
    if (p.out_grains % serial == 0) channels(b, &p, 1, serial);
  }
  for (int64_t serial = 2; serial <= p.in_grains && serial <= 1024; ++serial) {
    if (p.in_grains % serial == 0) channels(b, &p, serial, 1);
  }
}

static void methods(brute *b, const trm_plan_transform *t) {
  const bool half = b->shape.input_type == TRM_F16;
  const bool narrow = b->target->fp16_in_fp32_out_conv_units == 8;
  if (half) {
    for (uint32_t in = 4; in <= 16; in *= 2) {
      if (!narrow) problem(b, t, TRM_METHOD_AMP, 16, 1, in, 16);
      problem(b, t, TRM_METHOD_AMP, 8, 1, in, 8);
      problem(b, t, TRM_METHOD_AMP, 8, 1, in, 16);
    }
    const uint32_t units = narrow ? 8 : 16;
    problem(b, t, TRM_METHOD_SLIC, units, 1, 4, 4);
    problem(b, t, TRM_METHOD_SLIC, units, 2, 2, 2);
    problem(b, t, TRM_METHOD_SLIC, units, 4, 1, 1);
    problem(b, t, TRM_METHOD_SLIC, units, 8, 1, 1);
    problem(b, t, TRM_METHOD_SLIC, units, 16, 1, 1);
    problem(b, t, TRM_METHOD_HMAC, 0, 1, 2, 1);
    problem(b, t, TRM_METHOD_HMAC, 0, 1, 4, 1);
    problem(b, t, TRM_METHOD_HMAC, 0, 1, 16, 1);
  } else {
    for (uint32_t in = 2; in <= 8; in *= 2) {
      if (!narrow) problem(b, t, TRM_METHOD_AMP, 16, 1, in, 16);
      problem(b, t, TRM_METHOD_AMP, 8, 1, in, 8);
    }
    problem(b, t, TRM_METHOD_HMAC, 0, 1, 1, 1);
    problem(b, t, TRM_METHOD_HMAC, 0, 1, 4, 1);
    problem(b, t, TRM_METHOD_HMAC, 0, 1, 16, 1);
  }
  problem(b, t, TRM_METHOD_VMAC, 0, 4, 1, 1);
  problem(b, t, TRM_METHOD_VMAC, 0, 8, 1, 1);
  problem(b, t, TRM_METHOD_VMAC, 0, 16, 1, 1);
  problem(b, t, TRM_METHOD_OUTER_PRODUCT, 0, 1, 1, 16);
  problem(b, t, TRM_METHOD_OUTER_PRODUCT, 0, 1, 1, 64);
}

/* Digit d of `layout` in base 3: dimension d stays, its kernel is expanded, its output flattened.
 */
static bool layout_of(const trm_conv_params *s, uint32_t layout, trm_plan_transform *out) {
  bool allowed = true, stays = false;
  for (uint32_t d = 0; d < s->num_dims; ++d, layout /= 3) {
    const trm_conv_dim *dim = &s->dims[d];
    if (layout % 3 == 0) stays = true;
    if (layout % 3 == 1) {
      out->expand_dims |= 1u << d;
      allowed = allowed && dim->kernel > 1 && dim->kernel <= dim->input;
    } else if (layout % 3 == 2) {
      out->flatten_dims |= 1u << d;
      allowed = allowed && dim->input <= dim->kernel &&
                (dim->input < dim->kernel || trm_conv_output_size(dim) > 1);
    }
  }
  return allowed && !(stays && out->swap_operands);
}

static void search_all(brute *b) {
  static const uint32_t layouts[] = {1, 3, 9, 27};
  const trm_conv_params *s = &b->shape;
  b->found = false;
  for (uint32_t swap = 0; swap <= 1u; ++swap) {
    for (uint32_t layout = 0; layout < layouts[s->num_dims]; ++layout) {
      trm_plan_transform transform = {.swap_operands = swap == 1, .combine_groups = 1};
      if (!layout_of(s, layout, &transform)) continue;
      for (uint32_t combine = 1; combine <= 16; combine *= 2) {
        if (combine > s->groups || (combine > 1 && s->in_channels * combine > 16)) break;
        transform.combine_groups = combine;
        methods(b, &transform);
      }
    }
  }
}

/* ---- The cases ------------------------------------------------------------------------------- */

typedef struct conv_case {
  trm_dtype type;
  int64_t groups, batch, in, out;
  uint32_t dims;
  int64_t field[3], kernel[3], stride[3], pad, input_dilation, kernel_dilation;
  double proportion;
  bool half_partials;
} conv_case;

#define H TRM_F16
#define S TRM_F32
/* type, groups, batch, in, out, dims, field, kernel, stride, pad, dilations, proportion, half
 * partials */
static const conv_case cases[] = {
    /* matmuls: [out, in] x [in, batch] */
    {H, 1, 4, 64, 64, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {H, 1, 64, 64, 64, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, true},
    {H, 1, 100, 48, 80, 0, {0}, {0}, {0}, 0, 1, 1, 0.3, false},
    {H, 1, 128, 96, 16, 0, {0}, {0}, {0}, 0, 1, 1, 0.1, false},
    {H, 3, 32, 32, 32, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {H, 1, 1, 256, 10, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {H, 1, 7, 5, 3, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {H, 1, 1, 1, 1, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {H, 1, 33, 17, 65, 0, {0}, {0}, {0}, 0, 1, 1, 0.02, false},
    {S, 1, 4, 64, 64, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {S, 1, 64, 64, 64, 0, {0}, {0}, {0}, 0, 1, 1, 0.05, false},
    {S, 1, 200, 40, 24, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {S, 2, 16, 24, 40, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {S, 1, 2, 3, 2, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {S, 5, 1, 2, 1, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {S, 1, 300, 300, 1, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {S, 1, 64, 96, 128, 0, {0}, {0}, {0}, 0, 1, 1, 0.0, false},
    {S, 1, 64, 96, 128, 0, {0}, {0}, {0}, 0, 1, 1, 1.0, false},
    /* outer products */
    {H, 1, 64, 1, 64, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {S, 1, 128, 1, 96, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    {S, 4, 50, 1, 20, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
    /* convolutions with windows */
    {H, 1, 2, 16, 16, 2, {8, 8}, {3, 3}, {1, 1}, 1, 1, 1, 0.6, false},
    {H, 1, 1, 32, 48, 2, {7, 7}, {3, 3}, {1, 1}, 1, 1, 1, 0.6, true},
    {H, 1, 1, 3, 16, 2, {16, 16}, {7, 7}, {2, 2}, 3, 1, 1, 0.6, false},
    {H, 1, 1, 4, 8, 2, {12, 12}, {4, 4}, {1, 1}, 0, 1, 1, 0.6, false},
    {H, 1, 2, 8, 8, 2, {9, 5}, {5, 2}, {1, 1}, 1, 1, 1, 0.2, false},
    {H, 1, 1, 16, 16, 1, {64}, {9}, {1}, 4, 1, 1, 0.6, false},
    {H, 1, 3, 16, 32, 1, {40}, {5}, {4}, 0, 1, 1, 0.6, false},
    {H, 1, 1, 8, 8, 3, {4, 5, 6}, {3, 2, 3}, {1, 1, 1}, 1, 1, 1, 0.6, false},
    {H, 1, 1, 16, 16, 2, {10, 10}, {3, 3}, {1, 1}, 2, 1, 2, 0.6, false},
    {H, 1, 1, 16, 16, 2, {5, 5}, {3, 3}, {1, 1}, 2, 2, 1, 0.6, false},
    {H, 1, 16, 4, 16, 2, {10, 10}, {8, 8}, {1, 1}, 0, 1, 1, 0.6, false},
    {S, 1, 1, 8, 16, 2, {8, 8}, {3, 3}, {1, 1}, 1, 1, 1, 0.6, false},
    {S, 1, 1, 3, 8, 2, {12, 12}, {5, 5}, {2, 2}, 2, 1, 1, 0.6, false},
    {S, 1, 2, 16, 16, 2, {6, 6}, {3, 3}, {1, 1}, 1, 1, 1, 0.04, false},
    {S, 1, 1, 4, 4, 1, {100}, {3}, {1}, 1, 1, 1, 0.6, false},
    {S, 1, 8, 6, 10, 2, {7, 3}, {3, 1}, {2, 1}, 1, 1, 1, 0.6, false},
    /* updates of weights and a gradient: the kernel is as long as the input, or longer */
    {H, 1, 24, 4, 40, 2, {9, 9}, {9, 9}, {1, 1}, 1, 1, 1, 0.6, false},
    {H, 1, 20, 4, 24, 2, {9, 6}, {9, 6}, {1, 1}, 0, 1, 1, 0.6, false},
    {H, 1, 60, 16, 1, 2, {3, 1}, {2, 9}, {1, 1}, 8, 1, 1, 0.6, false},
    {S, 1, 40, 3, 2, 1, {2}, {11}, {1}, 10, 1, 1, 0.6, false},
    /* grouped */
    {H, 8, 1, 4, 4, 2, {14, 14}, {3, 3}, {1, 1}, 1, 1, 1, 0.6, false},
    {H, 32, 1, 4, 4, 2, {10, 10}, {1, 4}, {1, 1}, 0, 1, 1, 0.6, true},
    {H, 16, 1, 2, 2, 2, {14, 14}, {3, 4}, {1, 1}, 1, 1, 1, 0.6, false},
    {H, 8, 1, 4, 4, 2, {15, 15}, {3, 3}, {1, 2}, 1, 1, 1, 0.6, false},
    {H, 4, 1, 8, 16, 2, {8, 8}, {3, 3}, {1, 1}, 1, 1, 1, 0.6, false},
    {S, 8, 1, 4, 4, 2, {8, 8}, {3, 3}, {1, 1}, 1, 1, 1, 0.6, false},
    {S, 3, 1, 1, 2, 1, {20}, {3}, {1}, 0, 1, 1, 0.6, false},
    /* depthwise */
    {H, 32, 1, 1, 1, 2, {14, 14}, {3, 3}, {1, 1}, 1, 1, 1, 0.6, false},
    {H, 64, 1, 1, 1, 2, {7, 7}, {5, 5}, {2, 2}, 2, 1, 1, 0.6, true},
    {H, 16, 2, 1, 1, 1, {50}, {7}, {1}, 3, 1, 1, 0.6, false},
    {H, 24, 1, 1, 1, 2, {9, 9}, {3, 3}, {3, 3}, 0, 1, 1, 0.6, false},
    {H, 40, 1, 1, 1, 2, {6, 6}, {3, 3}, {1, 1}, 2, 1, 2, 0.6, true},
    {S, 16, 1, 1, 1, 2, {8, 8}, {3, 3}, {1, 1}, 1, 1, 1, 0.6, false},
    {H, 2, 6, 12, 20, 1, {11}, {3}, {1}, 1, 1, 1, 0.003, false},
};
enum { NUM_CASES = sizeof cases / sizeof *cases };

static trm_conv_params params_of(const conv_case *c) {
  trm_conv_params p = {.input_type = c->type,
                       .output_type = c->type,
                       .groups = c->groups,
                       .batch = c->batch,
                       .in_channels = c->in,
                       .out_channels = c->out,
                       .num_dims = c->dims};
  for (uint32_t d = 0; d < c->dims; ++d) {
    p.dims[d] = (trm_conv_dim){c->field[d], c->kernel[d],      c->stride[d],       c->pad,
                               c->pad,      c->input_dilation, c->kernel_dilation, d + 1 < c->dims};
  }
  return p;
}

static trm_target *small_target(const char *base, uint32_t tiles, uint32_t bytes) {
  char text[256];
  snprintf(text, sizeof text,
           "{\"base\": \"%s\", \"name\": \"small\", \"tilesPerIPU\": %u, \"memoryBytesPerTile\": "
           "%u, \"memoryElementOffsets\": [0, 4096], \"interleavedMemoryElementIndex\": 1}",
           base, tiles, bytes);
  trm_target *target = NULL;
  trm_error error;
  if (trm_target_parse(text, strlen(text), "small", &target, &error) != TRM_OK) {
    fail_msg("%s", error.message);
  }
  return target;
}

static uint32_t num_broadcast, num_serial;

static void compare(const trm_target *target, const conv_case *c, size_t index, uint32_t seen[5],
                    uint32_t fits[3]) {
  const trm_conv_params params = params_of(c);
  trm_plan_options options = trm_plan_options_default();
  options.available_memory_proportion = c->proportion;
  if (c->half_partials) options.partials_type = TRM_F16;
  options.use_128bit_conv_unit_load = index % 3 == 0;
  trm_linear_plan plan;
  trm_error error;
  if (trm_linear_plan_make(target, &params, &options, NULL, &plan, &error) != TRM_OK) {
    fail_msg("case %zu: %s", index, error.message);
  }
  ++seen[plan.method];
  ++fits[plan.fit];
  num_broadcast += plan.broadcast_input_before_loop;
  num_serial += plan.partition.in_channels_serial > 1;

  brute b = {.target = target, .options = &options, .shape = plan_canonical(&params)};
  const int64_t tile = target->bytes_per_tile;
  const int64_t allowed = (int64_t)(c->proportion * (double)tile);
  b.bound = allowed;
  search_all(&b);
  trm_plan_fit fit = TRM_FIT_TARGET;
  while (!b.found && b.bound > 0 && b.bound < 2 * tile) {
    b.bound = 2 * b.bound < 2 * tile ? 2 * b.bound : 2 * tile;
    fit = TRM_FIT_RAISED;
    search_all(&b);
  }
  if (!b.found) {
    b.bound = -1;
    fit = TRM_FIT_LEAST;
    search_all(&b);
  }
  assert_true(b.found);
  if (plan.cycles != b.cycles || (int64_t)plan.temp_bytes != b.temp) {
    fail_msg("case %zu: the plan has %llu cycles and %llu bytes, the brute force %llu and %lld",
             index, (unsigned long long)plan.cycles, (unsigned long long)plan.temp_bytes,
             (unsigned long long)b.cycles, (long long)b.temp);
  }
  assert_int_equal(plan.fit, fit);
  assert_int_equal(plan.bytes_allowed, allowed);
  if (fit == TRM_FIT_TARGET) assert_true(plan.temp_bytes <= plan.bytes_allowed);
  if (fit == TRM_FIT_RAISED) {
    assert_true(plan.temp_bytes > plan.bytes_allowed && plan.temp_bytes <= plan.fit_bound);
  }
  assert_true(plan.tiles_used <= target->tiles_per_ipu);
  assert_true(plan.candidates <= b.tried);
}

static void test_optimal(void **state) {
  (void)state;
  trm_target *wide = small_target("mk2", 24, 65536), *narrow = small_target("mk1", 10, 32768);
  uint32_t seen[5] = {0}, fits[3] = {0};
  assert_true(NUM_CASES >= 50);
  for (size_t i = 0; i < NUM_CASES; ++i) {
    compare(wide, &cases[i], i, seen, fits);
    if (i % 4 == 0) compare(narrow, &cases[i], i, seen, fits);
  }
  for (int f = 0; f < 3; ++f) {
    if (fits[f] == 0) fail_msg("no case had the fit %s", trm_plan_fit_name((trm_plan_fit)f));
  }
  for (int m = 0; m < 5; ++m) {
    if (seen[m] == 0) {
      fail_msg("no case was planned with %s", trm_plan_method_name((trm_plan_method)m));
    }
  }
  trm_target_release(wide);
  trm_target_release(narrow);
}

/* A larger one, whose serial splits and bounds matter. */
static void test_optimal_memory_bound(void **state) {
  (void)state;
  trm_target *target = small_target("bow", 48, 24576);
  uint32_t seen[5] = {0}, fits[3] = {0};
  static const conv_case large[] = {
      {H, 1, 512, 256, 256, 0, {0}, {0}, {0}, 0, 1, 1, 0.6, false},
      {S, 1, 128, 256, 384, 0, {0}, {0}, {0}, 0, 1, 1, 0.4, false},
      {H, 1, 1, 64, 64, 2, {14, 14}, {3, 3}, {1, 1}, 1, 1, 1, 0.5, false},
      {H, 1, 96, 64, 4096, 0, {0}, {0}, {0}, 0, 1, 1, 0.3, false},
      {S, 1, 256, 256, 2048, 0, {0}, {0}, {0}, 0, 1, 1, 0.5, false},
  };
  for (size_t i = 0; i < sizeof large / sizeof *large; ++i) {
    compare(target, &large[i], i, seen, fits);
  }
  assert_true(num_broadcast > 0);
  assert_true(num_serial > 0);
  trm_target_release(target);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_optimal),
      cmocka_unit_test(test_optimal_memory_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
