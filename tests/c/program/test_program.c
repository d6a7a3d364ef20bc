/* Programs: loops, conditionals, shards, placement, writing in place, out of memory. */
#include "ipu/program/advice.h"
#include "ipu/program/draft.h"
#include "program_case.h"

#include "base/cycles.h"

#define SUM "sum { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }\n"

/* 6 x (29 + 3/2 a float) + 11 supervisor cycles + what the target adds to a compute set, for the
 * six workers' shares: docs/machine.md, the example. */
static void test_elementwise_formula(void **state) {
  (void)state;
  const char *text = "HloModule m\nENTRY e { a = f32[1472,120] parameter(0)\n"
                     "b = f32[1472,120] parameter(1)  ROOT c = f32[1472,120] add(a, b) }";
  trm_program *p = make_program(text, "mk2", NULL);
  const trm_program_step *step = find_step(p, "Op/Add");
  assert_non_null(step);
  const trm_program_compute_set *set = &p->compute_sets[step->compute_set];
  assert_int_equal(set->active_tiles, 1472);
  assert_int_equal(set->groups[0].cycles, 6 * (29 + 20 * 3 / 2) + 11);
  assert_int_equal(step->cycles, 6 * (29 + 30) + 11 + p->target->compute_set_cycles);
  assert_int_equal(set->flops, 1472 * 120);
  check_sums(p);
  trm_program_free(p);
}

static int64_t statistics_cycles(int feature) {
  char text[512];
  snprintf(text, sizeof text,
           "HloModule m\nENTRY e { x = f32[8,32,64,32] parameter(0)\n"
           "ROOT n = (f32[32], f32[32]) custom-call(x), "
           "custom_call_target=\"tremula.batch-norm-statistics\", "
           "backend_config=\"{\\\"feature_index\\\":%d}\" }",
           feature);
  trm_program *p = make_program(text, "mk2", NULL);
  const int64_t cycles = p->totals.cycles;
  trm_program_free(p);
  return cycles;
}

/* Which dimension that is, where two have the same length, the instruction says. */
static void test_batch_norm_feature(void **state) {
  (void)state;
  assert_int_not_equal(statistics_cycles(1), statistics_cycles(3));
}

/* Statistics are of the channels, in an instruction that a pass has taken apart, too. */
static void test_batch_norm_channels(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m\nENTRY e { x = f32[8,32,32,64] parameter(0)  s = f32[64] parameter(1)\n"
      "o = f32[64] parameter(2)  n = (f32[8,32,32,64], f32[64], f32[64])\n"
      "batch-norm-training(x, s, o), epsilon=0.001, feature_index=3\n"
      "ROOT y = f32[8,32,32,64] get-tuple-element(n), index=0 }",
      "mk2", NULL);
  const trm_program_step *step = find_step(p, "VarToInvStdDev");
  assert_non_null(step);
  assert_int_equal(p->compute_sets[step->compute_set].flops, 2 * 64);
  trm_program_free(p);
}

#define LOOP_BODY(limit)                                                                           \
  "HloModule m\n"                                                                                  \
  "cond { s = (s32[], f32[64,64], f32[64,64], s32[]) parameter(0)\n"                               \
  "  i = s32[] get-tuple-element(s), index=0  " limit                                              \
  "  ROOT l = pred[] compare(i, n), direction=LT }\n"                                              \
  "body { s = (s32[], f32[64,64], f32[64,64], s32[]) parameter(0)\n"                               \
  "  i = s32[] get-tuple-element(s), index=0  two = s32[] constant(2)  j = s32[] add(i, two)\n"    \
  "  a = f32[64,64] get-tuple-element(s), index=1  w = f32[64,64] get-tuple-element(s), index=2\n" \
  "  m = s32[] get-tuple-element(s), index=3\n"                                                    \
  "  d = f32[64,64] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"               \
  "  ROOT r = (s32[], f32[64,64], f32[64,64], s32[]) tuple(j, d, w, m) }\n"
#define LOOP(limit)                                                                             \
  LOOP_BODY(limit)                                                                              \
  "ENTRY e { x = f32[64,64] parameter(0)  w = f32[64,64] parameter(1)  z = s32[] constant(1)\n" \
  "  m = s32[] parameter(2)\n"                                                                  \
  "  t = (s32[], f32[64,64], f32[64,64], s32[]) tuple(z, x, w, m)\n"                            \
  "  v = (s32[], f32[64,64], f32[64,64], s32[]) while(t), condition=cond, body=body\n"          \
  "  ROOT o = f32[64,64] get-tuple-element(v), index=1 }"

static void test_known_count(void **state) {
  (void)state;
  trm_program *p = make_program(LOOP("n = s32[] constant(10)"), "mk2", NULL);
  uint32_t loops = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    if (p->steps[s].type != TRM_STEP_TYPE_REPEAT || p->steps[s].ipu != -1) continue;
    ++loops;
    assert_int_equal(p->steps[s].repeat_count, 5); /* 1, 3, 5, 7, 9 */
    assert_false(p->steps[s].repeat_is_assumed);
    for (uint32_t c = s + 1; c < p->steps[s].end; ++c) {
      assert_true(p->steps[c].executions >= 5);
    }
  }
  assert_int_equal(loops, 1);
  assert_int_equal(count_steps(p, TRM_STEP_TYPE_REPEAT_WHILE), 0);
  check_sums(p);
  trm_program_free(p);
}

