/* Speed of the vectorised functions on one thread, in the first-level cache: the minimum of many
 * calls, in nanoseconds an element, for each instruction set that this CPU has. */
#include <stdio.h>
#include <time.h>

#include "host/ops/elementwise/vector.h"

enum { COUNT = 2048, CALLS = 3000 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void) {
  static const char *const sets[] = {"baseline", "avx2", "avx512"};
  static const trm_opcode opcodes[] = {
      TRM_OP_ADD,      TRM_OP_DIVIDE,       TRM_OP_SQRT,
      TRM_OP_RSQRT,    TRM_OP_EXPONENTIAL,  TRM_OP_EXPONENTIAL_MINUS_ONE,
      TRM_OP_LOG,      TRM_OP_LOG_PLUS_ONE, TRM_OP_TANH,
      TRM_OP_LOGISTIC, TRM_OP_ERF,          TRM_OP_SINE,
      TRM_OP_COSINE,   TRM_OP_POWER};
  static float a[COUNT], b[COUNT], out[COUNT];
  for (int i = 0; i < COUNT; ++i) a[i] = (float)(i * 37 % 4001 - 2000) / 500.0f, b[i] = 1.5f;
  for (size_t o = 0; o < sizeof opcodes / sizeof *opcodes; ++o) {
    printf("%-24s", trm_opcode_name(opcodes[o]));
    for (size_t s = 0; s < sizeof sets / sizeof *sets; ++s) {
      const trm_vector_ops *ops = trm_vector_ops_find(sets[s]);
      if (ops == NULL) continue;
      double best = 1.0;
      for (int call = 0; call < CALLS; ++call) {
        const double start = now();
        ops->op[opcodes[o]][TRM_V_F32](out, a, b, b, COUNT);
        const double taken = now() - start;
        best = taken < best ? taken : best;
      }
      printf("  %s %6.3f ns", sets[s], best * 1e9 / COUNT);
    }
    printf("\n");
  }
  return 0;
}
