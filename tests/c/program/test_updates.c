/* Updates of variables and of a loop's state: each takes the place of the array that it replaces,
 * and the order runs it as soon as its gradient is there. */
#include "program_case.h"

enum { LAYERS = 6, CHANNELS = 128, WEIGHT_COUNT = 3 * 3 * CHANNELS * CHANNELS };

#define WEIGHT "f32[3,3,128,128]"
#define HALF_WEIGHT "f16[3,3,128,128]"
#define IMAGE "f16[1,16,16,128]"

static int num_arrays(bool momentum) { return momentum ? 2 * LAYERS : LAYERS; }

/* Weights, then momenta, as types or as names with a prefix. */
static void append_list(trm_text *text, bool momentum, const char *prefix) {
  for (int k = 0; k < num_arrays(momentum); ++k) {
    if (prefix == NULL) trm_text_format(text, ", " WEIGHT);
    else trm_text_format(text, ", %s%d", prefix, k);
  }
}

static void append_forward(trm_text *text) {
  for (int i = 0; i < LAYERS; ++i) {
    trm_text_format(text,
                    "  h%d = " HALF_WEIGHT " convert(w%d)\n"
                    "  c%d = " IMAGE " convolution(x%d, h%d), window={size=3x3 pad=1_1x1_1}, "
                    "dim_labels=b01f_01io->b01f\n"
                    "  x%d = " IMAGE " maximum(c%d, zeros)\n",
                    i, i, i, i, i, i + 1, i);
  }
  trm_text_format(text, "  d%d = " IMAGE " negate(x%d)\n", LAYERS, LAYERS);
}

static void append_gradient(trm_text *text, int i) {
  trm_text_format(text,
                  "  p%d = pred[1,16,16,128] compare(x%d, zeros), direction=GT\n"
                  "  e%d = " IMAGE " select(p%d, d%d, zeros)\n"
                  "  g%d = " HALF_WEIGHT " convolution(x%d, e%d), "
                  "window={size=16x16 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf\n"
                  "  f%d = " WEIGHT " convert(g%d)\n",
                  i, i + 1, i, i, i + 1, i, i, i, i, i);
  if (i == 0) return;
  trm_text_format(text,
                  "  v%d = " HALF_WEIGHT " reverse(h%d), dimensions={0,1}\n"
                  "  d%d = " IMAGE " convolution(e%d, v%d), window={size=3x3 pad=1_1x1_1}, "
                  "dim_labels=b01f_01oi->b01f\n",
                  i, i, i, i, i);
}

/* The new weight n<i> and the new momentum n<LAYERS + i>. */
static void append_update(trm_text *text, int i, bool momentum) {
  if (momentum) {
    trm_text_format(text,
                    "  q%d = " WEIGHT " multiply(w%d, decays)\n"
                    "  n%d = " WEIGHT " add(q%d, f%d)\n",
                    i, LAYERS + i, LAYERS + i, i, i);
  }
  trm_text_format(text,
                  "  s%d = " WEIGHT " multiply(%c%d, rates)\n"
                  "  n%d = " WEIGHT " subtract(w%d, s%d)\n",
                  i, momentum ? 'n' : 'f', momentum ? LAYERS + i : i, i, i, i);
}

/* Ten steps of training: convolutions in float16 with weights and momenta in float32. */
static void append_network(trm_text *text, bool momentum) {
  trm_text_format(text, "HloModule m, input_output_alias={");
  for (int k = 0; k < num_arrays(momentum); ++k) {
    trm_text_format(text, "%s{%d}: (%d, {}, must-alias)", k == 0 ? "" : ", ", k, k + 1);
  }
  trm_text_format(text, "}\nbody {\n  t = (s32[], " IMAGE);
  append_list(text, momentum, NULL);
  trm_text_format(text, ") parameter(0)\n"
                        "  i = s32[] get-tuple-element(t), index=0\n"
                        "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
                        "  x0 = " IMAGE " get-tuple-element(t), index=1\n"
                        "  rate = f32[] constant(0.01)\n  decay = f32[] constant(0.9)\n"
                        "  rates = " WEIGHT " broadcast(rate), dimensions={}\n"
                        "  decays = " WEIGHT " broadcast(decay), dimensions={}\n"
                        "  zero = f16[] constant(0)\n  zeros = " IMAGE
                        " broadcast(zero), dimensions={}\n");
  for (int k = 0; k < num_arrays(momentum); ++k) {
    trm_text_format(text, "  w%d = " WEIGHT " get-tuple-element(t), index=%d\n", k, k + 2);
  }
  append_forward(text);
  for (int i = LAYERS; i-- > 0;) append_gradient(text, i);
  for (int i = LAYERS; i-- > 0;) append_update(text, i, momentum);
  trm_text_format(text, "  ROOT r = (s32[], " IMAGE);
  append_list(text, momentum, NULL);
  trm_text_format(text, ") tuple(j, x0");
  append_list(text, momentum, "n");
  trm_text_format(text, ")\n}\ncondition {\n  t = (s32[], " IMAGE);
  append_list(text, momentum, NULL);
  trm_text_format(text,
                  ") parameter(0)\n  i = s32[] get-tuple-element(t), index=0\n"
                  "  n = s32[] constant(10)\n  ROOT r = pred[] compare(i, n), direction=LT\n}\n"
                  "ENTRY e {\n  zero = s32[] constant(0)\n  x = " IMAGE " parameter(0)\n");
  for (int k = 0; k < num_arrays(momentum); ++k) {
    trm_text_format(text, "  w%d = " WEIGHT " parameter(%d)\n", k, k + 1);
  }
  trm_text_format(text, "  first = (s32[], " IMAGE);
  append_list(text, momentum, NULL);
  trm_text_format(text, ") tuple(zero, x");
  append_list(text, momentum, "w");
  trm_text_format(text, ")\n  l = (s32[], " IMAGE);
  append_list(text, momentum, NULL);
  trm_text_format(text, ") while(first), condition=condition, body=body\n");
  for (int k = 0; k < num_arrays(momentum); ++k) {
    trm_text_format(text, "  r%d = " WEIGHT " get-tuple-element(l), index=%d\n", k, k + 2);
  }
  trm_text_format(text, "  ROOT t = (" WEIGHT);
  for (int k = 1; k < num_arrays(momentum); ++k) trm_text_format(text, ", " WEIGHT);
  trm_text_format(text, ") tuple(r0");
  for (int k = 1; k < num_arrays(momentum); ++k) trm_text_format(text, ", r%d", k);
  trm_text_format(text, ")\n}\n");
}

