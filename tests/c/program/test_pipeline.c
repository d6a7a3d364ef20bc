/* Pipelines: the schedules' cycles and stashes are those of the formulas (program.h). */
#include "pipeline_case.h"

/* The IPUs of stages that are on the shards of their numbers. */
static const uint32_t snake[STAGES] = {0, 1, 3, 2};

static trm_program *plan(const char *schedule, bool recompute) {
  return make_pipeline(schedule, recompute, "");
}

/* The most that one IPU's forward or backward stages take. */
static int64_t slowest(const trm_program *p, bool backward) {
  int64_t most = 0;
  for (uint32_t e = 0; e < p->pipeline.num_entries; ++e) {
    const trm_pipeline_stage *stage = &p->pipeline.stages[e];
    if (stage->is_backward == backward && stage->cycles > most) most = stage->cycles;
  }
  return most;
}

static int64_t stashed_bytes(const trm_program *p) {
  int64_t bytes = 0;
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    if (strncmp(p->variables[v].name, "stash of ", 9) == 0) bytes += p->variables[v].total_bytes;
  }
  return bytes;
}

static void test_schedules(void **unused) {
  (void)unused;
  trm_program *grouped = plan("Grouped", false), *interleaved = plan("Interleaved", false);
  trm_program *sequential = plan("Sequential", false);
  const trm_pipeline *g = &grouped->pipeline, *i = &interleaved->pipeline;
  const trm_pipeline *s = &sequential->pipeline;
  assert_true(g->present && i->present && s->present);
  assert_int_equal(g->num_stages, STAGES);
  assert_int_equal(g->num_entries, 2 * STAGES);
  assert_int_equal(g->mini_batches, BATCHES);
  assert_int_equal(grouped->num_ipus, STAGES);
  const int64_t forward = slowest(grouped, false), backward = slowest(grouped, true);
  int64_t sum = 0;
  for (uint32_t e = 0; e < g->num_entries; ++e) {
    assert_true(g->stages[e].cycles > 0);
    assert_int_equal(g->stages[e].ipu, snake[e < STAGES ? e : 2 * STAGES - 1 - e]);
    sum += g->stages[e].cycles;
  }
  assert_int_equal(g->total_cycles, (BATCHES + STAGES - 1) * (forward + backward));
  assert_int_equal(i->total_cycles,
                   2 * (BATCHES + STAGES - 1) * (forward > backward ? forward : backward));
  assert_int_equal(s->total_cycles, BATCHES * sum);
  assert_true(g->total_cycles <= i->total_cycles && i->total_cycles < s->total_cycles);
  assert_true(grouped->totals.cycles < sequential->totals.cycles);
  assert_int_equal(sequential->totals.overlapped_cycles,
                   sequential->totals.compute_cycles + sequential->totals.copy_cycles +
                       sequential->totals.exchange_cycles +
                       sequential->totals.global_exchange_cycles + sequential->totals.host_cycles +
                       sequential->totals.collective_cycles + sequential->totals.sync_cycles +
                       sequential->totals.control_cycles - sequential->totals.cycles);
  /* Stashes: 2 (S - 1 - s) + 1, S - s, and 1 mini-batches. */
  for (uint32_t stage = 0; stage < STAGES; ++stage) {
    assert_int_equal(g->stages[stage].stash_depth, 2 * (STAGES - 1 - stage) + 1);
    assert_int_equal(i->stages[stage].stash_depth, STAGES - stage);
    assert_int_equal(s->stages[stage].stash_depth, 1);
    assert_true(g->stages[stage].stash_bytes >= 256 * 256 * 4);
  }
  assert_true(stashed_bytes(grouped) > stashed_bytes(interleaved));
  assert_true(stashed_bytes(interleaved) > 0);
  assert_int_equal(stashed_bytes(sequential), 0);
  assert_true(grouped->totals.memory_bytes > sequential->totals.memory_bytes);
  trm_program_free(grouped);
  trm_program_free(interleaved);
  trm_program_free(sequential);
}

