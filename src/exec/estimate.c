/* Owns: the estimate of an executable, which is the program that an IPU would run
 * (tremula/program.h). */
#include "base/sized.h"
#include "exec/executable.h"
#include "program/program.h"

static void release(void *keeper) { trm_executable_free(keeper); }

void trm_program_options_of(const trm_executable *executable, trm_program_options *options) {
  (void)TRM_GIVE(options, executable->options.estimate);
}

/* The target of the executable, with as many IPUs as it was compiled for. */
static trm_status target_of(const trm_executable *executable, trm_target **out_target,
                            trm_error *error) {
  trm_target *machine;
  TRY(trm_target_load(executable->options.target, &machine, error));
  const trm_status status =
      trm_target_resize(machine, (uint32_t)executable->options.ipus, 0, out_target, error);
  trm_target_release(machine);
  return status;
}

static trm_status make_estimate(trm_executable *executable, const trm_target *target,
                                const trm_program_options *options, trm_program **out_program,
                                trm_error *error) {
  trm_program_options own_options;
  trm_target *own_target = NULL;
  if (options == NULL) {
    own_options = executable->options.estimate;
    TRY(trm_executable_num_replicas(executable, &own_options.replicas, error));
    options = &own_options;
  }
  if (target == NULL) {
    TRY(target_of(executable, &own_target, error));
    target = own_target;
  }
  const trm_status status =
      trm_program_create_shared(executable->shared, target, options, out_program, error);
  trm_target_release(own_target);
  if (status != TRM_OK) return status;
  (*out_program)->keeper = executable;
  (*out_program)->release = release;
  return TRM_OK;
}

/* The estimate with the executable's own options; the first caller makes it. A failure is not kept,
 * because it may have been a lack of memory. */
static trm_status kept(trm_executable *executable, trm_program **out_program, trm_error *error) {
  pthread_mutex_lock(&executable->estimating);
  trm_status status = TRM_OK;
  if (executable->estimate == NULL) {
    status = make_estimate(executable, NULL, NULL, &executable->estimate, error);
    if (status == TRM_OK) executable->estimate->is_kept = true;
  }
  *out_program = executable->estimate;
  pthread_mutex_unlock(&executable->estimating);
  return status;
}

trm_status trm_program_create_for_executable(trm_executable *executable, const trm_target *target,
                                             const trm_program_options *options,
                                             trm_program **out_program, trm_error *error) {
  const trm_status status = target == NULL && options == NULL
                                ? kept(executable, out_program, error)
                                : make_estimate(executable, target, options, out_program, error);
  if (status == TRM_OK) (void)trm_executable_retain(executable); /* trm_program_free releases it */
  return status;
}
