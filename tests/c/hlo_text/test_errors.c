/* Wrong texts: the message names what is wrong, with line and column. */
#include "files.h"

typedef struct wrong_text {
  const char *text;
  const char *message; /* a part of the message */
} wrong_text;

/* BODY(line): the entry's line 3, behind two spaces. */
#define BODY(line) "HloModule m\nENTRY e {\n  " line "\n}\n"
#define PARAMETERS "p = f32[2,3] parameter(0)\n  "

static const wrong_text wrong_texts[] = {
    {"", "line 1, column 1: the input is a text that does not begin with 'HloModule'"},
    {"add x, y", "line 1, column 1: the input is a text that does not begin with 'HloModule'"},
    {"HloModule", "expected the module's name, found the end of the text"},
    {"HloModule m", "line 1, column 12: the module has no computations"},
    {"HloModule m, speed=3\n", "line 1, column 14: a module has no attribute 'speed'"},
    {"HloModule m\n/* never closed", "line 2, column 1: a comment does not end"},
    {"HloModule m\nENTRY a { x = f32[] parameter(0) }\nENTRY b { x = f32[] parameter(0) }\n",
     "line 3, column 1: a second ENTRY computation"},
    {"HloModule m\na { x = f32[] parameter(0) }\nENTRY a { x = f32[] parameter(0) }\n",
     "line 3, column 7: a second computation called 'a'"},
    {"HloModule m\nENTRY e { }\n", "line 2, column 7: computation e has no instructions"},
    {"HloModule m\nENTRY e (p: f32[2]) -> f32[3] {\n  p = f32[2] parameter(0)\n}\n",
     "computation e gives f32[2], its signature says f32[3]"},
    {"HloModule m\nENTRY e {\n p = f32[] parameter(0)\n ROOT c = f32[] call(p), to_apply=e\n}\n",
     "line 2, column 7: computation e calls itself"},
    {BODY("p = f32[2] parameter(2)"),
     "line 2, column 7: computation e has a parameter 2 but none with number 0"},
    {BODY("x = f32[2] magic(y)"), "line 3, column 14: unknown opcode 'magic'"},
    {BODY("x = f32[2] negate(y)"),
     "line 3, column 21: no instruction of this computation is called 'y'"},
    {BODY("x = f32[2] negate(x)"), "line 3, column 3: %x depends on itself"},
    {BODY("x = f32[2] parameter(0)\n  x = f32[2] negate(x)"),
     "line 4, column 3: a second instruction called 'x' in computation e"},
    {BODY("ROOT x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x)"),
     "line 4, column 3: a second ROOT in computation e"},
    {BODY(PARAMETERS "x = f32[2,3] add(p)"), "line 4, column 3: add takes 2 operands, not 1"},
    {BODY(PARAMETERS "x = f32[2,3] negate(f32[3,2] p)"),
     "line 4, column 32: the operand %p is used as f32[3,2] but is f32[2,3]"},
    {BODY(PARAMETERS "x = f32[2,3] negate(p), colour=red"),
     "line 4, column 27: negate has no attribute 'colour' that Tremula knows"},
    {BODY(PARAMETERS "x = f32[3,2] transpose(p)"),
     "line 4, column 3: transpose lacks its attribute 'dimensions'"},
    {BODY(PARAMETERS "x = f32[3,2] transpose(p), dimensions={1,0}, dimensions={1,0}"),
     "the attribute 'dimensions' appears twice"},
    {BODY(PARAMETERS "x = f32[3,2] transpose(p), dimensions={1,0"),
     "line 6, column 1: expected an instruction or '}', found the end of the text"},
    {BODY(PARAMETERS "x = f32[1,3] slice(p), slice={[0:1]}"),
     "slice has 1 dimensions in its 'slice', its operand has 2"},
    {BODY(PARAMETERS "x = pred[2,3] compare(p, p), direction=ABOVE"),
     "expected one of EQ, NE, GE, GT, LE, LT, found 'ABOVE'"},
    {BODY(PARAMETERS "x = f32[2,2] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
                     "algorithm=dot_f32_f32_f48"),
     "line 4, column 89: expected one of unset, dot_any_f8_any_f8_f32, "},
    {BODY(PARAMETERS "x = f32[2,3] negate(p), algorithm=dot_f32_f32_f32"),
     "negate has no attribute 'algorithm'"},
    {"HloModule m, replica_count=0\n", "line 1, column 28: replica_count must be from 1 to"},
    {BODY(PARAMETERS "x = f32[2,3] call(p), to_apply=nowhere"),
     "line 4, column 34: no computation is called 'nowhere'"},
    {BODY(PARAMETERS "x = f32[2,3] conditional(p, p)"), "conditional lacks true_computation"},
    {BODY("x = f32[<4] parameter(0)"), "expected '<=' before a bound"},
    {BODY("x = f8e9m9[4] parameter(0)"),
     "line 3, column 7: the element type 'f8e9m9' is not supported"},
    {BODY("x = f32[-1] parameter(0)"), "sizes cannot be negative"},
    {BODY("x = f32[99999999999,99999999999] parameter(0)"), "larger than 2^40 bytes"},
    {BODY("x = f32[99999999999999999999] parameter(0)"), "does not fit a 64-bit integer"},
    {BODY("x = f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] parameter(0)"), "more than 16 dimensions"},
    {BODY("x = f32[2]{0,1} parameter(0)"), "a layout of 2 dimensions for a shape of 1"},
    {BODY("x = f32[2,2]{0,0} parameter(0)"), "a layout is not a permutation"},
    {BODY("x = parameter(0)"), "line 3, column 3: parameter needs its shape"},
    {BODY(PARAMETERS "x = convert(p)"), "line 4, column 3: convert needs its shape"},
    {BODY(PARAMETERS "x = broadcast(p), dimensions={0,1}"), "broadcast needs its shape"},
    {BODY("x = f32[2] parameter(-1)"), "the parameter number -1 is negative"},
    {BODY("x = f32[1000000000] constant({...})"),
     "line 3, column 32: the values of this constant were left out"},
    {BODY("x = f32[10] constant({... 1})"), "expected '}' behind '...'"},
    {BODY("x = (f32[2], token[]) constant({...})"), "a constant cannot be of type token"},
    {BODY("x = f32[2] constant({1, 2, 3})"), "more than 2 values along dimension 0"},
    {BODY("x = f32[3] constant({1, 2})"), "has only 2 values along dimension 0"},
    {BODY("x = f32[2,2] constant({ { 1, 2 }, { 3 } })"), "has only 1 values along dimension 1"},
    {BODY("x = f32[1000000000] constant({1})"), "too few values for a constant of shape"},
    {BODY("x = s8[] constant(128)"), "line 3, column 21: the value 128 does not fit s8"},
    {BODY("x = u8[] constant(-1)"), "the value -1 does not fit u8"},
    {BODY("x = u64[] constant(18446744073709551616)"), "does not fit u64"},
    {BODY("x = f16[] constant(70000)"), "the value 70000 does not fit f16"},
    {BODY("x = f32[] constant(1e39)"), "the value 1e39 does not fit f32"},
    {BODY("x = s32[] constant(1.5)"), "expected an integer, found '1.5'"},
    {BODY("x = f32[] constant(one)"), "expected a number, found 'one'"},
    {BODY("x = c64[] constant(1)"), "expected '(' of a complex number"},
    {BODY("x = token[] constant(1)"), "a constant cannot be of type token"},
    {BODY("x = (f32[], f32[]) constant((1))"), "expected ',' between the elements of a tuple"},
    {BODY(PARAMETERS "x = f32[2,3] negate(p), metadata={op_colour=\"red\"}"),
     "expected a field of metadata, such as op_name, found 'op_colour'"},
    {BODY(PARAMETERS "x = f32[2,3] negate(p), metadata={op_name=\"red}"), "a string does not end"},
    {BODY(PARAMETERS "x = f32[2,3] negate(p), metadata={op_name=\"\\q\"}"),
     "line 4, column 46: an unknown escape in a string"},
    {BODY(PARAMETERS "x = f32[2,3] negate(p), sharding={{replicated"), "is not closed"},
    {BODY(PARAMETERS "x = f32[2,3] all-reduce(p), to_apply=e, replica_groups=[2,2]<=[5]"),
     "2 replica groups of 2 of 5 replicas"},
    {BODY(PARAMETERS "x = f32[2,3] collective-permute(p), source_target_pairs={{1}}"),
     "expected a pair {source, target}"},
    {BODY(PARAMETERS "x = f32[2,3] convolution(p, p), dim_labels=b0f_0io->b1f"),
     "lacks 'b', 'f' or a spatial dimension"},
    {BODY(PARAMETERS "x = f32[2,3] convolution(p, p), dim_labels=bf_io"),
     "expected labels such as b01f_01io->b01f"},
    {BODY(PARAMETERS "x = f32[2,3] convolution(p, p), window={size=3x3 stride=2}, "
                     "dim_labels=bf_io->bf"),
     "stride has 1 dimensions where the window has 2"},
    {BODY(PARAMETERS "x = f32[2,3] convolution(p, p), window={hole=3}, dim_labels=bf_io->bf"),
     "expected a window's size, stride, pad"},
    /* Texts of one instruction. */
    {"%y = f32[2] add(%x, %x)", "an operand of a text of one instruction needs its shape"},
    {"%y = f32[2] negate(f32[2] %x)\n%z = f32[2] negate(f32[2] %y)",
     "line 2, column 2: expected the end of a text of one instruction"},
    {"r = f32[] reduce(f32[2], f32[]), dimensions={0}, to_apply={ ROOT s = f32[] negate(q) }",
     "no instruction of this computation is called 'q'"},
    {"r = f32[] reduce(f32[2], f32[]), dimensions={0}, to_apply={ }", "has no instructions"},
    /* What is said twice must agree. */
    {BODY("p = pred[] parameter(0)\n  x = f32[] parameter(1)\n"
          "  ROOT c = f32[] conditional(p, x, x), branch_computations={ "
          "{ ROOT a = f32[] parameter(0) }, { ROOT a = f32[] parameter(0) } }"),
     "takes true_computation and false_computation"},
    {BODY("p = s32[] parameter(0)\n  x = f32[] parameter(1)\n"
          "  ROOT c = f32[] conditional(p, x, x), "
          "true_computation={ ROOT a = f32[] parameter(0) }, "
          "false_computation={ ROOT a = f32[] parameter(0) }"),
     "a conditional on a number takes branch_computations"},
    {BODY(PARAMETERS "x = f32[] custom-call(p), custom_call_target=\"t\", "
                     "operand_layout_constraints={}"),
     "line 4, column 3: custom-call has 1 operands, and layouts for 0"},
    {BODY(PARAMETERS "x = f32[] custom-call(p), custom_call_target=\"t\", "
                     "operand_layout_constraints={f32[3,2]{1,0}}"),
     "operand 0 is f32[2,3], its layout is for f32[3,2]"},
    {BODY(PARAMETERS "s = ((f32[2,3]), f32[2,3], u32[]) negate-start(p)\n"
                     "  d = f32[2,3] abs-done(s)"),
     "%s began as negate and goes on as abs"},
    {"HloModule m, buffer_donor={ (x, {}) }\nENTRY e { p = f32[] parameter(0) }",
     "line 1, column 30: expected an integer"},
    /* Broadcasts may leave out `dimensions` where there are none. */
    {BODY(PARAMETERS "x = f32[4,2,3] broadcast(p)"),
     "line 4, column 3: broadcast lacks its attribute 'dimensions'"},
    {BODY(PARAMETERS "x = f32[2,3] exponential(p), result_accuracy={mode=good}"),
     "expected one of default, high, highest, found 'good'"},
    {BODY(PARAMETERS "x = f32[2,3] exponential(p), result_accuracy={0.5}"),
     "expected mode or tolerance"},
    {BODY(PARAMETERS "x = f32[2,3] add(p, p), result_accuracy={mode=default}"),
     "add has no attribute 'result_accuracy'"},
    {BODY("x = bf16[] constant(nan(0x80))"), "a NaN of bf16 has no payload 0x80"},
    {BODY("x = f32[] constant(nan(1.5))"), "expected the payload of a NaN"},
    {BODY("x = u32[] constant(-1)"), "the value -1 does not fit u32"},
    {BODY("x = u64[] constant(-9223372036854775809)"), "does not fit u64"},
    {BODY("x = f32[4,4]{1,0:D(D,C)} parameter(0)"), "sparse arrays are not supported"},
    {BODY("x = f32[4,4]{1,0:D(D+,D~)} parameter(0)"), "sparse arrays are not supported"},
    {BODY("x = f32[4,4]{1,0:D(D,D~)} parameter(0)"), "sparse arrays are not supported"},
    {BODY("x = f32[4,4]{1,0:D(D,X)} parameter(0)"), "expected D, C, S or H, found 'X'"},
    {BODY("x = f32[2] add(add-start(y), y)"), "an asynchronous instruction needs a name"},
    {BODY("x = f32[2] negate(parameter(0))"), "parameter needs its shape"},
};

