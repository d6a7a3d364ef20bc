/* Owns: reports of a program: planning it at compile time, its profile directory, its runs. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cycles.h"
#include "base/file.h"
#include "base/sized.h"
#include "base/wait.h"
#include "ipu/target/target.h"
#include "report/database.h"
#include "report/write.h"
#include "tremula/log.h"

struct trm_report {
  trm_executable *executable; /* with is_instrumented, to estimate runs with other inputs */
  bool is_instrumented;
  trm_program *program;       /* of the last run */
  int64_t first_row, end_row; /* its steps in the table trace */
  sqlite3 *database;
  sqlite3_stmt *insert;
  char directory[TRM_REPORT_PATH];
  char run_name[128];
  int64_t most_runs, runs;
  double clock; /* Hz */
  int64_t load_cycles, cycles_base;
  double first_began, last_ended;
};

/* ---- Planning ------------------------------------------------------------------------------- */

static bool is_instrumented(const trm_engine_options *engine) {
  return engine->instrument || engine->instrument_compute;
}

/* Gives the executable's own estimate of a run. With instrumentation the program has counters, so
 * an estimate is made for this report only. */
static trm_status estimate(trm_executable *executable, bool instrumented, const void *const *inputs,
                           trm_program **out_program, trm_error *error) {
  if (!instrumented) {
    return trm_program_create_for_run(executable, inputs, out_program, error);
  }
  trm_program_options options = executable->options.estimate;
  options.inputs = inputs;
  TRY(trm_executable_num_replicas(executable, &options.replicas, error));
  options.instrument = true;
  return trm_program_create_for_executable(executable, NULL, &options, out_program, error);
}

/* ---- The directory -------------------------------------------------------------------------- */

/* Makes tf_report__<date>__<pid>, or a later date where another process has made it. */
static trm_status make_directory(const char *parent, char out_path[TRM_REPORT_PATH],
                                 char out_timestamp[64], trm_error *error) {
  if (parent[0] == '\0') parent = ".";
  if (strlen(parent) > TRM_REPORT_PATH - 128) {
    FAIL(INVALID_ARGUMENT, "autoReport.directory has %zu bytes; at most %d are supported",
         strlen(parent), TRM_REPORT_PATH - 128);
  }
  TRY_NOTE(trm_make_folders(parent, error), "autoReport.directory");
  struct timespec now;
  struct tm parts;
  clock_gettime(CLOCK_REALTIME, &now);
  for (int attempt = 0; attempt < 10000; ++attempt) {
    long milliseconds = now.tv_nsec / 1000000 + attempt;
    const time_t seconds = now.tv_sec + milliseconds / 1000;
    milliseconds %= 1000;
    localtime_r(&seconds, &parts);
    char date[40];
    strftime(date, sizeof date, "%Y-%m-%d__%H-%M-%S", &parts);
    const char *slash = parent[strlen(parent) - 1] == '/' ? "" : "/";
    snprintf(out_path, TRM_REPORT_PATH, "%s%stf_report__%s.%03ld__%ld", parent, slash, date,
             milliseconds, (long)getpid());
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out_timestamp, 64, "%s.%03ld", date, milliseconds);
    if (mkdir(out_path, 0777) == 0) return TRM_OK;
    if (errno != EEXIST) break;
  }
  FAIL(UNAVAILABLE, "cannot make the directory %s for a profile: %s", out_path, strerror(errno));
}

/* ---- Writing -------------------------------------------------------------------------------- */

static const char *path_of(const trm_report_source *s, const char *file, char *buffer) {
  snprintf(buffer, TRM_REPORT_PATH + 32, "%s/%s", s->directory, file);
  return buffer;
}

static trm_status write_module(const trm_report_source *s, const char *path, trm_error *error) {
  char *text;
  TRY(trm_executable_print(s->executable, &text, error));
  const trm_status status = trm_write_file(path, text, strlen(text), error);
  trm_free(text);
  return status;
}

static trm_status write_files(trm_report_source *s, sqlite3 **out_database, trm_error *error) {
  char path[TRM_REPORT_PATH + 32];
  const bool graph = s->options->output_graph;
  const bool execution = s->options->output_execution;
  if (s->options->output_debug) {
    TRY(trm_report_write_debug(s, error));
  }
  if (graph || execution) {
    TRY(trm_report_write_profile(s, path_of(s, "profile.pop", path), graph, out_database, error));
  }
  if (s->options->output_vars) {
    TRY(trm_report_write_vars(s, path_of(s, "vars.capnp", path), error));
  }
  if (s->options->output_archive) {
    TRY(trm_report_write_archive(s, path_of(s, "archive.a", path), error));
  }
  if (s->options->output_serialized) {
    TRY(write_module(s, path_of(s, "serialized_graph.hlo", path), error));
  }
  return trm_report_write_framework(s, path_of(s, "framework.json", path), error);
}

