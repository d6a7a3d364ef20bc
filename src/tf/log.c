/* Lines on standard error, in TensorFlow's log format. */
#define _GNU_SOURCE
#include "log.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { LINE_SIZE = 6144 };

static void write_line(char severity, const char *source, const char *format, va_list args) {
  struct timeval now;
  struct tm local;
  char date[32];
  char text[LINE_SIZE];
  gettimeofday(&now, NULL);
  localtime_r(&now.tv_sec, &local);
  strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &local);
  vsnprintf(text, sizeof text, format, args);
  const char *folder = strchr(source, '/') != NULL ? "" : "compiler/plugin/poplar/driver/";
  fprintf(stderr, "%s.%06ld: %c tensorflow/%s%s] %s\n", date, (long)now.tv_usec, severity, folder,
          source, text);
}

void log_info(const char *source, const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_line('I', source, format, args);
  va_end(args);
}

void log_warning(const char *source, const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_line('W', source, format, args);
  va_end(args);
}

/* ---- Detail ---- */

/* Read once: TensorFlow does the same. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *modules; /* TF_CPP_VMODULE: PATTERN=LEVEL,... */
static int general;   /* the level of what it does not name */

static void read_environment(void) {
  const char *level = getenv("TF_CPP_MAX_VLOG_LEVEL");
  if (!level) level = getenv("TF_CPP_MIN_VLOG_LEVEL"); /* its older name */
  general = level ? (int)strtol(level, NULL, 10) : 0;
  const char *text = getenv("TF_CPP_VMODULE");
  if (text) modules = strdup(text);
}

bool log_is_verbose(int level, const char *source) {
  char stem[64];
  pthread_once(&once, read_environment);
  if (!modules) return level <= general;
  snprintf(stem, sizeof stem, "%.*s", (int)strcspn(source, "."), source);
  size_t length;
  for (const char *one = modules; *one; one += length + (one[length] == ',')) {
    char pattern[64];
    length = strcspn(one, ",");
    const char *equals = memchr(one, '=', length);
    if (!equals) continue;
    snprintf(pattern, sizeof pattern, "%.*s", (int)(equals - one), one);
    if (fnmatch(pattern, stem, 0) == 0) return level <= (int)strtol(equals + 1, NULL, 10);
  }
  return level <= general;
}

void log_verbose(int level, const char *source, const char *format, ...) {
  if (!log_is_verbose(level, source)) return;
  va_list args;
  va_start(args, format);
  write_line('I', source, format, args);
  va_end(args);
}
