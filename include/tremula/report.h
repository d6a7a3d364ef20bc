/* Profiles: what an IPU would need, checked when a program is compiled and written where asked for.
 *
 *   trm_report_create()   plans an executable, checks that it fits, begins a profile
 *   trm_report_run()      adds a run
 *   trm_report_free()     closes the profile
 *   trm_report_print()    a profile, or two compared, as text or JSON
 *   trm_report_describe() a program in one document, without a profile
 *
 * The first three belong together, for as long as an executable runs:
 *
 *     trm_report_create ──► trm_report_run, once after each run ──► trm_report_free
 *
 * Engine options (autoReport.all and others, in Poplar's words) come from the executable's option
 * engine_options and from the environment's POPLAR_ENGINE_OPTIONS, which wins. The files and their
 * contents: docs/profile_format.md.
 *
 * Structs that grow. The first member is `size`, which the caller sets to sizeof, as in program.h.
 *
 * Stability. The functions down to trm_report_print stay as they are until the soname changes; the
 * documents of trm_report_describe may get more keys (docs/events.md). */
#ifndef TREMULA_REPORT_H_
#define TREMULA_REPORT_H_

#include "tremula/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trm_report trm_report;

/* Who compiles; the texts may be NULL. */
typedef struct trm_report_framework {
  size_t size;                /* sizeof, set by the caller */
  const char *name, *version; /* "TensorFlow", "2.15.1" */
} trm_report_framework;

/* Plans the executable with its own options (target, ipus, ...) and writes the profile where one is
 * asked for, each into a new directory. `framework` may be NULL. A program that does not fit is an
 * error, TRM_INTERNAL in Poplar's words with the profile already written, or, with the executable's
 * option ipu_model, a warning in the log. *out_report is NULL when no runs are to be recorded. */
TRM_API trm_status trm_report_create(trm_executable *executable,
                                     const trm_report_framework *framework, trm_report **out_report,
                                     trm_error *error);
/* The same without a profile: only whether the program fits. */
TRM_API trm_status trm_report_check(trm_executable *executable, trm_error *error);
/* When a run was, in seconds of any clock that does not go back. */
typedef struct trm_report_times {
  size_t size; /* sizeof, set by the caller */
  double began, ended;
  double infeed_wait; /* of that, how long it waited for infeeds */
  /* When the device ended what it ran before, if that was another program; else anything below the
   * end of the report's last run. */
  double device_free;
  bool is_switch; /* the device ran another program before: this one had to be loaded */
} trm_report_times;
/* Adds a run. The time since the device was free is waiting for the host; the first run waits for
 * nothing. After executionProfileProgramRunCount runs it does nothing. For one thread at a time.
 * Failure to write, or times whose size is not set, is a warning in the log. NULL is allowed for
 * the report. */
TRM_API void trm_report_run(trm_report *report, const trm_report_times *times);
/* The directory of the profile; lives as long as the report. "" for NULL. */
TRM_API const char *trm_report_directory(const trm_report *report);
/* NULL is allowed. */
TRM_API void trm_report_free(trm_report *report);

/* Text of the profile in `directory` (or a path of a profile.pop), the same each time; with
 * `other`, the two compared by layer. JSON where `json`. Free *out_text with trm_free. */
TRM_API trm_status trm_report_print(const char *directory, const char *other, bool json,
                                    char **out_text, trm_error *error);

/* The host's timelines (.pvti files) and the runs of profiles (directories) in one document of
 * Chrome's Trace Event Format, in microseconds. NOT_FOUND, INVALID_ARGUMENT for a file that is
 * neither. Free *out_text with trm_free. */
TRM_API trm_status trm_report_export(const char *const *files, size_t num_files, char **out_text,
                                     trm_error *error);

/* ---- Without a profile ---------------------------------------------------------------------- */

typedef enum trm_report_part {
  TRM_REPORT_GRAPH,        /* target, compute sets, vertices, memory */
  TRM_REPORT_EXECUTION,    /* the cycles of a run and its steps */
  TRM_REPORT_TENSOR_MAP,   /* how many elements of each value are on which tile; never text */
  TRM_REPORT_INSTRUCTIONS, /* which part of training each product is; never text */
} trm_report_part;
typedef enum trm_report_form {
  TRM_REPORT_AS_JSON,
  TRM_REPORT_AS_TEXT, /* as `tremula report` prints it */
  TRM_REPORT_AS_CBOR  /* the JSON's data */
} trm_report_form;

/* The part of `program`, which is that of `executable`, as docs/events.md has it; at most
 * most_bytes of it (0: no bound), or RESOURCE_EXHAUSTED. *out_data ends with a NUL that *out_size
 * does not count; free it with trm_free. */
TRM_API trm_status trm_report_describe(const trm_executable *executable, const trm_program *program,
                                       trm_report_part part, trm_report_form form,
                                       size_t most_bytes, char **out_data, size_t *out_size,
                                       trm_error *error);
/* The same as JSON into a new file, of any length. */
TRM_API trm_status trm_report_describe_file(const trm_executable *executable,
                                            const trm_program *program, trm_report_part part,
                                            const char *path, trm_error *error);

typedef struct trm_report_option_row {
  size_t size; /* sizeof, set by the caller */
  const char *key, *default_value, *help;
  bool acts; /* false: accepted, and has no effect */
} trm_report_option_row;
/* Engine option i; false for i out of range, or where size is not set. */
TRM_API bool trm_report_option(size_t i, trm_report_option_row *out_row);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_REPORT_H_ */
