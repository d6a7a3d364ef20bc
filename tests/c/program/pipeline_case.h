/* A pipeline of four stages in training, on four IPUs, for tests. */
#ifndef TREMULA_TESTS_PROGRAM_PIPELINE_CASE_H_
#define TREMULA_TESTS_PROGRAM_PIPELINE_CASE_H_

#include "base/memory.h"
#include "program_case.h"

enum { STAGES = 4, BATCHES = 16 };

#define MARK(text, stage, phase)                                                         \
  trm_text_format((text),                                                                \
                  ", sharding={maximal device=%d}, frontend_attributes={pipeline_stage=" \
                  "\"%d\"%s}\n",                                                         \
                  (stage), (stage), (phase))
static const char state[] =
    "(s32[], f32[256,256], f32[256,256], f32[256,256], f32[256,256], f32[256,256])";
#define BACKWARD ",pipeline_phase=\"backward\""

/* Each stage multiplies by its weights and takes a tanh; its backward stage reads the tanh. */
static inline void write_body(trm_text *text) {
  trm_text_format(text,
                  "turn { s = %s parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
                  "one = s32[] constant(1)  j = s32[] add(i, one)\n"
                  "x = f32[256,256] get-tuple-element(s), index=5\n",
                  state);
  trm_text_format(text, "z0 = f32[256,256] negate(x)"); /* the first stage's input, of this turn */
  MARK(text, 0, "");
  for (int s = 0; s < STAGES; ++s) {
    trm_text_format(text, "w%d = f32[256,256] get-tuple-element(s), index=%d\n", s, s + 1);
    trm_text_format(text,
                    "d%d = f32[256,256] dot(%s%d, w%d), lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={0}",
                    s, s == 0 ? "z" : "a", s == 0 ? 0 : s - 1, s);
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
    trm_text_format(text,
                    "e%d = f32[256,256] dot(g%d, w%d), lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={1}",
                    s, s, s);
    MARK(text, s, BACKWARD);
  }
  trm_text_format(text, "ROOT r = %s tuple(j, w0, w1, w2, w3, e0) }\n", state);
}

/* Plans it as training with a schedule; `more` goes into the pipeline's JSON, escaped. */
static inline trm_program *make_batches(const char *schedule, bool recompute, const char *more,
                                        int batches) {
  trm_text text = {0};
  trm_text_format(&text, "HloModule m\n");
  write_body(&text);
  for (int outer = 0; outer < 2; ++outer) {
    trm_text_format(&text,
                    "until%d { s = %s parameter(0)\n"
                    "i = s32[] get-tuple-element(s), index=0  n = s32[] constant(%d)\n"
                    "ROOT c = pred[] compare(i, n), direction=LT }\n",
                    outer, state, outer ? 1 : batches);
  }
  trm_text_format(&text,
                  "update { s = %s parameter(0)\n"
                  "i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)\n"
                  "k = s32[] add(i, one)  zero = s32[] constant(0)\n",
                  state);
  for (int e = 1; e <= 5; ++e) {
    trm_text_format(&text, "q%d = f32[256,256] get-tuple-element(s), index=%d\n", e, e);
  }
  trm_text_format(&text,
                  "t = %s tuple(zero, q1, q2, q3, q4, q5)\n"
                  "l = %s while(t), condition=until0, body=turn\n",
                  state, state);
  for (int e = 1; e <= 5; ++e) {
    trm_text_format(&text, "p%d = f32[256,256] get-tuple-element(l), index=%d\n", e, e);
  }
  trm_text_format(&text,
                  "ROOT r = %s tuple(k, p1, p2, p3, p4, p5) }\n"
                  "ENTRY e { z = s32[] constant(0)\n",
                  state);
  for (int e = 1; e <= 5; ++e) {
    trm_text_format(&text, "q%d = f32[256,256] parameter(%d)\n", e, e - 1);
  }
  trm_text_format(&text,
                  "t = %s tuple(z, q1, q2, q3, q4, q5)\n"
                  "w = %s while(t), condition=until1, body=update, "
                  "frontend_attributes={pipeline=\"{\\\"stages\\\":4,\\\"training\\\":true,"
                  "\\\"device_mapping\\\":[0,1,2,3],\\\"schedule\\\":\\\"%s\\\"%s}\"}\n"
                  "ROOT o = f32[256,256] get-tuple-element(w), index=5 }\n",
                  state, state, schedule, more);
  trm_program_options options = trm_program_default_options();
  options.recompute = recompute;
  trm_program *p = make_program(text.data, "mk2", &options);
  trm_text_free(&text);
  check_sums(p);
  return p;
}

static inline trm_program *make_pipeline(const char *schedule, bool recompute, const char *more) {
  return make_batches(schedule, recompute, more, BATCHES);
}

#endif /* TREMULA_TESTS_PROGRAM_PIPELINE_CASE_H_ */
