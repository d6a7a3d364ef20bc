/* What the passes for an IPU put at the borders of calls of outlined functions. */
#include "../run.h"
#include "hlo/marked_calls.h"
#include "passes/pass.h"

#define CALL(name) ", frontend_attributes={outlined_call=\"" name "\"}\n"

typedef struct copies {
  uint32_t arguments, results, waits; /* waits: control predecessors that are such copies */
} copies;

static bool is_copy(const trm_instruction *instruction) {
  return instruction->opcode == TRM_OP_COPY &&
         trm_instruction_frontend_attribute(instruction, TRM_CALL_COPY) != NULL;
}

static copies copies_of(const char *text) {
  trm_error error;
  trm_module *module = NULL;
  if (trm_module_read(text, strlen(text), "test", &module, &error) != TRM_OK) {
    fail_msg("does not parse: %s", error.message);
  }
  if (trm_passes_run_ipu(module, NULL, NULL, &error) != TRM_OK) fail_msg("%s", error.message);
  const trm_computation *entry = &module->computations[module->entry];
  copies found = {0};
  for (trm_index i = 0; i < entry->num_instructions; ++i) {
    const trm_instruction *instruction = &entry->instructions[i];
    for (uint32_t k = 0; k < instruction->num_control_predecessors; ++k) {
      found.waits += is_copy(&entry->instructions[instruction->control_predecessors[k]]);
    }
    if (!is_copy(instruction)) continue;
    const char *what = trm_instruction_frontend_attribute(instruction, TRM_CALL_COPY);
    ++*(strncmp(what, "argument", 8) == 0 ? &found.arguments : &found.results);
  }
  trm_module_free(module);
  return found;
}

#define INPUTS                                                                    \
  "HloModule m\nENTRY e { a = f32[8,8] parameter(0)  w = f32[8,8] parameter(1)\n" \
  "  v = f32[8,8] parameter(2)\n"
#define PRODUCT(name, left, right, call)                                     \
  "  " name " = f32[8,8] dot(" left ", " right "), lhs_contracting_dims={1}" \
  ", rhs_contracting_dims={0}" CALL(call)

/* Two calls, the second of the first's result: each copies two arguments and a result, and the
 * product that reads one argument waits for the other by reading it. */
static void test_arguments_and_results(void **state) {
  (void)state;
  const copies found = copies_of(INPUTS PRODUCT("x", "a", "w", "f") PRODUCT(
      "y", "x", "v", "f_1") "  ROOT r = f32[8,8] negate(y) }\n");
  assert_int_equal(found.arguments, 4);
  assert_int_equal(found.results, 2);
  assert_int_equal(found.waits, 0);
}

/* What reads one argument waits for those that it does not read. */
static void test_arguments_come_first(void **state) {
  (void)state;
  const copies found =
      copies_of(INPUTS PRODUCT("x", "a", "w", "f") "  s = f32[8,8] add(x, v)" CALL("f")
                    PRODUCT("y", "s", "w", "f_1") "  t = f32[8,8] add(y, a)" CALL(
                        "f_1") "  ROOT r = f32[8,8] negate(t) }\n");
  assert_int_equal(found.arguments, 6);
  assert_int_equal(found.results, 2);
  assert_int_equal(found.waits, 2 * (1 + 2)); /* the product reads two of three, the sum one */
}

/* A function that is called once, or whose calls differ, is part of its caller. */
static void test_single_calls(void **state) {
  (void)state;
  const copies once =
      copies_of(INPUTS PRODUCT("x", "a", "w", "f") "  ROOT r = f32[8,8] add(x, v) }\n");
  assert_int_equal(once.arguments + once.results, 0);
  const copies different = copies_of(INPUTS PRODUCT(
      "x", "a", "w", "f") "  y = f32[8,8] tanh(x)" CALL("f_1") "  ROOT r = f32[8,8] add(y, v) }\n");
  assert_int_equal(different.arguments + different.results, 0);
}

/* Into a call within a call a value is copied once, and once out of it. */
static void test_calls_in_calls(void **state) {
  (void)state;
  const copies found =
      copies_of(INPUTS PRODUCT("x", "a", "w", "f/g") "  s = f32[8,8] tanh(x)" CALL("f")
                    PRODUCT("y", "s", "v", "f_1/g") "  t = f32[8,8] tanh(y)" CALL(
                        "f_1") "  ROOT r = f32[8,8] negate(t) }\n");
  assert_int_equal(found.arguments, 4); /* a, w; s, v */
  assert_int_equal(found.results, 4);   /* x, s, y, t */
}

/* Two calls that each need a part of the other's result: x waits for u, which is after x in the
 * module, so u does not wait for the argument that comes from x. */
static void test_calls_that_need_each_other(void **state) {
  (void)state;
  const copies found =
      copies_of(INPUTS "  x = f32[8,8] tanh(a)" CALL(
          "f") "  t = f32[8,8] negate(x)\n"
               "  u = f32[8,8] tanh(w)" CALL("f_1")
                    PRODUCT("p", "u", "t", "f_1") "  q = f32[8,8] negate(u)\n" PRODUCT(
                        "y", "x", "q", "f") "  ROOT r = f32[8,8] add(y, p) }\n");
  assert_int_equal(found.arguments, 4); /* a, q; w, t */
  assert_int_equal(found.results, 4);   /* x, y; u, p */
  /* x for q, y for a, p for w; t for y, and the sum for the results that it does not read. */
  assert_int_equal(found.waits, 3 + 1 + 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arguments_and_results), cmocka_unit_test(test_arguments_come_first),
      cmocka_unit_test(test_single_calls), cmocka_unit_test(test_calls_in_calls),
      cmocka_unit_test(test_calls_that_need_each_other)};
  return cmocka_run_group_tests_name("calls", tests, NULL, NULL);
}
