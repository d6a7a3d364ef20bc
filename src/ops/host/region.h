/* The kernel of the custom call "tremula.region", a region that an accelerator computes
 * (passes/accelerate.c). The engine runs it, because only the engine knows where each array is
 * (exec/residence.h). */
#ifndef TREMULA_OPS_HOST_REGION_H_
#define TREMULA_OPS_HOST_REGION_H_

#include "accelerator/accelerator.h"
#include "ops/kernel.h"

/* The call's backend_config is "exact" or this word, a space, and the region's key. */
#define TRM_REGION_FASTEST "fastest"

typedef struct trm_region_kernel {
  trm_region *compiled;
  bool is_fastest;            /* not every instruction is rounded as on the CPU */
  trm_kernel_request request; /* operands are arrays, the result is a tuple of arrays */
} trm_region_kernel;

/* The region of a kernel; NULL for other kernels. */
const trm_region_kernel *trm_region_kernel_of(const trm_kernel *kernel);

#endif /* TREMULA_OPS_HOST_REGION_H_ */
