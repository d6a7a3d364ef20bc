/* Owns: what the files of poprun write with: lists of words, messages, the log. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "poprun.h"

/* ---- Words ---------------------------------------------------------------------------------- */

static void add_owned(words *list, char *item) {
  char **items = item == NULL ? NULL : realloc(list->items, (list->count + 2) * sizeof *items);
  if (items == NULL) exit(poprun_fail("out of memory"));
  list->items = items;
  items[list->count++] = item;
  items[list->count] = NULL;
}

void words_add(words *list, const char *format, ...) {
  char *item = NULL;
  va_list args;
  va_start(args, format);
  if (vasprintf(&item, format, args) < 0) item = NULL;
  va_end(args);
  add_owned(list, item);
}

void words_append(words *list, const words *more) {
  for (size_t i = 0; i < more->count; ++i) add_owned(list, strdup(more->items[i]));
}

bool words_split(words *list, const char *line) {
  char *word = malloc(strlen(line) + 1);
  if (word == NULL) exit(poprun_fail("out of memory"));
  size_t length = 0;
  bool is_word = false;
  char quote = '\0';
  for (const char *c = line;; ++c) {
    const bool is_end = *c == '\0' || (quote == '\0' && strchr(" \t\n", *c) != NULL);
    if (is_end && is_word) words_add(list, "%.*s", (int)length, word);
    if (is_end) {
      length = 0;
      is_word = false;
      if (*c == '\0') break;
      continue;
    }
    is_word = true;
    if (*c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (*c == '\'' || *c == '"')) {
      quote = *c;
    } else {
      if (*c == '\\' && quote != '\'' && c[1] != '\0') ++c;
      word[length++] = *c;
    }
  }
  free(word);
  return quote == '\0';
}

void words_free(words *list) {
  for (size_t i = 0; i < list->count; ++i) free(list->items[i]);
  free(list->items);
  *list = (words){0};
}

/* ---- Messages and the log ------------------------------------------------------------------- */

static int verbosity;

void poprun_set_verbosity(int level) { verbosity = level; }

/* Control characters of names do not reach a terminal. */
static void print_line(const char *before, const char *format, va_list args, const char *after) {
  char text[4096];
  vsnprintf(text, sizeof text, format, args);
  for (char *c = text; *c != '\0'; ++c) {
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
  }
  fflush(stdout);
  fprintf(stderr, "%s%s%s\n", before, text, after);
}

#define PRINT_LINE(before, after)                \
  do {                                           \
    va_list args;                                \
    va_start(args, format);                      \
    print_line((before), format, args, (after)); \
    va_end(args);                                \
  } while (0)

int poprun_fail(const char *format, ...) {
  PRINT_LINE("poprun: ", "");
  return POPRUN_FAILED;
}

int poprun_usage(const char *format, ...) {
  PRINT_LINE("poprun: ", " (see poprun --help)");
  return POPRUN_USAGE;
}

void poprun_note(const char *format, ...) { PRINT_LINE("poprun: ", ""); }

void poprun_log(int level, const char *format, ...) {
  if (level > verbosity) return;
  struct timespec now;
  struct tm local = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  localtime_r(&now.tv_sec, &local);
  char clock[16], before[64];
  strftime(clock, sizeof clock, "%T", &local);
  snprintf(before, sizeof before, "%s.%03ld 1 POPRUN [%c] ", clock, now.tv_nsec / 1000000,
           level > 1 ? 'D' : 'I');
  PRINT_LINE(before, "");
}
