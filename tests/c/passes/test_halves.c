/* Which float16 values the pass widen-halves leaves unrounded: the instructions after it. */
#include "../run.h"

/* "opcode:type" of the entry's instructions after the passes that no program does without. */
static void opcodes(const char *text, char *out_words, size_t size) {
  trm_error error;
  char *printed = NULL;
  trm_executable *executable = test_compile(text, &test_modes[1]);
  if (trm_executable_print(executable, &printed, &error) != TRM_OK) fail_msg("%s", error.message);
  trm_executable_free(executable);
  size_t used = 0;
  out_words[0] = '\0';
  for (char *line = strstr(printed, "ENTRY"); line != NULL && *line != '\0';) {
    char *end = strchr(line, '\n'), type[16], opcode[32];
    if (end != NULL) *end = '\0';
    const char *equals = strstr(line, " = ");
    if (equals != NULL && sscanf(equals, " = %15[a-z0-9]%*[^ ] %31[a-z-]", type, opcode) == 2) {
      used += (size_t)snprintf(out_words + used, size - used, "%s%s:%s", used == 0 ? "" : " ",
                               opcode, type);
      assert_true(used < size);
    }
    line = end == NULL ? NULL : end + 1;
  }
  trm_free(printed);
}

/* In `body` x and y are f16[4], s and t f32[], a and b f16[]. */
static void expect(const char *body, const char *expected) {
  char text[2048], found[2048];
  snprintf(text, sizeof text,
           "HloModule m\n"
           "wide { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = f32[] add(p, q) }\n"
           "sum { p = f16[] parameter(0)  q = f16[] parameter(1)  ROOT r = f16[] add(p, q) }\n"
           "most { p = f16[] parameter(0)  q = f16[] parameter(1)  ROOT r = f16[] maximum(p, q) }\n"
           "ENTRY e { x = f16[4] parameter(0)  y = f16[4] parameter(1)  s = f32[] parameter(2)\n"
           "  t = f32[] parameter(3)  a = f16[] parameter(4)  b = f16[] parameter(5)\n  %s }\n",
           body);
  opcodes(text, found, sizeof found);
  const char *after = found;
  for (int parameters = 0; parameters < 6 && after != NULL; ++parameters) {
    after = strchr(after, ' ');
    if (after != NULL) ++after;
  }
  if (after == NULL) after = "";
  if (strcmp(after, expected) != 0) {
    fail_msg("%s\ngives    %s\ninstead of %s", body, found, expected);
  }
}

static void test_pairs_of_casts(void **state) {
  (void)state;
  expect("w = f32[4] convert(x)  ROOT h = f16[4] convert(w)", "");
  expect("h = f16[] convert(s)  w = f32[] convert(h)  ROOT n = f32[] negate(w)", "negate:f32");
  expect("f = f32[] convert(s)  h = f16[] convert(f)  g = f16[] convert(h)\n"
         "  ROOT w = f32[] convert(g)",
         "");
  expect("h = f16[] convert(s)\n"
         "  ROOT w = f32[] convert(h), frontend_attributes={KEEP_CASTS=\"true\"}",
         "convert:f16 convert:f32");
  /* Others read the half. */
  expect("h = f16[] convert(s)  w = f32[] convert(h)  v = f32[] negate(w)  n = f16[] negate(h)\n"
         "  ROOT r = (f32[], f16[]) tuple(v, n)",
         "convert:f16 negate:f32 negate:f16");
  expect("h = f16[] convert(s)  n = f16[] negate(h)  ROOT w = f32[] convert(n)",
         "convert:f16 negate:f16 convert:f32");
  /* Through a sum: what it gives is not rounded. */
  expect("w = f32[4] convert(x)  z = f32[] constant(0)\n"
         "  r = f32[] reduce(w, z), dimensions={0}, to_apply=wide\n"
         "  h = f16[] convert(r)  ROOT v = f32[] convert(h)",
         "convert:f32 constant:f32 reduce:f32");
}

