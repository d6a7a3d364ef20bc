/* Owns: the plugin's graph optimiser. */
#include <stdatomic.h>
#include <string.h>

#include "cxx.h"
#include "ops.h"
#include "tensorflow/c/experimental/grappler/grappler.h"

static _Atomic(trm_tf_optimize) python;

void trm_tf_set_optimize(trm_tf_optimize callback) { atomic_store(&python, callback); }

/* ---- Names of nodes ---- */

/* These functions are in a library of TensorFlow that a process need not have, so the plugin does
 * not link it. */
typedef void (*names_size)(const TF_GrapplerItem *, int *, size_t *, TF_Status *);
typedef void (*names_get)(const TF_GrapplerItem *, char **, size_t *, int, void *, size_t,
                          TF_Status *);

typedef struct name_list {
  char **names;
  size_t *lengths;
  char *storage; /* of the names */
} name_list;

static trm_status read_names(const TF_GrapplerItem *item, names_size get_size, names_get get,
                             name_list *list, int *out_count, trm_error *error) {
  size_t storage_size = 0;
  TF_Status *call = TF_NewStatus();
  get_size(item, out_count, &storage_size, call);
  TRY(trm_tf_end_call(call, error));
  list->names = trm_allocate_zeroed((size_t)*out_count, sizeof *list->names);
  list->lengths = trm_allocate_zeroed((size_t)*out_count, sizeof *list->lengths);
  list->storage = trm_allocate(storage_size);
  if (list->names == NULL || list->lengths == NULL || list->storage == NULL) {
    FAIL_NO_MEMORY("the names of a graph's nodes");
  }
  call = TF_NewStatus();
  get(item, list->names, list->lengths, *out_count, list->storage, storage_size, call);
  return trm_tf_end_call(call, error);
}

/* Appends the names that a pair of TensorFlow's functions returns, in the form of a request. */
static trm_status names_of(const TF_GrapplerItem *item, const char *size_function,
                           const char *list_function, trm_text *out, trm_error *error) {
  void *symbols[] = {trm_tf_find_symbol(size_function), trm_tf_find_symbol(list_function)};
  names_size get_size;
  names_get get;
  if (symbols[0] == NULL || symbols[1] == NULL) {
    FAIL(UNIMPLEMENTED, "TensorFlow does not say which nodes must stay.");
  }
  /* C has no conversion of data pointers to function pointers, but both have the same bits. */
  memcpy(&get_size, &symbols[0], sizeof get_size);
  memcpy(&get, &symbols[1], sizeof get);
  name_list list = {0};
  int count = 0;
  trm_status status = read_names(item, get_size, get, &list, &count, error);
  trm_text_append(out, "", 0); /* "" if there is none */
  for (int i = 0; status == TRM_OK && i < count; ++i) {
    trm_text_append(out, list.names[i], list.lengths[i]);
    trm_text_append(out, "\n", 1);
  }
  trm_free(list.names);
  trm_free(list.lengths);
  trm_free(list.storage);
  TRY(status);
  if (out->failed) FAIL_NO_MEMORY("the names of a graph's nodes");
  return TRM_OK;
}

/* ---- Optimising ---- */

typedef struct reply {
  void *graph;
  size_t size;
  trm_status status;
  trm_error *error;
} reply;

void trm_tf_reply_graph(const trm_tf_optimize_request *request, const void *graph, uint64_t size) {
  reply *answer = request->reply;
  trm_free(answer->graph);
  answer->graph = trm_tf_copy_bytes(graph, size);
  answer->size = size;
  if (answer->graph == NULL) {
    answer->status =
        trm_fail(answer->error, TRM_RESOURCE_EXHAUSTED, "out of memory while allocating a graph");
  }
}

static void free_graph(void *data, size_t size) {
  (void)size;
  trm_free(data);
}

/* Asks Python for a new graph; *answer has none if there is nothing to change. */
static trm_status ask_python(const TF_Buffer *graph, const TF_GrapplerItem *item, reply *answer,
                             trm_error *error) {
  const trm_tf_optimize callback = atomic_load(&python);
  if (callback == NULL) return TRM_OK;
  trm_text preserved = {0}, fetched = {0};
  trm_status status = names_of(item, "TF_GetNodesToPreserveListSize", "TF_GetNodesToPreserveList",
                               &preserved, error);
  if (status == TRM_OK) {
    status = names_of(item, "TF_GetFetchNodesListSize", "TF_GetFetchNodesList", &fetched, error);
  }
  if (status == TRM_OK) {
    const trm_tf_optimize_request request = {
        graph->data,  graph->length,  preserved.data, preserved.length,
        fetched.data, fetched.length, answer};
    callback(&request);
    status = answer->status;
  }
  trm_text_free(&preserved);
  trm_text_free(&fetched);
  return status;
}

static void optimize(void *optimizer, const TF_Buffer *graph, const TF_GrapplerItem *item,
                     TF_Buffer *out_graph, TF_Status *status) {
  (void)optimizer;
  trm_error error = {0};
  reply answer = {.error = &error};
  trm_status result = ask_python(graph, item, &answer, &error);
  if (result == TRM_OK && answer.graph != NULL) {
    *out_graph = (TF_Buffer){answer.graph, answer.size, free_graph};
  } else {
    trm_free(answer.graph);
    /* TensorFlow's own optimisers return this code if there is nothing to do. */
    if (result == TRM_OK) result = trm_fail(&error, TRM_ABORTED, "Nothing to do.");
  }
  trm_tf_report(status, result, &error);
}

static void *create(void) {
  static char unused; /* TensorFlow needs a pointer; the optimiser has no state */
  return &unused;
}

static void destroy(void *optimizer) { (void)optimizer; }

/* TensorFlow looks it up when it loads the plugin. */
TRM_TF_API void TF_InitGraph(TP_OptimizerRegistrationParams *params, TF_Status *status);

void TF_InitGraph(TP_OptimizerRegistrationParams *params, TF_Status *status) {
  params->struct_size = TP_OPTIMIZER_REGISTRATION_PARAMS_STRUCT_SIZE;
  params->device_type = "IPU";
  params->optimizer_configs->struct_size = TP_OPTIMIZER_CONFIGS_STRUCT_SIZE;
  /* The remapper turns operations of an IPU into operations of a CPU, such as _FusedBatchNormEx and
   * _MklFusedInstanceNorm. TensorFlow's other optimisers do not. */
  params->optimizer_configs->remapping = TF_TriState_Off;
  params->optimizer->struct_size = TP_OPTIMIZER_STRUCT_SIZE;
  params->optimizer->create_func = create;
  params->optimizer->optimize_func = optimize;
  params->optimizer->destroy_func = destroy;
  TF_SetStatus(status, TF_OK, "");
}
