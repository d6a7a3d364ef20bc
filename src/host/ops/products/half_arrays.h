/* Arrays of halves and bfloat16s, widened to float32 and rounded back, on several threads where it
 * pays, with the CPU's instructions where it has them. */
#ifndef TREMULA_HOST_OPS_PRODUCTS_HALF_ARRAYS_H_
#define TREMULA_HOST_OPS_PRODUCTS_HALF_ARRAYS_H_

#include <stdint.h>

#include "tremula/tremula.h"

/* dtype: TRM_F16 or TRM_BF16. */
void trm_halves_widen(trm_dtype dtype, const void *from, float *to, int64_t count);
void trm_halves_narrow(trm_dtype dtype, const float *from, void *to, int64_t count);

#endif /* TREMULA_HOST_OPS_PRODUCTS_HALF_ARRAYS_H_ */
