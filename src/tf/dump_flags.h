/* XLA_FLAGS, as far as it is about dumps (docs/dumps.md). */
#ifndef TREMULA_TF_DUMP_FLAGS_H_
#define TREMULA_TF_DUMP_FLAGS_H_

#include <regex.h>
#include <stdbool.h>

typedef struct dump_flags {
  char *folder; /* NULL: no dumps; "-": standard output */
  bool text, dot, proto;
  bool colors; /* --xla_hlo_graph_sharding_color */
  bool has_passes, has_modules;
  regex_t passes, modules; /* --xla_dump_hlo_pass_re, --xla_dump_hlo_module_re */
} dump_flags;

/* Reads the environment. Of a flag that is given several times the last one counts. What cannot be
 * done is told: a flag of XLA's that this has not once in a process. */
void dump_flags_read(dump_flags *out);
void dump_flags_free(dump_flags *flags);

#endif /* TREMULA_TF_DUMP_FLAGS_H_ */
