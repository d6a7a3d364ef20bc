/* Owns: the files that a compilation writes for people: dumps of the module (XLA_FLAGS), the
 * schedule (--dump_schedule_as_dot), the tensor map (--tensor_map_file_path). docs/dumps.md. A file
 * that cannot be written is a warning. */
#ifndef TREMULA_TF_DUMPS_H_
#define TREMULA_TF_DUMPS_H_

#include <regex.h>

#include "tensorflow.h"
#include "tremula/inspect.h"
#include "tremula/program.h"

/* The flags of XLA_FLAGS for dumps. */
typedef struct trm_tf_dump_flags {
  char *folder; /* NULL: no dumps; "-": standard output */
  bool text, dot, proto;
  bool colors; /* --xla_hlo_graph_sharding_color */
  bool has_passes, has_modules;
  regex_t passes, modules; /* --xla_dump_hlo_pass_re, --xla_dump_hlo_module_re */
} trm_tf_dump_flags;

/* Reads the environment. The last value of a repeated flag counts. A flag of XLA that this plugin
 * does not have is logged once in a process. */
void trm_tf_dump_flags_read(trm_tf_dump_flags *out);
void trm_tf_dump_flags_free(trm_tf_dump_flags *flags);

/* The dumps of one compilation; zeros: none. */
typedef struct trm_tf_dumps {
  trm_tf_dump_flags flags;
  bool is_on;
  const char *name; /* of the program */
  unsigned number;  /* the number of the module in this process */
  unsigned pass;    /* number of passes so far */
} trm_tf_dumps;

/* Reads XLA_FLAGS and dumps the incoming module. `name` (watch.h) must live as long as *d. */
void trm_tf_dumps_begin(trm_tf_dumps *d, const char *name, const trm_module *module);
/* Dumps the module after a pass. */
void trm_tf_dumps_pass(trm_tf_dumps *d, const char *pass, const trm_module *module);
/* Whether the estimate is wanted for trm_tf_dumps_estimate. */
bool trm_tf_dumps_want_estimate(void);
/* Writes the schedule and the tensor map. */
void trm_tf_dumps_estimate(const trm_tf_dumps *d, const trm_executable *executable,
                           const trm_program *program);
void trm_tf_dumps_end(trm_tf_dumps *d);

/* ---- For Python ---- */

/* Sets --dump_schedule_as_dot, and --tensor_map_file_path ("": none). */
TRM_TF_API void trm_tf_dump_estimates(int32_t schedule, const char *tensor_map_folder);

#endif /* TREMULA_TF_DUMPS_H_ */
