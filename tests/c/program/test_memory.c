/* Memory of programs: what is kept in float16, what is computed again, what a published report of
 * the original says of a small program. And the memory of the plan itself. */
#include "ipu/program/expansions.h"
#include "program_case.h"

#include "../../../bench/fidelity/published.h"

/* A convolution in half precision, its batch normalisation in training as XLA writes it (in
 * float32), the gradient of that, and enough between the two to tell them apart. */
static void append_training(trm_text *text) {
  trm_text_format(text,
                  "HloModule m\n"
                  "ENTRY e {\n"
                  "  x = f16[8,32,32,64] parameter(0)\n  w = f16[3,3,64,64] parameter(1)\n"
                  "  s = f32[64] parameter(2)\n  o = f32[64] parameter(3)\n"
                  "  v = f16[1,1,64,64] parameter(4)\n"
                  "  zero = f16[] constant(0)\n"
                  "  zeros = f16[8,32,32,64] broadcast(zero), dimensions={}\n"
                  "  c = f16[8,32,32,64] convolution(x, w), window={size=3x3 pad=1_1x1_1}, "
                  "dim_labels=b01f_01io->b01f\n"
                  "  wide = f32[8,32,32,64] convert(c)\n"
                  "  n = (f32[8,32,32,64], f32[64], f32[64]) batch-norm-training(wide, s, o), "
                  "epsilon=0.001, feature_index=3\n"
                  "  y = f32[8,32,32,64] get-tuple-element(n), index=0\n"
                  "  mean = f32[64] get-tuple-element(n), index=1\n"
                  "  variance = f32[64] get-tuple-element(n), index=2\n"
                  "  narrow = f16[8,32,32,64] convert(y)\n"
                  "  r0 = f16[8,32,32,64] maximum(narrow, zeros)\n");
  enum { BETWEEN = 80 };
  for (int i = 0; i < BETWEEN; ++i) {
    trm_text_format(text,
                    "  r%d = f16[8,32,32,64] convolution(r%d, v), window={size=1x1}, "
                    "dim_labels=b01f_01io->b01f\n",
                    i + 1, i);
  }
  trm_text_format(text,
                  "  late = f16[8,32,32,64] multiply(r%d, r0)\n"
                  "  g = f32[8,32,32,64] convert(late)\n"
                  "  b = (f32[8,32,32,64], f32[64], f32[64]) batch-norm-grad(wide, s, mean, "
                  "variance, g), epsilon=0.001, feature_index=3\n"
                  "  d = f32[8,32,32,64] get-tuple-element(b), index=0\n"
                  "  h = f16[8,32,32,64] convert(d)\n"
                  "  ROOT k = f16[3,3,64,64] convolution(x, h), "
                  "window={size=32x32 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf\n"
                  "}\n",
                  BETWEEN);
}

/* What XLA widens for a normalisation is kept in half precision, as popnn reads it. */
static void test_halves_stay_halves(void **state) {
  (void)state;
  trm_text text = {0};
  append_training(&text);
  trm_program *p = make_program(text.data, "mk2", NULL);
  const int64_t count = 8 * 32 * 32 * 64;
  int large = 0;
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    const trm_program_variable *variable = &p->variables[v];
    if (variable->count != count || variable->source == TRM_NO_INDEX) continue;
    assert_int_equal(variable->total_bytes, 2 * count);
    ++large;
  }
  assert_true(large >= 3);
  check_sums(p);
  trm_program_free(p);
  trm_text_free(&text);
}

/* A widened value that something else reads too stays wide. */
static void test_other_readers_keep_it_wide(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m\nsum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) "
      "}\nENTRY e { x = f16[4096,64] parameter(0)  y = f16[4096,64] tanh(x)\n"
      "  wide = f32[4096,64] convert(y)  zero = f32[] constant(0)\n"
      "  r = f32[64] reduce(wide, zero), dimensions={0}, to_apply=sum\n"
      "  ROOT t = (f32[4096,64], f32[64]) tuple(wide, r) }",
      "mk2", NULL);
  bool wide = false;
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    const trm_program_variable *variable = &p->variables[v];
    wide |= variable->count == 4096 * 64 && variable->total_bytes == 4 * 4096 * 64;
  }
  assert_true(wide);
  trm_program_free(p);
}