static void test_unknown_count(void **state) {
  (void)state;
  trm_program_options options = trm_program_default_options();
  const char *text = LOOP("n = s32[] get-tuple-element(s), index=3");
  trm_program *once = make_program(text, "mk2", &options);
  options.assumed_trip_count = 7;
  trm_program *p = make_program(text, "mk2", &options);
  const trm_program_step *loop = NULL;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    if (p->steps[s].type == TRM_STEP_TYPE_REPEAT_WHILE) loop = &p->steps[s];
  }
  assert_non_null(loop);
  assert_int_equal(loop->repeat_count, 7);
  assert_true(loop->repeat_is_assumed);
  assert_true(p->totals.cycles > once->totals.cycles);
  bool noted = false;
  for (size_t n = 0; trm_program_note(p, n) != NULL; ++n) {
    noted = noted || strstr(trm_program_note(p, n), "counted 7 times") != NULL;
  }
  assert_true(noted);
  for (size_t n = 0; trm_program_note(once, n) != NULL; ++n) {
    assert_null(strstr(trm_program_note(once, n), "counted 1 times"));
  }
  /* What is read in the loop lives as long as the loop. */
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    const trm_program_variable *variable = &p->variables[v];
    if (variable->is_input && !variable->always_live && variable->count == 1) {
      assert_true(variable->live.end >= loop->end);
    }
  }
  check_sums(p);
  trm_program_free(p);
  trm_program_free(once);
}

static void test_conditional(void **state) {
  (void)state;
  const char *text =
      "HloModule m\n"
      "cheap { p = f32[4096] parameter(0)  ROOT r = f32[4096] negate(p) }\n"
      "dear { p = f32[4096] parameter(0)  ROOT r = f32[4096] sine(p) }\n"
      "ENTRY e { c = pred[] parameter(0)  x = f32[4096] parameter(1)\n"
      "ROOT y = f32[4096] conditional(c, x, x), true_computation=cheap, false_computation=dear }";
  trm_program *p = make_program(text, "mk2", NULL);
  uint32_t branches = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    if (p->steps[s].type != TRM_STEP_TYPE_IF) continue;
    for (uint32_t c = s + 1; c < p->steps[s].end; c = p->steps[c].end, ++branches) {
      assert_true(p->steps[c].executions == (p->steps[s].taken == c ? 1 : 0));
    }
    assert_non_null(strstr(p->steps[p->steps[s].taken].name, "dear"));
  }
  assert_int_equal(branches, 2);
  check_sums(p);
  trm_program_free(p);
}

static void test_views_are_free_until_copied(void **state) {
  (void)state;
  const char *views = "HloModule m\nENTRY e { x = f32[64,32] parameter(0)\n"
                      "t = f32[32,64] transpose(x), dimensions={1,0}  r = f32[2048] reshape(t)\n"
                      "s = f32[1024] slice(r), slice={[0:1024]}  ROOT n = f32[1024] negate(s) }";
  trm_program *p = make_program(views, "mk2", NULL);
  assert_int_equal(p->totals.copy_cycles, 0);
  assert_int_equal(p->num_compute_sets, 1);
  check_sums(p);
  trm_program_free(p);
}

static void test_weights_are_placed_for_their_consumer(void **state) {
  (void)state;
  const char *text =
      "HloModule m\nENTRY e { x = f32[256,512] parameter(0)  w = f32[512,1024] parameter(1)\n"
      "r = f32[512,1024] reshape(w)\n"
      "ROOT d = f32[256,1024] dot(x, r), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
  trm_program *p = make_program(text, "mk2", NULL);
  int placed = 0;
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    if (!p->variables[v].is_input) continue;
    placed += p->variables[v].mapping.kind == TRM_MAPPING_GRID;
    /* Weights stay; activations are sent for each run. */
    assert_int_equal(p->variables[v].is_weight, p->variables[v].count == 512 * 1024);
    assert_int_equal(p->variables[v].always_live, p->variables[v].is_weight);
  }
  assert_int_equal(placed, 2);
  assert_int_equal(p->totals.weights_bytes, 512 * 1024 * 4);
  assert_int_equal(p->totals.host_bytes_in, 256 * 512 * 4);
  check_sums(p);
  trm_program_free(p);
}

static void test_updates_are_in_place(void **state) {
  (void)state;
  const char *text = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n"
                     "ENTRY e { w = f32[100000] parameter(0)  g = f32[100000] parameter(1)\n"
                     "ROOT u = f32[100000] subtract(w, g) }";
  trm_program *p = make_program(text, "mk2", NULL);
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    if (p->variables[v].count == 100000) assert_true(p->variables[v].is_input);
  }
  assert_int_equal(p->totals.host_bytes_out, 0);
  assert_int_equal(p->totals.copy_cycles, 0);
  check_sums(p);
  trm_program_free(p);
}

static void test_shards(void **state) {
  (void)state;
  const char *text =
      "HloModule m\nENTRY e { x = f32[128,256] parameter(0)  w = f32[256,256] parameter(1)\n"
      "v = f32[256,256] parameter(2)\n"
      "a = f32[128,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},"
      " sharding={maximal device=0}\n"
      "b = f32[128,256] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0},"
      " sharding={maximal device=1}\n"
      "ROOT c = f32[128,256] dot(b, v), lhs_contracting_dims={1}, rhs_contracting_dims={0},"
      " sharding={maximal device=1} }";
  trm_program *p = make_program(text, "mk2", NULL);
  assert_int_equal(p->num_ipus, 2);
  assert_int_equal(count_steps(p, TRM_STEP_TYPE_GLOBAL_EXCHANGE), 1);
  assert_true(p->totals.global_exchange_cycles > 0);
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    if (p->variables[v].is_weight) { /* each where it is used */
      const bool second = strstr(p->variables[v].name, "v") == p->variables[v].name;
      assert_int_equal(p->variables[v].mapping.ipu, second ? 1 : 0);
    }
  }
  check_sums(p);
  trm_program_free(p);
}

