/* The state of an optimizer that replicas share out: what each keeps, moves and computes. */
#include "program_case.h"

enum { ELEMENTS = 64 * 1472, BYTES = 4 * ELEMENTS };

/* Momentum on a gradient that is added up over the replicas, `place` being the update's attribute.
 * `result` is the fourth element of the loop's state: "s" or, to keep the reduced gradient, "r". */
static trm_program *plan(const char *place, const char *result, uint32_t replicas,
                         int64_t minimum_remote_bytes) {
  char mark[96], text[4096];
  snprintf(mark, sizeof mark, "frontend_attributes={weight_update=\"%s\"}", place);
  snprintf(text, sizeof text,
           "HloModule u, input_output_alias={ {1}: (0, {}, may-alias), {2}: (1, {}, may-alias) }\n"
           "sum { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }\n"
           "goes { p = (s32[], f32[64,1472], f32[64,1472], f32[64,1472]) parameter(0)\n"
           "  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)\n"
           "  ROOT less = pred[] compare(i, n), direction=LT }\n"
           "body { p = (s32[], f32[64,1472], f32[64,1472], f32[64,1472]) parameter(0)\n"
           "  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)\n"
           "  j = s32[] add(i, one)\n"
           "  m = f32[64,1472] get-tuple-element(p), index=1\n"
           "  w = f32[64,1472] get-tuple-element(p), index=2\n"
           "  g = f32[64,1472] get-tuple-element(p), index=3\n"
           "  s = f32[64,1472] add(g, w)\n"
           "  r = f32[64,1472] all-reduce(s), to_apply=sum, %s\n"
           "  h = f32[64,1472] add(m, r), %s\n"
           "  v = f32[64,1472] subtract(w, h), %s\n"
           "  ROOT t = (s32[], f32[64,1472], f32[64,1472], f32[64,1472]) tuple(j, h, v, %s) }\n"
           "ENTRY e { m = f32[64,1472] parameter(0)  w = f32[64,1472] parameter(1)\n"
           "  g = f32[64,1472] parameter(2)  zero = s32[] constant(0)\n"
           "  t = (s32[], f32[64,1472], f32[64,1472], f32[64,1472]) tuple(zero, m, w, g)\n"
           "  ROOT l = (s32[], f32[64,1472], f32[64,1472], f32[64,1472]) while(t), "
           "condition=goes, body=body }",
           mark, mark, mark, result);
  trm_program_options options = trm_program_default_options();
  options.replicas = replicas;
  options.minimum_remote_bytes = minimum_remote_bytes;
  trm_program *p = make_program(text, "mk2", &options);
  check_sums(p);
  return p;
}

/* The first step whose last part has this name, or NULL. */
static const trm_program_step *step_of(const trm_program *p, const char *name) {
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const char *slash = strrchr(p->steps[s].name, '/');
    if (slash != NULL && strcmp(slash + 1, name) == 0) return &p->steps[s];
  }
  return NULL;
}

/* Cycles of the longest step of this name. */
static int64_t cycles_of(const trm_program *p, const char *name) {
  int64_t most = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    const bool longer = p->steps[s].cycles > most;
    if (longer && strstr(p->steps[s].name, name) != NULL) most = p->steps[s].cycles;
  }
  assert_true(most > 0);
  return most;
}

/* But for rounding. */
static void check_quarter(const trm_program *parts, const trm_program *whole, const char *name) {
  const int64_t all = cycles_of(whole, name);
  assert_in_range(4 * cycles_of(parts, name), all - 4, all + 4);
}

static void test_each_replica_has_a_part(void **state) {
  (void)state;
  trm_program *whole = plan("offload", "s", 4, 128);
  trm_program *parts = plan("offload,sharded", "s", 4, 128);
  assert_int_equal(whole->totals.remote_bytes, BYTES);
  assert_int_equal(parts->totals.remote_bytes, BYTES / 4);
  assert_null(step_of(whole, "ReduceScatter"));
  assert_null(step_of(whole, "AllGather"));
  assert_null(step_of(parts, "AllReduce"));
  assert_non_null(step_of(whole, "AllReduce"));
  assert_non_null(step_of(parts, "ReduceScatter"));
  assert_non_null(step_of(parts, "AllGather"));
  /* An all-reduce is as many steps of the ring as both. */
  assert_true(whole->totals.collective_cycles > 0);
  assert_int_equal(parts->totals.collective_cycles, whole->totals.collective_cycles);
  check_quarter(parts, whole, "RemoteBufferRead");
  check_quarter(parts, whole, "RemoteBufferWrite");
  /* 16 elements a tile instead of 64. */
  assert_true(parts->totals.compute_cycles < whole->totals.compute_cycles);
  assert_true(parts->totals.flops < whole->totals.flops);
  trm_program_free(whole);
  trm_program_free(parts);
}

/* Nothing is shared out with one replica, on tiles, or below the smallest remote tensor; and a
 * gradient that something else needs is reduced whole. */
static void test_what_is_not_shared_out(void **state) {
  (void)state;
  const struct {
    const char *place, *result;
    uint32_t replicas;
    int64_t minimum, remote;
  } cases[] = {{"offload,sharded", "s", 1, 128, BYTES},
               {"keep,sharded", "s", 4, 128, 0},
               {"offload,sharded", "s", 4, BYTES + 1, 0},
               {"offload,sharded", "r", 4, 128, BYTES / 4}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    trm_program *p = plan(cases[k].place, cases[k].result, cases[k].replicas, cases[k].minimum);
    assert_int_equal(p->totals.remote_bytes, cases[k].remote);
    assert_null(step_of(p, "ReduceScatter"));
    trm_program_free(p);
  }
}

/* Bytes of host exchange code on a tile, and the number of copies, of a program that updates two
 * variables in remote memory. */
static int64_t host_code(int rows, int other_rows, uint32_t *out_copies) {
  char text[1024];
  snprintf(text, sizeof text,
           "HloModule u, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }\n"
           "ENTRY e { m = f32[%d,1472] parameter(0)  n = f32[%d,1472] parameter(1)\n"
           "  g = f32[%d,1472] parameter(2)  h = f32[%d,1472] parameter(3)\n"
           "  a = f32[%d,1472] add(m, g), frontend_attributes={weight_update=\"offload\"}\n"
           "  b = f32[%d,1472] add(n, h), frontend_attributes={weight_update=\"offload\"}\n"
           "  ROOT t = (f32[%d,1472], f32[%d,1472]) tuple(a, b) }",
           rows, other_rows, rows, other_rows, rows, other_rows, rows, other_rows);
  trm_program_options options = trm_program_default_options();
  options.compile_ipu_code = true;
  trm_program *p = make_program(text, "mk2", &options);
  check_sums(p);
  int64_t bytes = 0;
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    const trm_program_variable *one = &p->variables[v];
    if (one->category == TRM_CATEGORY_HOST_EXCHANGE_CODE) bytes += one->total_bytes;
  }
  *out_copies = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) *out_copies += p->steps[s].is_remote;
  trm_program_free(p);
  return bytes / 1472;
}

/* Variables of one size are one buffer in remote memory, with one copy in each direction. */
static void test_copies_of_one_size_share_their_code(void **state) {
  (void)state;
  uint32_t copies, others;
  const int64_t same = host_code(64, 64, &copies), different = host_code(64, 65, &others);
  assert_int_equal(copies, 4);
  assert_int_equal(others, 4);
  assert_in_range(different - same, 2 * 144, 2 * 144 + 16);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_replica_has_a_part),
      cmocka_unit_test(test_what_is_not_shared_out),
      cmocka_unit_test(test_copies_of_one_size_share_their_code),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
