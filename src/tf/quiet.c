/* Keeps from standard error what TensorFlow 2.15 logs at the level INFO of our device whenever it
 * makes a session: that there are a device IPU:0 and a device IPU:1, without memory, and a graph
 * optimiser. The original logged none of that. All of it is there at TF_CPP_MAX_VLOG_LEVEL=1.
 *
 * TensorFlow has no C API for that. Its log goes to sinks (tsl/platform/default/logging.h), and
 * ours stands in front of the one that writes: a C++ object, made here as the Itanium C++ ABI has
 * it. The layout of an entry is that of one TensorFlow, so others are left alone. */
#define _GNU_SOURCE
#include "quiet.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "build.h"
#include "log.h"

/* std::string of libstdc++. */
typedef struct cxx_string {
  const char *data;
  size_t size;
  char local[16];
} cxx_string;

/* tsl::TFLogEntry */
typedef struct log_entry {
  int severity; /* 0: INFO */
  cxx_string file;
  int line;
  cxx_string message;
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

/* std::vector<tsl::TFLogSink *> */
typedef struct sink_list {
  log_sink **begin, **end, **room;
} sink_list;

static sink_send *write_entry; /* of the sink that we stand for */

static bool is_noise(const log_entry *entry) {
  static const char *const files[] = {"pluggable_device_factory.cc",
                                      "custom_graph_optimizer_registry.cc"};
  if (entry->severity != 0 || strstr(entry->message.data, "IPU") == NULL) return false;
  for (size_t f = 0; f < sizeof files / sizeof *files; ++f) {
    if (strstr(entry->file.data, files[f]) != NULL) return true;
  }
  return false;
}

static void send_entry(void *sink, const log_entry *entry) {
  if (!is_noise(entry)) write_entry(sink, entry);
}

static void do_nothing(void *sink) { (void)sink; }

void quiet_install(void) {
  static const sink_methods methods = {do_nothing, do_nothing, send_entry, do_nothing};
  static log_sink ours = {&methods};
  const char *version = tensorflow_version();
  if (version == NULL || strncmp(version, "2.15.", 5) != 0 || log_is_verbose(1, "quiet.c")) return;
  void (*add)(log_sink *), (*drop)(log_sink *);
  sink_list *(*get)(sink_list *); /* what is returned in memory has its place as first argument */
  *(void **)&add = dlsym(RTLD_DEFAULT, "_ZN3tsl12TFAddLogSinkEPNS_9TFLogSinkE");
  *(void **)&drop = dlsym(RTLD_DEFAULT, "_ZN3tsl15TFRemoveLogSinkEPNS_9TFLogSinkE");
  *(void **)&get = dlsym(RTLD_DEFAULT, "_ZN3tsl13TFGetLogSinksEv");
  *(void **)&write_entry = dlsym(RTLD_DEFAULT, "_ZN3tsl16TFDefaultLogSink4SendERKNS_10TFLogEntryE");
  if (add == NULL || drop == NULL || get == NULL || write_entry == NULL) return;
  sink_list sinks = {0}; /* its few bytes are C++'s to free: they stay, once in a process */
  get(&sinks);
  for (log_sink **sink = sinks.begin; sink < sinks.end; ++sink) {
    if ((*sink)->methods->send != write_entry) continue;
    add(&ours); /* first: without a sink TensorFlow adds one */
    drop(*sink);
    return;
  }
}