static void test_messages(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof wrong_texts / sizeof *wrong_texts; ++i) {
    const wrong_text *wrong = &wrong_texts[i];
    trm_module *module = NULL;
    trm_error error = {0};
    const trm_status status = trm_hlo_parse_text(wrong->text, strlen(wrong->text), &module, &error);
    if (status == TRM_OK) fail_msg("this was taken:\n%s", wrong->text);
    assert_int_equal(status, TRM_INVALID_ARGUMENT);
    assert_int_equal(error.status, status);
    assert_null(module);
    if (strstr(error.message, wrong->message) == NULL) {
      fail_msg("wanted: %s\n   got: %s", wrong->message, error.message);
    }
    assert_int_equal(trm_hlo_parse_text(wrong->text, strlen(wrong->text), &module, NULL), status);
  }
}

/* `count` times one character, in the middle of a text. */
static void check_deep(const char *before, char c, size_t count, const char *message) {
  trm_text text = {0};
  trm_error error;
  trm_module *module = NULL;
  trm_text_append(&text, before, strlen(before));
  for (size_t i = 0; i < count; ++i) trm_text_append(&text, &c, 1);
  assert_int_equal(trm_hlo_parse_text(text.data, text.length, &module, &error),
                   TRM_INVALID_ARGUMENT);
  if (strstr(error.message, message) == NULL) fail_msg("got: %s", error.message);
  trm_text_free(&text);
}

