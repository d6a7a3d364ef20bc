/* The kernel of the custom call "tremula.region", a region that an accelerator computes
 * (host/passes/accelerate.c). The engine runs it, because only the engine knows where each array is
 * (host/exec/residence.h). */
#ifndef TREMULA_HOST_OPS_CALLS_REGION_H_
#define TREMULA_HOST_OPS_CALLS_REGION_H_

#include "host/accelerator/accelerator.h"
#include "host/ops/kernel.h"

/* The call's backend_config is the region's key and `precision`. */
typedef struct trm_region_kernel {
  trm_region *compiled;
  const char *precision;      /* behind the accelerator's name in what people read; may be "" */
  trm_kernel_request request; /* operands are arrays, the result is a tuple of arrays */
} trm_region_kernel;

/* The region of a kernel; NULL for other kernels, and for none. */
const trm_region_kernel *trm_region_kernel_of(const trm_kernel *kernel);

#endif /* TREMULA_HOST_OPS_CALLS_REGION_H_ */
