/* Every allocation of reading, compiling, saving, loading and running fails once: each failure is
 * a status, and nothing leaks (the sanitizers see to that). */
#include "../run.h"
#include "base/memory.h"

static const char text[] =
    "HloModule m\n"
    "sum { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }\n"
    "twice { p = f32[4,4] parameter(0)  ROOT d = f32[4,4] add(p, p) }\n"
    "turn { p = f32[4,4] parameter(0)  c = f32[4,4] call(p), to_apply=twice\n"
    "  ROOT r = f32[4,4] transpose(c), dimensions={1,0} }\n"
    "same { ROOT p = f32[4,4] parameter(0) }\n"
    "cond { s = (s32[], f32[4,4], f32[4,4], f32[4,4]) parameter(0)\n"
    "  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(4)\n"
    "  ROOT l = pred[] compare(i, n), direction=LT }\n"
    "body { s = (s32[], f32[4,4], f32[4,4], f32[4,4]) parameter(0)\n"
    "  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)  j = s32[] add(i, one)\n"
    "  x = f32[4,4] get-tuple-element(s), index=1  a = f32[4,4] get-tuple-element(s), index=2\n"
    "  xt = f32[4,4] transpose(x), dimensions={1,0}  e = f32[4,4] exponential(xt)\n"
    "  d = f32[4,4] dot(a, e), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  h = f16[4,4] convert(d)  g = f32[4,4] convert(h)\n"
    "  s3 = f32[4,4] get-tuple-element(s), index=3  b = bf16[4,4] convert(a)\n"
    "  b2 = bf16[4,4] add(b, b)  w = f32[4,4] convert(b2)\n"
    "  u = f32[4,4] dot(w, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
    "  v = f32[4,4] add(s3, u)\n"
    "  q = f32[4,4] conditional(i, g, g, g), branch_computations={twice, turn, same}\n"
    "  ROOT r = (s32[], f32[4,4], f32[4,4], f32[4,4]) tuple(j, x, q, v) }\n"
    "ENTRY e { p = f32[4,4] parameter(0)  z = s32[] constant(0)  zero = f32[] constant(0.25)\n"
    "  b = f32[4,4] broadcast(zero), dimensions={}  b2 = f32[4,4] multiply(b, b)\n"
    "  k = f32[4] constant({1, 2, 3, 4})  k2 = f32[4] add(k, k)\n"
    "  t = (s32[], f32[4,4], f32[4,4], f32[4,4]) tuple(z, p, b2, b2)\n"
    "  w = (s32[], f32[4,4], f32[4,4], f32[4,4]) while(t), condition=cond, body=body\n"
    "  y = f32[4,4] get-tuple-element(w), index=2\n"
    "  s3 = f32[4,4] get-tuple-element(w), index=3  y3 = f32[4,4] add(y, s3)\n"
    "  r = f32[4] reduce(y3, zero), dimensions={0},\n"
    "  to_apply=sum  m = f32[4] multiply(r, k2)\n"
    "  ROOT o = (f32[4], f32[4,4], f32[4,4]) tuple(m, y, p) }\n";

static trm_status all(const char *key, trm_error *error) {
  const trm_option option = {key, "true"};
  float p[16] = {0}, m[4], y[16], q[16];
  const void *inputs[1] = {p};
  void *outputs[3] = {m, y, q}, *data = NULL;
  size_t size = 0;
  char *printed = NULL;
  trm_module *module = NULL;
  trm_executable *executable = NULL, *loaded = NULL;
  trm_engine *engine = NULL;
  trm_status status = trm_module_read(text, sizeof text - 1, "test", &module, error);
  if (status == TRM_OK) status = trm_compile(module, &option, 1, &executable, error);
  if (status == TRM_OK) status = trm_executable_print(executable, &printed, error);
  if (status == TRM_OK) status = trm_executable_serialize(executable, &data, &size, error);
  if (status == TRM_OK) status = trm_executable_deserialize(data, size, &loaded, error);
  if (status == TRM_OK) status = trm_engine_create(loaded, &engine, error);
  if (status == TRM_OK) status = trm_engine_run(engine, inputs, NULL, outputs, error);
  trm_engine_free(engine);
  trm_executable_free(loaded);
  trm_executable_free(executable);
  trm_free(data);
  trm_free(printed);
  trm_module_free(module);
  return status;
}

static void fail_every_allocation(const char *key) {
  trm_error error;
  if (all(key, &error) != TRM_OK) fail_msg("%s", error.message);
  /* A kernel that gets no memory may be replaced by another: only many successes are the end. */
  for (int64_t n = 0, successes = 0; successes < 32; ++n) {
    assert_true(n < 100000);
    trm_allocation_fail_after(n);
    const trm_status status = all(key, &error);
    trm_allocation_fail_after(-1);
    successes = status == TRM_OK ? successes + 1 : 0;
    /* protobuf-c does not tell a damaged proto from one that it had no memory for. */
    if (status != TRM_OK && status != TRM_RESOURCE_EXHAUSTED &&
        strstr(error.message, "bytes of memory") == NULL) {
      fail_msg("allocation %d: %s: %s", (int)n, trm_status_name(status), error.message);
    }
  }
}

static void test_optimised(void **state) {
  (void)state;
  fail_every_allocation("optimise");
}

static void test_reference(void **state) {
  (void)state;
  fail_every_allocation("reference");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_optimised),
                                     cmocka_unit_test(test_reference)};
  return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
