/* What a compilation writes into files for people to look at: XLA_FLAGS' dumps of the module, the
 * schedule (--dump_schedule_as_dot), the tensor map (--tensor_map_file_path). docs/dumps.md. A file
 * that cannot be written is a warning. */
#ifndef TREMULA_TF_DUMPS_H_
#define TREMULA_TF_DUMPS_H_

#include "dump_flags.h"
#include "tensorflow.h"
#include "tremula/inspect.h"
#include "tremula/program.h"

/* The dumps of one compilation; zeros: none. */
typedef struct dumps {
  dump_flags flags;
  bool is_on;
  const char *name; /* of the program */
  unsigned number;  /* of the module in this process */
  unsigned pass;    /* boundaries between passes so far */
} dumps;

/* Reads XLA_FLAGS and dumps the module as it has come. `name` (names.h) must live as long as *d. */
void dumps_begin(dumps *d, const char *name, const trm_module *module);
/* After a pass. */
void dumps_pass(dumps *d, const char *pass, const trm_module *module);
/* Whether the plan is wanted for dumps_plan. */
bool dumps_want_plan(void);
/* The schedule and the tensor map. */
void dumps_plan(const dumps *d, const trm_executable *executable, const trm_program *program);
void dumps_end(dumps *d);

/* ---- For Python ---- */

/* --dump_schedule_as_dot, and --tensor_map_file_path ("": none). */
TRM_TF_API void trm_tf_dump_plans(int32_t schedule, const char *tensor_map_folder);

#endif /* TREMULA_TF_DUMPS_H_ */
