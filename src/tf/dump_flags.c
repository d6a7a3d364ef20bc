/* XLA_FLAGS. */
#define _GNU_SOURCE
#include "dump_flags.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static const char source[] = "poplar_compiler.cc:1973";

/* The variable's value, or the contents of the file that it names; NULL: none. Free it. */
static char *read_flags(void) {
  const char *value = getenv("XLA_FLAGS");
  if (!value) return NULL;
  value += strspn(value, " \t\n");
  if (!*value || *value == '-') return strdup(value);
  FILE *file = fopen(value, "r");
  if (!file) return NULL; /* XLA says so */
  char *text = NULL;
  size_t room = 0;
  const bool has_text = getdelim(&text, &room, '\0', file) >= 0;
  fclose(file);
  if (has_text) return text;
  free(text);
  return NULL;
}

/* The next word of *rest, of which quotes are taken off, or NULL. Cuts *rest up. */
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

/* An empty expression takes an earlier one back. */
static void set_expression(regex_t *expression, bool *is_set, const char *value, const char *flag) {
  if (*is_set) regfree(expression);
  *is_set = false;
  if (!value || !*value) return;
  *is_set = regcomp(expression, value, REG_EXTENDED | REG_NOSUB) == 0;
  if (!*is_set) log_warning(source, "--%s in XLA_FLAGS is no regular expression: %s", flag, value);
}

/* What XLA can do with dumps and we cannot. */
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
  static atomic_flag told[NUM_OTHERS]; /* zeros are clear flags */
  const char *value;
  for (size_t i = 0; i < NUM_OTHERS; ++i) {
    if (!is_flag(word, others[i], &value)) continue;
    const bool is_off =
        value && (!*value || strcmp(value, "false") == 0 || strcmp(value, "0") == 0);
    if (!is_off && !atomic_flag_test_and_set(&told[i]))
      log_warning(source,
                  "--%s in XLA_FLAGS is ignored: Tremula dumps modules with "
                  "--xla_dump_hlo_as_text, --xla_dump_hlo_as_dot and --xla_dump_hlo_as_proto, "
                  "choosing them with --xla_dump_hlo_pass_re and --xla_dump_hlo_module_re.",
                  others[i]);
  }
}

static void set_folder(dump_flags *flags, const char *value) {
  free(flags->folder);
  flags->folder = *value ? strdup(value) : NULL;
}

static void read_word(dump_flags *flags, const char *word) {
  const char *value;
  if (is_flag(word, "xla_dump_to", &value)) set_folder(flags, value ? value : "");
  else if (is_flag(word, "xla_dump_hlo_as_text", &value)) flags->text = is_true(value);
  else if (is_flag(word, "xla_dump_hlo_as_dot", &value)) flags->dot = is_true(value);
  else if (is_flag(word, "xla_dump_hlo_as_proto", &value)) flags->proto = is_true(value);
  else if (is_flag(word, "xla_hlo_graph_sharding_color", &value)) flags->colors = is_true(value);
  else if (is_flag(word, "xla_dump_hlo_pass_re", &value))
    set_expression(&flags->passes, &flags->has_passes, value, "xla_dump_hlo_pass_re");
  else if (is_flag(word, "xla_dump_hlo_module_re", &value))
    set_expression(&flags->modules, &flags->has_modules, value, "xla_dump_hlo_module_re");
  else warn_of_others(word);
}

void dump_flags_read(dump_flags *flags) {
  *flags = (dump_flags){0};
  char *text = read_flags();
  if (!text) return;
  char *rest = text;
  for (char *word = next_word(&rest); word; word = next_word(&rest)) read_word(flags, word);
  free(text);
  const bool asks =
      flags->text || flags->dot || flags->proto || flags->has_passes || flags->has_modules;
  if (asks && !flags->folder) flags->folder = strdup("-"); /* as XLA: to standard output */
  if (!flags->text && !flags->dot && !flags->proto) flags->text = true;
}

void dump_flags_free(dump_flags *flags) {
  if (flags->has_passes) regfree(&flags->passes);
  if (flags->has_modules) regfree(&flags->modules);
  free(flags->folder);
  *flags = (dump_flags){0};
}
