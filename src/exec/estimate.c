/* Owns: the program that an IPU would run, of an executable (tremula/program.h). */
#include "exec/executable.h"
#include "program/program.h"

static void release(void *keeper) { trm_executable_free(keeper); }

trm_status trm_program_create_for_executable(trm_executable *executable, const trm_target *target,
                                             const trm_program_options *options,
                                             trm_program **out_program, trm_error *error) {
  TRY(trm_program_create(executable->module, true, target, options, out_program, error));
  (*out_program)->keeper = trm_executable_retain(executable);
  (*out_program)->release = release;
  return TRM_OK;
}
