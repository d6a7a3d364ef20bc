/* Fuzz target: a module is read and planned for an IPU, as it is and through the passes. */
#include <stdint.h>
#include <stdlib.h>

#include "ipu/program/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void plan(const trm_module *module, bool optimised, const trm_target *target) {
  trm_program *program = NULL;
  trm_program_options options = trm_program_default_options();
  options.compile_ipu_code = options.recompute = true;
  options.replicas = 2;
  options.assumed_trip_count = 3;
  if (trm_program_create(module, optimised, target, &options, &program, NULL) != TRM_OK) return;
  char *text = NULL;
  if (trm_program_explain(program, false, &text, NULL) == TRM_OK) trm_free(text);
  trm_program_free(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  trm_module *module = NULL;
  trm_target *whole = NULL, *small = NULL;
  if (trm_module_read(data, size, "fuzz", &module, NULL) != TRM_OK) return 0;
  if (trm_target_load("mk2", &whole, NULL) == TRM_OK &&
      trm_target_resize(whole, 1, 16, &small, NULL) == TRM_OK) {
    plan(module, false, small);
    plan(module, true, small);
  }
  trm_target_release(small);
  trm_target_release(whole);
  trm_module_free(module);
  return 0;
}
