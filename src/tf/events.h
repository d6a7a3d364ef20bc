/* Owns: events: serialised IpuTraceEvents (trace.proto) of what happens on the devices. A
 * configuration asks for them, and the op IpuEventTrace returns them (docs/events.md). */
#ifndef TREMULA_TF_EVENTS_H_
#define TREMULA_TF_EVENTS_H_

#include <stdatomic.h>

#include "tensorflow.h"
#include "tremula/report.h"

/* The kinds of recorded events, as bits. */
typedef enum trm_tf_events {
  TRM_TF_EVENTS_RUNS = 1,       /* compilations and runs */
  TRM_TF_EVENTS_TRANSFERS = 2,  /* loading a program, and transfers of variables */
  TRM_TF_EVENTS_REPORT = 4,     /* a graph report of each compilation */
  TRM_TF_EVENTS_TENSOR_MAP = 8, /* a tensor map of each compilation */
  TRM_TF_EVENTS_GRAPH = 16,     /* the program as HLO text */
  TRM_TF_EVENTS_EXECUTION = 32, /* an execution report of the first run, or of every n-th */
  TRM_TF_EVENTS_PRINT = 64,     /* text reports of compilations and first runs on standard output */
} trm_tf_events;

extern atomic_uint trm_tf_events_wanted; /* trm_tf_events bits */

/* Whether one of these kinds is recorded. A program without events pays only for this call. */
static inline bool trm_tf_events_want(unsigned bits) {
  return (atomic_load_explicit(&trm_tf_events_wanted, memory_order_relaxed) & bits) != 0;
}

/* An execution report, made on demand. */
typedef struct trm_tf_event_report {
  bool is_made;
  int64_t cycles; /* of the run that it is about */
  char *data;
  size_t size;
} trm_tf_event_report;

/* Each function records one event, if its kind is wanted. `ordinal` is the TF device's, `module`
 * the name of the unit (watch.h). */
void trm_tf_events_compile_begin(int ordinal, const char *module);
/* Adds the reports that are wanted; `seconds` is the duration of the compilation. */
void trm_tf_events_compile_end(int ordinal, const char *module, trm_executable *executable,
                               double seconds);
void trm_tf_events_load_engine(int ordinal, const char *module);
/* `json` lists the tensors, as observe.c writes them. */
void trm_tf_events_transfer(int ordinal, bool to_device, const char *json);
/* Run number `run`, from 1 on, of a unit, with these inputs. `report` caches the last execution
 * report. */
void trm_tf_events_execute(int ordinal, const char *module, trm_executable *executable,
                           const void *const *inputs, uint64_t run, trm_tf_event_report *report);

/* ---- Events that wait until somebody takes them, as bytes ---- */

typedef struct trm_tf_event {
  struct trm_tf_event *next;
  size_t size;
  unsigned char data[];
} trm_tf_event;

/* A list of events, the oldest first. */
typedef struct trm_tf_event_list {
  trm_tf_event *first, **last;
  size_t count, bytes; /* bytes include the overhead of each event */
} trm_tf_event_list;

/* The limit for all events together; further events are dropped. */
enum { TRM_TF_MOST_EVENT_BYTES = 256 << 20 };

/* A new event with room for `size` bytes, or NULL. */
trm_tf_event *trm_tf_event_create(size_t size);
/* Takes over the event; NULL is an event for which there was no memory. Returns true if it is the
 * first event to be dropped since events were last taken. */
bool trm_tf_event_queue_add(trm_tf_event *added);
/* Takes all events out of the queue. */
trm_tf_event_list trm_tf_event_queue_take(void);
/* Puts taken events back in front of newer ones, after they could not be returned. */
void trm_tf_event_queue_put_back(trm_tf_event_list *list);
void trm_tf_event_list_free(trm_tf_event_list *list);

/* ---- For Python ---- */

/* Field for field as in python/tremula/tf/runtime/device/plugin.py. */
typedef struct trm_tf_event_settings {
  uint32_t bits;              /* trm_tf_events */
  int32_t form;               /* trm_report_form of the reports */
  uint32_t every;             /* every n-th run has a report; 0: only the first */
  uint64_t most_report_bytes; /* larger reports are dropped, with a line in the log */
  const char *directory;      /* reports are written below it, and events hold paths; "": none */
} trm_tf_event_settings;

TRM_TF_API void trm_tf_set_events(const trm_tf_event_settings *settings);

#endif /* TREMULA_TF_EVENTS_H_ */