static void test_recomputation(void **unused) {
  (void)unused;
  trm_program *kept = plan("Grouped", false), *again = plan("Grouped", true);
  assert_true(again->pipeline.recomputation && !kept->pipeline.recomputation);
  /* Fewer bytes wait; the backward stages take their forward stages' cycles too. */
  assert_true(stashed_bytes(again) < stashed_bytes(kept));
  assert_true(again->pipeline.total_cycles > kept->pipeline.total_cycles);
  for (uint32_t s = 0; s < STAGES; ++s) {
    const uint32_t b = 2 * STAGES - 1 - s;
    assert_int_equal(again->pipeline.stages[b].cycles,
                     kept->pipeline.stages[b].cycles + kept->pipeline.stages[s].cycles);
  }
  trm_program_free(kept);
  trm_program_free(again);
}

#define ON(stage)                                 \
  ", metadata={op_name=\"layer" #stage "/op\"}, " \
  "frontend_attributes={pipeline_stage=\"" #stage "\"}\n"
#define BACK(stage) \
  ", frontend_attributes={pipeline_stage=\"" #stage "\",pipeline_phase=\"backward\"}\n"
#define STATE "(s32[], f32[256,256], f32[256,256], f32[256,256])"

/* Two stages, and possibly empty ones, on one IPU. */
static trm_program *plan_on_one_ipu(int stages, const char *mapping) {
  trm_text text = {0};
  trm_text_format(
      &text,
      "HloModule m\n"
      "turn { s = " STATE " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
      "one = s32[] constant(1)  j = s32[] add(i, one)\n"
      "w0 = f32[256,256] get-tuple-element(s), index=1\n"
      "w1 = f32[256,256] get-tuple-element(s), index=2\n"
      "x = f32[256,256] get-tuple-element(s), index=3\n"
      "two = f32[] constant(2)  twos = f32[256,256] broadcast(two), dimensions={}" ON(1) "z = f32[256,256] multiply(x, twos)" ON(0) "d0 = f32[256,256] dot(z, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}" ON(
          0) "a0 = f32[256,256] tanh(d0)\n"
             "d1 = f32[256,256] dot(a0, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}" ON(
                 1) "a1 = f32[256,256] tanh(d1)\n"
                    "h0 = f32[256,256] exponential(d0)" BACK(0) "g1 = f32[256,256] multiply(a1, d1)" BACK(1) "e1 = f32[256,256] dot(g1, w1), lhs_contracting_dims={1}, rhs_contracting_dims={1}" BACK(1) "g0 = f32[256,256] multiply(e1, h0)" BACK(0) "e0 = f32[256,256] dot(g0, w0), lhs_contracting_dims={1}, rhs_contracting_dims={1}" BACK(
                        0) "ROOT r = " STATE " tuple(j, w0, w1, e0) }\n"
                           "until { s = " STATE
                           " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
                           "n = s32[] constant(4)  ROOT c = pred[] compare(i, n), direction=LT }\n"
                           "update { s = " STATE
                           " parameter(0)  k = s32[] get-tuple-element(s), index=0\n"
                           "one = s32[] constant(1)  l = s32[] add(k, one)  zero = s32[] constant(0)\n"
                           "p1 = f32[256,256] get-tuple-element(s), index=1\n"
                           "p2 = f32[256,256] get-tuple-element(s), index=2\n"
                           "p3 = f32[256,256] get-tuple-element(s), index=3\n"
                           "t = " STATE " tuple(zero, p1, p2, p3)\n"
                           "w = " STATE " while(t), condition=until, body=turn\n"
                           "q1 = f32[256,256] get-tuple-element(w), index=1\n"
                           "q2 = f32[256,256] get-tuple-element(w), index=2\n"
                           "q3 = f32[256,256] get-tuple-element(w), index=3\n"
                           "ROOT r = " STATE " tuple(l, q1, q2, q3) }\n"
                           "once { s = " STATE
                           " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
                           "n = s32[] constant(1)  ROOT c = pred[] compare(i, n), direction=LT }\n"
                           "ENTRY e { k = s32[] constant(0)  a = f32[256,256] parameter(0)\n"
                           "b = f32[256,256] parameter(1)  c = f32[256,256] parameter(2)\n"
                           "t = " STATE " tuple(k, a, b, c)\n"
                           "w = " STATE
                           " while(t), condition=once, body=update, frontend_attributes={pipeline=\""
                           "{\\\"stages\\\":%d,\\\"training\\\":true,\\\"device_mapping\\\":[%s],"
                           "\\\"schedule\\\":\\\"Sequential\\\"}\"}\n"
                           "ROOT o = f32[256,256] get-tuple-element(w), index=3 }",
      stages, mapping);
  trm_program_options options = trm_program_default_options();
  options.recompute = true;
  trm_program *p = make_program(text.data, "mk2", &options);
  trm_text_free(&text);
  return p;
}

