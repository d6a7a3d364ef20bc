/* Random modules with calls of outlined functions go through the passes for an IPU: the module is
 * valid after each pass, gives the same numbers after all, and can be planned.
 *
 * The instructions of calls are interleaved, as other passes leave them: a call may need a part of
 * the result of another call that needs a part of its own. Functions call others, calls have
 * gradients and lie on two IPUs, and some instructions wait for others.
 *
 * TREMULA_RANDOM_CALLS=first:count runs other seeds, for a longer search. */
#include <stdlib.h>

#include "../run.h"
#include "base/memory.h"
#include "ipu/program/program.h"
#include "passes/pass.h"
#include "tremula/target.h"

enum { NUM_FUNCTIONS = 3, MAX_STEPS = 6, NUM_ARGUMENTS = 4, MAX_OPEN = 4, MAX_CALLS = 12 };
enum { NUM_INPUTS = 3, MAX_VALUES = 200, NUM_OUTPUTS = 4, SIDE = 4, UNBOUND = -1 };

typedef struct form {
  const char *opcode;
  int num_operands;
  const char *attributes;
} form;

static const form forms[] = {
    {"add", 2, ""},
    {"maximum", 2, ""},
    {"subtract", 2, ""},
    {"dot", 2, ", lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
    {"tanh", 1, ""},
    {"negate", 1, ""},
    {"transpose", 1, ", dimensions={1,0}"},
    {"copy", 1, ""},
};
enum { NUM_FORMS = sizeof forms / sizeof *forms };

/* Operands below NUM_ARGUMENTS are arguments of the function, others its earlier steps. */
typedef struct function {
  struct {
    const form *form;
    int operands[2];
    bool is_inner; /* in a call that the function makes */
  } steps[MAX_STEPS];
  int num_steps;
} function;

/* A call of which not all instructions are written. */
typedef struct call {
  const function *function;
  int number, done, ipu;
  bool is_gradient;
  int values[NUM_ARGUMENTS + MAX_STEPS]; /* UNBOUND: not chosen yet */
} call;

typedef struct generator {
  uint64_t random;
  trm_text text;
  function functions[NUM_FUNCTIONS];
  call open[MAX_OPEN];
  int num_open, num_calls, ipus;
  bool has_gradient[MAX_CALLS];
  int num_values; /* v0, v1, ... */
} generator;

/* From 0 to n - 1. */
static int below(generator *g, int n) {
  g->random += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t x = g->random;
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return (int)((x ^ x >> 31) % (uint64_t)n);
}

static int any_value(generator *g) { return below(g, g->num_values); }

static int write_instruction(generator *g, const form *f, const int *operands, int ipu) {
  const int id = g->num_values++;
  trm_text_format(&g->text, "  v%d = f32[%d,%d] %s(v%d", id, SIDE, SIDE, f->opcode, operands[0]);
  if (f->num_operands > 1) trm_text_format(&g->text, ", v%d", operands[1]);
  trm_text_format(&g->text, ")%s", f->attributes);
  if (g->ipus > 1) trm_text_format(&g->text, ", sharding={maximal device=%d}", ipu);
  if (below(g, 12) == 0) {
    trm_text_format(&g->text, ", control-predecessors={v%d}", below(g, id));
  }
  return id;
}

static void write_plain(generator *g) {
  const int operands[2] = {any_value(g), any_value(g)};
  write_instruction(g, &forms[below(g, NUM_FORMS)], operands, below(g, g->ipus));
  trm_text_format(&g->text, "\n");
}

static void open_call(generator *g) {
  if (g->num_open == MAX_OPEN || g->num_calls == MAX_CALLS) return;
  call *c = &g->open[g->num_open++];
  *c = (call){.function = &g->functions[below(g, NUM_FUNCTIONS)], .ipu = below(g, g->ipus)};
  const int of = below(g, MAX_CALLS);
  c->is_gradient = of < g->num_calls && !g->has_gradient[of];
  c->number = c->is_gradient ? of : g->num_calls++;
  if (c->is_gradient) g->has_gradient[of] = true;
  for (int v = 0; v < NUM_ARGUMENTS + MAX_STEPS; ++v) c->values[v] = UNBOUND;
}

/* Writes the next instruction of an open call. Arguments are chosen when they are first read. */
static void advance(generator *g, int which) {
  call *c = &g->open[which];
  const int s = c->done++;
  const form *f = c->function->steps[s].form;
  int operands[2] = {0, 0};
  for (int k = 0; k < f->num_operands; ++k) {
    int *value = &c->values[c->function->steps[s].operands[k]];
    if (*value == UNBOUND) *value = any_value(g);
    operands[k] = *value;
  }
  c->values[NUM_ARGUMENTS + s] = write_instruction(g, f, operands, c->ipu);
  trm_text_format(&g->text, ", frontend_attributes={outlined_call=\"f_%d%s\"}", c->number,
                  c->function->steps[s].is_inner ? "/g" : "");
  trm_text_format(&g->text, ", metadata={op_name=\"%sf_%d/op\"}\n",
                  c->is_gradient ? "gradients/" : "", c->number);
  if (c->done == c->function->num_steps) g->open[which] = g->open[--g->num_open];
}

static void invent_function(generator *g, function *f) {
  f->num_steps = 2 + below(g, MAX_STEPS - 1);
  const int inner = below(g, 3) == 0 ? below(g, f->num_steps) : f->num_steps;
  for (int s = 0; s < f->num_steps; ++s) {
    f->steps[s].form = &forms[below(g, NUM_FORMS)];
    f->steps[s].is_inner = s >= inner && s < inner + 2;
    for (int k = 0; k < 2; ++k) f->steps[s].operands[k] = below(g, NUM_ARGUMENTS + s);
  }
}

/* The text of a module; release with trm_free. */
static char *generate(uint64_t seed) {
  generator g = {.random = seed * UINT64_C(0x2545f4914f6cdd1d)};
  g.ipus = 1 + (below(&g, 4) == 0);
  for (int f = 0; f < NUM_FUNCTIONS; ++f) invent_function(&g, &g.functions[f]);
  trm_text_format(&g.text, "HloModule random_%llu\nENTRY main {\n", (unsigned long long)seed);
  for (; g.num_values < NUM_INPUTS; ++g.num_values) {
    trm_text_format(&g.text, "  v%d = f32[%d,%d] parameter(%d)\n", g.num_values, SIDE, SIDE,
                    g.num_values);
  }
  for (int turns = 10 + below(&g, 70); turns > 0; --turns) {
    const int kind = below(&g, 8);
    if (kind == 0) write_plain(&g);
    else if (kind < 3) open_call(&g);
    else if (g.num_open > 0) advance(&g, below(&g, g.num_open));
  }
  while (g.num_open > 0) advance(&g, below(&g, g.num_open));
  trm_text_format(&g.text, "  ROOT r = (f32[%d,%d]", SIDE, SIDE);
  for (int o = 1; o < NUM_OUTPUTS; ++o) trm_text_format(&g.text, ", f32[%d,%d]", SIDE, SIDE);
  /* The last values, so that little is dropped. */
  trm_text_format(&g.text, ") tuple(v%d", g.num_values - 1);
  for (int o = 1; o < NUM_OUTPUTS; ++o) {
    trm_text_format(&g.text, ", v%d", g.num_values - 1 - below(&g, g.num_values / 2));
  }
  trm_text_format(&g.text, ")\n}\n");
  return g.text.data;
}

/* ---- The check ------------------------------------------------------------------------------- */

static void complain(const char *text, const char *what, const char *why) {
  fprintf(stderr, "%s\n", text);
  fail_msg("%s: %s", what, why);
}

static trm_status verify(const char *pass, const trm_module *module, void *context,
                         trm_error *error) {
  (void)context;
  const trm_status status = trm_module_verify(module, error);
  return status == TRM_OK ? TRM_OK : trm_note(error, status, "after %s", pass);
}

/* Runs a module with the reference kernels. */
static void run(const char *text, const trm_module *module, float *out) {
  static const trm_option reference = {"reference", "true"};
  trm_error error;
  trm_executable *executable = NULL;
  trm_engine *engine = NULL;
  if (trm_compile(module, &reference, 1, &executable, &error) != TRM_OK ||
      trm_engine_create(executable, &engine, &error) != TRM_OK) {
    complain(text, "compiling", error.message);
  }
  trm_executable_free(executable);
  float inputs[NUM_INPUTS][SIDE * SIDE];
  const void *in[NUM_INPUTS];
  void *outs[NUM_OUTPUTS];
  for (int i = 0; i < NUM_INPUTS; ++i) {
    for (int e = 0; e < SIDE * SIDE; ++e) inputs[i][e] = (float)((7 * i + 3 * e) % 11 - 5) / 8;
    in[i] = inputs[i];
  }
  for (int o = 0; o < NUM_OUTPUTS; ++o) outs[o] = out + (ptrdiff_t)o * SIDE * SIDE;
  if (trm_engine_run(engine, in, NULL, outs, &error) != TRM_OK) {
    complain(text, "running", error.message);
  }
  trm_engine_free(engine);
}

static void check(uint64_t seed) {
  static const trm_pass_settings settings = {.optimise = true};
  float expected[NUM_OUTPUTS * SIDE * SIDE], found[NUM_OUTPUTS * SIDE * SIDE];
  trm_error error;
  trm_module *module = NULL;
  trm_target *target = NULL;
  trm_program *program = NULL;
  char *text = generate(seed);
  if (trm_module_read(text, strlen(text), "random", &module, &error) != TRM_OK) {
    complain(text, "reading", error.message);
  }
  run(text, module, expected);
  if (trm_passes_run(module, &settings, verify, NULL, &error) != TRM_OK ||
      trm_target_load("mk2", &target, &error) != TRM_OK) {
    complain(text, "the shared passes", error.message);
  }
  trm_program_options options = trm_program_default_options();
  options.num_ipus = 2;
  if (trm_program_create_shared(module, target, &options, &program, &error) != TRM_OK) {
    complain(text, "planning", error.message);
  }
  if (trm_passes_run_ipu(module, verify, NULL, &error) != TRM_OK) {
    complain(text, "the passes for an IPU", error.message);
  }
  run(text, module, found);
  if (memcmp(expected, found, sizeof found) != 0) complain(text, "running", "other numbers");
  trm_program_free(program);
  trm_target_release(target);
  trm_module_free(module);
  trm_free(text);
}

static void test_random_calls(void **state) {
  (void)state;
  unsigned long long first = 1, count = 200;
  const char *range = getenv("TREMULA_RANDOM_CALLS");
  if (range != NULL) sscanf(range, "%llu:%llu", &first, &count);
  for (unsigned long long i = 0; i < count; ++i) check(first + i);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_calls)};
  return cmocka_run_group_tests_name("random_calls", tests, NULL, NULL);
}
