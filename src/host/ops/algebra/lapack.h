/* LAPACK's routines in JAX's form, "lapack_spotrf_ffi" and the like. */
#ifndef TREMULA_HOST_OPS_ALGEBRA_LAPACK_H_
#define TREMULA_HOST_OPS_ALGEBRA_LAPACK_H_

#include "host/ops/kernel.h"

/* The letter of an option of JAX's calls, such as `uplo = 76 : ui8`; 0 if there is none. */
uint8_t trm_lapack_option(const char *config, const char *name);
/* Fails for a call that no LAPACK computes: another routine, shapes that do not fit together. */
trm_status trm_lapack_check(const trm_kernel_request *request, trm_error *error);
/* A kernel that calls a LAPACK found at run time. */
trm_status trm_lapack_create(const trm_kernel_request *, trm_kernel *, bool *, trm_error *);

#endif /* TREMULA_HOST_OPS_ALGEBRA_LAPACK_H_ */
