/* Owns: recording events, and the op IpuEventTrace, which returns them. */
#define _GNU_SOURCE
#include "events.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "log.h"
#include "ops.h"
#include "tensorflow/core/platform/ctstring.h"
#include "trace.pb-c.h"
#include "tremula/inspect.h"
#include "tremula/log.h"

enum { PATH_SIZE = 4096 };

atomic_uint trm_tf_events_wanted;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static trm_tf_event_settings settings; /* owns `directory` */

void trm_tf_set_events(const trm_tf_event_settings *wanted) {
  char *directory = trm_tf_copy_text(wanted->directory);
  pthread_mutex_lock(&lock);
  trm_free((char *)(uintptr_t)settings.directory);
  settings = *wanted;
  settings.directory = directory;
  pthread_mutex_unlock(&lock);
  atomic_store(&trm_tf_events_wanted, wanted->bits);
}

/* ---- Events that wait ---- */

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static trm_tf_event_list waiting = {.last = &waiting.first};
static size_t num_dropped;

trm_tf_event *trm_tf_event_create(size_t size) {
  trm_tf_event *e = trm_allocate(sizeof *e + size);
  if (e) *e = (trm_tf_event){.next = NULL, .size = size};
  return e;
}

bool trm_tf_event_queue_add(trm_tf_event *added) {
  const size_t bytes = added ? sizeof *added + added->size : 0;
  bool is_first_loss = false;
  pthread_mutex_lock(&queue_lock);
  const bool kept = added && waiting.bytes + bytes <= TRM_TF_MOST_EVENT_BYTES;
  if (kept) {
    *waiting.last = added;
    waiting.last = &added->next;
    ++waiting.count;
    waiting.bytes += bytes;
  } else {
    is_first_loss = num_dropped++ == 0;
  }
  pthread_mutex_unlock(&queue_lock);
  if (!kept) trm_free(added);
  return is_first_loss;
}

trm_tf_event_list trm_tf_event_queue_take(void) {
  pthread_mutex_lock(&queue_lock);
  trm_tf_event_list taken = waiting;
  if (!taken.first) taken.last = NULL;
  waiting = (trm_tf_event_list){.last = &waiting.first};
  num_dropped = 0;
  pthread_mutex_unlock(&queue_lock);
  return taken;
}

void trm_tf_event_queue_put_back(trm_tf_event_list *list) {
  if (!list->first) return;
  pthread_mutex_lock(&queue_lock);
  *list->last = waiting.first;
  if (!waiting.first) waiting.last = list->last;
  waiting.first = list->first;
  waiting.count += list->count;
  waiting.bytes += list->bytes;
  pthread_mutex_unlock(&queue_lock);
  *list = (trm_tf_event_list){0};
}

void trm_tf_event_list_free(trm_tf_event_list *list) {
  while (list->first) {
    trm_tf_event *next = list->first->next;
    trm_free(list->first);
    list->first = next;
  }
  *list = (trm_tf_event_list){0};
}

/* ---- Recording ---- */