/* Two stages on one IPU. a0 and a1 name no stage, as passes leave instructions, and h0 could run in
 * the forward pass: each step is in the stage of what it reads, and stages follow each other. The
 * constant of the second stage is one that passes share. So what the first stage computes again
 * lives only in its own backward stage. */
static void test_stages_of_one_ipu(void **unused) {
  (void)unused;
  trm_program *p = plan_on_one_ipu(2, "0,0");
  int32_t before = -1, highest = -1;
  uint32_t begin = 0; /* of the first stage's backward stage */
  for (uint32_t s = p->pipeline.loop_step + 1; s < p->steps[p->pipeline.loop_step].end; ++s) {
    if (p->steps[s].stage < 0) continue;
    assert_true(p->steps[s].stage >= before);
    before = p->steps[s].stage;
    if (before == 3 && highest < 3) begin = s;
    highest = before;
  }
  assert_int_equal(highest, 3);
  uint32_t again = 0;
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    const trm_program_variable *one = &p->variables[v];
    if (one->source == TRM_NO_INDEX || strcmp(p->sources[one->source].hlo_name, "d0") != 0)
      continue;
    if (one->live.end > begin) {
      ++again;
      assert_true(one->live.begin >= begin);
    }
  }
  assert_true(again > 0);
  trm_program_free(p);
}

/* Shards of a program that is a pipeline are none of its stages, of which there may be more. */
static void test_shards_of_a_pipeline(void **unused) {
  (void)unused;
  trm_program *p = plan_on_one_ipu(4, "0,0,0,0"), *two;
  assert_int_equal(p->pipeline.num_entries, 8);
  assert_int_equal(trm_program_create_split(p, 2, &two, NULL), TRM_OK);
  assert_int_equal(two->num_ipus, 2);
  check_sums(two);
  trm_program_free(two);
  trm_program_free(p);
}

/* The update is behind the loop and names no IPU; a momentum, which nothing else reads, is where
 * the sum of the gradients is, though a scalar of the update lies on IPU 0. */
static void check_momentum(const char *update) {
#define TURN "(s32[], f32[64,64], f32[64,64], f32[64,64], f32[])"
  char text[2048];
  snprintf(text, sizeof text,
           "HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }\n"
           "turn { s = " TURN " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "one = s32[] constant(1)  j = s32[] add(i, one)\n"
           "w = f32[64,64] get-tuple-element(s), index=1\n"
           "x = f32[64,64] get-tuple-element(s), index=2\n"
           "g = f32[64,64] get-tuple-element(s), index=3\n"
           "a = f32[] get-tuple-element(s), index=4\n"
           "y = f32[64,64] tanh(x), sharding={maximal device=0}\n"
           "d = f32[64,64] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
           "sharding={maximal device=1}\n"
           "h = f32[64,64] add(g, d), sharding={maximal device=1}\n"
           "ROOT r = " TURN " tuple(j, w, y, h, a) }\n"
           "until { s = " TURN " parameter(0)  i = s32[] get-tuple-element(s), index=0\n"
           "n = s32[] constant(4)  ROOT c = pred[] compare(i, n), direction=LT }\n"
           "ENTRY e { m = f32[64,64] parameter(0)  w = f32[64,64] parameter(1)\n"
           "x = f32[64,64] parameter(2)  c = f32[] parameter(3)  b = f32[] sine(c)\n"
           "i = s32[] constant(0)  z = f32[] constant(0)\n"
           "zeros = f32[64,64] broadcast(z), dimensions={}\n"
           "t = " TURN " tuple(i, w, x, zeros, b)\n"
           "l = " TURN " while(t), condition=until, body=turn\n"
           "g = f32[64,64] get-tuple-element(l), index=3\n"
           "a = f32[] get-tuple-element(l), index=4\n"
           "all = f32[64,64] broadcast(a), dimensions={}\n"
           "%s  v = f32[64,64] subtract(w, n)\n"
           "ROOT o = (f32[64,64], f32[64,64]) tuple(n, v) }",
           update);
  trm_program *p = make_program(text, "mk2", NULL);
  uint32_t seen = 0;
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    if (!p->variables[v].is_updated) continue;
    assert_int_equal(p->variables[v].mapping.ipu, 1);
    ++seen;
  }
  assert_int_equal(seen, 2);
  trm_program_free(p);
}