/* So does what the statistics of a distributed batch norm's gradient are made of. */
static void test_gradient_statistics_of_halves(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m\nENTRY e { x = f16[4096,64] parameter(0)  d = f16[4096,64] parameter(1)\n"
      "  v = f32[64] parameter(2)  a = f16[4096,64] tanh(x)  b = f16[4096,64] tanh(d)\n"
      "  aw = f32[4096,64] convert(a)  bw = f32[4096,64] convert(b)\n"
      "  n = (f32[64], f32[64]) custom-call(aw, v, v, v, bw), "
      "custom_call_target=\"tremula.batch-norm-gradient-statistics\", "
      "backend_config=\"{\\\"feature_index\\\":1,\\\"epsilon\\\":0.001}\"\n"
      "  ROOT r = f32[64] get-tuple-element(n), index=0 }",
      "mk2", NULL);
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    const trm_program_variable *variable = &p->variables[v];
    if (variable->count == 4096 * 64) assert_int_equal(variable->total_bytes, 2 * 4096 * 64);
  }
  trm_program_free(p);
}

static bool has_note(const trm_program *p, const char *part) {
  const char *note;
  for (size_t n = 0; (note = trm_program_note(p, n)) != NULL; ++n) {
    if (strstr(note, part) != NULL) return true;
  }
  return false;
}

/* While an instruction's products are summed. */
static int64_t live_at(const trm_program *p, const char *instruction) {
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const char *name = p->steps[s].name;
    const bool is_it = strncmp(name, instruction, strlen(instruction)) == 0;
    if (is_it && strstr(name, "/Convolve") != NULL) return p->steps[s].live_total;
  }
  fail_msg("no step %s", instruction);
  return 0;
}

/* allow_recompute: less memory for more cycles, and it says what it did. */
static void test_recomputation(void **state) {
  (void)state;
  trm_text text = {0};
  append_training(&text);
  trm_program_options options = trm_program_default_options();
  trm_program *kept = make_program(text.data, "mk2", &options);
  options.recompute = true;
  trm_program *again = make_program(text.data, "mk2", &options);
  check_sums(again);
  assert_int_equal(kept->recomputed.values, 0);
  assert_int_equal(again->recomputed.values, 1);
  const int64_t bytes = 2 * 8 * 32 * 32 * 64; /* r0, made again of the convolution's result */
  assert_int_equal(again->recomputed.bytes, bytes);
  assert_true(again->totals.cycles > kept->totals.cycles);
  /* Half way the convolution's result and the chain's are there, and no longer the first of it. */
  const int64_t kept_bytes = live_at(kept, "r40/");
  const int64_t again_bytes = live_at(again, "r40/");
  assert_true(kept_bytes - again_bytes > bytes * 8 / 10);
  assert_true(has_note(again, "allow_recompute: 1 results"));
  trm_program_free(kept);
  trm_program_free(again);
  trm_text_free(&text);
  /* Where nothing is kept for long there is nothing to do, and that is said. */
  again = make_program("HloModule m\nENTRY e { x = f32[4096] parameter(0)  ROOT n = f32[4096] "
                       "negate(x) }",
                       "mk2", &options);
  assert_true(has_note(again, "finds nothing to compute again"));
  trm_program_free(again);
}

/* Each within a share of what the original's report of it says. */
static trm_program *check_categories(const char *text, const char *target,
                                     trm_framework_steps steps, const published_category *known,
                                     size_t count) {
  trm_program_options options = trm_program_default_options();
  options.compile_ipu_code = options.instrument = true;
  options.framework_steps = steps;
  trm_program *p = make_program(text, target, &options);
  for (size_t c = 0; c < count; ++c) {
    const published_category *one = &known[c];
    const double bytes = (double)trm_program_category_bytes(p, one->category);
    if (bytes < (1 - one->allowed) * one->bytes || bytes > (1 + one->allowed) * one->bytes) {
      fail_msg("%s: %.0f bytes, published %.0f", trm_memory_category_name(one->category), bytes,
               one->bytes);
    }
  }
  return p;
}