/* Four shards, one after the other: each weight is on the IPU that its shard has in the order. */
static void test_selection_orders(void **state) {
  (void)state;
  static const uint32_t expected[][4] = {[TRM_SELECTION_AUTO] = {0, 1, 2, 3},
                                         [TRM_SELECTION_ZIGZAG] = {0, 1, 2, 3},
                                         [TRM_SELECTION_SNAKE] = {0, 1, 3, 2},
                                         [TRM_SELECTION_HOOF] = {0, 2, 3, 1}};
  char text[2048] = "HloModule m\nENTRY e { a0 = f32[8,8] parameter(0)\n";
  for (int s = 0; s < 4; ++s) {
    const size_t used = strlen(text);
    snprintf(text + used, sizeof text - used,
             "w%d = f32[8,8] parameter(%d)\n%sa%d = f32[8,8] dot(a%d, w%d), "
             "lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={maximal device=%d}\n",
             s, s + 1, s == 3 ? "ROOT " : "", s + 1, s, s, s);
  }
  strcat(text, "}");
  for (uint32_t order = TRM_SELECTION_AUTO; order <= TRM_SELECTION_HOOF; ++order) {
    trm_program_options options = trm_program_default_options();
    options.selection_order = (trm_selection_order)order;
    trm_program *p = make_program(text, "mk2", &options);
    assert_int_equal(p->num_ipus, 4);
    uint32_t found = 0;
    for (uint32_t v = 0; v < p->num_variables; ++v) {
      const char *name = p->variables[v].name;
      if (!p->variables[v].is_weight || name[0] != 'w') continue;
      assert_int_equal(p->variables[v].mapping.ipu, expected[order][name[1] - '0']);
      ++found;
    }
    assert_int_equal(found, 4);
    check_sums(p);
    trm_program_free(p);
  }
}

/* Of more IPUs the snake goes by fours, and the hoof goes up the even ones, down the odd ones. */
static void test_selection_of_eight(void **state) {
  (void)state;
  static const uint32_t snake[8] = {0, 1, 3, 2, 4, 5, 7, 6}, hoof[8] = {0, 2, 4, 6, 7, 5, 3, 1};
  trm_program program = {.num_ipus = 8};
  for (uint32_t shard = 0; shard < 8; ++shard) {
    program.selection_order = TRM_SELECTION_SNAKE;
    assert_int_equal(trm_program_ipu_of_shard(&program, shard), snake[shard]);
    program.selection_order = TRM_SELECTION_HOOF;
    assert_int_equal(trm_program_ipu_of_shard(&program, shard), hoof[shard]);
  }
}

static void check_all_reduce(const char *text) {
  int64_t cycles[3];
  const uint32_t replicas[3] = {1, 2, 4};
  for (int r = 0; r < 3; ++r) {
    trm_program_options options = trm_program_default_options();
    options.replicas = replicas[r];
    trm_program *p = make_program(text, "mk2", &options);
    cycles[r] = p->totals.collective_cycles;
    check_sums(p);
    trm_program_free(p);
  }
  assert_int_equal(cycles[0], 0);
  /* A ring moves 2 (R - 1) / R of the array: 1 and 1.5 of it. */
  assert_true(cycles[1] > 0);
  const double ratio = (double)cycles[2] / (double)cycles[1];
  assert_true(ratio > 1.4 && ratio < 1.6);
}

static void test_collectives_cost_by_replicas(void **state) {
  (void)state;
  check_all_reduce("HloModule m\n" SUM "ENTRY e { x = f32[1000000] parameter(0)\n"
                   "ROOT r = f32[1000000] all-reduce(x), replica_groups={}, to_apply=sum }");
  check_all_reduce("HloModule m\nENTRY e { x = f32[1000000] parameter(0)\n"
                   "ROOT r = f32[1000000] custom-call(x), "
                   "custom_call_target=\"tremula.all-reduce\","
                   " backend_config=\"{\\\"op\\\":\\\"add\\\"}\" }");
}

static void test_int64_is_32_bit(void **state) {
  (void)state;
  const char *text = "HloModule m\nENTRY e { a = s64[4096] parameter(0)\n"
                     "c = s32[4096] convert(a)  ROOT n = s32[4096] negate(c) }";
  trm_program *p = make_program(text, "mk2", NULL);
  assert_int_equal(p->totals.host_bytes_in, 4096 * 4);
  assert_int_equal(p->num_compute_sets, 1); /* the conversion is none */
  trm_program_free(p);
}

/* A chain of large values that one tile's memory cannot hold. */
static const char too_large[] =
    "HloModule m\nENTRY e { x = f32[16384,8192] parameter(0)\n"
    "s = f32[16384,8192] sine(x), metadata={op_name=\"model/wave\" source_file=\"model.py\" "
    "source_line=41}\n"
    "t = f32[8192,16384] transpose(s), dimensions={1,0}\n"
    "c = f32[8192,16384] cosine(t)\n"
    "u = f32[16384,8192] transpose(c), dimensions={1,0}\n"
    "ROOT d = f32[16384,8192] multiply(u, s) }";