/* An instruction inside an instruction, and so on. */
static void text_of_nested(const char *opens, size_t count, const char *message) {
  trm_text text = {0};
  trm_error error;
  trm_module *module = NULL;
  trm_text_format(&text, "HloModule m\nENTRY e {\n x = f32[] ");
  for (size_t i = 0; i < count; ++i) trm_text_append(&text, opens, strlen(opens));
  assert_int_equal(trm_hlo_parse_text(text.data, text.length, &module, &error),
                   TRM_INVALID_ARGUMENT);
  if (strstr(error.message, message) == NULL) fail_msg("got: %s", error.message);
  trm_text_free(&text);
}

static void test_nesting(void **state) {
  (void)state;
  check_deep("HloModule m\nENTRY e {\n x = ", '(', 1000000, "nested more than 60 deep");
  check_deep("HloModule m\nENTRY e {\n x = f32[1,1,1000000] constant(", '{', 1000000,
             "expected a number");
  check_deep("HloModule m\nENTRY e {\n x = f32[] negate(y), sharding=", '{', 1000000,
             "is not closed");
  check_deep("HloModule m, entry_computation_layout=", '[', 1000000, "is not closed");
  text_of_nested("negate(", 1000000, "instructions are nested more than 64 deep");
  /* Tuples of tuples by inference: the size doubles with every line. */
  trm_text text = {0};
  trm_error error;
  trm_module *module = NULL;
  trm_text_format(&text, "HloModule m\nENTRY e {\n t0 = f32[] parameter(0)\n");
  for (int i = 1; i < 50; ++i) trm_text_format(&text, " t%d = tuple(t%d, t%d)\n", i, i - 1, i - 1);
  trm_text_format(&text, "}\n");
  assert_int_equal(trm_hlo_parse_text(text.data, text.length, &module, &error),
                   TRM_INVALID_ARGUMENT);
  if (strstr(error.message, "too many elements") == NULL) fail_msg("got: %s", error.message);
  trm_text_free(&text);
}

/* Every allocation fails once: a status, no crash, no leak. */
static void test_out_of_memory(void **state) {
  (void)state;
  size_t size;
  static const char *const names[] = {"control", "communication", "async_sugar", "short_form"};
  for (int f = 0; f < 4; ++f) {
    char *data = load(names[f], &size);
    bool done = false;
    for (int64_t n = 0; !done && n < 5000; ++n) {
      trm_error error;
      trm_module *module = NULL;
      trm_allocation_fail_after(n);
      const trm_status status = trm_hlo_parse_text(data, size, &module, &error);
      trm_allocation_fail_after(-1);
      done = status == TRM_OK;
      if (!done) assert_null(module);
      trm_module_free(module);
    }
    assert_true(done);
    free(data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages),
                                     cmocka_unit_test(test_nesting),
                                     cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