/* Makes the report to which runs are added. It keeps the database open. */
static trm_status begin_runs(const trm_report_source *s, sqlite3 *database, trm_report **out_report,
                             trm_error *error) {
  trm_report *report = trm_allocate_zeroed(1, sizeof *report);
  trm_status status = TRM_RESOURCE_EXHAUSTED;
  if (report == NULL) {
    trm_fail(error, status, "out of memory for a profile");
  } else {
    status = trm_database_prepare(database, "INSERT INTO runs VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
                                  &report->insert, error);
  }
  if (status != TRM_OK) {
    sqlite3_close(database);
    trm_free(report);
    return status;
  }
  report->database = database;
  report->most_runs = s->options->run_count;
  report->clock = s->program->target->clock_frequency;
  report->end_row = s->num_rows;
  report->load_cycles = s->program->totals.load_cycles;
  snprintf(report->directory, sizeof report->directory, "%s", s->directory);
  snprintf(report->run_name, sizeof report->run_name, "%s", s->program->module->name);
  *out_report = report;
  return TRM_OK;
}

/* Deletes the files of an incomplete profile. */
static void remove_files(const trm_report_source *s) {
  static const char *const files[] = {"profile.pop", "vars.capnp", "archive.a",
                                      "serialized_graph.hlo", "framework.json"};
  char path[TRM_REPORT_PATH + 32];
  for (size_t f = 0; f < sizeof files / sizeof *files; ++f) unlink(path_of(s, files[f], path));
  rmdir(s->directory);
}

static trm_status write_report(trm_report_source *s, trm_report **out_report, trm_error *error) {
  TRY(make_directory(s->options->report_directory, s->directory, s->timestamp, error));
  sqlite3 *database = NULL;
  trm_status status = trm_lowered_create(s->program, &s->lowered, error);
  if (status == TRM_OK) {
    status = write_files(s, &database, error);
    trm_lowered_free(&s->lowered);
  }
  if (status != TRM_OK) {
    sqlite3_close(database);
    remove_files(s);
    return status;
  }
  trm_log(TRM_LOG_INFO, "REPORT", "wrote the profile of %s into %s", s->program->module->name,
          s->directory);
  if (database == NULL) return TRM_OK;
  if (!s->options->output_execution) {
    sqlite3_close(database);
    return TRM_OK;
  }
  return begin_runs(s, database, out_report, error);
}

/* Writes the profile. A failure (a full disk, missing rights) does not stop the compilation: the
 * log has a warning for the first program and an INFO line for each further one. */
static bool try_report(trm_report_source *s, trm_report **out_report) {
  static atomic_bool told;
  trm_error why = {0};
  if (write_report(s, out_report, &why) == TRM_OK) return true;
  trm_log(atomic_exchange(&told, true) ? TRM_LOG_INFO : TRM_LOG_WARN, "REPORT",
          "No profile of %s is written: %s", s->program->module->name, why.message);
  return false;
}

/* Reports that a program does not fit: an error on an IPU, a warning on the IPU Model. */
static trm_status refuse(const trm_executable *executable, const char *why, trm_error *error) {
  if (!executable->options.estimate.ipu_model) FAIL(INTERNAL, "%s", why);
  trm_log(TRM_LOG_WARN, "COMPILER",
          "The program does not fit on the IPU; the IPU Model runs it nevertheless. %s", why);
  return TRM_OK;
}

static trm_status judge(const trm_report_source *s, trm_executable *executable, bool written,
                        bool lasting, trm_error *error) {
  trm_error why = {0};
  if (s->program->totals.fits) {
    if (lasting) executable->known_to_fit = true;
    return TRM_OK;
  }
  trm_program_check_fits(s->program, &why);
  if (lasting && executable->misfit == NULL) {
    executable->misfit = trm_arena_string(&executable->arena, why.message, strlen(why.message));
  }
  const trm_status status = refuse(executable, why.message, error);
  if (status == TRM_OK || !written) return status;
  return trm_note(error, status, "Profile saved to: %s/profile.pop", s->directory);
}