static void test_out_of_memory(void **state) {
  (void)state;
  trm_program *p = make_program(too_large, "mk2", NULL);
  assert_false(p->totals.fits);
  assert_true(p->totals.bytes_over > 0 && p->totals.tiles_over > 0);
  char *text = NULL, *again = NULL;
  trm_error error;
  assert_int_equal(trm_program_explain(p, true, &text, &error), TRM_OK);
  assert_int_equal(trm_program_explain(p, true, &again, &error), TRM_OK);
  assert_string_equal(text, again);
  /* The answer: bytes over, the step, what would help, in three lines. */
  char *lines[3] = {text, NULL, NULL};
  for (int l = 1; l < 3; ++l) {
    lines[l] = strchr(lines[l - 1], '\n');
    assert_non_null(lines[l]);
    *lines[l]++ = '\0';
  }
  char *rest = strchr(lines[2], '\n');
  assert_non_null(rest);
  *rest++ = '\0';
  assert_non_null(strstr(lines[0], "Out of memory: tile "));
  assert_non_null(strstr(lines[0], "more than the 638 976"));
  assert_non_null(strstr(lines[1], "The step that needs most is "));
  assert_non_null(strstr(lines[2], "What would help most: "));
  assert_non_null(strstr(rest, "model/wave (model.py:41)"));
  assert_non_null(strstr(rest, "float16 instead of float32"));
  trm_free(text);
  trm_free(again);
  assert_int_equal(trm_program_check_fits(p, &error), TRM_INTERNAL);
  assert_non_null(strstr(error.message,
                         "[Poplar][Compile engine] graph_memory_allocation_error: Out of memory"));
  check_sums(p);
  trm_program_free(p);
}

static bool stop_after_one(void *context, uint32_t plans) {
  *(uint32_t *)context = plans;
  return plans < 1;
}

/* An interrupted search gives what it found; whole ones give the same each time. */
static void test_search(void **state) {
  (void)state;
  trm_program *p = make_program(too_large, "mk2", NULL);
  trm_program_search *search;
  trm_program_advice advice = {.size = sizeof advice};
  uint32_t plans = 0;
  assert_int_equal(trm_program_search_fit(p, stop_after_one, &plans, &search, NULL), TRM_OK);
  assert_true(trm_program_search_stopped(search) && plans == 1);
  assert_true(trm_program_advice_get(search, 0, &advice));
  trm_program_search_free(search);
  assert_int_equal(trm_program_search_fit(p, NULL, NULL, &search, NULL), TRM_OK);
  assert_false(trm_program_search_stopped(search));
  size_t count = 0;
  bool fitted = true;
  for (; trm_program_advice_get(search, count, &advice); ++count) {
    assert_int_equal(advice.saved, p->totals.worst_tile_bytes - advice.worst_tile_bytes);
    assert_int_equal(advice.fits, advice.worst_tile_bytes <= p->totals.bytes_per_tile);
    assert_true(advice.is_planned == (advice.cycles > 0));
    assert_true(fitted || !advice.fits); /* what fits comes first */
    fitted = advice.fits;
  }
  assert_true(count >= 1); /* half precision; half the batch would not shrink the input */
  trm_program_advice unset = {0};
  assert_false(trm_program_advice_get(search, 0, &unset));
  trm_program_search_free(search);
  trm_program_search_free(NULL);
  trm_program_free(p);
}

static bool is_advised(const char *text, const char *advice) {
  trm_program *p = make_program(text, "mk2", NULL);
  char *block = NULL;
  assert_int_equal(trm_program_explain(p, true, &block, NULL), TRM_OK);
  assert_non_null(strstr(block, "What would help most: "));
  const bool is_there = strstr(block, advice) != NULL;
  trm_free(block);
  trm_program_free(p);
  return is_there;
}

#define SCALED_SUM(array, scalar)                                                                \
  "HloModule m\nENTRY e { x = " array " parameter(0)  s = " scalar " parameter(1)\n  t = " array \
  " tanh(x)  b = " array " broadcast(s), dimensions={}  u = " array                              \
  " multiply(t, b)\n  c = " array " cosine(x)  d = " array " sine(x)  e = " array                \
  " add(c, d)  ROOT r = " array " add(e, u) }"

/* Half precision helps only a program that states float32, not one in which the sum of a float16
 * array and a scaled one is computed in float32. */
static void test_half_is_advised_for_float32(void **state) {
  (void)state;
  assert_true(is_advised(SCALED_SUM("f32[16384,32768]", "f32[]"), "float16 instead of float32"));
  assert_false(is_advised(SCALED_SUM("f16[16384,32768]", "f16[]"), "float16 instead of float32"));
}

/* Half precision is not named for the few bytes that scalars of float32 beside halves save. */
static void test_a_few_bytes_are_no_help(void **state) {
  (void)state;
  trm_program *p = make_program("HloModule m\nENTRY e { x = f16[16384,32768] parameter(0)\n"
                                "  y = f32[65536] parameter(1)  z = f32[65536] tanh(y)\n"
                                "  c = f16[16384,32768] cosine(x)\n  ROOT t = (f16[16384,32768], "
                                "f32[65536]) tuple(c, z) }",
                                "mk2", NULL);
  trm_program_search *search;
  assert_int_equal(trm_program_search_fit(p, NULL, NULL, &search, NULL), TRM_OK);
  trm_program_advice advice = {.size = sizeof advice};
  for (size_t i = 0; trm_program_advice_get(search, i, &advice); ++i) {
    assert_true(advice.fits || advice.saved > 600);
    assert_string_not_equal(advice.text, "float16 instead of float32 for everything");
  }
  trm_program_search_free(search);
  trm_program_free(p);
}

