/* Owns: log lines in TensorFlow's format, and filtering TensorFlow's own lines about the device. */
#include "log.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "base/place.h"
#include "cxx.h"

enum { LINE_SIZE = 6144 };

static void write_line(char severity, const char *place, const char *format, va_list args) {
  struct timeval now;
  struct tm local;
  char date[32];
  char text[LINE_SIZE];
  gettimeofday(&now, NULL);
  localtime_r(&now.tv_sec, &local);
  strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &local);
  vsnprintf(text, sizeof text, format, args);
  char instance[16] = "";
  trm_group_place own;
  bool knows_local;
  trm_place_read(&own, &knows_local);
  if (own.size > 1) snprintf(instance, sizeof instance, "[%u] ", own.rank);
  fprintf(stderr, "%s.%06ld: %c %s] %s%s\n", date, (long)now.tv_usec, severity, place, instance,
          text);
}

void trm_tf_log_line(char severity, const char *file, int line, const char *format, ...) {
  const char *slash = strrchr(file, '/');
  char place[128];
  snprintf(place, sizeof place, "tremula/src/tf/%.80s:%d", slash != NULL ? slash + 1 : file, line);
  va_list args;
  va_start(args, format);
  write_line(severity, place, format, args);
  va_end(args);
}

void trm_tf_log_at(const char *place, const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_line('I', place, format, args);
  va_end(args);
}

void trm_tf_log(const char *place, const char *text) { trm_tf_log_at(place, "%s", text); }

/* ---- Detail ---- */

/* The environment is read once, as TensorFlow does. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *modules; /* TF_CPP_VMODULE: PATTERN=LEVEL,... */
static int general;   /* the level of all other modules */

static void read_environment(void) {
  const char *level = getenv("TF_CPP_MAX_VLOG_LEVEL");
  if (!level) level = getenv("TF_CPP_MIN_VLOG_LEVEL"); /* its older name */
  general = level ? (int)strtol(level, NULL, 10) : 0;
  const char *text = getenv("TF_CPP_VMODULE");
  if (text) modules = strdup(text);
}

bool trm_tf_log_is_verbose(int level, const char *module) {
  pthread_once(&once, read_environment);
  if (!modules) return level <= general;
  size_t length;
  for (const char *one = modules; *one; one += length + (one[length] == ',')) {
    char pattern[64];
    length = strcspn(one, ",");
    const char *equals = memchr(one, '=', length);
    if (!equals) continue;
    snprintf(pattern, sizeof pattern, "%.*s", (int)(equals - one), one);
    if (fnmatch(pattern, module, 0) == 0) return level <= (int)strtol(equals + 1, NULL, 10);
  }
  return level <= general;
}

/* ---- TensorFlow's own lines ----
 *
 * TensorFlow 2.15 logs at the level INFO whenever it makes a session that there are a device IPU:0
 * and a device IPU:1, without memory, and a graph optimiser. The original logged none of that. And
 * it logs that XLA has a service and no crash reproducer, when Tremula first lowers a program:
 * stock Keras, which lowers nothing, prints none of that. All of these lines are there at
 * TF_CPP_VMODULE=quiet=1.
 *
 * TensorFlow has no C API for that, and no plainer way: TF_CPP_MIN_LOG_LEVEL drops every other line
 * of the level INFO too, and TF_CPP_VMODULE only adds lines. Its log goes to sinks
 * (tsl/platform/default/logging.h), and ours stands in front of the one that writes: a C++ object,
 * made here as the Itanium C++ ABI has it. The layout of an entry is that of TensorFlow 2.15, so
 * other versions are left alone. */

/* tsl::TFLogEntry */
typedef struct log_entry {
  int severity; /* 0: INFO */
  trm_tf_cxx_string file;
  int line;
  trm_tf_cxx_string message;
} log_entry;

/* tsl::TFLogSink: two destructors, Send, WaitTillSent. */
typedef void sink_method(void *sink);
typedef void sink_send(void *sink, const log_entry *entry);
typedef struct sink_methods {
  sink_method *destroy, *destroy_and_free;
  sink_send *send;
  sink_method *wait;
} sink_methods;
typedef struct log_sink {
  const sink_methods *methods;
} log_sink;

static sink_send *write_entry; /* the entry point of the replaced sink */

static bool is_noise(const log_entry *entry) {
  static const struct {
    const char *file, *words;
  } noise[] = {{"pluggable_device_factory.cc", "IPU"},
               {"custom_graph_optimizer_registry.cc", "IPU"},
               {"xla/service/service.cc", "XLA service "},
               {"xla/service/service.cc", "  StreamExecutor device "},
               {"dump_mlir_util.cc", "disabling MLIR crash reproducer"}};
  if (entry->severity != 0) return false;
  for (size_t n = 0; n < sizeof noise / sizeof *noise; ++n) {
    if (strstr(entry->file.data, noise[n].file) && strstr(entry->message.data, noise[n].words)) {
      return true;
    }
  }
  return false;
}

static void send_entry(void *sink, const log_entry *entry) {
  if (!is_noise(entry)) write_entry(sink, entry);
}

static void do_nothing(void *sink) { (void)sink; }

void trm_tf_log_quieten(const char *version) {
  static const sink_methods methods = {do_nothing, do_nothing, send_entry, do_nothing};
  static log_sink ours = {&methods};
  if (version == NULL || strncmp(version, "2.15.", 5) != 0 || trm_tf_log_is_verbose(1, "quiet")) {
    return;
  }
  void (*add)(log_sink *), (*drop)(log_sink *);
  trm_tf_cxx_vector *(*get)(
      trm_tf_cxx_vector *); /* a result in memory has its address as first argument */
  *(void **)&add = trm_tf_find_symbol("_ZN3tsl12TFAddLogSinkEPNS_9TFLogSinkE");
  *(void **)&drop = trm_tf_find_symbol("_ZN3tsl15TFRemoveLogSinkEPNS_9TFLogSinkE");
  *(void **)&get = trm_tf_find_symbol("_ZN3tsl13TFGetLogSinksEv");
  *(void **)&write_entry = trm_tf_find_symbol("_ZN3tsl16TFDefaultLogSink4SendERKNS_10TFLogEntryE");
  if (add == NULL || drop == NULL || get == NULL || write_entry == NULL) return;
  trm_tf_cxx_vector sinks = {0}; /* its few bytes belong to C++ and are leaked once in a process */
  get(&sinks);
  for (void **sink = sinks.begin; sink < sinks.end; ++sink) {
    log_sink *one = *sink;
    if (one->methods->send != write_entry) continue;
    add(&ours); /* first, because TensorFlow adds a sink if there is none */
    drop(one);
    return;
  }
}
