/* Owns: the program that an IPU would run, of an executable (tremula/program.h). */
#include "base/sized.h"
#include "exec/executable.h"
#include "program/program.h"

static void release(void *keeper) { trm_executable_free(keeper); }

void trm_program_options_of(const trm_executable *executable, trm_program_options *options) {
  (void)TRM_GIVE(options, executable->options.estimate);
}

trm_status trm_program_create_for_executable(trm_executable *executable, const trm_target *target,
                                             const trm_program_options *options,
                                             trm_program **out_program, trm_error *error) {
  trm_program_options own_options;
  trm_target *own_target = NULL;
  if (options == NULL) {
    own_options = executable->options.estimate;
    TRY(trm_executable_num_replicas(executable, &own_options.replicas, error));
    options = &own_options;
  }
  if (target == NULL) {
    TRY(trm_target_load(executable->options.target, &own_target, error));
    target = own_target;
  }
  const trm_status status =
      trm_program_create(executable->module, true, target, options, out_program, error);
  trm_target_release(own_target);
  if (status != TRM_OK) return status;
  (*out_program)->keeper = trm_executable_retain(executable);
  (*out_program)->release = release;
  return TRM_OK;
}
