/* Owns: the estimate of an executable, which is the program that an IPU would run
 * (tremula/program.h). */
#include "base/sized.h"
#include "compile/executable.h"
#include "ipu/program/program.h"
#include "ipu/target/parse.h"

static void release(void *keeper) { trm_executable_free(keeper); }

void trm_program_options_of(const trm_executable *executable, trm_program_options *options) {
  (void)TRM_GIVE(options, executable->options.estimate);
}

/* The target of the executable, with as many IPUs as it was compiled for, and the domains that
 * poprun says. */
static trm_status target_of(const trm_executable *executable, trm_target **out_target,
                            trm_error *error) {
  trm_target *machine;
  TRY(trm_target_load(executable->options.target, &machine, error));
  trm_status status =
      trm_target_resize(machine, (uint32_t)executable->options.ipus, 0, out_target, error);
  trm_target_release(machine);
  if (status == TRM_OK) status = trm_target_take_environment(*out_target, error);
  if (status != TRM_OK) trm_target_release(*out_target);
  return status;
}

/* The executable's own options, for a run with these inputs. */
static trm_status own_options(const trm_executable *executable, const void *const *inputs,
                              trm_program_options *out_options, trm_error *error) {
  *out_options = executable->options.estimate;
  out_options->inputs = inputs;
  return trm_executable_num_replicas(executable, &out_options->replicas, error);
}

static trm_status make_estimate(trm_executable *executable, const trm_target *target,
                                const trm_program_options *options, trm_program **out_program,
                                trm_error *error) {
  trm_target *own_target = NULL;
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
static trm_status kept(trm_executable *executable, const trm_program_options *options,
                       trm_program **out_program, trm_error *error) {
  pthread_mutex_lock(&executable->estimating);
  trm_status status = TRM_OK;
  if (executable->estimate == NULL) {
    status = make_estimate(executable, NULL, options, &executable->estimate, error);
    if (status == TRM_OK) executable->estimate->is_kept = true;
  }
  *out_program = executable->estimate;
  pthread_mutex_unlock(&executable->estimating);
  return status;
}

trm_status trm_program_create_for_run(trm_executable *executable, const void *const *inputs,
                                      trm_program **out_program, trm_error *error) {
  trm_program_options options;
  TRY(own_options(executable, inputs, &options, error));
  TRY(kept(executable, &options, out_program, error));
  if (!trm_program_suits(*out_program, inputs)) {
    TRY(make_estimate(executable, NULL, &options, out_program, error));
  }
  (void)trm_executable_retain(executable); /* trm_program_free releases it */
  return TRM_OK;
}

trm_status trm_program_create_for_executable(trm_executable *executable, const trm_target *target,
                                             const trm_program_options *options,
                                             trm_program **out_program, trm_error *error) {
  trm_program_options own;
  if (target == NULL && options == NULL) {
    return trm_program_create_for_run(executable, NULL, out_program, error);
  }
  if (options == NULL) {
    TRY(own_options(executable, NULL, &own, error));
    options = &own;
  }
  TRY(make_estimate(executable, target, options, out_program, error));
  (void)trm_executable_retain(executable);
  return TRM_OK;
}
