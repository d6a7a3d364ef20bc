/* What the files of LAPACK's reference kernels share. */
#ifndef TREMULA_HOST_OPS_ALGEBRA_REFERENCE_LAPACK_H_
#define TREMULA_HOST_OPS_ALGEBRA_REFERENCE_LAPACK_H_

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>

typedef double complex trm_lapack_number;

typedef struct trm_lapack_routine trm_lapack_routine;
typedef struct trm_lapack_matrices {
  const trm_lapack_routine *routine;
  int64_t m, n, columns; /* the first operand; the second's columns (trsm) or taus (orgqr) */
  int64_t batch;
  bool is_complex;
  uint8_t uplo, side, trans, diag, mode; /* the options' letters; of geev the right vectors' mode */
  uint8_t left_mode;                     /* of geev */
} trm_lapack_matrices;

/* The operands, dense, may be overwritten; results[i] are dense, too. The scratch has room for
 * 4 k k + 4 k numbers, where k is the larger of m and n. */
typedef void trm_lapack_run(const trm_lapack_matrices *, trm_lapack_number *const *operands,
                            trm_lapack_number *const *results, trm_lapack_number *scratch);

trm_lapack_run trm_lapack_geqp3, trm_lapack_gehrd, trm_lapack_sytrd, trm_lapack_gees,
    trm_lapack_geev;

/* Of a column x of `count` numbers, `stride` apart: x becomes beta and the reflector's v (without
 * its 1), where (I - tau v v')' x = (beta, 0, ...). Returns tau. */
trm_lapack_number trm_lapack_reflector(trm_lapack_number *x, int64_t stride, int64_t count);

#endif /* TREMULA_HOST_OPS_ALGEBRA_REFERENCE_LAPACK_H_ */