static void test_published_report(void **state) {
  (void)state;
  trm_program *p = check_categories(published_small_program, "mk1", TRM_FRAMEWORK_STEPS_ON,
                                    published_small, NUM_PUBLISHED_CATEGORIES);
  const double total = (double)p->totals.memory_bytes;
  assert_true(total > 0.95 * published_small_total && total < 1.05 * published_small_total);
  trm_program_free(p);
  p = check_categories(published_dense_program, "mk2", TRM_FRAMEWORK_STEPS_OFF, published_dense,
                       NUM_DENSE_CATEGORIES);
  /* Lists of work and pointers of edges. */
  assert_true(trm_program_category_bytes(p, TRM_CATEGORY_VERTEX_FIELD_DATA) > 0);
  trm_program_free(p);
}

/* Random numbers are made when they are read, not when the program begins. */
static void test_random_numbers_wait(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m\nENTRY e {\n  x = f32[1024,512] parameter(0)  w = f32[512,512] parameter(1)\n"
      "  k = u64[2] constant({1, 2})\n"
      "  g = (u64[2], u32[1024,512]) rng-bit-generator(k), algorithm=rng_philox\n"
      "  bits = u32[1024,512] get-tuple-element(g), index=1\n"
      "  a = f32[1024,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  t = f32[1024,512] tanh(a)\n"
      "  b = f32[1024,512] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  c = u32[1024,512] bitcast-convert(b)\n"
      "  ROOT r = u32[1024,512] xor(c, bits)\n}\n",
      "mk2", NULL);
  uint32_t random = 0, product = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    if (strstr(p->steps[s].name, "b/Conv_1/Convolve") != NULL) product = s;
    if (strstr(p->steps[s].name, "g/uniform") != NULL) random = s;
  }
  assert_true(random > 0 && product > 0 && random > product);
  trm_program_free(p);
}

/* x, which the host sends for each run, plus a concatenation: the parts are added to slices of x in
 * place. The other way round, and for two plain arrays, the sum is an array of its own. */
static void test_parts_are_added_in_place(void **state) {
  (void)state;
  static const char *const sums[] = {"add(x, z)", "add(z, x)", "add(x, y)"};
  int64_t bytes[3];
  for (int k = 0; k < 3; ++k) {
    char text[1024];
    snprintf(text, sizeof text,
             "HloModule m, frontend_attributes={tremula_side_table=\"{\\\"inputs\\\": "
             "[\\\"x\\\", \\\"p\\\", \\\"q\\\", \\\"y\\\"], \\\"arguments\\\": 4}\"}\n"
             "ENTRY e {\n  x = f32[4096,512] parameter(0)\n  p = f32[2048,512] parameter(1)\n"
             "  q = f32[2048,512] parameter(2)\n  y = f32[4096,512] parameter(3)\n"
             "  z = f32[4096,512] concatenate(p, q), dimensions={0}\n"
             "  ROOT r = f32[4096,512] %s\n}",
             sums[k]);
    trm_program *program = make_program(text, "mk2", NULL);
    bytes[k] = program->totals.memory_bytes;
    trm_program_free(program);
  }
  const int64_t array = (int64_t)4 * 4096 * 512;
  assert_true(bytes[1] - bytes[0] > array * 9 / 10);
  assert_true(bytes[2] > array * 3); /* x, y and the sum */
}

