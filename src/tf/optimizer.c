/* The plugin's graph optimiser. */
#define _GNU_SOURCE
#include "optimizer.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

static pthread_mutex_t optimize_lock = PTHREAD_MUTEX_INITIALIZER;
static trm_tf_optimize optimize_callback;

void trm_tf_set_optimize(trm_tf_optimize new_callback) {
  pthread_mutex_lock(&optimize_lock);
  optimize_callback = new_callback;
  pthread_mutex_unlock(&optimize_lock);
}

/* ---- Names of nodes ---- */

/* These two are in a library of TensorFlow's that a process need not have, so we do not link it. */
typedef void (*names_size)(const TF_GrapplerItem *, int *, size_t *, TF_Status *);
typedef void (*names_get)(const TF_GrapplerItem *, char **, size_t *, int, void *, size_t,
                          TF_Status *);

static void *find_function(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (found) return found;
  void *library = dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return NULL;
  found = dlsym(library, name);
  dlclose(library); /* it stays: we were not the first to load it */
  return found;
}

/* Writes the names as a request has them. Returns what the caller frees, or NULL. */
static char *join(char *const *names, const size_t *lengths, int count, size_t *out_size) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += lengths[i] + 1;
  char *text = malloc(size + 1);
  if (!text) return NULL;
  char *at = text;
  for (int i = 0; i < count; ++i) {
    memcpy(at, names[i], lengths[i]);
    at += lengths[i];
    *at++ = '\n';
  }
  *at = '\0';
  *out_size = size;
  return text;
}

/* The names that a pair of TensorFlow's functions gives; the caller frees them. */
static char *names_of(const TF_GrapplerItem *item, const char *size_function,
                      const char *list_function, size_t *out_size, TF_Status *status) {
  void *symbols[] = {find_function(size_function), find_function(list_function)};
  names_size get_size;
  names_get get;
  if (!symbols[0] || !symbols[1]) {
    fail(status, TF_UNIMPLEMENTED, "TensorFlow does not say which nodes must stay.");
    return NULL;
  }
  /* A pointer to data is not one to a function in C, but has its bits. */
  memcpy(&get_size, &symbols[0], sizeof get_size);
  memcpy(&get, &symbols[1], sizeof get);
  int count = 0;
  size_t storage_size = 0;
  get_size(item, &count, &storage_size, status);
  if (!is_ok(status)) return NULL;
  char **names = calloc((size_t)count + 1, sizeof *names);
  size_t *lengths = calloc((size_t)count + 1, sizeof *lengths);
  char *storage = malloc(storage_size + 1);
  char *text = NULL;
  if (!names || !lengths || !storage) fail_memory(status);
  if (is_ok(status)) get(item, names, lengths, count, storage, storage_size, status);
  if (is_ok(status)) {
    text = join(names, lengths, count, out_size);
    if (!text) fail_memory(status);
  }
  free(names);
  free(lengths);
  free(storage);
  return text;
}

/* ---- Optimising ---- */

typedef struct reply {
  void *graph;
  size_t size;
  TF_Status *status;
} reply;

void trm_tf_reply_graph(const trm_tf_optimize_request *request, const void *graph, uint64_t size) {
  reply *answer = request->reply;
  free(answer->graph);
  answer->graph = malloc(size + 1);
  answer->size = size;
  if (!answer->graph) fail_memory(answer->status);
  else if (size) memcpy(answer->graph, graph, size);
}

static void free_graph(void *data, size_t size) {
  (void)size;
  free(data);
}

static void optimize(void *optimizer, const TF_Buffer *graph, const TF_GrapplerItem *item,
                     TF_Buffer *out_graph, TF_Status *status) {
  (void)optimizer;
  TF_SetStatus(status, TF_OK, "");
  pthread_mutex_lock(&optimize_lock);
  trm_tf_optimize callback = optimize_callback;
  pthread_mutex_unlock(&optimize_lock);
  reply answer = {NULL, 0, status};
  char *preserved = NULL;
  char *fetched = NULL;
  size_t preserved_size = 0;
  size_t fetched_size = 0;
  if (callback)
    preserved = names_of(item, "TF_GetNodesToPreserveListSize", "TF_GetNodesToPreserveList",
                         &preserved_size, status);
  if (preserved)
    fetched =
        names_of(item, "TF_GetFetchNodesListSize", "TF_GetFetchNodesList", &fetched_size, status);
  if (fetched) {
    trm_tf_optimize_request request = {graph->data, graph->length, preserved, preserved_size,
                                       fetched,     fetched_size,  &answer};
    callback(&request);
  }
  free(preserved);
  free(fetched);
  if (is_ok(status) && answer.graph) {
    *out_graph = (TF_Buffer){answer.graph, answer.size, free_graph};
    return;
  }
  free(answer.graph);
  /* The code by which TensorFlow's own optimisers say that there was nothing to do. */
  if (is_ok(status)) fail(status, TF_ABORTED, "Nothing to do.");
}

static void *create(void) {
  static char unused; /* TensorFlow wants an optimiser; ours has no state */
  return &unused;
}

static void destroy(void *optimizer) { (void)optimizer; }

void TF_InitGraph(TP_OptimizerRegistrationParams *params, TF_Status *status) {
  params->struct_size = TP_OPTIMIZER_REGISTRATION_PARAMS_STRUCT_SIZE;
  params->device_type = "IPU";
  params->optimizer_configs->struct_size = TP_OPTIMIZER_CONFIGS_STRUCT_SIZE;
  /* It makes operations that only a CPU has of those on an IPU, such as _FusedBatchNormEx and
   * _MklFusedInstanceNorm. TensorFlow's other optimisers leave what an IPU has. */
  params->optimizer_configs->remapping = TF_TriState_Off;
  params->optimizer->struct_size = TP_OPTIMIZER_STRUCT_SIZE;
  params->optimizer->create_func = create;
  params->optimizer->optimize_func = optimize;
  params->optimizer->destroy_func = destroy;
  TF_SetStatus(status, TF_OK, "");
}
