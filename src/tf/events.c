/* Recording events, and IpuEventTrace, which takes them. */
#define _GNU_SOURCE
#include "events.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "event_queue.h"
#include "log.h"
#include "names.h"
#include "ops.h"
#include "tensorflow/core/platform/ctstring.h"
#include "tensors.h"
#include "trace.pb-c.h"
#include "tremula/inspect.h"
#include "tremula/log.h"

enum { PATH_SIZE = 4096 };

atomic_uint events_wanted;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static trm_tf_event_settings settings; /* `directory` is ours */

void trm_tf_set_events(const trm_tf_event_settings *wanted) {
  char *directory = strdup(wanted->directory);
  pthread_mutex_lock(&lock);
  free((char *)(uintptr_t)settings.directory);
  settings = *wanted;
  settings.directory = directory;
  pthread_mutex_unlock(&lock);
  atomic_store(&events_wanted, wanted->bits);
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
  event *e = event_create(size);
  if (e) tensorflow__ipu_trace_event__pack(message, e->data);
  if (event_queue_add(e))
    log_warning("poplar_executor.cc:1624",
                "IPU events are recorded, but nobody takes them with ipu_event_trace(): there are "
                "%zu MB of them, and more are dropped until somebody does.",
                (size_t)MOST_EVENT_BYTES >> 20);
}