/* Each part is applied by a step of its own, and dies with it. */
static void test_parts_die_one_by_one(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m\nENTRY e {\n  x0 = f32[4096,512] parameter(0)\n"
      "  p0 = f32[2048,512] parameter(1)\n  w = f32[512,512] parameter(2)\n"
      "  x = f32[4096,512] dot(x0, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  p = f32[2048,512] dot(p0, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  q = f32[2048,512] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  z = f32[4096,512] concatenate(p, q), dimensions={0}\n"
      "  ROOT y = f32[4096,512] add(x, z)\n}",
      "mk2", NULL);
  check_sums(p);
  int64_t live[2];
  uint32_t found = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const trm_program_step *step = &p->steps[s];
    if (strstr(step->name, "slice-apply") == NULL) continue;
    if (step->type != TRM_STEP_TYPE_ON_TILE_EXECUTE) continue;
    assert_true(found < 2);
    live[found++] = step->live_total;
  }
  assert_int_equal(found, 2);
  assert_true(live[0] - live[1] > (int64_t)4 * 2048 * 512 * 9 / 10);
  trm_program_free(p);
}

/* Bytes of a product's program, and the plan of the product. */
static int64_t bytes_of_product(const char *text, const trm_conv_params *params,
                                trm_linear_plan *plan) {
  trm_error error;
  trm_target *target = NULL;
  assert_int_equal(trm_target_load("mk2", &target, &error), TRM_OK);
  const trm_plan_options options = trm_plan_options_default();
  assert_int_equal(trm_linear_plan_make(target, params, &options, NULL, plan, &error), TRM_OK);
  trm_program *program = make_program(text, "mk2", NULL);
  const int64_t bytes = program->totals.memory_bytes;
  trm_program_free(program);
  trm_target_release(target);
  return bytes;
}

/* A product in a loop over parts of its result holds both operands, the whole result, the input
 * that was broadcast before the loop, and what one iteration needs. */
static void test_large_product(void **state) {
  (void)state;
  const trm_conv_params params = trm_conv_params_matmul(TRM_F32, TRM_F32, 1, 2048, 2048, 16384);
  trm_linear_plan plan;
  const int64_t bytes =
      bytes_of_product("HloModule m\nENTRY e {\n  a = f32[2048,2048] parameter(0)\n"
                       "  b = f32[2048,16384] parameter(1)\n  ROOT c = f32[2048,16384] dot(a, b), "
                       "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}",
                       &params, &plan);
  assert_true(plan.broadcast_input_before_loop && plan.partition.out_channels_serial > 1);
  const int64_t arrays = (int64_t)4 * (2048 * 2048 + 2 * 2048 * 16384);
  assert_true(bytes > arrays + (int64_t)plan.temp_bytes_total * 99 / 100);
}

/* A rearranged operand lies beside the vertices' copies of it until they are filled. */
static void test_rearranged_product(void **state) {
  (void)state;
  const trm_conv_params params = trm_conv_params_matmul(TRM_F16, TRM_F16, 1, 94208, 45, 2);
  trm_linear_plan plan;
  const int64_t bytes = bytes_of_product(
      "HloModule m\nENTRY e {\n  a = f16[94208,45] parameter(0)\n  b = f16[45,2] parameter(1)\n"
      "  ROOT c = f16[94208,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}",
      &params, &plan);
  const trm_plan_phase *convolve = NULL;
  for (uint32_t i = 0; i < plan.num_phases; ++i) {
    if (plan.phases[i].step == TRM_STEP_PARTIALS) convolve = &plan.phases[i];
  }
  assert_non_null(convolve);
  assert_true(convolve->exchange_temp_bytes > convolve->temp_bytes);
  const int64_t operands = (int64_t)2 * (94208 * 45 + 45 * 2);
  const int64_t buffers = (int64_t)convolve->exchange_temp_bytes * convolve->tiles;
  assert_true(bytes > operands + buffers * 95 / 100);
}

/* `b` reads `a` once, to lay its elements out anew: without another reader nothing holds `a` while
 * the products are summed. */