static void test_momentum_is_with_its_weight(void **unused) {
  (void)unused;
  check_momentum("n = f32[64,64] add(m, g)");
  check_momentum("k = f32[64,64] multiply(all, m)  n = f32[64,64] add(k, g)");
  check_momentum("k = f32[64,64] multiply(all, g)  n = f32[64,64] subtract(m, k)");
  check_momentum("k = f32[64,64] multiply(m, all)  f = f32[64,64] multiply(g, all)\n"
                 "n = f32[64,64] subtract(k, f)");
}

/* The public getters say what the planner knows. */
static void test_getters(void **unused) {
  (void)unused;
  trm_program *p = plan("Interleaved", true);
  trm_program_pipeline_info info = {.size = sizeof info};
  trm_program_stage_info stage = {.size = sizeof stage};
  assert_true(trm_program_pipeline_get(p, &info));
  assert_string_equal(info.schedule, "Interleaved");
  assert_true(info.is_training && info.recomputation);
  assert_int_equal(info.num_stages, STAGES);
  assert_int_equal(info.mini_batches, BATCHES);
  assert_int_equal(info.total_cycles, p->pipeline.total_cycles);
  assert_string_equal(trm_program_step_type_name(p->steps[info.loop_step].type), "Repeat");
  for (uint32_t i = 0; i < 2 * STAGES; ++i) {
    assert_true(trm_program_stage_get(p, i, &stage));
    assert_int_equal(stage.is_backward, i >= STAGES);
    assert_int_equal(stage.ipu, snake[i < STAGES ? i : 2 * STAGES - 1 - i]);
    assert_int_equal(stage.cycles, p->pipeline.stages[i].cycles);
  }
  assert_false(trm_program_stage_get(p, 2 * STAGES, &stage));
  trm_program_free(p);
  p = make_program("HloModule m\nENTRY e { x = f32[4] parameter(0)  ROOT y = f32[4] add(x, x) }",
                   "mk2", NULL);
  assert_false(trm_program_pipeline_get(p, &info));
  assert_false(trm_program_stage_get(p, 0, &stage));
  trm_program_free(p);
}

/* The second stage's matmuls get less memory for temporaries than the others. */
static void test_options_of_stages(void **unused) {
  (void)unused;
  trm_program *p = make_pipeline("Grouped", false,
                                 ",\\\"options\\\":{\\\"forward\\\":[{},{\\\"matmul_options\\\":"
                                 "{\\\"availableMemoryProportion\\\":\\\"0.25\\\"}},{},{}]}");
  uint32_t seen[2] = {0, 0};
  for (uint32_t s = 0; s < p->num_sources; ++s) {
    if (p->sources[s].plan == NULL) continue;
    const bool second = strcmp(p->sources[s].hlo_name, "d1") == 0;
    const char *allowed = strstr(p->sources[s].plan, second ? "159744 allowed" : "383385 allowed");
    if (allowed == NULL) fail_msg("%s: %s", p->sources[s].hlo_name, p->sources[s].plan);
    ++seen[second];
  }
  assert_int_equal(seen[1], 1);
  assert_int_equal(seen[0], 2 * STAGES - 1);
  trm_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_schedules),
      cmocka_unit_test(test_recomputation),
      cmocka_unit_test(test_options_of_stages),
      cmocka_unit_test(test_stages_of_one_ipu),
      cmocka_unit_test(test_shards_of_a_pipeline),
      cmocka_unit_test(test_getters),
      cmocka_unit_test(test_momentum_is_with_its_weight),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
