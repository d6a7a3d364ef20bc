/* Pipelines: the schedules' cycles and stashes are those of the formulas (program.h). */
#include "base/memory.h"
#include "plan_case.h"

enum { STAGES = 4, BATCHES = 16 };

#define MARK(text, stage, phase)                                                                \
  trm_text_format((text), ", sharding={maximal device=%d}, frontend_attributes={pipeline_stage="  \
                  "\"%d\"%s}\n", (stage), (stage), (phase))
static const char state[] =
    "(s32[], f32[256,256], f32[256,256], f32[256,256], f32[256,256], f32[256,256])";
#define BACKWARD ",pipeline_phase=\"backward\""

/* Each stage multiplies by its weights and takes a tanh; its backward stage reads the tanh. */
static void write_body(trm_text *text) {
  trm_text_format(text, "turn { s = %s parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
                  "one = s32[] constant(1)  j = s32[] add(i, one)\n"
                  "x = f32[256,256] get-tuple-element(s), index=5\n", state);
  trm_text_format(text, "z0 = f32[256,256] negate(x)"); /* the first stage's input, of this turn */
  MARK(text, 0, "");
  for (int s = 0; s < STAGES; ++s) {
    trm_text_format(text, "w%d = f32[256,256] get-tuple-element(s), index=%d\n", s, s + 1);
    trm_text_format(text, "d%d = f32[256,256] dot(%s%d, w%d), lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={0}", s, s == 0 ? "z" : "a", s == 0 ? 0 : s - 1, s);
    MARK(text, s, "");
    trm_text_format(text, "a%d = f32[256,256] tanh(d%d)", s, s);
    MARK(text, s, "");
  }
  for (int s = STAGES - 1; s >= 0; --s) {
    char gradient[16];
    snprintf(gradient, sizeof gradient, s == STAGES - 1 ? "a%d" : "e%d",
             s == STAGES - 1 ? s : s + 1);
    trm_text_format(text, "g%d = f32[256,256] multiply(%s, a%d)", s, gradient, s);
    MARK(text, s, BACKWARD);
    trm_text_format(text, "e%d = f32[256,256] dot(g%d, w%d), lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={1}", s, s, s);
    MARK(text, s, BACKWARD);
  }
  trm_text_format(text, "ROOT r = %s tuple(j, w0, w1, w2, w3, e0) }\n", state);
}

static trm_program *plan_with(const char *schedule, bool recompute, const char *more) {
  trm_text text = {0};
  trm_text_format(&text, "HloModule m\n");
  write_body(&text);
  for (int outer = 0; outer < 2; ++outer) {
    trm_text_format(&text, "until%d { s = %s parameter(0)\n"
                    "i = s32[] get-tuple-element(s), index=0  n = s32[] constant(%d)\n"
                    "ROOT c = pred[] compare(i, n), direction=LT }\n", outer, state,
                    outer ? 1 : BATCHES);
  }
  trm_text_format(&text, "update { s = %s parameter(0)\n"
                  "i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)\n"
                  "k = s32[] add(i, one)  zero = s32[] constant(0)\n", state);
  for (int e = 1; e <= 5; ++e) {
    trm_text_format(&text, "q%d = f32[256,256] get-tuple-element(s), index=%d\n", e, e);
  }
  trm_text_format(&text, "t = %s tuple(zero, q1, q2, q3, q4, q5)\n"
                  "l = %s while(t), condition=until0, body=turn\n", state, state);
  for (int e = 1; e <= 5; ++e) {
    trm_text_format(&text, "p%d = f32[256,256] get-tuple-element(l), index=%d\n", e, e);
  }
  trm_text_format(&text, "ROOT r = %s tuple(k, p1, p2, p3, p4, p5) }\n"
                  "ENTRY e { z = s32[] constant(0)\n", state);
  for (int e = 1; e <= 5; ++e) {
    trm_text_format(&text, "q%d = f32[256,256] parameter(%d)\n", e, e - 1);
  }
  trm_text_format(&text, "t = %s tuple(z, q1, q2, q3, q4, q5)\n"
                  "w = %s while(t), condition=until1, body=update, "
                  "frontend_attributes={pipeline=\"{\\\"stages\\\":4,\\\"training\\\":true,"
                  "\\\"device_mapping\\\":[0,1,2,3],\\\"schedule\\\":\\\"%s\\\"%s}\"}\n"
                  "ROOT o = f32[256,256] get-tuple-element(w), index=5 }\n",
                  state, state, schedule, more);
  trm_program_options options = trm_program_default_options();
  options.recompute = recompute;
  trm_program *p = plan_text(text.data, "mk2", &options);
  trm_text_free(&text);
  check_sums(p);
  return p;
}

static trm_program *plan(const char *schedule, bool recompute) {
  return plan_with(schedule, recompute, "");
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
    assert_int_equal(g->stages[e].ipu, e < STAGES ? e : 2 * STAGES - 1 - e);
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
                       sequential->totals.global_exchange_cycles +
                       sequential->totals.host_cycles + sequential->totals.collective_cycles +
                       sequential->totals.sync_cycles + sequential->totals.control_cycles -
                       sequential->totals.cycles);
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

/* The second stage's matmuls get less memory for temporaries than the others. */
static void test_options_of_stages(void **unused) {
  (void)unused;
  trm_program *p = plan_with(
      "Grouped", false,
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
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
