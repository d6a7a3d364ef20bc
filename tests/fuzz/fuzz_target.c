/* Fuzz target: machine descriptions; of one that is accepted, plans can be made. */
#include <stdint.h>
#include <stdlib.h>

#include "ipu/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  trm_target *target = NULL;
  if (trm_target_parse(data, size, "fuzz", &target, NULL) != TRM_OK) return 0;
  trm_target *small = NULL;
  trm_linear_plan plan;
  const trm_plan_options options = trm_plan_options_default();
  const trm_conv_params shapes[] = {trm_conv_params_matmul(TRM_F16, TRM_F16, 1, 20, 30, 40),
                                    trm_conv_params_matmul(TRM_F32, TRM_F32, 2, 3, 17, 64)};
  /* Any tile memory, units or bandwidths; not so many tiles that planning takes long. */
  if (trm_target_resize(target, 1, 1 + target->tiles_per_ipu % 64, &small, NULL) == TRM_OK) {
    for (int i = 0; i < 2; ++i) {
      if (trm_linear_plan_make(small, &shapes[i], &options, NULL, &plan, NULL) != TRM_OK) abort();
    }
  }
  trm_target_release(small);
  trm_target_release(target);
  return 0;
}
