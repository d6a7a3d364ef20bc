/* Owns: computing an instruction when a module is compiled (evaluate.h). */
#include "passes/evaluate.h"

#include "host/ops/kernel.h"

trm_status trm_evaluate(const trm_module *module, const trm_computation *computation,
                        const trm_instruction *instruction, trm_arena *scratch,
                        const void *const *operands, void *result, trm_error *error) {
  const trm_kernel_request request = {
      .module = module, .computation = computation, .instruction = instruction, .arena = scratch};
  return trm_kernel_run_once(&request, operands, result, error);
}
