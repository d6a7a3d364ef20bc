/* Owns: dumps, in files with XLA's names. */
#define _GNU_SOURCE
#include "dumps.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "log.h"
#include "tremula/report.h"

/* ---- XLA_FLAGS ---- */

/* The value of XLA_FLAGS, or the contents of the file that it names; NULL: none. Free it. */
static char *read_flags(void) {
  const char *value = getenv("XLA_FLAGS");
  if (!value) return NULL;
  value += strspn(value, " \t\n");
  if (!*value || *value == '-') return trm_tf_copy_text(value);
  FILE *file = fopen(value, "r");
  if (!file) return NULL; /* XLA reports this itself */
  char *text = NULL;
  size_t room = 0;
  const bool has_text = getdelim(&text, &room, '\0', file) >= 0;
  fclose(file);
  if (has_text) return text;
  trm_free(text);
  return NULL;
}

/* The next word of *rest, without quotes, or NULL. Overwrites *rest. */
static char *next_word(char **rest) {
  char *from = *rest + strspn(*rest, " \t\r\n");
  if (!*from) return NULL;
  char *word = from, *to = from, quote = '\0';
  for (; *from && (quote || !strchr(" \t\r\n", *from)); ++from) {
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

/* An empty expression cancels an earlier one. */
static void set_expression(regex_t *expression, bool *is_set, const char *value, const char *flag) {
  if (*is_set) regfree(expression);
  *is_set = false;
  if (!value || !*value) return;
  *is_set = regcomp(expression, value, REG_EXTENDED | REG_NOSUB) == 0;
  if (!*is_set) TRM_TF_WARN("--%s in XLA_FLAGS is no regular expression: %s", flag, value);
}

/* XLA's flags for dumps that this plugin does not have. */
static const char *const others[] = {"xla_dump_hlo_as_html",
                                     "xla_dump_hlo_as_url",
                                     "xla_dump_hlo_as_long_text",
                                     "xla_dump_hlo_snapshots",
                                     "xla_dump_hlo_unoptimized_snapshots",
                                     "xla_dump_fusion_visualization",
                                     "xla_dump_include_timestamp",
                                     "xla_dump_max_hlo_modules",
                                     "xla_dump_module_metadata",
                                     "xla_dump_compress_protos",
                                     "xla_dump_full_hlo_config",
                                     "xla_dump_disable_metadata",
                                     "xla_dump_hlo_pipeline_re",
                                     "xla_dump_emitter_re",
                                     "xla_dump_large_constants",
                                     "xla_dump_latency_hiding_schedule",
                                     "xla_dump_enable_mlir_pretty_form"};
enum { NUM_OTHERS = sizeof others / sizeof *others };

static void warn_of_others(const char *word) {
  static atomic_flag told[NUM_OTHERS]; /* all clear at first */
  const char *value;
  for (size_t i = 0; i < NUM_OTHERS; ++i) {
    if (!is_flag(word, others[i], &value)) continue;
    const bool is_off =
        value && (!*value || strcmp(value, "false") == 0 || strcmp(value, "0") == 0);
    if (!is_off && !atomic_flag_test_and_set(&told[i])) {
      TRM_TF_WARN("--%s in XLA_FLAGS is ignored: Tremula dumps modules with "
                  "--xla_dump_hlo_as_text, --xla_dump_hlo_as_dot and --xla_dump_hlo_as_proto, "
                  "choosing them with --xla_dump_hlo_pass_re and --xla_dump_hlo_module_re.",
                  others[i]);
    }
  }
}

static void set_folder(trm_tf_dump_flags *flags, const char *value) {
  trm_free(flags->folder);
  flags->folder = *value ? trm_tf_copy_text(value) : NULL;
}

static void read_word(trm_tf_dump_flags *flags, const char *word) {
  const char *value;
  if (is_flag(word, "xla_dump_to", &value)) set_folder(flags, value ? value : "");
  else if (is_flag(word, "xla_dump_hlo_as_text", &value)) flags->text = is_true(value);
  else if (is_flag(word, "xla_dump_hlo_as_dot", &value)) flags->dot = is_true(value);
  else if (is_flag(word, "xla_dump_hlo_as_proto", &value)) flags->proto = is_true(value);
  else if (is_flag(word, "xla_hlo_graph_sharding_color", &value)) flags->colors = is_true(value);
  else if (is_flag(word, "xla_dump_hlo_pass_re", &value)) {
    set_expression(&flags->passes, &flags->has_passes, value, "xla_dump_hlo_pass_re");
  } else if (is_flag(word, "xla_dump_hlo_module_re", &value)) {
    set_expression(&flags->modules, &flags->has_modules, value, "xla_dump_hlo_module_re");
  } else warn_of_others(word);
}

void trm_tf_dump_flags_read(trm_tf_dump_flags *flags) {
  *flags = (trm_tf_dump_flags){0};
  char *text = read_flags();
  if (!text) return;
  char *rest = text;
  for (char *word = next_word(&rest); word; word = next_word(&rest)) read_word(flags, word);
  trm_free(text);
  const bool asks =
      flags->text || flags->dot || flags->proto || flags->has_passes || flags->has_modules;
  if (asks && !flags->folder) {
    flags->folder = trm_tf_copy_text("-"); /* like XLA: to standard output */
  }
  if (!flags->text && !flags->dot && !flags->proto) flags->text = true;
}

void trm_tf_dump_flags_free(trm_tf_dump_flags *flags) {
  if (flags->has_passes) regfree(&flags->passes);
  if (flags->has_modules) regfree(&flags->modules);
  trm_free(flags->folder);
  *flags = (trm_tf_dump_flags){0};
}

/* ---- Files ---- */

static atomic_uint num_modules;

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
  if (asprintf(&path, "%s/%s", folder, name) < 0) return; /* no memory, not even for a message */
  (void)trm_make_folders(folder, &error);                 /* writing the file reports a failure */
  if (trm_inspect_replace_file(path, NULL, 0, data, size, &error) != TRM_OK) {
    TRM_TF_WARN("%s", error.message);
  }
  trm_free(path);
}

/* module_0001.NAME.WHAT.EXTENSION */
static void write_dump(const trm_tf_dumps *d, const char *what, const char *extension,
                       const void *data, size_t size) {
  char name[400];
  snprintf(name, sizeof name, "module_%04u.%s.%s.%s", d->number, d->name, what, extension);
  write_file(d->flags.folder, name, data, size);
}

/* A HloProto, as XLA's tools read it: `module` in field 1. */
static void write_proto(const trm_tf_dumps *d, const char *what, const void *module, size_t size) {
  uint8_t head[1 + 10] = {1 << 3 | 2};
  size_t length = 1;
  for (size_t left = size; length == 1 || left > 0; left >>= 7) {
    head[length++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
  }
  char *whole = trm_allocate_zeroed(length + size, 1);
  if (whole == NULL) {
    TRM_TF_WARN("No dump of %s: there is no memory for %zu bytes", d->name, size);
    return;
  }
  memcpy(whole, head, length);
  memcpy(whole + length, module, size);
  write_dump(d, what, "hlo.pb", whole, length + size);
  trm_free(whole);
}

static void dump_module(const trm_tf_dumps *d, const trm_module *module, const char *what) {
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
    write_proto(d, what, proto, size);
    trm_free(proto);
  }
  if (error.status != TRM_OK) TRM_TF_WARN("No dump of %s: %s", d->name, error.message);
}

/* ---- A compilation ---- */

static bool matches(const regex_t *expression, const char *text) {
  return regexec(expression, text, 0, NULL, 0) == 0;
}

void trm_tf_dumps_begin(trm_tf_dumps *d, const char *name, const trm_module *module) {
  *d = (trm_tf_dumps){.name = name};
  trm_tf_dump_flags_read(&d->flags);
  d->number = atomic_fetch_add(&num_modules, 1);
  d->is_on = d->flags.folder &&
             (!d->flags.has_modules || matches(&d->flags.modules, trm_module_name(module)));
  if (!d->is_on) return;
  dump_module(d, module, "before_optimizations");
}

/* The pass that follows this one in the list of all passes of a compilation; NULL: none. */
static const char *pass_after(const char *pass) {
  trm_inspect_pass_row row;
  for (size_t i = 0; trm_inspect_pass(i, &row); ++i) {
    if (strcmp(row.name, pass) == 0) {
      return trm_inspect_pass(i + 1, &row) && !row.plans ? row.name : NULL;
    }
  }
  return NULL;
}

void trm_tf_dumps_pass(trm_tf_dumps *d, const char *pass, const trm_module *module) {
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

void trm_tf_dumps_end(trm_tf_dumps *d) {
  trm_tf_dump_flags_free(&d->flags);
  *d = (trm_tf_dumps){.is_on = false};
}

/* ---- Plans ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool wants_schedule;
static char *tensor_map_folder; /* NULL: none */

void trm_tf_dump_estimates(int32_t schedule, const char *folder) {
  char *copy = folder[0] ? trm_tf_copy_text(folder) : NULL;
  pthread_mutex_lock(&lock);
  wants_schedule = schedule != 0;
  char *before = tensor_map_folder;
  tensor_map_folder = copy;
  pthread_mutex_unlock(&lock);
  trm_free(before);
}

/* Whether the schedule is wanted. *out_folder gets the folder of tensor maps or NULL; free it. */
static bool get_wanted(char **out_folder) {
  pthread_mutex_lock(&lock);
  const bool schedule = wants_schedule;
  *out_folder = tensor_map_folder ? trm_tf_copy_text(tensor_map_folder) : NULL;
  pthread_mutex_unlock(&lock);
  return schedule;
}

bool trm_tf_dumps_want_estimate(void) {
  pthread_mutex_lock(&lock);
  const bool wanted = wants_schedule || tensor_map_folder;
  pthread_mutex_unlock(&lock);
  return wanted;
}

void trm_tf_dumps_estimate(const trm_tf_dumps *d, const trm_executable *executable,
                           const trm_program *program) {
  char *folder, *path = NULL, *text;
  trm_error error = {0};
  const bool schedule = get_wanted(&folder);
  if (schedule && trm_program_print_schedule(program, &text, &error) == TRM_OK) {
    if (d->flags.folder) write_dump(d, "schedule", "dot", text, strlen(text));
    else fputs(text, stderr);
    trm_free(text);
  }
  if (folder && asprintf(&path, "%s/%s.tensor_map.json", folder, d->name) >= 0) {
    (void)trm_make_folders(folder, &error);
    error.status = TRM_OK;
    trm_report_describe_file(executable, program, TRM_REPORT_TENSOR_MAP, path, &error);
    trm_free(path);
  }
  trm_free(folder);
  if (error.status != TRM_OK) TRM_TF_WARN("%s", error.message);
}
