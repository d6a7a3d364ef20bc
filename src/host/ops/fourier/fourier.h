/* Discrete Fourier transforms of many lines at once. fourier.c is compiled once for each
 * instruction set; all give the same bits, for any number of threads.
 *
 * The lines of a group lie beside each other in vectors. A line is cut by small factors (Stockham's
 * form of Cooley and Tukey's method; Van Loan, Computational Frameworks for the Fast Fourier
 * Transform, 1.7); where there is a large prime factor it becomes a convolution (Bluestein; 4.2.3).
 * Long lines are two passes over short ones (the four-step method; 3.3.2). */
#ifndef TREMULA_HOST_OPS_FOURIER_FOURIER_H_
#define TREMULA_HOST_OPS_FOURIER_FOURIER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

enum { TRM_FOURIER_VECTOR_BYTES = 64 /* at most */, TRM_FOURIER_MAX_FACTORS = 40 };

/* A line of n. Tables are of the type of the lines, of real and imaginary parts in turn. */
typedef struct trm_fourier_line {
  int64_t n, num_factors, factors[TRM_FOURIER_MAX_FACTORS]; /* 2, 3, 4, 5 or a prime up to 31 */
  /* For each factor r of what remains, m r: exp(-2 pi i p j / (m r)), p < m, j < r. */
  void *twiddles;
  /* Where a prime factor is too large: exp(-pi i j j / n), the transform of its conjugate, and the
   * line whose length is a power of 2. */
  void *chirp, *spectrum;
  struct trm_fourier_line *power;
} trm_fourier_line;

/* A transform of length n; where it is split, n = n1 n2. */
typedef struct trm_fourier_plan {
  int64_t n;
  bool is_split;
  trm_fourier_line *first, *second; /* of n1 and n2; only the first where it is not split */
  void *twiddles;                   /* exp(-2 pi i k / n), where it is split */
} trm_fourier_plan;

typedef enum trm_fourier_kind {
  TRM_FOURIER_COMPLEX,
  TRM_FOURIER_REAL, /* imaginary parts are 0, or are left out */
  TRM_FOURIER_HALF, /* the first n / 2 + 1 of a Hermitian line */
} trm_fourier_kind;

/* All lines along a dimension. Element e of line i is at i / stride * block + i % stride +
 * e * stride, in elements of the array. In place where `in` is `out` and the kinds are equal. */
typedef struct trm_fourier_pass {
  const trm_fourier_plan *plan;
  trm_fourier_kind in_kind, out_kind;
  const void *in;
  void *out;
  int64_t lines, stride, in_block, out_block;
  bool is_inverse; /* and divided by n */
  int threads;
  void *scratch; /* trm_fourier_scratch */
} trm_fourier_pass;

/* For lines of float32, or of float64, of which there will be `lines`. NULL: no memory, or a prime
 * factor of tens of thousands. */
trm_fourier_plan *trm_fourier_plan_create(trm_arena *arena, int64_t n, int64_t lines,
                                          bool is_double);
/* Bytes that a pass needs on up to `threads`. */
size_t trm_fourier_scratch(const trm_fourier_plan *plan, bool is_double, int threads);
void trm_fourier_run(const trm_fourier_pass *pass, bool is_double);

typedef struct trm_fourier_ops {
  void (*run[2])(const trm_fourier_pass *pass); /* float32, float64 */
} trm_fourier_ops;

#endif /* TREMULA_HOST_OPS_FOURIER_FOURIER_H_ */
