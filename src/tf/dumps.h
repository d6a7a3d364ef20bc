/* Owns: what a compilation writes into files for people to look at: XLA_FLAGS' dumps of the module,
 * the schedule (--dump_schedule_as_dot), the tensor map (--tensor_map_file_path). docs/dumps.md. A
 * file that cannot be written is a warning. */
#ifndef TREMULA_TF_DUMPS_H_
#define TREMULA_TF_DUMPS_H_

#include <regex.h>

#include "tensorflow.h"
#include "tremula/inspect.h"
#include "tremula/program.h"

/* XLA_FLAGS, as far as it is about dumps. */
typedef struct trm_tf_dump_flags {
  char *folder; /* NULL: no dumps; "-": standard output */
  bool text, dot, proto;
  bool colors; /* --xla_hlo_graph_sharding_color */
  bool has_passes, has_modules;
  regex_t passes, modules; /* --xla_dump_hlo_pass_re, --xla_dump_hlo_module_re */
} trm_tf_dump_flags;

/* Reads the environment. Of a flag that is given several times the last one counts. What cannot be
 * done is told: a flag of XLA's that this has not once in a process. */
void trm_tf_dump_flags_read(trm_tf_dump_flags *out);
void trm_tf_dump_flags_free(trm_tf_dump_flags *flags);

/* The dumps of one compilation; zeros: none. */
typedef struct trm_tf_dumps {
  trm_tf_dump_flags flags;
  bool is_on;
  const char *name; /* of the program */
  unsigned number;  /* of the module in this process */
  unsigned pass;    /* boundaries between passes so far */
} trm_tf_dumps;

/* Reads XLA_FLAGS and dumps the module as it has come. `name` (watch.h) must live as long as *d. */
void trm_tf_dumps_begin(trm_tf_dumps *d, const char *name, const trm_module *module);
/* After a pass. */
void trm_tf_dumps_pass(trm_tf_dumps *d, const char *pass, const trm_module *module);
/* Whether the estimate is wanted for trm_tf_dumps_estimate. */
bool trm_tf_dumps_want_estimate(void);
/* The schedule and the tensor map. */
void trm_tf_dumps_estimate(const trm_tf_dumps *d, const trm_executable *executable,
                           const trm_program *program);
void trm_tf_dumps_end(trm_tf_dumps *d);

/* ---- For Python ---- */

/* --dump_schedule_as_dot, and --tensor_map_file_path ("": none). */
TRM_TF_API void trm_tf_dump_estimates(int32_t schedule, const char *tensor_map_folder);

#endif /* TREMULA_TF_DUMPS_H_ */
