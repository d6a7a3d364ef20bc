/* Watching a compilation. */
#define _POSIX_C_SOURCE 200809L
#include "watch.h"

#include <string.h>

#include "clock.h"
#include "events.h"
#include "log.h"
#include "names.h"
#include "tremula/inspect.h"
#include "tremula/log.h"

bool watch_name(compile_watch *watch, const char *module) {
  if (!watch->name) watch->name = names_claim(module);
  return watch->name != NULL;
}

void watch_begin(compile_watch *watch, const trm_module *module) {
  watch->is_on = true;
  watch->began = clock_seconds();
  log_verbose(1, "poplar_compiler.cc:890", "Begin XLA compilation: %s for ordinal %d", watch->name,
              watch->ordinal);
  watch->bar = progress_begin(watch->name, module);
  dumps_begin(&watch->dumps, watch->name, module);
}

trm_status watch_pass(const char *pass, const trm_module *module, void *context, trm_error *error) {
  (void)error;
  compile_watch *watch = context;
  size_t total = 0;
  while (trm_inspect_pass(total)) ++total;
  dumps_pass(&watch->dumps, pass, module);
  progress_update(watch->bar, PROGRESS_PASSES, ++watch->passes, total);
  if (strcmp(pass, trm_inspect_pass(total - 1)) != 0) return TRM_OK;
  log_verbose(1, "poplar_compiler.cc:1010", "End XLA compilation: %s", watch->name);
  watch->has_events = !trm_inspect_is_trivial(module);
  if (watch->has_events) events_compile_begin(watch->ordinal, watch->name);
  progress_update(watch->bar, PROGRESS_KERNELS, 0, 0);
  return TRM_OK;
}

void watch_stage(compile_watch *watch, progress_stage stage) {
  if (!watch->is_on) return;
  if (stage == PROGRESS_ENGINE)
    log_verbose(1, "poplar_compiler.cc:1180", "Begin compiling Poplar engine %s", watch->name);
  progress_update(watch->bar, stage, 0, 0);
}

/* The schedule and the tensor map, where they are asked for. */
static void dump_plan(const compile_watch *watch, trm_executable *executable) {
  if (!dumps_want_plan()) return;
  trm_program *program = NULL;
  trm_error error = {0};
  if (trm_program_create_for_executable(executable, NULL, NULL, &program, &error) == TRM_OK)
    dumps_plan(&watch->dumps, executable, program);
  else
    trm_log(TRM_LOG_WARN, "COMPILER", "no tensor map and no schedule of %s: %s", watch->name,
            error.message);
  trm_program_free(program);
}

void watch_end(compile_watch *watch, trm_executable *executable) {
  if (!watch->is_on) return;
  watch->is_on = false;
  const double took = clock_seconds() - watch->began;
  if (executable) {
    log_verbose(1, "poplar_compiler.cc:1310", "End compiling Poplar engine.");
    dump_plan(watch, executable);
    if (watch->has_events) events_compile_end(watch->ordinal, watch->name, executable, took);
  }
  progress_end(watch->bar, executable != NULL);
  watch->bar = NULL;
  dumps_end(&watch->dumps);
}
