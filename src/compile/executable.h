/* Executables: an optimised module with its schedule. Immutable and reference-counted. */
#ifndef TREMULA_COMPILE_EXECUTABLE_H_
#define TREMULA_COMPILE_EXECUTABLE_H_

#include <pthread.h>
#include <stdatomic.h>

#include "compile/options.h"
#include "host/schedule/schedule.h"
#include "passes/pass.h"

struct trm_executable {
  atomic_int references;
  trm_arena arena;
  trm_module *shared; /* after the passes that host and IPU share; executable files hold it */
  trm_module *module; /* after the passes of the host; shares constants with `shared` */
  trm_schedule *schedule;
  bool is_only_planned; /* `module` is `shared`, and the schedule has no steps */
  trm_options options;
  /* The result of the estimate, if known: whether the program fits, or the message that it does not
   * (in the arena). Written before other threads have the executable. */
  bool known_to_fit;
  const char *misfit;
  size_t num_inputs, num_outputs;
  trm_tensor_info *inputs, *outputs;
  int64_t *aliases; /* by output: the input that it updates, or -1 */
  /* By input and output: float16 for the caller, float32 for the schedule (edges.c). */
  bool has_floats, *float_inputs, *float_outputs;
  /* The estimate with the executable's own options, made on demand. */
  pthread_mutex_t estimating; /* guards the estimate */
  struct trm_program *estimate;
};

trm_executable *trm_executable_retain(trm_executable *executable);

/* replication.c. Records the number of shards of a module before passes drop shardings. */
trm_status trm_executable_note_shards(trm_module *module, trm_error *error);
/* Warns where the header of the text states another number of replicas than the options make. */
void trm_executable_compare_replicas(const trm_executable *executable);
/* trm_executable_tells_replicas_apart of a module. */
bool trm_module_tells_replicas_apart(const trm_module *module);

/* Compiles, and calls the observer after every pass (NULL: none). */
trm_status trm_compile_observed(const trm_module *module, const trm_option *options,
                                size_t num_options, trm_pass_observer observer, void *context,
                                trm_executable **out_executable, trm_error *error);

/* Compiles a module for its plan alone: the host's passes do not run, and no engine runs it. */
trm_status trm_compile_for_plan(const trm_module *module, const trm_option *options,
                                size_t num_options, trm_executable **out_executable,
                                trm_error *error);

/* Makes an executable of a module that has been through the shared passes. Takes over the module,
 * also on failure. */
trm_status trm_executable_from_shared(trm_module *module, const trm_option *options,
                                      size_t num_options, trm_executable **out_executable,
                                      trm_error *error);
/* The same program, with another accelerator; compiled regions are kept where those of `executable`
 * are. */
trm_status trm_executable_for(const trm_executable *executable,
                              const trm_accelerator_settings *accelerator,
                              trm_executable **out_executable, trm_error *error);

#endif /* TREMULA_COMPILE_EXECUTABLE_H_ */
