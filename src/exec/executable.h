/* Executables: an optimised module with the schedule by which the host runs it. Immutable, counted.
 */
#ifndef TREMULA_EXEC_EXECUTABLE_H_
#define TREMULA_EXEC_EXECUTABLE_H_

#include <pthread.h>
#include <stdatomic.h>

#include "exec/options.h"
#include "exec/schedule.h"
#include "passes/pass.h"

struct trm_executable {
  atomic_int references;
  trm_arena arena;
  trm_module *shared; /* through the passes that host and IPU share: what a file holds */
  trm_module *module; /* the host's, of that; its constants are those of `shared` */
  trm_schedule *schedule;
  trm_options options;
  /* What planning for an IPU has found, if anything: that it fits, or the words in which it does
   * not (in the arena). Written while one thread has the executable. */
  bool known_to_fit;
  const char *misfit;
  size_t num_inputs, num_outputs;
  trm_tensor_info *inputs, *outputs;
  int64_t *aliases; /* by output: the input that it updates, or -1 */
  /* The one estimate by the executable's own options, once somebody has asked for it. */
  pthread_mutex_t estimating; /* guards it */
  struct trm_program *estimate;
};

trm_executable *trm_executable_retain(trm_executable *executable);

/* replication.c. Writes down how many shards a module has, before passes lose them. */
trm_status trm_executable_note_shards(trm_module *module, trm_error *error);

/* Compiles with an observer that is told of every pass (NULL: none). */
trm_status trm_compile_observed(const trm_module *module, const trm_option *options,
                                size_t num_options, trm_pass_observer observer, void *context,
                                trm_executable **out_executable, trm_error *error);

/* Makes an executable of a module that has been through the shared passes. Takes the module, also
 * on failure. */
trm_status trm_executable_from_shared(trm_module *module, const trm_option *options,
                                      size_t num_options, trm_executable **out_executable,
                                      trm_error *error);

#endif /* TREMULA_EXEC_EXECUTABLE_H_ */
