/* Speed of fused elementwise chains against memcpy of the same bytes, and the cost of small ones.
 * Prints one line a case: minimum of several runs, nanoseconds an element, ratio to memcpy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "host/ops/elementwise/strip.h"
#include "host/ops/elementwise/vector.h"
#include "host/ops/threads.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what) {
  fprintf(stderr, "bench: %s\n", what);
  exit(1);
}

typedef struct copy_task {
  char *to;
  const char *from;
} copy_task;
static void copy_range(const void *context, int64_t begin, int64_t end, int thread) {
  const copy_task *task = context;
  (void)thread;
  memcpy(task->to + begin, task->from + begin, (size_t)(end - begin));
}

/* A chain of opcodes; unary ones apply to the value, binary ones to the value and parameter 1. */
static void bench(const char *name, trm_dtype dtype, int64_t n, const trm_opcode *chain,
                  size_t length) {
  trm_module *module;
  trm_error error;
  uint32_t body;
  if (trm_module_create("bench", &module, &error) != TRM_OK) die(error.message);
  if (trm_module_add_computation(module, "body", &body, &error) != TRM_OK) die(error.message);
  trm_shape shape;
  if (!trm_shape_make(&module->arena, dtype, 1, &n, &shape)) die("memory");
  trm_index index[2], value;
  for (int i = 0; i < 2; ++i) {
    const trm_instruction p = {.opcode = TRM_OP_PARAMETER, .shape = shape, .number = i};
    if (trm_computation_add(module, body, &p, &index[i], &error) != TRM_OK) die(error.message);
  }
  value = index[0];
  int inputs = 1;
  for (size_t i = 0; i < length; ++i) {
    trm_index operands[2] = {value, index[1]};
    const trm_instruction op = {.opcode = chain[i],
                                .shape = shape,
                                .operands = operands,
                                .num_operands = (uint32_t)trm_opcode_arity(chain[i])};
    if (op.num_operands == 2) inputs = 2;
    if (trm_computation_add(module, body, &op, &value, &error) != TRM_OK) die(error.message);
  }
  module->computations[body].root = value;
  trm_strip_code *code;
  bool supported;
  if (trm_strip_compile(module, &module->computations[body], &module->arena, &code, &supported,
                        &error) != TRM_OK ||
      !supported)
    die("not supported");
  const size_t bytes = trm_shape_bytes(&shape);
  char *a = trm_allocate_aligned(bytes + 64), *b = trm_allocate_aligned(bytes + 64);
  char *out = trm_allocate_aligned(bytes + 64);
  char *scratch = trm_allocate_aligned(trm_strip_scratch_bytes(code) + 64);
  if (a == NULL || b == NULL || out == NULL || scratch == NULL) die("memory");
  memset(out, 0, bytes);
  for (size_t i = 0; i < bytes; i += trm_dtype_size(dtype)) {
    const uint32_t bits = dtype == TRM_F16 ? 0x3c003c00u : 0x3f800000u + (uint32_t)(i & 0xffffu);
    memcpy(a + i, &bits, trm_dtype_size(dtype));
    memcpy(b + i, &bits, trm_dtype_size(dtype));
  }
  const void *operands[2] = {a, b};
  void *results[1] = {out};
  const int repeats = n < 10000 ? 2000 : 30;
  double best = 1e9, copy = 1e9;
  for (int i = 0; i < repeats; ++i) {
    const int inner = n < 10000 ? 100 : 1;
    double t = now();
    for (int k = 0; k < inner; ++k) trm_strip_run(code, operands, results, scratch);
    t = (now() - t) / inner;
    if (t < best) best = t;
    const copy_task task = {out, a};
    t = now();
    for (int k = 0; k < inner; ++k)
      trm_parallel_ranges(trm_threads_for(2 * bytes), (int64_t)bytes, copy_range, &task);
    t = (now() - t) / inner;
    if (t < copy) copy = t;
  }
  const double moved = (double)(inputs + 1) / 2; /* in copies */
  printf("%-28s %-4s %9lld  %9.3f us  %7.3f ns/element  %5.2f x memcpy of as many bytes\n", name,
         trm_dtype_name(dtype), (long long)n, best * 1e6, best * 1e9 / (double)n,
         best / (copy * moved));
  trm_free(a), trm_free(b), trm_free(out), trm_free(scratch);
  trm_module_free(module);
}

int main(void) {
  const trm_opcode chain[] = {TRM_OP_ADD, TRM_OP_MULTIPLY, TRM_OP_MAXIMUM, TRM_OP_SUBTRACT,
                              TRM_OP_ADD};
  printf("instruction set %s, %d threads\n", trm_vector_ops_get()->name, omp_get_max_threads());
  const int64_t large = 1 << 24;
  bench("add", TRM_F32, large, chain, 1);
  bench("chain of 2", TRM_F32, large, chain, 2);
  bench("chain of 5", TRM_F32, large, chain, 5);
  bench("chain of 5", TRM_F16, large, chain, 5);
  bench("chain of 5", TRM_S32, large, chain, 5);
  bench("chain of 5", TRM_F32, 1 << 20, chain, 5);
  bench("chain of 5", TRM_F32, 64, chain, 5);
  bench("chain of 5", TRM_F16, 64, chain, 5);
  bench("add", TRM_F32, 1, chain, 1);
  const trm_opcode functions[] = {TRM_OP_EXPONENTIAL,  TRM_OP_TANH, TRM_OP_LOGISTIC, TRM_OP_LOG,
                                  TRM_OP_LOG_PLUS_ONE, TRM_OP_ERF,  TRM_OP_SINE,     TRM_OP_TAN,
                                  TRM_OP_RSQRT,        TRM_OP_CBRT, TRM_OP_POWER,    TRM_OP_ATAN2,
                                  TRM_OP_DIVIDE};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i)
    bench(trm_opcode_name(functions[i]), TRM_F32, 1 << 22, &functions[i], 1);
  bench("exponential", TRM_F16, 1 << 22, functions, 1);
  return 0;
}