/* Whether every estimate of the executable is equal: the target is a preset, whose description does
 * not change, and the program has no counters. */
static bool is_lasting(const trm_executable *executable, const trm_engine_options *options) {
  bool is_preset = false;
  for (size_t i = 0; trm_target_preset(i) != NULL && !is_preset; ++i) {
    is_preset = strcmp(trm_target_preset(i), executable->options.target) == 0;
  }
  return is_preset && !is_instrumented(options);
}

/* What follows from an estimate that failed: an option that is wrong is an error; otherwise the
 * executable runs without an estimate. */
static trm_status without_estimate(trm_status estimated, const trm_error *why, trm_error *error) {
  if (estimated != TRM_UNKNOWN && estimated != TRM_UNIMPLEMENTED &&
      estimated != TRM_RESOURCE_EXHAUSTED) {
    if (error != NULL) *error = *why;
    if (estimated == TRM_INTERNAL) return estimated; /* the message is Poplar's */
    return trm_note(error, estimated, "while planning for an IPU");
  }
  trm_log(TRM_LOG_WARN, "COMPILER",
          "The program is not planned for an IPU, so nothing is known "
          "of its memory and cycles: %s%s",
          why->message,
          estimated != TRM_UNKNOWN
              ? ""
              : ". Its results are right; the fault is in Tremula's estimate. Please report this "
                "line with the module, which XLA_FLAGS=--xla_dump_to=FOLDER writes");
  return TRM_OK;
}

static trm_status create(trm_executable *executable, const trm_report_framework *framework,
                         const trm_engine_options *options, trm_report **out_report,
                         trm_error *error) {
  const bool lasting = is_lasting(executable, options);
  if (lasting && !trm_engine_options_want_report(options)) {
    if (executable->known_to_fit) return TRM_OK;
    if (executable->misfit != NULL) return refuse(executable, executable->misfit, error);
  }
  trm_program *program;
  trm_error why = {0};
  const trm_status estimated =
      estimate(executable, is_instrumented(options), framework->inputs, &program, &why);
  if (estimated != TRM_OK) return without_estimate(estimated, &why, error);
  trm_report_source s = {.executable = executable,
                         .program = program,
                         .options = options,
                         .framework = framework->name != NULL ? framework->name : "",
                         .framework_version = framework->version != NULL ? framework->version : "",
                         .num_processes = framework->num_processes,
                         .process = framework->process,
                         .is_model = executable->options.estimate.ipu_model};
  const bool fits = program->totals.fits;
  const bool written = trm_engine_options_want_report(options) &&
                       (fits || s.is_model || options->allow_oom) && try_report(&s, out_report);
  const trm_status status = judge(&s, executable, written, lasting, error);
  if (*out_report == NULL) {
    trm_program_free(program);
  } else {
    (*out_report)->executable = executable; /* which the program keeps */
    (*out_report)->program = program;
    (*out_report)->is_instrumented = is_instrumented(options);
  }
  return status;
}

trm_status trm_report_create(trm_executable *executable, const trm_report_framework *framework,
                             trm_report **out_report, trm_error *error) {
  trm_report_framework known = {.size = sizeof known};
  if (framework != NULL) {
    TRY(trm_sized_take(framework, &known, sizeof known, "trm_report_framework", error));
  }
  trm_arena arena = {0};
  trm_engine_options options;
  trm_engine_options_default(&options);
  trm_report *report = NULL;
  trm_status status = trm_engine_options_add(&options, &arena, executable->options.engine_options,
                                             "compilation_poplar_options", error);
  if (status == TRM_OK) {
    status = trm_engine_options_add(&options, &arena, getenv("POPLAR_ENGINE_OPTIONS"),
                                    "POPLAR_ENGINE_OPTIONS", error);
  }
  if (status == TRM_OK) status = create(executable, &known, &options, &report, error);
  trm_arena_free(&arena);
  if (status == TRM_OK) *out_report = report;
  else trm_report_free(report);
  return status;
}

trm_status trm_report_check(trm_executable *executable, trm_error *error) {
  trm_engine_options options;
  trm_engine_options_default(&options);
  trm_report *report = NULL;
  const trm_report_framework unknown = {.size = sizeof unknown};
  return create(executable, &unknown, &options, &report, error);
}

/* ---- Runs ----------------------------------------------------------------------------------- */

static void close_database(trm_report *report) {
  sqlite3_finalize(report->insert);
  sqlite3_close(report->database);
  trm_program_free(report->program);
  report->insert = NULL;
  report->database = NULL;
  report->program = NULL;
}

