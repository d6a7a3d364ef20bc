/* Owns: choosing the table of vectorised loops for this CPU, once. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/ops/elementwise/vector.h"

extern const trm_vector_ops trm_vector_ops_baseline;
#if defined(__x86_64__)
extern const trm_vector_ops trm_vector_ops_avx2, trm_vector_ops_avx512;
#endif

#if defined(__x86_64__)
/* The features that -march=x86-64-v3 and -v4 use. GCC 11 does not know these names here, and clang
 * 14 (scripts/fuzz.sh) does not know the last three, which every CPU with bmi2 has. */
static bool has_v3(void) {
#if !defined(__clang__)
  if (!__builtin_cpu_supports("f16c") || !__builtin_cpu_supports("lzcnt") ||
      !__builtin_cpu_supports("movbe")) {
    return false;
  }
#endif
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
static bool has_v4(void) {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

const trm_vector_ops *trm_vector_ops_find(const char *name) {
  if (strcmp(name, "baseline") == 0) return &trm_vector_ops_baseline;
#if defined(__x86_64__)
  if (strcmp(name, "avx2") == 0 && has_v3()) return &trm_vector_ops_avx2;
  if (strcmp(name, "avx512") == 0 && has_v4()) return &trm_vector_ops_avx512;
#endif
  return NULL;
}

static const trm_vector_ops *choose(void) {
  const char *asked = getenv("TREMULA_ISA");
  if (asked != NULL && asked[0] != '\0') {
    const trm_vector_ops *found = trm_vector_ops_find(asked);
    if (found != NULL) return found;
    fprintf(stderr,
            "tremula: TREMULA_ISA=%s is not one of baseline, avx2, avx512 that this CPU "
            "has; the best one is used\n",
            asked);
  }
  const char *const names[] = {"avx512", "avx2"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    const trm_vector_ops *found = trm_vector_ops_find(names[i]);
    if (found != NULL) return found;
  }
  return &trm_vector_ops_baseline;
}

const trm_vector_ops *trm_vector_ops_get(void) {
  static _Atomic(const trm_vector_ops *) chosen;
  const trm_vector_ops *ops = atomic_load_explicit(&chosen, memory_order_acquire);
  if (ops == NULL) {
    ops = choose();
    atomic_store_explicit(&chosen, ops, memory_order_release);
  }
  return ops;
}
