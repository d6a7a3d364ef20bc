/* A LAPACK that is found at run time: SciPy's, NumPy's or the system's. It is opened when a program
 * needs a routine that Tremula itself has not (docs/c_library.md). */
#ifndef TREMULA_HOST_OPS_ALGEBRA_LAPACK_LIBRARY_H_
#define TREMULA_HOST_OPS_ALGEBRA_LAPACK_LIBRARY_H_

#include <stdbool.h>

enum { TRM_LAPACK_ARGUMENTS = 20 };

typedef struct trm_lapack_routine {
  void (*function)(void); /* of Fortran: all arguments are addresses */
  bool is_wide;           /* its whole numbers have 64 bits, otherwise 32 */
} trm_lapack_routine;

/* Finds a routine, such as "dgees"; false where no LAPACK has it. */
bool trm_lapack_find(const char *name, trm_lapack_routine *out_routine);
/* Calls it. Arguments behind the last are 1: Fortran's hidden lengths of the letters. */
void trm_lapack_call(const trm_lapack_routine *routine, void *const *arguments, int count);

#endif /* TREMULA_HOST_OPS_ALGEBRA_LAPACK_LIBRARY_H_ */
