/* Functions of the host that a program calls while it runs. */
#define _POSIX_C_SOURCE 200809L
#include "host_calls.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "feeds.h"
#include "host_tables.h"
#include "tensors.h"

typedef struct one_call {
  host_calls *all;
  const char *name; /* in the program */
  size_t num_inputs, num_outputs;
  const trm_tensor_info *inputs, *outputs;
} one_call;

struct host_calls {
  size_t count;
  one_call *calls;
  char *names;     /* of this run */
  host_sums *sums; /* what host embeddings keep in a run */
};

enum { ID_SIZE = 1024 };

static _Atomic(trm_tf_host_function) python;

void trm_tf_set_host_function(trm_tf_host_function function) { atomic_store(&python, function); }

void trm_tf_host_error(const trm_tf_host_request *request, int32_t code, const char *message) {
  trm_error *error = request->reply;
  error->status = code == TF_OK ? TRM_UNKNOWN : (trm_status)code;
  snprintf(error->message, sizeof error->message, "%s", message);
}

static void view(const trm_tensor_info *info, void *data, trm_tf_host_array *out) {
  *out = (trm_tf_host_array){(int32_t)tensor_type(info->dtype), info->rank, info->dims, data,
                             info->bytes};
}

/* Whether a line of `names` is `id`. */
static bool is_named(const char *names, const char *id) {
  const size_t length = strlen(id);
  for (const char *at = names; (at = strstr(at, id)) != NULL; at += length)
    if ((at == names || at[-1] == '\n') && (at[length] == '\n' || !at[length])) return true;
  return false;
}

static trm_status call_table(const one_call *call, const char *id, const void *const *inputs,
                             void *const *outputs, uint32_t replica, trm_error *error) {
  char room[ID_SIZE];
  const char *names = call->all->names ? call->all->names : "";
  const host_table_call table = {id,
                                 is_named(names, host_table_apply_id(id, room, sizeof room)),
                                 replica,
                                 call->num_inputs,
                                 call->num_outputs,
                                 call->inputs,
                                 call->outputs,
                                 inputs,
                                 outputs,
                                 &call->all->sums};
  return host_table_run(&table, error);
}

static trm_status call_python(const one_call *call, const char *id, const void *const *inputs,
                              void *const *outputs, uint32_t replica, trm_error *error) {
  trm_tf_host_function function = atomic_load(&python);
  error->status = TRM_OK;
  if (!function) {
    error->status = TRM_FAILED_PRECONDITION;
    snprintf(error->message, sizeof error->message,
             "the program runs part of its operations on the host (outside_compilation_scope, "
             "tf.print), for which Tremula's Python package must be loaded: import "
             "tensorflow.python.ipu");
    return error->status;
  }
  trm_tf_host_array *arrays = calloc(call->num_inputs + call->num_outputs + 1, sizeof *arrays);
  if (!arrays) {
    error->status = TRM_RESOURCE_EXHAUSTED;
    snprintf(error->message, sizeof error->message, "The host has no memory left.");
    return error->status;
  }
  for (size_t i = 0; i < call->num_inputs; ++i) {
    void *data;
    memcpy(&data, &inputs[i], sizeof data); /* Python only reads it */
    view(&call->inputs[i], data, &arrays[i]);
  }
  for (size_t i = 0; i < call->num_outputs; ++i)
    view(&call->outputs[i], outputs[i], &arrays[call->num_inputs + i]);
  const trm_tf_host_request request = {id,
                                       replica,
                                       (int32_t)call->num_inputs,
                                       (int32_t)call->num_outputs,
                                       arrays,
                                       arrays + call->num_inputs,
                                       error};
  function(&request);
  free(arrays);
  return error->status;
}

static trm_status call_host(void *user, const void *const *inputs, void *const *outputs,
                            uint32_t replica, trm_error *error) {
  const one_call *call = user;
  char room[ID_SIZE];
  const char *id = feed_id(call->name, call->all->names ? call->all->names : "", room, sizeof room);
  return (host_table_is_named(id) ? call_table : call_python)(call, id, inputs, outputs, replica,
                                                              error);
}

bool host_calls_create(const trm_executable *executable, trm_engine *engine, host_calls **out,
                       TF_Status *status) {
  *out = NULL;
  one_call call = {0};
  size_t count = 0;
  while (trm_executable_host_call(executable, count, &call.inputs, &call.num_inputs, &call.outputs,
                                  &call.num_outputs))
    ++count;
  if (!count) return true;
  host_calls *calls = calloc(1, sizeof *calls);
  if (!calls || !(calls->calls = calloc(count, sizeof *calls->calls))) {
    free(calls);
    return fail_memory(status);
  }
  calls->count = count;
  for (size_t i = 0; i < count; ++i) {
    one_call *one = &calls->calls[i];
    one->all = calls;
    one->name = trm_executable_host_call(executable, i, &one->inputs, &one->num_inputs,
                                         &one->outputs, &one->num_outputs);
    trm_error error = {0};
    if (trm_engine_set_host_call(engine, i, call_host, one, &error) != TRM_OK) {
      host_calls_free(calls);
      return fail_with(status, &error);
    }
  }
  *out = calls;
  return true;
}

void host_calls_name(host_calls *calls, const char *names) {
  if (!calls) return;
  host_sums_clear(calls->sums);
  if (calls->names && strcmp(calls->names, names) == 0) return;
  free(calls->names);
  calls->names = strdup(names);
}

void host_calls_free(host_calls *calls) {
  if (!calls) return;
  free(calls->calls);
  free(calls->names);
  host_sums_free(calls->sums);
  free(calls);
}