static void test_operand_dies_when_rearranged(void **state) {
  (void)state;
  static const char *const roots[] = {
      "ROOT r = f32[256,257,257,2] negate(b)",
      "ROOT r = (f32[256,257,257,2], f32[256,256,256,2]) tuple(b, a)"};
  int64_t live[2];
  for (int k = 0; k < 2; ++k) {
    char text[1024];
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e {\n  x = f32[256,255,255,2] parameter(0)\n"
             "  w = f32[2,2,2,2] parameter(1)\n"
             "  a = f32[256,256,256,2] convolution(x, w), window={size=2x2 pad=1_1x1_1}, "
             "dim_labels=b01f_01io->b01f\n"
             "  b = f32[256,257,257,2] convolution(a, w), window={size=2x2 pad=1_1x1_1}, "
             "dim_labels=b01f_01io->b01f\n  %s\n}",
             roots[k]);
    trm_program *p = make_program(text, "mk2", NULL);
    live[k] = live_at(p, "b/");
    check_sums(p);
    trm_program_free(p);
  }
  assert_true(live[1] - live[0] > (int64_t)4 * 256 * 256 * 256 * 2 * 9 / 10);
}

static bool has_step(const trm_program *p, const char *begin, const char *part) {
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const char *name = p->steps[s].name;
    if (strncmp(name, begin, strlen(begin)) == 0 && strstr(name, part) != NULL) return true;
  }
  return false;
}

/* An operand that lies elsewhere is brought to the plan's tiles once if more than seven tiles read
 * it; otherwise each of these fetches it. */
static void test_many_readers_share_a_copy(void **state) {
  (void)state;
  static const int64_t columns[] = {16, 64, 2048, 16384};
  trm_error error;
  trm_target *target = NULL;
  assert_int_equal(trm_target_load("mk2", &target, &error), TRM_OK);
  const trm_plan_options options = trm_plan_options_default();
  bool seen[2] = {false, false};
  for (size_t c = 0; c < sizeof columns / sizeof *columns; ++c) {
    const int n = (int)columns[c];
    const trm_conv_params params = trm_conv_params_matmul(TRM_F32, TRM_F32, 1, 1024, 1024, n);
    trm_linear_plan plan;
    assert_int_equal(trm_linear_plan_make(target, &params, &options, NULL, &plan, &error), TRM_OK);
    if (plan.inputs_rearranged) continue;
    char text[512];
    snprintf(text, sizeof text,
             "HloModule m\nENTRY e {\n  a = f32[1024,1024] parameter(0)\n"
             "  b = f32[1024,%d] parameter(1)\n"
             "  c = f32[1024,1024] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
             "  ROOT d = f32[1024,%d] dot(c, b), lhs_contracting_dims={1}, "
             "rhs_contracting_dims={0}\n}",
             n, n);
    trm_program *p = make_program(text, "mk2", NULL);
    const bool is_shared = plan.inputs.share > 7;
    assert_int_equal(has_step(p, "d/", "actsRearranged"), is_shared);
    seen[is_shared] = true;
    trm_program_free(p);
  }
  trm_target_release(target);
  assert_true(seen[0] && seen[1]);
}

/* The bytes that a plan of a chain of products holds, each with a fusion behind it. */
static size_t bytes_of_chain(int length) {
  trm_text text = {0};
  trm_text_format(&text, "HloModule m\nENTRY e {\n  x0 = f32[64,64] parameter(0)\n"
                         "  w = f32[64,64] parameter(1)\n  b = f32[64,64] parameter(2)\n");
  for (int i = 0; i < length; ++i) {
    trm_text_format(&text,
                    "  d%d = f32[64,64] dot(x%d, w), lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={0}\n  a%d = f32[64,64] add(d%d, b)\n"
                    "  x%d = f32[64,64] tanh(a%d)\n",
                    i, i, i, i, i + 1, i);
  }
  trm_text_format(&text, "  ROOT r = f32[64,64] negate(x%d)\n}", length);
  trm_program *p = make_program(text.data, "mk2", NULL);
  const size_t bytes = p->arena.total + p->owned_module->arena.total + p->ipu_module->arena.total +
                       p->num_steps * sizeof *p->steps + p->num_variables * sizeof *p->variables +
                       p->num_compute_sets * sizeof *p->compute_sets +
                       p->num_sources * sizeof *p->sources;
  trm_program_free(p);
  trm_text_free(&text);
  return bytes;
}

