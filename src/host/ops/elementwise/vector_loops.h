/* Macros that define the loops of vector.c. */
#ifndef TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_LOOPS_H_
#define TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_LOOPS_H_

#include <stddef.h>

#define IVDEP _Pragma("GCC ivdep")
#define UNUSED(x) (void)(x)
#define SIGNATURE void *out, const void *a, const void *b, const void *c, size_t n

/* A loop. R and T are the types of result and operands; x, y, z are elements of the operands. */
#define LOOP1(name, R, T, expression)      \
  static void name(SIGNATURE) {            \
    UNUSED(b), UNUSED(c);                  \
    R *const o = out;                      \
    const T *const p = a;                  \
    IVDEP for (size_t i = 0; i < n; ++i) { \
      const T x = p[i];                    \
      o[i] = (R)(expression);              \
    }                                      \
  }
#define LOOP2(name, R, T, expression)      \
  static void name(SIGNATURE) {            \
    UNUSED(c);                             \
    R *const o = out;                      \
    const T *const p = a, *const q = b;    \
    IVDEP for (size_t i = 0; i < n; ++i) { \
      const T x = p[i], y = q[i];          \
      o[i] = (R)(expression);              \
    }                                      \
  }
#define LOOP3(name, R, T, expression)                 \
  static void name(SIGNATURE) {                       \
    R *const o = out;                                 \
    const T *const p = a, *const q = b, *const s = c; \
    IVDEP for (size_t i = 0; i < n; ++i) {            \
      const T x = p[i], y = q[i], z = s[i];           \
      o[i] = (R)(expression);                         \
    }                                                 \
  }

#endif /* TREMULA_HOST_OPS_ELEMENTWISE_VECTOR_LOOPS_H_ */