/* The line of the best change says no more of what is worked out than the list does. */
static void test_what_is_worked_out_may_fit(void **state) {
  (void)state;
  const char *text = SCALED_SUM("f16[4096,32768]", "f16[]");
  assert_true(is_advised(text, "What would help most: half the batch (worked out, not planned), "
                               "which may save up to 182 370 bytes; it may then fit.\n"));
  assert_true(is_advised(text, "half the batch (worked out, not planned); it may then fit\n"));
}

/* A product whose temporaries are within a tenth of a tile has the same plan with a tenth. */
static void test_a_proportion_that_changes_no_plan_is_not_advised(void **state) {
  (void)state;
  assert_false(is_advised("HloModule m\nENTRY e { y = f32[16384,32768] parameter(0)\n"
                          "  x = f32[256,256] parameter(1)  w = f32[256,256] parameter(2)\n"
                          "  d = f32[256,256] dot(x, w), lhs_contracting_dims={1}, "
                          "rhs_contracting_dims={0}\n"
                          "  ROOT r = (f32[256,256], f32[16384,32768]) tuple(d, y) }",
                          "availableMemoryProportion"));
}

/* What variables begin with is made without data, so that no batch can be halved. */
static void test_a_program_without_data_has_no_batch(void **state) {
  (void)state;
  assert_false(is_advised("HloModule m\nENTRY e { x = f32[16384,32768] iota(), iota_dimension=0\n"
                          "  t = f32[16384,32768] tanh(x)  c = f32[16384,32768] cosine(x)\n"
                          "  ROOT r = f32[16384,32768] add(c, t) }",
                          "half the batch"));
}

enum { LAYERS = 24 };

/* A row of products, which an IPU has no room for; with an IPU for each, or NULL. */
static trm_program *plan_row(const uint32_t *ipus, const trm_program_options *options) {
  trm_text text = {0};
  trm_text_format(&text, "HloModule m\nENTRY e {\n  x0 = f32[512,4096] parameter(0)\n");
  for (int i = 0; i < LAYERS; ++i) {
    char place[64] = "";
    if (ipus != NULL) snprintf(place, sizeof place, ", sharding={maximal device=%u}", ipus[i]);
    trm_text_format(&text,
                    "  w%d = f32[4096,4096] parameter(%d)\n"
                    "  d%d = f32[512,4096] dot(x%d, w%d), lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={0}, metadata={op_name=\"layer%d/MatMul\"}%s\n"
                    "  x%d = f32[512,4096] tanh(d%d), metadata={op_name=\"layer%d/Tanh\"}%s\n",
                    i, i + 1, i, i, i, i, place, i + 1, i, i, place);
  }
  trm_text_format(&text, "  ROOT r = f32[512,4096] negate(x%d)\n}", LAYERS);
  trm_program *p = make_program(text.data, "mk2", options);
  trm_text_free(&text);
  return p;
}

/* The change that promises most is planned, and no other one: the advice costs one plan. Of shards
 * it is the least power of two that fits. */
static void test_one_plan_of_advice(void **state) {
  (void)state;
  trm_program *p = plan_row(NULL, NULL), *half;
  trm_advice_list list = {0};
  assert_int_equal(trm_program_find_advice(p, &list, NULL), TRM_OK);
  assert_true(list.count > 2);
  const trm_advice *best = &list.items[0];
  assert_true(best->fits && best->is_planned && best->num_ipus > 1);
  for (size_t a = 1; a < list.count; ++a) assert_false(list.items[a].is_planned);
  if (best->num_ipus > 2) {
    assert_int_equal(trm_program_create_split(p, best->num_ipus / 2, &half, NULL), TRM_OK);
    assert_false(half->totals.fits);
    trm_program_free(half);
  }
  VECTOR_FREE(&list);
  trm_program_free(p);
}

/* The cut that the search proposes, written into the program, fits with as many bytes and cycles as
 * the search says. */
static void test_proposed_cut_fits(void **state) {
  (void)state;
  trm_program *p = plan_row(NULL, NULL);
  assert_false(p->totals.fits);
  trm_program_search *search;
  assert_int_equal(trm_program_search_fit(p, NULL, NULL, &search, NULL), TRM_OK);
  trm_program_smallest smallest = {.size = sizeof smallest};
  assert_true(trm_program_smallest_get(search, 0, &smallest));
  assert_true(smallest.ipus > 2 && smallest.with[0] == '\0');
  uint32_t ipus[LAYERS] = {0};
  for (uint32_t c = 0; c + 1 < smallest.ipus; ++c) {
    trm_program_cut cut = {.size = sizeof cut};
    int layer;
    assert_true(trm_program_smallest_cut_get(search, 0, c, &cut));
    assert_int_equal(sscanf(cut.before, "layer%d", &layer), 1);
    for (; layer < LAYERS; ++layer) ipus[layer] = c + 1;
  }
  trm_program *cut = plan_row(ipus, NULL);
  assert_true(cut->totals.fits);
  assert_true(cut->num_ipus >= smallest.ipus);
  assert_int_equal(cut->totals.worst_tile_bytes, smallest.worst_tile_bytes);
  assert_int_equal(cut->totals.cycles, smallest.cycles);
  trm_program_free(cut);
  trm_program_search_free(search);
  trm_program_free(p);
}