/* A plan of 100 000 instructions has room in 2 GB: so many bytes are left for each three here, with
 * the module before the passes, and half as much again while vectors grow. */
static void test_plan_of_a_long_chain_is_small(void **state) {
  (void)state;
  const size_t bytes = (bytes_of_chain(512) - bytes_of_chain(256)) / 256;
  if (bytes > 20000) fail_msg("a product and its fusion take %zu bytes of the plan", bytes);
}

/* Bytes by tile, found tile by tile: each tile's peak, and at every step all of them. */
static void check_by_tile(const trm_program *p) {
  const uint32_t all = p->num_ipus * p->tiles_per_ipu;
  int64_t *live = calloc(all, sizeof *live), *peak = calloc(all, sizeof *peak);
  uint32_t *peak_step = calloc(all, sizeof *peak_step);
  int64_t *base = calloc(all, sizeof *base);
  for (uint32_t step = 0; step < p->num_steps; ++step) {
    memset(live, 0, all * sizeof *live);
    for (uint32_t v = 0; v < p->num_variables; ++v) {
      const trm_program_variable *o = &p->variables[v];
      const bool now = !o->always_live && o->live.begin <= step && step < o->live.end;
      int64_t *to = o->always_live && step == 0 ? base : now ? live : NULL;
      if (to == NULL || o->mapping.kind == TRM_MAPPING_NONE) continue;
      trm_mapping_add_bytes(&o->mapping, 1, 8, to + o->mapping.ipu * p->tiles_per_ipu);
    }
    int64_t total = 0, worst = -1;
    uint32_t worst_tile = 0;
    for (uint32_t t = 0; t < all; ++t) {
      total += live[t] + base[t];
      if (live[t] + base[t] > worst) worst = live[t] + base[t], worst_tile = t;
      if (live[t] > peak[t]) peak[t] = live[t], peak_step[t] = step;
    }
    assert_int_equal(p->steps[step].live_total, total);
    assert_int_equal(p->steps[step].live_worst, worst);
    assert_int_equal(p->steps[step].live_worst_tile, worst_tile);
  }
  const trm_program_memory *m = &p->memory;
  for (uint32_t t = 0; t < all; ++t) {
    assert_int_equal(m->always_live[t] + m->not_always_live[t] + m->gaps[t], peak[t] + base[t]);
    assert_int_equal(m->peak_step[t], peak_step[t]);
  }
  free(live);
  free(peak);
  free(peak_step);
  free(base);
}

static uint32_t count_classes(const trm_program *p) {
  trm_arena arena = {0};
  trm_tile_classes classes;
  trm_error error;
  assert_int_equal(trm_tile_classes_find(p, &arena, &classes, &error), TRM_OK);
  const uint32_t count = classes.first[p->num_ipus];
  uint32_t sum = 0;
  for (uint32_t k = 0; k < count; ++k) sum += classes.size[k];
  assert_int_equal(sum, p->num_ipus * p->tiles_per_ipu);
  trm_arena_free(&arena);
  return count;
}

