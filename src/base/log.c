/* Owns: the log on standard error: its levels, and the format of a line. */
#define _GNU_SOURCE
#include "tremula/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/place.h"

enum { LINE_SIZE = 4096 };

static const char *const names[] = {"OFF", "ERR", "WARN", "INFO", "DEBUG", "TRACE"};
static const char letters[] = " EWIDT";

/* Written once, before anything reads them. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static trm_log_level poplar_level = TRM_LOG_WARN, poplibs_level = TRM_LOG_WARN;
static FILE *poplar_file, *poplibs_file; /* NULL: standard error */
static char instance[16];                /* of several: "[1] " */

/* Names are in any case. */
static bool parse_level(const char *name, trm_log_level *out_level) {
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    if (strcasecmp(name, names[i]) == 0) {
      *out_level = (trm_log_level)i;
      return true;
    }
  }
  return false;
}

static trm_log_level level_from(const char *variable, trm_log_level otherwise) {
  const char *text = getenv(variable);
  trm_log_level level = otherwise;
  if (text != NULL && *text != '\0' && !parse_level(text, &level)) {
    fprintf(stderr, "%s is \"%.40s\", but it must be OFF, ERR, WARN, INFO, DEBUG or TRACE\n",
            variable, text);
  }
  return level;
}

/* A file lives as long as the process. Several instances share it. */
static FILE *file_from(const char *variable, const char *text) {
  if (text == NULL || *text == '\0' || strcmp(text, "stderr") == 0) return NULL;
  if (strcmp(text, "stdout") == 0) return stdout;
  FILE *file = fopen(text, *instance != '\0' ? "ae" : "we");
  if (file == NULL) {
    fprintf(stderr, "%s is \"%.400s\", which cannot be written: the log goes to standard error\n",
            variable, text);
  }
  return file;
}

static void read_environment(void) {
  trm_group_place place;
  bool knows_local;
  trm_place_read(&place, &knows_local);
  if (place.size > 1) snprintf(instance, sizeof instance, "[%u] ", place.rank);
  const char *text = getenv("TF_POPLAR_VLOG_LEVEL");
  const long verbose = text == NULL ? 0 : strtol(text, NULL, 10);
  trm_log_level least = TRM_LOG_OFF;
  if (verbose >= 1) least = TRM_LOG_INFO;
  if (verbose >= 2) least = TRM_LOG_DEBUG;
  if (verbose >= 3) least = TRM_LOG_TRACE;
  poplar_level = level_from("POPLAR_LOG_LEVEL", TRM_LOG_WARN);
  if (poplar_level < least) poplar_level = least;
  poplibs_level = level_from("POPLIBS_LOG_LEVEL", TRM_LOG_WARN);
  const char *poplar = getenv("POPLAR_LOG_DEST"), *poplibs = getenv("POPLIBS_LOG_DEST");
  const bool is_same = poplar != NULL && poplibs != NULL && strcmp(poplar, poplibs) == 0;
  poplar_file = file_from("POPLAR_LOG_DEST", poplar);
  poplibs_file = is_same ? poplar_file : file_from("POPLIBS_LOG_DEST", poplibs);
}

static bool is_poplibs(const char *origin) { return strcmp(origin, "POPLIBS") == 0; }

bool trm_log_enabled(trm_log_level level, const char *origin) {
  pthread_once(&once, read_environment);
  return level <= (is_poplibs(origin) ? poplibs_level : poplar_level) && level != TRM_LOG_OFF;
}

/* One write a line, so that lines of several threads do not mix. */
void trm_log(trm_log_level level, const char *origin, const char *format, ...) {
  if (!trm_log_enabled(level, origin)) return;
  char line[LINE_SIZE];
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  size_t used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
  used += (size_t)snprintf(line + used, sizeof line - used, ".%06ldZ %s:%-8.16s %ld.%ld %c: %s",
                           now.tv_nsec / 1000, is_poplibs(origin) ? "PL" : "PO", origin,
                           (long)getpid(), (long)syscall(SYS_gettid), letters[level], instance);
  va_list args;
  va_start(args, format);
  const int length = vsnprintf(line + used, sizeof line - used - 1, format, args);
  va_end(args);
  if (length > 0) used += (size_t)length;
  if (used > sizeof line - 2) used = sizeof line - 2;
  line[used] = '\n';
  line[used + 1] = '\0';
  FILE *chosen = is_poplibs(origin) ? poplibs_file : poplar_file;
  FILE *file = chosen != NULL ? chosen : stderr;
  fputs(line, file);
  if (file != stderr) fflush(file);
}