/* The cycles for which the IPU waits for the host between the last run, or its last other use, and
 * this one. */
static int64_t wait_before(const trm_report *report, const trm_report_times *times,
                           double *out_seconds) {
  double since = report->last_ended;
  if (times->device_free > since) since = times->device_free;
  *out_seconds = times->began > since ? times->began - since : 0;
  if (report->runs == 0) *out_seconds = 0;
  return trm_limit_cycles(*out_seconds * report->clock);
}

/* Notes when the first run began, in microseconds since 1970, so that readers can lay a profile
 * over a timeline. */
static void note_first_run(const trm_report *report) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const double us = (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3 -
                    (trm_now_ms() * 1e3 - report->first_began * 1e6);
  char sql[96];
  trm_error error;
  snprintf(sql, sizeof sql, "INSERT OR REPLACE INTO meta VALUES('first_run_us', %.3f)", us);
  if (trm_database_run(report->database, sql, &error) != TRM_OK) {
    trm_log(TRM_LOG_WARN, "REPORT", "%s", error.message);
  }
}

/* Whether two estimates of a module have the same steps. */
static bool has_same_steps(const trm_program *a, const trm_program *b) {
  if (a->num_steps != b->num_steps) return false;
  for (uint32_t s = 0; s < a->num_steps; ++s) {
    const trm_program_step *x = &a->steps[s], *y = &b->steps[s];
    if (x->repeat_count != y->repeat_count || x->executions != y->executions ||
        x->cycles != y->cycles || x->taken != y->taken) {
      return false;
    }
  }
  return true;
}

/* Makes the estimate and the steps of a run whose loops count otherwise than those of the last.
 * Other inputs may give the same counts, such as a begin and an end of which both move. */
static trm_status follow_counts(trm_report *report, const void *const *inputs, trm_error *error) {
  if (trm_program_suits(report->program, inputs)) return TRM_OK;
  trm_program *program;
  TRY(estimate(report->executable, report->is_instrumented, inputs, &program, error));
  const bool is_same = has_same_steps(report->program, program);
  trm_program_free(report->program);
  report->program = program;
  if (is_same) return TRM_OK;
  report->first_row = report->end_row;
  TRY(trm_database_run(report->database, "BEGIN", error));
  TRY(trm_report_write_trace(program, report->first_row, report->database, &report->end_row,
                             error));
  return trm_database_run(report->database, "COMMIT", error);
}

static trm_status add_run(trm_report *report, const trm_report_times *times, trm_error *error) {
  if (report->runs == 0) {
    report->first_began = times->began;
    note_first_run(report);
  }
  TRY(follow_counts(report, times->inputs, error));
  char name[160];
  snprintf(name, sizeof name, "%s run %lld", report->run_name, (long long)report->runs);
  double wait;
  const int64_t wait_cycles = wait_before(report, times, &wait);
  const int64_t load_cycles = times->is_switch ? report->load_cycles : 0;
  const int64_t cycles =
      trm_add_cycles(report->program->totals.cycles, trm_add_cycles(wait_cycles, load_cycles));
  TRY(trm_database_insert(report->insert, error, "itiiiiffffii", report->runs, name,
                          report->cycles_base, wait_cycles, load_cycles, cycles,
                          times->began - report->first_began, wait, times->ended - times->began,
                          times->infeed_wait, report->first_row, report->end_row));
  report->cycles_base = trm_add_cycles(report->cycles_base, cycles);
  report->last_ended = times->ended;
  ++report->runs;
  return TRM_OK;
}

void trm_report_run(trm_report *report, const trm_report_times *given) {
  trm_report_times own = {.size = sizeof own};
  trm_error error = {0};
  if (report == NULL || report->database == NULL) return;
  if (trm_sized_take(given, &own, sizeof own, "trm_report_times", &error) != TRM_OK) {
    trm_log(TRM_LOG_WARN, "REPORT", "%s; the run is not recorded", error.message);
    return;
  }
  if (report->runs < report->most_runs && add_run(report, &own, &error) != TRM_OK) {
    trm_log(TRM_LOG_WARN, "REPORT", "%s; no more runs are recorded", error.message);
    report->runs = report->most_runs;
  }
  if (report->runs >= report->most_runs) close_database(report);
}

const char *trm_report_directory(const trm_report *report) {
  return report != NULL ? report->directory : "";
}

void trm_report_free(trm_report *report) {
  if (report == NULL) return;
  close_database(report);
  trm_free(report);
}