static void test_sums_of_squares(void **state) {
  (void)state;
  expect("q = f16[4] multiply(x, x)  z = f16[] constant(0)\n"
         "  ROOT r = f16[] reduce(q, z), dimensions={0}, to_apply=sum",
         "constant:f16 convert:f32 multiply:f32 convert:f32 reduce:f32 convert:f16");
  expect("q = f16[4] multiply(x, x)  w = f32[4] convert(q)  z = f32[] constant(0)\n"
         "  ROOT r = f32[] reduce(w, z), dimensions={0}, to_apply=wide",
         "constant:f32 convert:f32 multiply:f32 reduce:f32");
  expect("c = f16[] constant(2)  e = f16[4] broadcast(c), dimensions={}  q = f16[4] power(x, e)\n"
         "  z = f16[] constant(0)  ROOT r = f16[] reduce(q, z), dimensions={0}, to_apply=sum",
         "constant:f16 convert:f32 multiply:f32 convert:f32 reduce:f32 convert:f16");
  /* No squares, no sum. */
  expect("q = f16[4] multiply(x, y)  z = f16[] constant(0)\n"
         "  ROOT r = f16[] reduce(q, z), dimensions={0}, to_apply=sum",
         "multiply:f16 constant:f16 reduce:f16");
  expect("q = f16[4] multiply(x, x)  z = f16[] constant(0)\n"
         "  ROOT r = f16[] reduce(q, z), dimensions={0}, to_apply=most",
         "multiply:f16 constant:f16 reduce:f16");
}

#define SCALE(name, scalar, array)                                                          \
  name "b = f16[4] broadcast(" scalar "), dimensions={}  " name " = f16[4] multiply(" array \
       ", " name "b)  "

static void test_scaled_sums(void **state) {
  (void)state;
  /* x + a y */
  expect(SCALE("m", "a", "y") "ROOT r = f16[4] add(x, m)",
         "convert:f32 convert:f32 broadcast:f32 convert:f32 multiply:f32 add:f32 convert:f16");
  /* a x - y: a and x are converted, too */
  expect(SCALE("m", "a", "x") "ROOT r = f16[4] subtract(m, y)",
         "convert:f32 broadcast:f32 convert:f32 multiply:f32 convert:f32 subtract:f32 convert:f16");
  /* a x + b y */
  expect(SCALE("m", "a", "x") SCALE("n", "b", "y") "ROOT r = f16[4] add(m, n)",
         "convert:f32 broadcast:f32 convert:f32 multiply:f32 convert:f32 broadcast:f32 convert:f32 "
         "multiply:f32 add:f32 convert:f16");
}

static void test_scales_of_float(void **state) {
  (void)state;
  /* The scalar is not rounded: no cast of it is left. */
  expect("h = f16[] convert(s)  " SCALE("m", "h", "y") "ROOT r = f16[4] add(x, m)",
         "convert:f32 broadcast:f32 convert:f32 multiply:f32 add:f32 convert:f16");
  expect("v = f32[1] reshape(s)  g = f16[1] convert(v)  h = f16[] reshape(g)  " SCALE(
             "m", "h", "y") "ROOT r = f16[4] add(x, m)",
         "reshape:f32 convert:f32 reshape:f32 broadcast:f32 convert:f32 multiply:f32 add:f32 "
         "convert:f16");
  /* It is rounded where something is subtracted, and where only one of two is a cast. */
  expect("h = f16[] convert(s)  " SCALE("m", "h", "y") "ROOT r = f16[4] subtract(x, m)",
         "convert:f16 convert:f32 convert:f32 broadcast:f32 convert:f32 multiply:f32 subtract:f32 "
         "convert:f16");
  expect("h = f16[] convert(s)  " SCALE("m", "h", "x")
             SCALE("n", "b", "y") "ROOT r = f16[4] add(m, n)",
         "convert:f16 convert:f32 broadcast:f32 convert:f32 multiply:f32 convert:f32 broadcast:f32 "
         "convert:f32 multiply:f32 add:f32 convert:f16");
}

static void test_what_stays(void **state) {
  (void)state;
  expect("m = f16[4] multiply(x, y)  ROOT r = f16[4] add(x, m)", "multiply:f16 add:f16");
  expect("m = f16[] multiply(a, b)  ROOT r = f16[] add(a, m)", "multiply:f16 add:f16");
  /* An affine function of one array. */
  expect(SCALE("m", "a", "x") "c = f16[4] broadcast(b), dimensions={}  ROOT r = f16[4] add(m, c)",
         "broadcast:f16 multiply:f16 broadcast:f16 add:f16");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pairs_of_casts), cmocka_unit_test(test_sums_of_squares),
      cmocka_unit_test(test_scaled_sums), cmocka_unit_test(test_scales_of_float),
      cmocka_unit_test(test_what_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
