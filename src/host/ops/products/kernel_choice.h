/* Kernels that choose between two versions in each run. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_KERNEL_CHOICE_H_
#define TREMULA_HOST_OPS_PRODUCTS_KERNEL_CHOICE_H_

#include "host/ops/kernel.h"

/* Creates a kernel from two that give the same bits: `one` on one thread, `all` on `threads`. Each
 * run takes the one that should be faster. `same_packing`: both use the same
 * packed weights. It takes over both kernels, also when it fails. */
trm_status trm_kernel_choose_threads(trm_arena *arena, const trm_kernel *one, const trm_kernel *all,
                                     int threads, bool same_packing, trm_kernel *out_kernel,
                                     trm_error *error);

/* Creates a kernel from two that give the same bits. `packed` keeps an operand in its own format;
 * it runs if the operand has a version, so that its contents may serve again. Takes over both
 * kernels, also when it fails. */
trm_status trm_kernel_choose_packed(trm_arena *arena, const trm_kernel *plain,
                                    const trm_kernel *packed, uint32_t operand,
                                    trm_kernel *out_kernel, trm_error *error);

#endif /* TREMULA_HOST_OPS_PRODUCTS_KERNEL_CHOICE_H_ */
