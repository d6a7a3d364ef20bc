/* Events: what happened on the devices, as serialised IpuTraceEvents (trace.proto), from when a
 * configuration asks for them until the op IpuEventTrace takes them (docs/events.md). */
#ifndef TREMULA_TF_EVENTS_H_
#define TREMULA_TF_EVENTS_H_

#include <stdatomic.h>

#include "tensorflow.h"
#include "tremula/report.h"

/* What is recorded; bits. */
typedef enum tf_events {
  TF_EVENTS = 1,            /* compilations and runs */
  TF_EVENTS_TRANSFERS = 2,  /* loading a program, and variables that go to a device or come back */
  TF_EVENTS_REPORT = 4,     /* a graph report of each compilation */
  TF_EVENTS_TENSOR_MAP = 8, /* a tensor map of each compilation */
  TF_EVENTS_GRAPH = 16,     /* the program as HLO text */
  TF_EVENTS_EXECUTION = 32, /* an execution report of the first run, or of every so many */
  TF_EVENTS_PRINT = 64,     /* text reports of compilations and first runs on standard output */
} tf_events;

extern atomic_uint events_wanted; /* tf_events bits */

/* Whether one of these is recorded: all that a program pays that asks for no events. */
static inline bool events_want(unsigned bits) {
  return (atomic_load_explicit(&events_wanted, memory_order_relaxed) & bits) != 0;
}

/* An execution report, made when the first is asked for. */
typedef struct event_report {
  bool is_made;
  char *data;
  size_t size;
} event_report;

/* Each records one event, if such are recorded. `ordinal` is the TF device's, `module` the name of
 * the program (names.h). */
void events_compile_begin(int ordinal, const char *module);
/* With the reports that are asked for; `seconds` is how long it took. */
void events_compile_end(int ordinal, const char *module, trm_executable *executable,
                        double seconds);
void events_load_engine(int ordinal, const char *module);
/* `json` says which tensors, as transfers.c writes it. */
void events_transfer(int ordinal, bool to_device, const char *json);
/* Run number `run`, from 1 on, of a program, whose report `report` keeps. */
void events_execute(int ordinal, const char *module, trm_executable *executable, uint64_t run,
                    event_report *report);

/* ---- For Python ---- */

/* Field for field as in python/tremula/tf/runtime/plugin.py. */
typedef struct trm_tf_event_settings {
  uint32_t bits;              /* tf_events */
  int32_t form;               /* trm_report_form of the reports */
  uint32_t every;             /* of so many runs one has a report; 0: only the first */
  uint64_t most_report_bytes; /* larger reports are dropped, with a line in the log */
  const char *directory;      /* reports are written below it, and events hold paths; "": none */
} trm_tf_event_settings;

TRM_TF_API void trm_tf_set_events(const trm_tf_event_settings *settings);

#endif /* TREMULA_TF_EVENTS_H_ */
