/* Profiles: what a program needs on an IPU. A profile is checked when a program is compiled, and
 * written if engine options ask for it.
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
 * Engine options (Poplar's autoReport.all and others) come from the executable's option
 * engine_options and from the environment variable POPLAR_ENGINE_OPTIONS, which wins.
 * docs/profile_format.md describes the files.
 *
 * Structs that grow. The first member is `size`, which the caller sets to sizeof, as in program.h.
 *
 * Stability. The functions down to trm_report_print stay as they are until the soname changes. The
 * documents of trm_report_describe may get more keys (docs/events.md). */
#ifndef TREMULA_REPORT_H_
#define TREMULA_REPORT_H_

#include "tremula/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trm_report trm_report;

/* The framework that compiles; the texts may be NULL. */
typedef struct trm_report_framework {
  size_t size;                /* sizeof, set by the caller */
  const char *name, *version; /* "TensorFlow", "2.15.1" */
  /* The inputs of the first run (trm_program_options.inputs), which count loops; or NULL. */
  const void *const *inputs;
  /* The program's processes (trm_engine_settings.num_processes) and which of them this is; 0 and 1:
   * the program is this process's own. */
  uint32_t num_processes, process;
} trm_report_framework;

/* Plans the executable with its own options (target, ipus, ...). If engine options ask for a
 * profile, writes it into a new directory. `framework` may be NULL. A program that does not fit is
 * an error, TRM_INTERNAL with Poplar's message, after the profile is written; with the executable's
 * option ipu_model it is a warning in the log. So is an estimate that fails, unless an option is
 * wrong. *out_report is NULL if no runs are to be recorded. Free it with trm_report_free. */
TRM_API trm_status trm_report_create(trm_executable *executable,
                                     const trm_report_framework *framework, trm_report **out_report,
                                     trm_error *error);
/* Checks only whether the program fits, and writes no profile. */
TRM_API trm_status trm_report_check(trm_executable *executable, trm_error *error);
/* The times of a run, in seconds of any monotonic clock. */
typedef struct trm_report_times {
  size_t size; /* sizeof, set by the caller */
  double began, ended;
  double infeed_wait; /* the part of the run in which it waited for infeeds */
  /* When the device ended the run of another program before this one; otherwise any time before the
   * end of the report's last run. */
  double device_free;
  bool is_switch; /* the device ran another program before, so this one had to be loaded */
  /* The inputs of the run; NULL: those of trm_report_create. Where they let loops run another
   * number of times, the run has cycles and steps of its own. */
  const void *const *inputs;
} trm_report_times;
/* Adds a run. The time since the device was free counts as waiting for the host; the first run has
 * none. After executionProfileProgramRunCount runs it does nothing. For one thread at a time. A
 * failure to write, or a `size` that is not set, is a warning in the log. `report` may be NULL. */
TRM_API void trm_report_run(trm_report *report, const trm_report_times *times);
/* The directory of the profile, as long as the report lives; "" for NULL. */
TRM_API const char *trm_report_directory(const trm_report *report);
/* NULL is allowed. */
TRM_API void trm_report_free(trm_report *report);

/* Prints the profile in `directory` (or a path of a profile.pop) as text or, `json`, as JSON. With
 * `other` compares two profiles op by op. Equal profiles give equal text. Free *out_text with
 * trm_free. */
TRM_API trm_status trm_report_print(const char *directory, const char *other, bool json,
                                    char **out_text, trm_error *error);

/* Exports the host's timelines (.pvti files) and the runs of profiles (directories) to one document
 * of Chrome's Trace Event Format, in microseconds. NOT_FOUND, or INVALID_ARGUMENT for a file that
 * is neither. Free *out_text with trm_free. */
TRM_API trm_status trm_report_export(const char *const *files, size_t num_files, char **out_text,
                                     trm_error *error);

/* ---- Without a profile ---------------------------------------------------------------------- */

typedef enum trm_report_part {
  TRM_REPORT_GRAPH,        /* target, compute sets, vertices, memory */
  TRM_REPORT_EXECUTION,    /* the cycles of a run and its steps */
  TRM_REPORT_TENSOR_MAP,   /* the number of elements of each value on each tile; never text */
  TRM_REPORT_INSTRUCTIONS, /* the part of training of each product; never text */
} trm_report_part;
typedef enum trm_report_form {
  TRM_REPORT_AS_JSON,
  TRM_REPORT_AS_TEXT, /* as `tremula report` prints it */
  TRM_REPORT_AS_CBOR  /* the data of the JSON */
} trm_report_form;

/* Writes a part of `program`, the program of `executable`, as docs/events.md describes it.
 * RESOURCE_EXHAUSTED if it would take more than most_bytes (0: no limit). *out_data ends with a NUL
 * that *out_size does not count; free it with trm_free. */
TRM_API trm_status trm_report_describe(const trm_executable *executable, const trm_program *program,
                                       trm_report_part part, trm_report_form form,
                                       size_t most_bytes, char **out_data, size_t *out_size,
                                       trm_error *error);
/* The same as JSON in a new file, without a limit. */
TRM_API trm_status trm_report_describe_file(const trm_executable *executable,
                                            const trm_program *program, trm_report_part part,
                                            const char *path, trm_error *error);

typedef struct trm_report_option_row {
  size_t size; /* sizeof, set by the caller */
  const char *key, *default_value, *help;
  bool acts; /* false: accepted, and has no effect */
} trm_report_option_row;
/* Engine option i; false for i out of range, or if size is not set. */
TRM_API bool trm_report_option(size_t i, trm_report_option_row *out_row);

#ifdef __cplusplus
}
#endif

#endif /* TREMULA_REPORT_H_ */
