/* Executables: an optimised module with the plan by which the host runs it. Immutable, counted. */
#ifndef TREMULA_EXEC_EXECUTABLE_H_
#define TREMULA_EXEC_EXECUTABLE_H_

#include <stdatomic.h>

#include "exec/options.h"
#include "exec/plan.h"
#include "passes/pass.h"

struct trm_executable {
  atomic_int references;
  trm_arena arena;
  trm_module *module;      /* optimised, fused, scheduled */
  trm_module *host_module; /* that the plan is made from; NULL: the one above */
  trm_plan *plan;
  trm_options options;
  /* What planning for an IPU has found, if anything: that it fits, or the words in which it does
   * not (in the arena). Written while one thread has the executable. */
  bool known_to_fit;
  const char *misfit;
  size_t num_inputs, num_outputs;
  trm_tensor_info *inputs, *outputs;
  int64_t *aliases; /* by output: the input that it updates, or -1 */
};

trm_executable *trm_executable_retain(trm_executable *executable);

/* replication.c. Writes down how many shards a module has, before passes lose them. */
trm_status trm_executable_note_shards(trm_module *module, trm_error *error);

/* host_module.c. The module that the host's plan is better made from, or NULL. */
trm_status trm_executable_host_module(const trm_module *module, trm_module **out_module,
                                      trm_error *error);

/* Compiles with an observer that is told of every pass (NULL: none). */
trm_status trm_compile_observed(const trm_module *module, const trm_option *options,
                                size_t num_options, trm_pass_observer observer, void *context,
                                trm_executable **out_executable, trm_error *error);

/* Makes an executable of a module that has been through the passes. Takes the module, also on
 * failure. */
trm_status trm_executable_from_optimised(trm_module *module, const trm_option *options,
                                         size_t num_options, trm_executable **out_executable,
                                         trm_error *error);

#endif /* TREMULA_EXEC_EXECUTABLE_H_ */
