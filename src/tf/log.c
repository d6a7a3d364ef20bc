/* Lines on standard error, in TensorFlow's log format. */
#define _POSIX_C_SOURCE 200809L
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
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
  fprintf(stderr, "%s.%06ld: %c tensorflow/compiler/plugin/poplar/driver/%s] %s\n", date,
          (long)now.tv_usec, severity, source, text);
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