/* The sweeps go by classes of equal tiles; they find what a sweep by tiles finds. */
static void test_classes_of_tiles(void **state) {
  (void)state;
  static const char *const programs[] = {
      "HloModule m\nENTRY e { x = f32[5,7] parameter(0)  y = f32[3] parameter(1)\n"
      "  z = f16[129] parameter(2)  a = f32[5,7] tanh(x)  b = f32[3] negate(y)\n"
      "  c = f16[129] multiply(z, z)  d = f32[5,7] add(a, x)\n"
      "  ROOT t = (f32[5,7], f32[3], f16[129]) tuple(d, b, c) }",
      "HloModule m\nENTRY e { x = f16[4,14,14,64] parameter(0)  w = f16[3,3,64,96] parameter(1)\n"
      "  c = f16[4,14,14,96] convolution(x, w), window={size=3x3 pad=1_1x1_1},\n"
      "    dim_labels=b01f_01io->b01f, sharding={maximal device=0}\n"
      "  t = f16[4,14,14,96] tanh(c), sharding={maximal device=1}\n"
      "  s = f16[4,14,14,96] multiply(t, c), sharding={maximal device=1}\n"
      "  ROOT n = f16[4,14,14,96] negate(s), sharding={maximal device=1} }",
      "HloModule m\nENTRY e { a = f32[700,300] parameter(0)  b = f32[300,500] parameter(1)\n"
      "  i = s32[17] parameter(2)  z = f32[] constant(0)\n"
      "  d = f32[700,500] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  t = f32[500,700] transpose(d), dimensions={1,0}  e = f32[500,700] exponential(t)\n"
      "  k = s32[17] add(i, i)\n"
      "  ROOT r = (f32[500,700], s32[17]) tuple(e, k) }"};
  for (size_t i = 0; i < sizeof programs / sizeof *programs; ++i) {
    trm_program *p = make_program(programs[i], i == 1 ? "mk2" : "mk1", NULL);
    check_by_tile(p);
    assert_true(count_classes(p) < p->num_ipus * p->tiles_per_ipu / 2);
    trm_program_free(p);
  }
}

/* Vertices and their code are on the tiles of what they compute, exchange code on those that read.
 * The product lies where the second array does. */
static void test_vertices_lie_with_their_results(void **state) {
  (void)state;
  enum { PIECES = 100 };
  trm_program_options options = trm_program_default_options();
  options.compile_ipu_code = true;
  trm_program *p =
      make_program("HloModule m\nENTRY e { a = s32[3200] parameter(0)  b = s32[3200] parameter(1)\n"
                   "  c = s32[3200] parameter(2)  x = s32[3200] negate(a)\n"
                   "  r = s32[3200] reverse(c), dimensions={0}\n"
                   "  y = s32[3200] multiply(b, r)  z = s32[3200] negate(c)\n"
                   "  ROOT t = (s32[3200], s32[3200], s32[3200]) tuple(x, y, z) }",
                   "mk2", &options);
  check_sums(p);
  static const trm_memory_category categories[] = {TRM_CATEGORY_VERTEX_INSTANCE_STATE,
                                                   TRM_CATEGORY_VERTEX_CODE,
                                                   TRM_CATEGORY_INTERNAL_EXCHANGE_CODE};
  static const bool has[][3] = {{true, true, true}, {true, true, true}, {false, true, false}};
  for (size_t k = 0; k < 3; ++k) {
    const int64_t *bytes = p->memory.by_category[categories[k]];
    for (uint32_t array = 0; array < 3; ++array) {
      for (uint32_t t = 1; t < PIECES; ++t) {
        assert_int_equal(bytes[array * PIECES + t], bytes[array * PIECES]);
      }
      assert_int_equal(bytes[array * PIECES] > 0, has[k][array]);
    }
    assert_int_equal(bytes[3 * PIECES], 0);
  }
  trm_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_operand_dies_when_rearranged),
      cmocka_unit_test(test_many_readers_share_a_copy),
      cmocka_unit_test(test_large_product),
      cmocka_unit_test(test_rearranged_product),
      cmocka_unit_test(test_parts_are_added_in_place),
      cmocka_unit_test(test_parts_die_one_by_one),
      cmocka_unit_test(test_halves_stay_halves),
      cmocka_unit_test(test_other_readers_keep_it_wide),
      cmocka_unit_test(test_gradient_statistics_of_halves),
      cmocka_unit_test(test_recomputation),
      cmocka_unit_test(test_published_report),
      cmocka_unit_test(test_random_numbers_wait),
      cmocka_unit_test(test_plan_of_a_long_chain_is_small),
      cmocka_unit_test(test_classes_of_tiles),
      cmocka_unit_test(test_vertices_lie_with_their_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
