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

enum { MOST_FLAGS = 1 << 16, PATH_SIZE = DUMPS_PATH + 512 };
static const char source[] = "poplar_compiler.cc:1973";

static atomic_uint num_modules;

/* ---- XLA_FLAGS ---- */

/* The variable's value, or the contents of the file that it names; NULL: none. Free it. */
static char *read_flags(void) {
  const char *value = getenv("XLA_FLAGS");
  if (!value) return NULL;
  value += strspn(value, " \t\n");
  if (!*value || *value == '-') return strdup(value);
  FILE *file = fopen(value, "r");
  if (!file) return NULL; /* XLA says so */
  char *text = calloc(1, MOST_FLAGS + 1);
  if (text && !fread(text, 1, MOST_FLAGS, file)) text[0] = '\0';
  fclose(file);
  return text;
}

/* The next word of *rest, of which quotes are taken off, or NULL. Cuts *rest up. */
static char *next_word(char **rest) {
  char *from = *rest + strspn(*rest, " \t\r\n");
  if (!*from) return NULL;
  char *word = from, *to = from, quote = '\0';
  for (; *from && (quote || !strchr(" \t\r\n", *from)); from++) {
    if (quote ? *from == quote : (*from == '"' || *from == '\'')) quote = quote ? '\0' : *from;
    else *to++ = *from;
  }
  *rest = *from ? from + 1 : from;
  *to = '\0';
  return word;
}

/* Whether `word` is --name or --name=value. */
static bool is_flag(const char *word, const char *name, const char **out_value) {
  if (strncmp(word, "--", 2) != 0) return false;
  const size_t length = strlen(name);
  if (strncmp(word + 2, name, length) != 0) return false;
  const char end = word[2 + length];
  *out_value = end == '=' ? word + 3 + length : NULL;
  return end == '=' || end == '\0';
}

static bool is_true(const char *value) {
  return !value || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
}

static bool compile_expression(regex_t *expression, const char *value, const char *flag) {
  if (!value || !*value) return false;
  if (regcomp(expression, value, REG_EXTENDED | REG_NOSUB) == 0) return true;
  log_warning(source, "--%s in XLA_FLAGS is no regular expression: %s", flag, value);
  return false;
}

static void read_word(dump_flags *flags, const char *word) {
  const char *value;
  if (is_flag(word, "xla_dump_to", &value) && value)
    snprintf(flags->folder, sizeof flags->folder, "%s", value);
  else if (is_flag(word, "xla_dump_hlo_as_text", &value))
    flags->text = is_true(value);
  else if (is_flag(word, "xla_dump_hlo_as_dot", &value))
    flags->dot = is_true(value);
  else if (is_flag(word, "xla_dump_hlo_as_proto", &value))
    flags->proto = is_true(value);
  else if (is_flag(word, "xla_hlo_graph_sharding_color", &value))
    flags->colors = is_true(value);
  else if (is_flag(word, "xla_dump_hlo_pass_re", &value) && !flags->has_passes)
    flags->has_passes = compile_expression(&flags->passes, value, "xla_dump_hlo_pass_re");
  else if (is_flag(word, "xla_dump_hlo_module_re", &value) && !flags->has_modules)
    flags->has_modules = compile_expression(&flags->modules, value, "xla_dump_hlo_module_re");
}

static void parse_flags(dump_flags *flags) {
  char *text = read_flags();
  if (!text) return;
  char *rest = text;
  for (char *word = next_word(&rest); word; word = next_word(&rest)) read_word(flags, word);
  free(text);
  const bool asks = flags->text || flags->dot || flags->proto || flags->has_passes ||
                    flags->has_modules;
  if (asks && !flags->folder[0]) strcpy(flags->folder, "-"); /* as XLA: to standard output */
  if (!flags->text && !flags->dot && !flags->proto) flags->text = true;
}

/* ---- Files ---- */

static void write_file(const char *folder, const char *name, const void *data, size_t size) {
  char path[PATH_SIZE];
  if (strcmp(folder, "-") == 0) {
    printf("*** Begin %s ***\n%.*s\n*** End %s ***\n", name, (int)size, (const char *)data, name);
    fflush(stdout);
    return;
  }
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = names_make_folder(folder) ? fopen(path, "w") : NULL;
  const bool written = file && fwrite(data, 1, size, file) == size;
  if ((file && fclose(file) != 0) || !written) log_warning(source, "Cannot write %s.", path);
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
  parse_flags(&d->flags);
  d->number = atomic_fetch_add(&num_modules, 1);
  d->is_on = d->flags.folder[0] && (!d->flags.has_modules ||
                                    matches(&d->flags.modules, trm_module_name(module)));
  if (!d->is_on) return;
  dump_module(d, module, "before_optimizations");
}

/* The pass after this one, in the order of all of them. */
static const char *pass_after(const char *pass) {
  for (size_t i = 0; trm_inspect_pass(i); i++)
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
  d->pass++;
  if (!next) dump_module(d, module, "after_optimizations");
}

void dumps_end(dumps *d) {
  if (d->flags.has_passes) regfree(&d->flags.passes);
  if (d->flags.has_modules) regfree(&d->flags.modules);
  *d = (dumps){.is_on = false};
}

/* ---- Plans ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool wants_schedule;
static char tensor_map_folder[DUMPS_PATH];

void trm_tf_dump_plans(int32_t schedule, const char *folder) {
  pthread_mutex_lock(&lock);
  wants_schedule = schedule != 0;
  snprintf(tensor_map_folder, sizeof tensor_map_folder, "%s", folder);
  pthread_mutex_unlock(&lock);
}

static bool get_wanted(char folder[DUMPS_PATH]) {
  pthread_mutex_lock(&lock);
  const bool schedule = wants_schedule;
  memcpy(folder, tensor_map_folder, sizeof tensor_map_folder);
  pthread_mutex_unlock(&lock);
  return schedule;
}

bool dumps_want_plan(void) {
  char folder[DUMPS_PATH];
  return get_wanted(folder) || folder[0];
}

void dumps_plan(const dumps *d, const trm_executable *executable, const trm_program *program) {
  char folder[DUMPS_PATH], path[PATH_SIZE], *text;
  trm_error error = {0};
  const bool schedule = get_wanted(folder);
  if (schedule && trm_program_print_schedule(program, &text, &error) == TRM_OK) {
    if (d->flags.folder[0]) write_dump(d, "schedule", "dot", text, strlen(text));
    else fputs(text, stderr);
    trm_free(text);
  }
  if (folder[0]) {
    snprintf(path, sizeof path, "%s/%s.tensor_map.json", folder, d->name);
    names_make_folder(folder);
    trm_report_describe_file(executable, program, TRM_REPORT_TENSOR_MAP, path, &error);
  }
  if (error.status != TRM_OK) log_warning(source, "%s", error.message);
}