/* What a cut says of its shard's IPU, here on a ring, is where its weight is. */
static void test_a_cut_knows_its_ipu(void **state) {
  (void)state;
  static const uint32_t ring[] = {1, 3, 2};
  trm_program_options options = trm_program_default_options();
  options.selection_order = TRM_SELECTION_SNAKE;
  trm_program *p = plan_row(NULL, &options), *four;
  assert_int_equal(trm_program_create_split(p, 4, &four, NULL), TRM_OK);
  for (uint32_t c = 0; c < 3; ++c) {
    trm_program_cut cut = {.size = sizeof cut};
    int layer;
    assert_true(trm_program_cut_get(four, c, &cut));
    assert_int_equal(cut.ipu, ring[c]);
    assert_int_equal(sscanf(cut.before, "layer%d", &layer), 1);
    bool found = false;
    for (uint32_t v = 0; v < four->num_variables; ++v) {
      const trm_program_variable *o = &four->variables[v];
      if (!o->is_weight || o->source == TRM_NO_INDEX) continue;
      const trm_program_source *source = &four->sources[o->source];
      const trm_instruction *parameter =
          &four->module->computations[source->computation].instructions[source->instruction];
      if (parameter->number != layer + 1) continue;
      assert_int_equal(o->mapping.ipu, cut.ipu);
      found = true;
    }
    assert_true(found);
  }
  trm_program_free(four);
  trm_program_free(p);
}

enum { CHAIN = 1000 };

/* The state of vertices is most of what a long row of small steps needs. It is cut with them, so
 * that the advice is two IPUs. */
static void test_vertices_are_cut_with_their_steps(void **state) {
  (void)state;
  trm_text text = {0};
  trm_text_format(&text, "HloModule m\nENTRY e {\n  x0 = f32[64,256] parameter(0)\n"
                         "  w = f32[256,256] parameter(1)\n");
  for (int i = 0; i < CHAIN; ++i) {
    const char *shape = "f32[64,256]";
    trm_text_format(&text,
                    "  d%d = %s dot(x%d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                    "metadata={op_name=\"layer%d/MatMul\"}\n"
                    "  a%d = %s add(d%d, x0), metadata={op_name=\"layer%d/Add\"}\n"
                    "  x%d = %s tanh(a%d), metadata={op_name=\"layer%d/Tanh\"}\n",
                    i, shape, i, i, i, shape, i, i, i + 1, shape, i, i);
  }
  trm_text_format(&text, "  ROOT r = f32[64,256] negate(x%d)\n}", CHAIN);
  trm_program *p = make_program(text.data, "mk2", NULL), *two;
  trm_text_free(&text);
  assert_int_equal(trm_program_create_split(p, 2, &two, NULL), TRM_OK);
  assert_true(10 * two->totals.worst_tile_bytes < 6 * p->totals.worst_tile_bytes);
  trm_program_free(two);
  trm_program_free(p);
}

/* The temporaries of a product of halves are none of float32, though the program states some. */
static void test_temporaries_of_halves(void **state) {
  (void)state;
#define PRODUCTS(type)                                                                       \
  "HloModule m\nENTRY e { x = " type "[8192,16384] parameter(0)  v = " type                  \
  "[16384,4096] parameter(1)  w = " type "[4096,16384] parameter(2)\n  y = " type            \
  "[8192,4096] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "              \
  "metadata={op_name=\"one/dot\"}\n  z = " type                                              \
  "[8192,16384] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "             \
  "metadata={op_name=\"two/dot\"}\n  i = f32[4] iota(), iota_dimension=0\n  ROOT t = (" type \
  "[8192,16384], f32[4]) tuple(z, i) }"
  assert_true(is_advised(PRODUCTS("f32"), "float16 instead of float32"));
  assert_true(is_advised(PRODUCTS("f16"), "availableMemoryProportion 0.1"));
  assert_false(is_advised(PRODUCTS("f16"), "float16 instead of float32"));
#undef PRODUCTS
}

static void test_fits(void **state) {
  (void)state;
  trm_program *p = make_program("HloModule m\nENTRY e { x = f32[8] parameter(0)  ROOT n = f32[8] "
                                "negate(x) }",
                                "mk2", NULL);
  assert_true(p->totals.fits);
  assert_int_equal(trm_program_check_fits(p, NULL), TRM_OK);
  char *text = NULL;
  assert_int_equal(trm_program_explain(p, false, &text, NULL), TRM_OK);
  assert_true(strncmp(text, "It fits: ", 9) == 0);
  trm_free(text);
  /* Code is left out unless it is asked for, and that is said. */
  assert_int_equal(trm_program_category_bytes(p, TRM_CATEGORY_VERTEX_CODE), 0);
  assert_non_null(strstr(trm_program_note(p, 0), "code and stacks are not counted"));
  trm_program_free(p);
  trm_program_options options = trm_program_default_options();
  options.compile_ipu_code = true;
  /* Integers are sent for each run; weights would be sent by code that is no step's. */
  p = make_program("HloModule m\nENTRY e { x = s32[8] parameter(0)  ROOT n = s32[8] negate(x) }",
                   "mk2", &options);
  assert_true(trm_program_category_bytes(p, TRM_CATEGORY_VERTEX_CODE) > 0);
  check_sums(p);
  /* The steps' code is that of the categories. */
  int64_t code = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const trm_mapping mapping = trm_spread_mapping(&p->steps[s].code);
    code += trm_mapping_total_bytes(&mapping);
  }
  assert_int_equal(code, trm_program_category_bytes(p, TRM_CATEGORY_CONTROL_CODE) +
                             trm_program_category_bytes(p, TRM_CATEGORY_INTERNAL_EXCHANGE_CODE) +
                             trm_program_category_bytes(p, TRM_CATEGORY_HOST_EXCHANGE_CODE) +
                             trm_program_category_bytes(p, TRM_CATEGORY_GLOBAL_EXCHANGE_CODE));
  trm_program_free(p);
}