/* How many arrays as large as a weight, whose names begin with `letter`, are live at once. */
static uint32_t most_live(const trm_program *p, char letter) {
  uint32_t most = 0, found = 0;
  for (uint32_t s = 0; s < p->num_steps; ++s) {
    uint32_t live = 0;
    for (uint32_t v = 0; v < p->num_variables; ++v) {
      const trm_program_variable *variable = &p->variables[v];
      if (variable->count != WEIGHT_COUNT || variable->dtype != TRM_F16) continue;
      if (variable->name[0] != letter) continue;
      ++found;
      live += variable->live.begin <= s && variable->live.end > s;
    }
    if (live > most) most = live;
  }
  assert_true(found >= LAYERS);
  return most;
}

static void check_network(bool momentum) {
  trm_text text = {0};
  append_network(&text, momentum);
  trm_program *p = make_program(text.data, "mk2", NULL);
  trm_text_free(&text);
  assert_int_equal(count_steps(p, TRM_STEP_TYPE_REPEAT), 1);
  /* A gradient ends with its update: the next layer's may exist by then, no others. */
  assert_in_range(most_live(p, 'g'), 1, 2);
  assert_in_range(most_live(p, 'h'), 1, LAYERS);
  /* The updates have no arrays of their own. */
  uint32_t arrays = 0;
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    const trm_program_variable *variable = &p->variables[v];
    arrays += variable->count == WEIGHT_COUNT && variable->dtype == TRM_F32;
  }
  assert_int_equal(arrays, num_arrays(momentum));
  check_sums(p);
  trm_program_free(p);
}

static void test_gradients_end_with_their_updates(void **state) {
  (void)state;
  check_network(false);
}

/* Weights lie where convolutions want them and momenta elsewhere; one fusion updates both. */
static void test_weights_and_momenta_stay_where_they_are(void **state) {
  (void)state;
  check_network(true);
}

/* Of two variables whose new values read both, one is overwritten while it is needed no more, and
 * the other one's new value has an array of its own. */
static void test_crossed_updates(void **state) {
  (void)state;
  trm_program *p = make_program(
      "HloModule m, input_output_alias={{0}: (0, {}, must-alias), {1}: (1, {}, must-alias)}\n"
      "cross {\n  a = f32[8192] parameter(0)\n  b = f32[8192] parameter(1)\n"
      "  c = f32[8192] add(a, b)\n  d = f32[8192] multiply(a, b)\n"
      "  ROOT t = (f32[8192], f32[8192]) tuple(c, d)\n}\n"
      "ENTRY e {\n  a = f32[8192] parameter(0)\n  b = f32[8192] parameter(1)\n"
      "  f = (f32[8192], f32[8192]) fusion(a, b), kind=kLoop, calls=cross\n"
      "  c = f32[8192] get-tuple-element(f), index=0\n"
      "  d = f32[8192] get-tuple-element(f), index=1\n"
      "  ROOT t = (f32[8192], f32[8192]) tuple(c, d)\n}\n",
      "mk2", NULL);
  uint32_t arrays = 0;
  for (uint32_t v = 0; v < p->num_variables; ++v) {
    arrays += p->variables[v].count == 8192 && p->variables[v].dtype == TRM_F32;
  }
  assert_int_equal(arrays, 3);
  check_sums(p);
  trm_program_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gradients_end_with_their_updates),
      cmocka_unit_test(test_weights_and_momenta_stay_where_they_are),
      cmocka_unit_test(test_crossed_updates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