static double seconds_since_1970(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void record(int ordinal, Tensorflow__IpuTraceEvent__Type type,
                   Tensorflow__IpuTraceEvent *message) {
  message->ordinal = ordinal;
  message->type = type;
  message->timestamp = seconds_since_1970();
  const size_t size = tensorflow__ipu_trace_event__get_packed_size(message);
  trm_tf_event *e = trm_tf_event_create(size);
  if (e) tensorflow__ipu_trace_event__pack(message, e->data);
  if (trm_tf_event_queue_add(e)) {
    TRM_TF_WARN("IPU events are recorded, but nobody takes them with ipu_event_trace(): there are "
                "%zu MB of them, and more are dropped until somebody does.",
                (size_t)TRM_TF_MOST_EVENT_BYTES >> 20);
  }
}

static ProtobufCBinaryData bytes_of(const char *text) {
  return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

/* A copy of the settings; `directory` must be freed. */
static trm_tf_event_settings copy_settings(void) {
  pthread_mutex_lock(&lock);
  trm_tf_event_settings copy = settings;
  copy.directory = settings.directory ? trm_tf_copy_text(settings.directory) : NULL;
  pthread_mutex_unlock(&lock);
  return copy;
}

void trm_tf_events_compile_begin(int ordinal, const char *module) {
  if (!trm_tf_events_want(TRM_TF_EVENTS_RUNS)) return;
  Tensorflow__IpuTraceEvent message = TENSORFLOW__IPU_TRACE_EVENT__INIT;
  Tensorflow__IpuTraceCompileBeginEvent begin = TENSORFLOW__IPU_TRACE_COMPILE_BEGIN_EVENT__INIT;
  begin.module_name = bytes_of(module);
  message.msg_case = TENSORFLOW__IPU_TRACE_EVENT__MSG_COMPILE_BEGIN;
  message.compile_begin = &begin;
  record(ordinal, TENSORFLOW__IPU_TRACE_EVENT__TYPE__COMPILE_BEGIN, &message);
}

/* ---- Reports ---- */

/* Logs that a document could not be made. */
static void tell(const char *what, const trm_error *error, const trm_tf_event_settings *wanted) {
  if (error->status == TRM_RESOURCE_EXHAUSTED && wanted->most_report_bytes > 0) {
    TRM_TF_INFO(
        "Dropping %s which is larger than the configured maximum report size %llu. To change "
        "the maximum report size use the max_report_size argument in "
        "ipu.utils.create_ipu_config, in bytes.",
        what, (unsigned long long)wanted->most_report_bytes);
  } else TRM_TF_WARN("There is no %s: %s", what, error->message);
}

/* If there is a report directory, writes the document to the file `name` below it, and replaces the
 * document by the path. Takes over *data. */
static void put_aside(const trm_tf_event_settings *wanted, const char *module, const char *name,
                      char **data, size_t *size) {
  if (!*data || !wanted->directory || !wanted->directory[0]) return;
  char path[PATH_SIZE];
  trm_error error = {.message = "the path is too long"};
  const int length = snprintf(path, sizeof path, "%s/%s", wanted->directory, module);
  bool written = false;
  if (length > 0 && (size_t)length < sizeof path - 64) {
    (void)trm_make_folders(path, &error); /* writing the file reports a failure */
    snprintf(path + length, sizeof path - (size_t)length, "/%s", name);
    written = trm_inspect_replace_file(path, NULL, 0, *data, *size, &error) == TRM_OK;
  }
  if (!written) {
    TRM_TF_WARN("Cannot write %s of %s into the report directory %s: %s", name, module,
                wanted->directory, error.message);
    return; /* the event has the document itself */
  }
  char *copy = trm_tf_copy_text(path);
  if (!copy) return;
  trm_free(*data);
  *data = copy;
  *size = strlen(copy);
}

static const char *extension(int32_t form) {
  return form == TRM_REPORT_AS_TEXT ? "txt" : form == TRM_REPORT_AS_CBOR ? "cbor" : "json";
}

/* Makes a document; NULL after a failure, which is logged. */
static char *describe(trm_executable *executable, const trm_program *program, trm_report_part part,
                      int32_t form, const char *what, const trm_tf_event_settings *wanted,
                      size_t *out_size) {
  char *data = NULL;
  trm_error error = {0};
  *out_size = 0;
  if (trm_report_describe(executable, program, part, (trm_report_form)form,
                          wanted->most_report_bytes, &data, out_size, &error) == TRM_OK) {
    return data;
  }
  tell(what, &error, wanted);
  return NULL;
}

/* `inputs`: of the run that it is about; NULL: of any. */
static trm_program *estimate(trm_executable *executable, const void *const *inputs) {
  trm_program *program = NULL;
  trm_error error = {0};
  if (trm_program_create_for_run(executable, inputs, &program, &error) == TRM_OK) return program;
  trm_log(TRM_LOG_WARN, "REPORT", "no reports for events: %s", error.message);
  return NULL;
}

/* Prints a report, for --dump_text_reports_to_stdio. */
static void print_report(trm_executable *executable, const trm_program *program,
                         trm_report_part part, const trm_tf_event_settings *wanted) {
  size_t size;
  char *text =
      describe(executable, program, part, TRM_REPORT_AS_TEXT, "text report", wanted, &size);
  if (text) {
    fwrite(text, 1, size, stdout);
    fflush(stdout);
  }
  trm_free(text);
}

/* The documents in the event of a compilation; free them with trm_free. */
typedef struct documents {
  char *report, *map, *info, *graph;
  size_t report_size, map_size, info_size, graph_size;
} documents;

static void describe_program(trm_executable *executable, const char *module,
                             const trm_tf_event_settings *wanted, documents *d) {
  char name[64];
  trm_program *program = estimate(executable, NULL);
  if (program == NULL) return;
  if (wanted->bits & TRM_TF_EVENTS_PRINT) {
    print_report(executable, program, TRM_REPORT_GRAPH, wanted);
  }
  if (wanted->bits & TRM_TF_EVENTS_REPORT) {
    d->report = describe(executable, program, TRM_REPORT_GRAPH, wanted->form, "compilation report",
                         wanted, &d->report_size);
    snprintf(name, sizeof name, "graph.%s", extension(wanted->form));
    put_aside(wanted, module, name, &d->report, &d->report_size);
  }
  if (wanted->bits & TRM_TF_EVENTS_TENSOR_MAP) {
    d->map = describe(executable, program, TRM_REPORT_TENSOR_MAP, TRM_REPORT_AS_JSON, "tensor map",
                      wanted, &d->map_size);
    put_aside(wanted, module, "tensor_map.json", &d->map, &d->map_size);
    d->info = describe(executable, program, TRM_REPORT_INSTRUCTIONS, TRM_REPORT_AS_JSON,
                       "instruction info", wanted, &d->info_size);
  }
  trm_program_free(program);
}

static void describe_graph(const trm_executable *executable, const char *module,
                           const trm_tf_event_settings *wanted, documents *d) {
  trm_error error = {0};
  if (trm_executable_print(executable, &d->graph, &error) != TRM_OK) return;
  d->graph_size = strlen(d->graph);
  if (wanted->most_report_bytes > 0 && d->graph_size > wanted->most_report_bytes) {
    error.status = TRM_RESOURCE_EXHAUSTED;
    tell("serialized graph", &error, wanted);
    trm_free(d->graph);
    d->graph = NULL;
    d->graph_size = 0;
  }
  put_aside(wanted, module, "serialized_graph.hlo", &d->graph, &d->graph_size);
}

void trm_tf_events_compile_end(int ordinal, const char *module, trm_executable *executable,
                               double seconds) {
  if (!trm_tf_events_want(TRM_TF_EVENTS_RUNS)) return;
  const trm_tf_event_settings wanted = copy_settings();
  documents d = {0};
  if (wanted.bits & (TRM_TF_EVENTS_REPORT | TRM_TF_EVENTS_TENSOR_MAP | TRM_TF_EVENTS_PRINT)) {
    describe_program(executable, module, &wanted, &d);
  }
  if (wanted.bits & TRM_TF_EVENTS_GRAPH) describe_graph(executable, module, &wanted, &d);
  Tensorflow__IpuTraceEvent message = TENSORFLOW__IPU_TRACE_EVENT__INIT;
  Tensorflow__IpuTraceCompileEndEvent end = TENSORFLOW__IPU_TRACE_COMPILE_END_EVENT__INIT;
  end.module_name = bytes_of(module);
  end.duration = (int64_t)(seconds * 1e6);
  end.compilation_report = (ProtobufCBinaryData){d.report_size, (uint8_t *)d.report};
  end.tensor_map = (ProtobufCBinaryData){d.map_size, (uint8_t *)d.map};
  end.instruction_info = bytes_of(d.info ? d.info : "{}");
  end.poplar_graph = (ProtobufCBinaryData){d.graph_size, (uint8_t *)d.graph};
  message.msg_case = TENSORFLOW__IPU_TRACE_EVENT__MSG_COMPILE_END;
  message.compile_end = &end;
  record(ordinal, TENSORFLOW__IPU_TRACE_EVENT__TYPE__COMPILE_END, &message);
  trm_free(d.report);
  trm_free(d.map);
  trm_free(d.info);
  trm_free(d.graph);
  trm_free((char *)(uintptr_t)wanted.directory);
}

void trm_tf_events_load_engine(int ordinal, const char *module) {
  if (!trm_tf_events_want(TRM_TF_EVENTS_TRANSFERS)) return;
  Tensorflow__IpuTraceEvent message = TENSORFLOW__IPU_TRACE_EVENT__INIT;
  Tensorflow__IpuTraceLoadEngineEvent load = TENSORFLOW__IPU_TRACE_LOAD_ENGINE_EVENT__INIT;
  load.module_name = bytes_of(module);
  message.msg_case = TENSORFLOW__IPU_TRACE_EVENT__MSG_LOAD_ENGINE;
  message.load_engine = &load;
  record(ordinal, TENSORFLOW__IPU_TRACE_EVENT__TYPE__LOAD_ENGINE, &message);
}

void trm_tf_events_transfer(int ordinal, bool to_device, const char *json) {
  if (!trm_tf_events_want(TRM_TF_EVENTS_TRANSFERS)) return;
  Tensorflow__IpuTraceEvent message = TENSORFLOW__IPU_TRACE_EVENT__INIT;
  Tensorflow__IpuTraceDataTransferEvent transfer = TENSORFLOW__IPU_TRACE_DATA_TRANSFER_EVENT__INIT;
  transfer.data_transfer = bytes_of(json);
  message.msg_case = TENSORFLOW__IPU_TRACE_EVENT__MSG_DATA_TRANSFER;
  message.data_transfer = &transfer;
  record(ordinal,
         to_device ? TENSORFLOW__IPU_TRACE_EVENT__TYPE__HOST_TO_DEVICE_TRANSFER
                   : TENSORFLOW__IPU_TRACE_EVENT__TYPE__DEVICE_TO_HOST_TRANSFER,
         &message);
}

/* Makes the execution report of a run, unless the last one is about the same cycles. */
static void describe_run(trm_executable *executable, const trm_program *program, const char *module,
                         const trm_tf_event_settings *wanted, trm_tf_event_report *report) {
  trm_program_totals totals = {.size = sizeof totals};
  trm_program_get_totals(program, &totals);
  if (report->is_made && report->cycles == totals.cycles) return;
  trm_free(report->data);
  *report = (trm_tf_event_report){.is_made = true, .cycles = totals.cycles};
  report->data = describe(executable, program, TRM_REPORT_EXECUTION, wanted->form,
                          "execution report", wanted, &report->size);
  char name[64];
  snprintf(name, sizeof name, "execution.%s", extension(wanted->form));
  put_aside(wanted, module, name, &report->data, &report->size);
}

void trm_tf_events_execute(int ordinal, const char *module, trm_executable *executable,
                           const void *const *inputs, uint64_t run, trm_tf_event_report *report) {
  if (!trm_tf_events_want(TRM_TF_EVENTS_RUNS)) return;
  const trm_tf_event_settings wanted = copy_settings();
  const bool has_report = wanted.bits & TRM_TF_EVENTS_EXECUTION &&
                          (wanted.every == 0 ? run == 1 : (run - 1) % wanted.every == 0);
  const bool prints = run == 1 && wanted.bits & TRM_TF_EVENTS_PRINT;
  trm_program *program = has_report || prints ? estimate(executable, inputs) : NULL;
  if (program && prints) print_report(executable, program, TRM_REPORT_EXECUTION, &wanted);
  if (program && has_report) describe_run(executable, program, module, &wanted, report);
  trm_program_free(program);
  Tensorflow__IpuTraceEvent message = TENSORFLOW__IPU_TRACE_EVENT__INIT;
  Tensorflow__IpuTraceExecuteEvent execute = TENSORFLOW__IPU_TRACE_EXECUTE_EVENT__INIT;
  execute.module_name = bytes_of(module);
  if (has_report && report->data) {
    execute.execution_report = (ProtobufCBinaryData){report->size, (uint8_t *)report->data};
  }
  message.msg_case = TENSORFLOW__IPU_TRACE_EVENT__MSG_EXECUTE;
  message.execute = &execute;
  record(ordinal, TENSORFLOW__IPU_TRACE_EVENT__TYPE__EXECUTE, &message);
  trm_free((char *)(uintptr_t)wanted.directory);
}

/* ---- Taking ---- */

static trm_status take(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)kernel;
  trm_tf_event_list taken = trm_tf_event_queue_take();
  const int64_t count = (int64_t)taken.count;
  TF_Tensor *tensor;
  const trm_status status = trm_tf_allocate_output(
      context, 0, TF_STRING, &count, 1, taken.count * sizeof(TF_TString), &tensor, error);
  if (status != TRM_OK) {
    trm_tf_event_queue_put_back(&taken); /* for the next call */
    return status;
  }
  TF_TString *strings = TF_TensorData(tensor);
  const trm_tf_event *e = taken.first;
  for (size_t i = 0; i < taken.count; ++i, e = e->next) {
    TF_TString_Init(&strings[i]);
    TF_TString_Copy(&strings[i], (const char *)e->data, e->size);
  }
  trm_tf_event_list_free(&taken);
  TF_DeleteTensor(tensor);
  return TRM_OK;
}

TRM_TF_DEFINE_COMPUTE(event_trace, take)