static void test_bad_options(void **state) {
  (void)state;
  const char *text = "HloModule m\nENTRY e { x = f32[8] parameter(0)  ROOT n = f32[8] negate(x) }";
  trm_module *module = NULL;
  trm_target *target = NULL;
  trm_error error;
  assert_int_equal(trm_module_read(text, strlen(text), "test", &module, &error), TRM_OK);
  assert_int_equal(trm_target_load(NULL, &target, &error), TRM_OK);
  const struct {
    const char *word;
    trm_program_options options;
  } cases[] = {
#define SIZED .size = sizeof(trm_program_options)
#define BAD(word_, ...)                                                   \
  {                                                                       \
    word_, { SIZED, .replicas = 1, .assumed_trip_count = 1, __VA_ARGS__ } \
  }
      BAD("availableMemoryProportion of convolutions", .conv_memory_proportion = 1.5),
      BAD("availableMemoryProportion of matmuls", .matmul_memory_proportion = -0.1),
      BAD("I/O tiles", .io_tiles = 1472),
      BAD("model_error", .model_error = 2),
      BAD("1024", .num_ipus = 5000),
      BAD("Unrecognised option 'availableMemoryProporton'",
          .convolution_options = "{\"availableMemoryProporton\":\"1\"}"),
      BAD("JSON", .matmul_options = "[1]"),
      BAD("must be text", .matmul_options = "{\"partialsType\":1}"),
      BAD("65536", .tiles_per_ipu = 65537),
      BAD("framework_steps is 7", .framework_steps = (trm_framework_steps)7),
      {"assumed_trip_count", {SIZED, .replicas = 1}},
      {"replica", {SIZED, .assumed_trip_count = 1}},
#undef SIZED
#undef BAD
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    trm_program *program = NULL;
    /* What Poplar has not is refused in its words, as an internal error. */
    const bool is_unknown = strncmp(cases[c].word, "Unrecognised option", 19) == 0;
    assert_int_equal(trm_program_create(module, false, target, &cases[c].options, &program, &error),
                     is_unknown ? TRM_INTERNAL : TRM_INVALID_ARGUMENT);
    if (strstr(error.message, cases[c].word) == NULL) {
      fail_msg("'%s' does not name '%s'", error.message, cases[c].word);
    }
    assert_null(program);
  }
  trm_module_free(module);
  trm_target_release(target);
}

static void test_program_of_an_executable(void **state) {
  (void)state;
  const char *text =
      "HloModule m\nENTRY e { x = f32[64] parameter(0)  ROOT n = f32[64] negate(x) }";
  const trm_option options[] = {
      {"target", "mk1"}, {"ipus", "2"}, {"available_memory_proportion", "0.25"}};
  trm_module *module = NULL;
  trm_executable *executable = NULL;
  trm_program *p = NULL;
  trm_error error;
  assert_int_equal(trm_module_read(text, strlen(text), "test", &module, &error), TRM_OK);
  assert_int_equal(trm_compile(module, options, 3, &executable, &error), TRM_OK);
  trm_module_free(module);
  assert_int_equal(trm_program_create_for_executable(executable, NULL, NULL, &p, &error), TRM_OK);
  trm_executable_free(executable); /* the program keeps it */
  assert_int_equal(p->tiles_per_ipu, 1216);
  assert_int_equal(p->totals.replicas, 2);
  assert_true(p->options.matmul_memory_proportion == 0.25);
  trm_program_step_info step = {.size = sizeof step};
  assert_true(trm_program_step_get(p, 0, &step));
  assert_int_equal(step.end, p->num_steps);
  assert_false(trm_program_step_get(p, p->num_steps, &step));
  trm_program_variable_info variable = {.size = sizeof variable};
  assert_true(trm_program_variable_get(p, 0, &variable));
  assert_string_equal(variable.name, "x");
  trm_program_tile_info tile = {.size = sizeof tile};
  assert_true(trm_program_tile_get(p, 1215, &tile));
  assert_false(trm_program_tile_get(p, 1216, &tile));
  check_sums(p);
  trm_program_free(p);
}

/* A chain of many instructions: nothing recurses, nothing is quadratic. */
static void test_long_chain(void **state) {
  (void)state;
  trm_text text = {0};
  trm_text_format(&text, "HloModule m\nENTRY e { x0 = f32[64] parameter(0)\n");
  const int length = 20000;
  for (int i = 1; i <= length; ++i) {
    trm_text_format(&text, "%sx%d = f32[64] %s(x%d)\n", i == length ? "ROOT " : "", i,
                    i % 2 ? "sine" : "cosine", i - 1);
  }
  trm_text_format(&text, "}");
  trm_module *module = NULL;
  trm_target *target = NULL;
  trm_program *p = NULL;
  trm_error error;
  assert_int_equal(trm_module_read(text.data, text.length, "test", &module, &error), TRM_OK);
  assert_int_equal(trm_target_load(NULL, &target, &error), TRM_OK);
  assert_int_equal(trm_program_create(module, true, target, NULL, &p, &error), TRM_OK);
  assert_int_equal(p->num_compute_sets, length);
  assert_true(p->totals.fits);
  trm_program_free(p);
  trm_module_free(module);
  trm_target_release(target);
  trm_text_free(&text);
}

