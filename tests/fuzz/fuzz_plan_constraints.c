/* Fuzz target: planConstraints; what is accepted is kept by the plan or refused. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ipu/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (text == NULL) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  trm_target *mk2 = NULL, *small = NULL;
  if (trm_target_load("mk2", &mk2, NULL) != TRM_OK ||
      trm_target_resize(mk2, 1, 32, &small, NULL) != TRM_OK) {
    abort();
  }
  trm_plan_options options = trm_plan_options_default();
  options.constraints = text;
  const trm_conv_params matmul = trm_conv_params_matmul(TRM_F16, TRM_F16, 1, 64, 64, 64);
  trm_linear_plan plan;
  if (trm_linear_plan_make(small, &matmul, &options, NULL, &plan, NULL) == TRM_OK &&
      plan.tiles_used > 32) {
    abort();
  }
  trm_target_release(small);
  trm_target_release(mk2);
  free(text);
  return 0;
}
