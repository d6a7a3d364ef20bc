/* Dumps. Their files have the names that XLA gives its own. */
#define _GNU_SOURCE
#include "dumps.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "names.h"
#include "tremula/report.h"

static const char source[] = "poplar_compiler.cc:1973";

static atomic_uint num_modules;

/* ---- Files ---- */

static void write_file(const char *folder, const char *name, const void *data, size_t size) {
  if (strcmp(folder, "-") == 0) {
    printf("*** Begin %s ***\n", name);
    fwrite(data, 1, size, stdout);
    printf("\n*** End %s ***\n", name);
    fflush(stdout);
    return;
  }
  char *path = NULL;
  trm_error error = {0};
  if (asprintf(&path, "%s/%s", folder, name) < 0) return; /* no memory, not for a message either */
  (void)names_make_folder(folder); /* what fails is seen when the file is written */
  if (trm_inspect_replace_file(path, NULL, 0, data, size, &error) != TRM_OK)
    log_warning(source, "%s", error.message);
  free(path);
}

/* module_0001.NAME.WHAT.EXTENSION */
static void write_dump(const dumps *d, const char *what, const char *extension, const void *data,
                       size_t size) {
  char name[400];
  snprintf(name, sizeof name, "module_%04u.%s.%s.%s", d->number, d->name, what, extension);
  write_file(d->flags.folder, name, data, size);
}

static void dump_module(const dumps *d, const trm_module *module, const char *what) {
  char *text = NULL;
  void *proto = NULL;
  size_t size = 0;
  trm_error error = {0};
  if (d->flags.text && trm_module_print(module, &text, &error) == TRM_OK) {
    write_dump(d, what, "txt", text, strlen(text));
    trm_free(text);
  }
  if (d->flags.dot && trm_module_print_dot(module, d->flags.colors, &text, &error) == TRM_OK) {
    write_dump(d, what, "dot", text, strlen(text));
    trm_free(text);
  }
  if (d->flags.proto && strcmp(d->flags.folder, "-") != 0 &&
      trm_module_serialize(module, &proto, &size, &error) == TRM_OK) {
    write_dump(d, what, "hlo.pb", proto, size);
    trm_free(proto);
  }
  if (error.status != TRM_OK) log_warning(source, "No dump of %s: %s", d->name, error.message);
}

/* ---- A compilation ---- */

static bool matches(const regex_t *expression, const char *text) {
  return regexec(expression, text, 0, NULL, 0) == 0;
}

void dumps_begin(dumps *d, const char *name, const trm_module *module) {
  *d = (dumps){.name = name};
  dump_flags_read(&d->flags);
  d->number = atomic_fetch_add(&num_modules, 1);
  d->is_on = d->flags.folder &&
             (!d->flags.has_modules || matches(&d->flags.modules, trm_module_name(module)));
  if (!d->is_on) return;
  dump_module(d, module, "before_optimizations");
}

/* The pass after this one, in the order of all of them. */
static const char *pass_after(const char *pass) {
  for (size_t i = 0; trm_inspect_pass(i); ++i)
    if (strcmp(trm_inspect_pass(i), pass) == 0) return trm_inspect_pass(i + 1);
  return NULL;
}

void dumps_pass(dumps *d, const char *pass, const trm_module *module) {
  if (!d->is_on) return;
  const char *next = pass_after(pass);
  if (d->flags.has_passes && (matches(&d->flags.passes, pass) ||
                              matches(&d->flags.passes, next ? next : "pipeline-end"))) {
    char what[256];
    snprintf(what, sizeof what, "%04u.optimization.after_%s.before_%s", d->pass, pass,
             next ? next : "pipeline-end");
    dump_module(d, module, what);
  }
  ++d->pass;
  if (!next) dump_module(d, module, "after_optimizations");
}

void dumps_end(dumps *d) {
  dump_flags_free(&d->flags);
  *d = (dumps){.is_on = false};
}

/* ---- Plans ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool wants_schedule;
static char *tensor_map_folder; /* NULL: none */

void trm_tf_dump_plans(int32_t schedule, const char *folder) {
  char *copy = folder[0] ? strdup(folder) : NULL;
  pthread_mutex_lock(&lock);
  wants_schedule = schedule != 0;
  char *before = tensor_map_folder;
  tensor_map_folder = copy;
  pthread_mutex_unlock(&lock);
  free(before);
}

/* Whether the schedule is wanted; *out_folder, to be freed, gets that of tensor maps or NULL. */
static bool get_wanted(char **out_folder) {
  pthread_mutex_lock(&lock);
  const bool schedule = wants_schedule;
  *out_folder = tensor_map_folder ? strdup(tensor_map_folder) : NULL;
  pthread_mutex_unlock(&lock);
  return schedule;
}

bool dumps_want_plan(void) {
  pthread_mutex_lock(&lock);
  const bool wanted = wants_schedule || tensor_map_folder;
  pthread_mutex_unlock(&lock);
  return wanted;
}

void dumps_plan(const dumps *d, const trm_executable *executable, const trm_program *program) {
  char *folder, *path = NULL, *text;
  trm_error error = {0};
  const bool schedule = get_wanted(&folder);
  if (schedule && trm_program_print_schedule(program, &text, &error) == TRM_OK) {
    if (d->flags.folder) write_dump(d, "schedule", "dot", text, strlen(text));
    else fputs(text, stderr);
    trm_free(text);
  }
  if (folder && asprintf(&path, "%s/%s.tensor_map.json", folder, d->name) >= 0) {
    names_make_folder(folder);
    trm_report_describe_file(executable, program, TRM_REPORT_TENSOR_MAP, path, &error);
    free(path);
  }
  free(folder);
  if (error.status != TRM_OK) log_warning(source, "%s", error.message);
}