/* Every allocation fails once: each failure is a status and leaks nothing. */
static void test_allocation_failures(void **state) {
  (void)state;
  const char *text = LOOP("n = s32[] constant(10)");
  trm_module *module = NULL;
  trm_target *target = NULL;
  trm_error error;
  assert_int_equal(trm_module_read(text, strlen(text), "test", &module, &error), TRM_OK);
  assert_int_equal(trm_target_load(NULL, &target, &error), TRM_OK);
  int failures = 0, successes = 0; /* a cache that cannot grow is no failure */
  for (int64_t n = 0; n < 5000 && successes < 50; ++n) {
    trm_program *p = NULL;
    trm_allocation_fail_after(n);
    const trm_status status = trm_program_create(module, true, target, NULL, &p, &error);
    trm_allocation_fail_after(-1);
    trm_program_free(p);
    if (status == TRM_OK) {
      ++successes;
    } else {
      assert_int_equal(status, TRM_RESOURCE_EXHAUSTED);
      ++failures;
      successes = 0;
    }
  }
  assert_true(failures > 10);
  trm_module_free(module);
  trm_target_release(target);
}

/* The compiler of a marked layer knows the number of replicas, which no vertex computes. */
static void test_marked_number_of_replicas(void **state) {
  (void)state;
#define MARK ", frontend_attributes={popnn_word=\"replication-normalise\",popnn_part=\"n\"}\n"
  trm_program *p = make_program(
      "HloModule m\nENTRY e { x = f32[3,4] parameter(0)\n"
      "c = s32[] custom-call(), custom_call_target=\"tremula.replication-factor\"" MARK
      "f = f32[] convert(c)" MARK "one = f32[] constant(1)" MARK "d = f32[] divide(one, f)" MARK
      "b = f32[3,4] broadcast(d), dimensions={}" MARK "ROOT y = f32[3,4] multiply(x, b)" MARK "}",
      "mk2", NULL);
  assert_int_equal(p->num_compute_sets, 1);
  trm_program_free(p);
}

/* Loops of so many turns that not even three of them can be added up. */
static void test_endless_loops(void **state) {
  (void)state;
  trm_program_options options = trm_program_default_options();
  options.assumed_trip_count = (uint64_t)1 << 53;
  trm_program *p = make_program(
      LOOP_BODY(
          "n = s32[] get-tuple-element(s), index=3") "ENTRY e { t = (s32[], f32[64,64], f32[64,64], s32[]) parameter(0)\n"
                                                     "  u = (s32[], f32[64,64], f32[64,64], s32[]) while(t), condition=cond, body=body\n"
                                                     "  v = (s32[], f32[64,64], f32[64,64], s32[]) while(u), condition=cond, body=body\n"
                                                     "  w = (s32[], f32[64,64], f32[64,64], s32[]) while(v), condition=cond, body=body\n"
                                                     "  ROOT o = f32[64,64] get-tuple-element(w), index=1 }",
      "mk2", &options);
  assert_int_equal(count_steps(p, TRM_STEP_TYPE_REPEAT_WHILE), 3);
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const bool is_endless = s == 0 || p->steps[s].type == TRM_STEP_TYPE_REPEAT_WHILE;
    if (is_endless) assert_int_equal(p->steps[s].cycles, TRM_MOST_CYCLES);
  }
  assert_int_equal(p->totals.cycles, TRM_MOST_CYCLES);
  assert_int_equal(p->totals.compute_cycles, TRM_MOST_CYCLES);
  trm_program_free(p);
  assert_int_equal(trm_add_cycles(INT64_MAX, INT64_MAX), TRM_MOST_CYCLES);
  assert_int_equal(trm_add_cycles(INT64_MIN, INT64_MIN), -TRM_MOST_CYCLES);
  assert_int_equal(trm_add_cycles(3, -5), -2);
  assert_int_equal(trm_multiply_cycles(UINT64_MAX, INT64_MAX), TRM_MOST_CYCLES);
  assert_int_equal(trm_multiply_cycles(3, 5), 15);
  assert_int_equal(trm_limit_cycles(1e300), TRM_MOST_CYCLES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_elementwise_formula),
      cmocka_unit_test(test_batch_norm_channels),
      cmocka_unit_test(test_batch_norm_feature),
      cmocka_unit_test(test_known_count),
      cmocka_unit_test(test_unknown_count),
      cmocka_unit_test(test_endless_loops),
      cmocka_unit_test(test_conditional),
      cmocka_unit_test(test_views_are_free_until_copied),
      cmocka_unit_test(test_weights_are_placed_for_their_consumer),
      cmocka_unit_test(test_updates_are_in_place),
      cmocka_unit_test(test_shards),
      cmocka_unit_test(test_selection_orders),
      cmocka_unit_test(test_selection_of_eight),
      cmocka_unit_test(test_collectives_cost_by_replicas),
      cmocka_unit_test(test_int64_is_32_bit),
      cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_search),
      cmocka_unit_test(test_half_is_advised_for_float32),
      cmocka_unit_test(test_a_few_bytes_are_no_help),
      cmocka_unit_test(test_what_is_worked_out_may_fit),
      cmocka_unit_test(test_a_proportion_that_changes_no_plan_is_not_advised),
      cmocka_unit_test(test_a_program_without_data_has_no_batch),
      cmocka_unit_test(test_one_plan_of_advice),
      cmocka_unit_test(test_proposed_cut_fits),
      cmocka_unit_test(test_a_cut_knows_its_ipu),
      cmocka_unit_test(test_vertices_are_cut_with_their_steps),
      cmocka_unit_test(test_temporaries_of_halves),
      cmocka_unit_test(test_fits),
      cmocka_unit_test(test_bad_options),
      cmocka_unit_test(test_program_of_an_executable),
      cmocka_unit_test(test_long_chain),
      cmocka_unit_test(test_allocation_failures),
      cmocka_unit_test(test_marked_number_of_replicas),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