static ProtobufCBinaryData bytes_of(const char *text) {
  return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

/* A copy of the settings; `directory` must be freed. */
static trm_tf_event_settings copy_settings(void) {
  pthread_mutex_lock(&lock);
  trm_tf_event_settings copy = settings;
  copy.directory = settings.directory ? strdup(settings.directory) : NULL;
  pthread_mutex_unlock(&lock);
  return copy;
}

void events_compile_begin(int ordinal, const char *module) {
  if (!events_want(TF_EVENTS)) return;
  Tensorflow__IpuTraceEvent message = TENSORFLOW__IPU_TRACE_EVENT__INIT;
  Tensorflow__IpuTraceCompileBeginEvent begin = TENSORFLOW__IPU_TRACE_COMPILE_BEGIN_EVENT__INIT;
  begin.module_name = bytes_of(module);
  message.msg_case = TENSORFLOW__IPU_TRACE_EVENT__MSG_COMPILE_BEGIN;
  message.compile_begin = &begin;
  record(ordinal, TENSORFLOW__IPU_TRACE_EVENT__TYPE__COMPILE_BEGIN, &message);
}

/* ---- Reports ---- */

/* What becomes of a document that could not be made. */
static void tell(const char *what, const trm_error *error, const trm_tf_event_settings *wanted) {
  if (error->status == TRM_RESOURCE_EXHAUSTED && wanted->most_report_bytes > 0)
    log_info("poplar_compiler.cc:1973",
             "Dropping %s which is larger than the configured maximum report size %llu. To change "
             "the maximum report size use the max_report_size argument in "
             "ipu.utils.create_ipu_config, in bytes.",
             what, (unsigned long long)wanted->most_report_bytes);
  else log_warning("poplar_compiler.cc:1973", "There is no %s: %s", what, error->message);
}

/* With a report directory the document goes into the file `name` below it, and the path takes the
 * document's place. Takes *data over. */
static void put_aside(const trm_tf_event_settings *wanted, const char *module, const char *name,
                      char **data, size_t *size) {
  if (!*data || !wanted->directory || !wanted->directory[0]) return;
  char path[PATH_SIZE];
  trm_error error = {.message = "the path is too long"};
  const int length = snprintf(path, sizeof path, "%s/%s", wanted->directory, module);
  bool written = false;
  if (length > 0 && (size_t)length < sizeof path - 64) {
    (void)names_make_folder(path); /* what fails is seen when the file is written */
    snprintf(path + length, sizeof path - (size_t)length, "/%s", name);
    written = trm_inspect_replace_file(path, NULL, 0, *data, *size, &error) == TRM_OK;
  }
  if (!written) {
    log_warning("poplar_executor.cc:1624", "Cannot write %s of %s into the report directory %s: %s",
                name, module, wanted->directory, error.message);
    return; /* the event holds it */
  }
  char *copy = strdup(path);
  if (!copy) return;
  trm_free(*data);
  *data = copy;
  *size = strlen(copy);
}

static const char *extension(int32_t form) {
  return form == TRM_REPORT_AS_TEXT ? "txt" : form == TRM_REPORT_AS_CBOR ? "cbor" : "json";
}

/* NULL if it is not there. */
static char *describe(trm_executable *executable, const trm_program *program, trm_report_part part,
                      int32_t form, const char *what, const trm_tf_event_settings *wanted,
                      size_t *out_size) {
  char *data = NULL;
  trm_error error = {0};
  *out_size = 0;
  if (trm_report_describe(executable, program, part, (trm_report_form)form,
                          wanted->most_report_bytes, &data, out_size, &error) == TRM_OK)
    return data;
  tell(what, &error, wanted);
  return NULL;
}

static trm_program *plan(trm_executable *executable) {
  trm_program *program = NULL;
  trm_error error = {0};
  if (trm_program_create_for_executable(executable, NULL, NULL, &program, &error) == TRM_OK)
    return program;
  trm_log(TRM_LOG_WARN, "REPORT", "no reports for events: %s", error.message);
  return NULL;
}

/* --dump_text_reports_to_stdio. */
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

void events_compile_end(int ordinal, const char *module, trm_executable *executable,
                        double seconds) {
  if (!events_want(TF_EVENTS)) return;
  const trm_tf_event_settings wanted = copy_settings();
  char name[64];
  char *report = NULL, *map = NULL, *graph = NULL, *info = NULL;
  size_t report_size = 0, map_size = 0, graph_size = 0, info_size = 0;
  trm_program *program = wanted.bits & (TF_EVENTS_REPORT | TF_EVENTS_TENSOR_MAP | TF_EVENTS_PRINT)
                             ? plan(executable)
                             : NULL;
  if (program && wanted.bits & TF_EVENTS_PRINT)
    print_report(executable, program, TRM_REPORT_GRAPH, &wanted);
  if (program && wanted.bits & TF_EVENTS_REPORT) {
    report = describe(executable, program, TRM_REPORT_GRAPH, wanted.form, "compilation report",
                      &wanted, &report_size);
    snprintf(name, sizeof name, "graph.%s", extension(wanted.form));
    put_aside(&wanted, module, name, &report, &report_size);
  }
  if (program && wanted.bits & TF_EVENTS_TENSOR_MAP) {
    map = describe(executable, program, TRM_REPORT_TENSOR_MAP, TRM_REPORT_AS_JSON, "tensor map",
                   &wanted, &map_size);
    put_aside(&wanted, module, "tensor_map.json", &map, &map_size);
    info = describe(executable, program, TRM_REPORT_INSTRUCTIONS, TRM_REPORT_AS_JSON,
                    "instruction info", &wanted, &info_size);
  }
  trm_program_free(program);
  trm_error error = {0};
  if (wanted.bits & TF_EVENTS_GRAPH && trm_executable_print(executable, &graph, &error) == TRM_OK) {
    graph_size = strlen(graph);
    if (wanted.most_report_bytes > 0 && graph_size > wanted.most_report_bytes) {
      error.status = TRM_RESOURCE_EXHAUSTED;
      tell("serialized graph", &error, &wanted);
      trm_free(graph);
      graph = NULL;
      graph_size = 0;
    }
    put_aside(&wanted, module, "serialized_graph.hlo", &graph, &graph_size);
  }
  Tensorflow__IpuTraceEvent message = TENSORFLOW__IPU_TRACE_EVENT__INIT;
  Tensorflow__IpuTraceCompileEndEvent end = TENSORFLOW__IPU_TRACE_COMPILE_END_EVENT__INIT;
  end.module_name = bytes_of(module);
  end.duration = (int64_t)(seconds * 1e6);
  end.compilation_report = (ProtobufCBinaryData){report_size, (uint8_t *)report};
  end.tensor_map = (ProtobufCBinaryData){map_size, (uint8_t *)map};
  end.instruction_info = bytes_of(info ? info : "{}");
  end.poplar_graph = (ProtobufCBinaryData){graph_size, (uint8_t *)graph};
  message.msg_case = TENSORFLOW__IPU_TRACE_EVENT__MSG_COMPILE_END;
  message.compile_end = &end;
  record(ordinal, TENSORFLOW__IPU_TRACE_EVENT__TYPE__COMPILE_END, &message);
  trm_free(report);
  trm_free(map);
  trm_free(info);
  trm_free(graph);
  free((char *)(uintptr_t)wanted.directory);
}

void events_load_engine(int ordinal, const char *module) {
  if (!events_want(TF_EVENTS_TRANSFERS)) return;
  Tensorflow__IpuTraceEvent message = TENSORFLOW__IPU_TRACE_EVENT__INIT;
  Tensorflow__IpuTraceLoadEngineEvent load = TENSORFLOW__IPU_TRACE_LOAD_ENGINE_EVENT__INIT;
  load.module_name = bytes_of(module);
  message.msg_case = TENSORFLOW__IPU_TRACE_EVENT__MSG_LOAD_ENGINE;
  message.load_engine = &load;
  record(ordinal, TENSORFLOW__IPU_TRACE_EVENT__TYPE__LOAD_ENGINE, &message);
}

void events_transfer(int ordinal, bool to_device, const char *json) {
  if (!events_want(TF_EVENTS_TRANSFERS)) return;
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

void events_execute(int ordinal, const char *module, trm_executable *executable, uint64_t run,
                    event_report *report) {
  if (!events_want(TF_EVENTS)) return;
  const trm_tf_event_settings wanted = copy_settings();
  const bool has_report = wanted.bits & TF_EVENTS_EXECUTION &&
                          (wanted.every == 0 ? run == 1 : (run - 1) % wanted.every == 0);
  if (run == 1 && wanted.bits & TF_EVENTS_PRINT) {
    trm_program *program = plan(executable);
    if (program) print_report(executable, program, TRM_REPORT_EXECUTION, &wanted);
    trm_program_free(program);
  }
  if (has_report && !report->is_made) {
    report->is_made = true;
    trm_program *program = plan(executable);
    if (program)
      report->data = describe(executable, program, TRM_REPORT_EXECUTION, wanted.form,
                              "execution report", &wanted, &report->size);
    trm_program_free(program);
    char name[64];
    snprintf(name, sizeof name, "execution.%s", extension(wanted.form));
    put_aside(&wanted, module, name, &report->data, &report->size);
  }
  Tensorflow__IpuTraceEvent message = TENSORFLOW__IPU_TRACE_EVENT__INIT;
  Tensorflow__IpuTraceExecuteEvent execute = TENSORFLOW__IPU_TRACE_EXECUTE_EVENT__INIT;
  execute.module_name = bytes_of(module);
  if (has_report && report->data)
    execute.execution_report = (ProtobufCBinaryData){report->size, (uint8_t *)report->data};
  message.msg_case = TENSORFLOW__IPU_TRACE_EVENT__MSG_EXECUTE;
  message.execute = &execute;
  record(ordinal, TENSORFLOW__IPU_TRACE_EVENT__TYPE__EXECUTE, &message);
  free((char *)(uintptr_t)wanted.directory);
}

/* ---- Taking ---- */

void event_trace_compute(void *kernel, TF_OpKernelContext *context) {
  (void)kernel;
  TF_Status *status = TF_NewStatus();
  event_list taken = event_queue_take();
  const int64_t count = (int64_t)taken.count;
  TF_Tensor *tensor =
      TF_AllocateOutput(context, 0, TF_STRING, &count, 1, taken.count * sizeof(TF_TString), status);
  if (is_ok(status)) {
    TF_TString *strings = TF_TensorData(tensor);
    const event *e = taken.first;
    for (size_t i = 0; i < taken.count; ++i, e = e->next) {
      TF_TString_Init(&strings[i]);
      TF_TString_Copy(&strings[i], (const char *)e->data, e->size);
    }
    event_list_free(&taken);
  } else {
    event_queue_put_back(&taken); /* for the next one who asks */
  }
  if (tensor) TF_DeleteTensor(tensor);
  finish(context, status);
}
