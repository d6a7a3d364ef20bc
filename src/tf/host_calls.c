/* Owns: calls of running units to the host: Python functions and host embeddings. */
#define _POSIX_C_SOURCE 200809L
#include "host_calls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "feeds.h"
#include "ops.h"
#include "settings.h"
#include "synthetic.h"

/* ---- Tables --------------------------------------------------------------------------------- */

static const char prefix[] = "host_table/";

typedef struct table {
  char *name;
  int shown; /* the length of the part of the name that messages show */
  bool registered;
  TF_Tensor *tensor; /* NULL: not used since it was registered */
  int64_t rows, width;
  trm_dtype dtype;
  pthread_rwlock_t lock; /* held for reading by lookups, for writing by all other calls */
} table;

/* There are few tables, and they live as long as the process. */
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;
static VECTOR(table *) tables;

/* Makes a table; NULL: no memory. */
static table *create_table(const char *name) {
  table *t = trm_allocate_zeroed(1, sizeof *t);
  if (t == NULL) return NULL;
  t->name = trm_tf_copy_text(name);
  if (t->name == NULL || pthread_rwlock_init(&t->lock, NULL) != 0) {
    trm_free(t->name);
    trm_free(t);
    return NULL;
  }
  const char *end = strrchr(name, '#');
  t->shown = end && end - name < 500 ? (int)(end - name) : 500;
  return t;
}

/* The table with this name, made at its first use; NULL: no memory. */
static table *find_table(const char *name) {
  table *found = NULL;
  pthread_mutex_lock(&tables_lock);
  for (size_t i = 0; i < tables.count && found == NULL; ++i) {
    if (strcmp(tables.items[i]->name, name) == 0) found = tables.items[i];
  }
  if (found == NULL && VECTOR_GROW(&tables) && (found = create_table(name)) != NULL) {
    tables.items[tables.count++] = found;
  }
  pthread_mutex_unlock(&tables_lock);
  return found;
}

void trm_tf_register_host_table(const char *name, int32_t registered) {
  table *t = find_table(name);
  if (!t) return; /* the next run reports that it is not registered */
  pthread_rwlock_wrlock(&t->lock);
  t->registered = registered;
  if (!registered && t->tensor) {
    TF_DeleteTensor(t->tensor);
    t->tensor = NULL;
  }
  pthread_rwlock_unlock(&t->lock);
}

/* ---- Rows ---- */

typedef struct rows {
  int64_t count;
  const int32_t *indices;
  const void *data;
} rows;

static trm_status check_indices(const table *t, const int32_t *indices, int64_t count,
                                trm_error *error) {
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] >= 0 && indices[i] < t->rows) continue;
    FAIL(INVALID_ARGUMENT,
         "Index %d is outside of the host embedding '%.*s', which has %lld rows. Look up with "
         "clip_indices=True to take the nearest row instead.",
         indices[i], t->shown, t->name, (long long)t->rows);
  }
  return TRM_OK;
}

#define ADD(type)                                                                \
  do {                                                                           \
    type *to = (type *)TF_TensorData(t->tensor) + (int64_t)r.indices[i] * width; \
    const type *from = (const type *)r.data + i * width;                         \
    for (int64_t k = 0; k < width; ++k) to[k] = (type)(to[k] + from[k]);         \
  } while (0)

static void add_rows(table *t, rows r) {
  const int64_t width = t->width;
  for (int64_t i = 0; i < r.count; ++i) {
    switch (t->dtype) {
      case TRM_F32: ADD(float); break;
      case TRM_F16: ADD(_Float16); break;
      default: ADD(uint32_t); break; /* also s32, whose sums have the same bits */
    }
  }
}

static void copy_rows(const table *t, const int32_t *indices, int64_t count, char *out) {
  const size_t size = (size_t)t->width * trm_dtype_size(t->dtype);
  const char *data = TF_TensorData(t->tensor);
  for (int64_t i = 0; size && i < count; ++i) {
    memcpy(out + (size_t)i * size, data + (size_t)indices[i] * size, size);
  }
}

/* ---- Rows that are kept ---- */

/* Rows of a table that one unit accumulates on a replica until it applies them. */
typedef struct sums {
  table *table;
  uint32_t replica;
  int64_t width, count, room;
  trm_dtype dtype;
  int32_t *indices;
  char *data;
} sums;

typedef VECTOR(sums *) sums_list;

static sums *find_sums(sums_list *all, table *t, uint32_t replica) {
  for (size_t i = 0; i < all->count; ++i) {
    if (all->items[i]->table == t && all->items[i]->replica == replica) return all->items[i];
  }
  if (!VECTOR_GROW(all)) return NULL;
  sums *s = trm_allocate_zeroed(1, sizeof *s);
  if (s == NULL) return NULL;
  *s = (sums){.table = t, .replica = replica};
  return all->items[all->count++] = s;
}

static bool keep_rows(sums_list *all, table *t, uint32_t replica, rows r) {
  sums *s = find_sums(all, t, replica);
  if (s == NULL) return false;
  const size_t size = (size_t)t->width * trm_dtype_size(t->dtype);
  s->width = t->width;
  s->dtype = t->dtype;
  if (s->count + r.count > s->room) {
    const int64_t room = 2 * (s->count + r.count);
    int32_t *indices = trm_reallocate(s->indices, (size_t)room * sizeof *indices);
    if (indices) s->indices = indices;
    char *data = trm_reallocate(s->data, (size_t)room * size);
    if (data) s->data = data;
    if (!indices || !data) return false;
    s->room = room;
  }
  if (r.count) {
    memcpy(s->indices + s->count, r.indices, (size_t)r.count * sizeof *r.indices);
    memcpy(s->data + (size_t)s->count * size, r.data, (size_t)r.count * size);
  }
  s->count += r.count;
  return true;
}

/* Drops all accumulated rows, at the start of a run. */
static void clear_sums(sums_list *all) {
  for (size_t i = 0; i < all->count; ++i) all->items[i]->count = 0;
}

static void free_sums(sums_list *all) {
  for (size_t i = 0; i < all->count; ++i) {
    trm_free(all->items[i]->indices);
    trm_free(all->items[i]->data);
    trm_free(all->items[i]);
  }
  VECTOR_FREE(all);
}

/* ---- The calls of a program ------------------------------------------------------------------ */

typedef struct one_call {
  trm_tf_host_calls *all;
  const char *name; /* as the module calls it */
  size_t num_inputs, num_outputs;
  const trm_tensor_info *inputs, *outputs;
} one_call;

struct trm_tf_host_calls {
  VECTOR(one_call) calls;
  char *names;    /* of this run */
  sums_list sums; /* rows that host embeddings accumulate in a run */
};

enum { ID_SIZE = 1024 };

/* The names of this run. */
static const char *names_of(const one_call *call) {
  return call->all->names ? call->all->names : "";
}

/* The arguments of a call in progress. */
typedef struct arguments {
  const void *const *in;
  void *const *out;
  uint32_t replica;
} arguments;

/* ---- Calls of tables ---- */

typedef enum verb { LOOKUP, UPDATE, ACCUMULATE, APPLY, NUM_VERBS } verb;

/* The verb of a call to a host embedding, and its table. */
static verb verb_of(const char *id, const char **out_table) {
  static const char *const names[] = {"lookup/", "update/", "accumulate/", "apply/"};
  const char *rest = id + sizeof prefix - 1;
  for (int v = 0; v < NUM_VERBS; ++v) {
    const size_t length = strlen(names[v]);
    if (strncmp(rest, names[v], length) != 0) continue;
    *out_table = rest + length;
    return (verb)v;
  }
  return NUM_VERBS;
}

/* Whether the arrays of a call fit the table. */
static bool fits(const table *t, const one_call *call, bool gives) {
  if (call->num_inputs != (gives ? 1 : 2) || call->num_outputs != (gives ? 1 : 0)) return false;
  const trm_tensor_info *row = gives ? &call->outputs[0] : &call->inputs[0];
  const trm_tensor_info *indices = &call->inputs[gives ? 0 : 1];
  return row->dtype == t->dtype && row->rank == 2 && row->dims[1] == t->width &&
         indices->dtype == TRM_S32 && indices->rank == 1 && indices->dims[0] == row->dims[0];
}

/* Adds the accumulated rows to the table. */
static trm_status apply(table *t, const one_call *call, uint32_t replica, trm_error *error) {
  sums *s = find_sums(&call->all->sums, t, replica);
  CHECK_MEMORY(s, "rows of a host embedding");
  if (s->count == 0) return TRM_OK;
  const rows kept = {s->count, s->indices, s->data};
  s->count = 0;
  if (s->width != t->width || s->dtype != t->dtype) {
    FAIL(FAILED_PRECONDITION, "The host embedding '%.*s' got another width or type during a run.",
         t->shown, t->name);
  }
  TRY(check_indices(t, kept.indices, kept.count, error)); /* the table may have changed since */
  add_rows(t, kept);
  return TRM_OK;
}

static trm_status check_registered(const table *t, bool is_registered, trm_error *error) {
  if (is_registered) return TRM_OK;
  FAIL(FAILED_PRECONDITION,
       "Host embedding interface with id='%.*s' not registered. Did you run the associated "
       "host_embedding op in the session?",
       t->shown, t->name);
}

/* Whether the unit applies the rows of the table at the end, so that updates accumulate until then.
 */
static bool applies_later(const one_call *call, const char *name) {
  char id[ID_SIZE];
  snprintf(id, sizeof id, "%sapply/%s", prefix, name);
  return trm_tf_feed_is_named(names_of(call), id);
}

/* Call with the table locked. */
static trm_status serve(table *t, verb v, const one_call *call, const arguments *a,
                        trm_error *error) {
  TRY(check_registered(t, t->registered && t->tensor, error));
  if (v == APPLY) return apply(t, call, a->replica, error);
  const bool gives = v == LOOKUP;
  if (!fits(t, call, gives)) {
    FAIL(INVALID_ARGUMENT,
         "The program was compiled for a host embedding '%.*s' of another width or type.", t->shown,
         t->name);
  }
  const rows r = {call->inputs[gives ? 0 : 1].dims[0], a->in[gives ? 0 : 1],
                  gives ? NULL : a->in[0]};
  TRY(check_indices(t, r.indices, r.count, error));
  if (gives) copy_rows(t, r.indices, r.count, a->out[0]);
  else if (v == UPDATE || !applies_later(call, t->name)) add_rows(t, r);
  else if (!keep_rows(&call->all->sums, t, a->replica, r)) {
    FAIL_NO_MEMORY("rows of a host embedding");
  }
  return TRM_OK;
}

static trm_status call_table(const one_call *call, const char *id, const arguments *a,
                             trm_error *error) {
  const char *name;
  const verb v = verb_of(id, &name);
  if (v == NUM_VERBS) FAIL(INTERNAL, "There is no host call '%s'.", id);
  char initializer[TRM_TF_INITIALIZER_SIZE];
  if (trm_tf_settings_synthetic(initializer) & TRM_SYNTHETIC_HOST_EMBEDDING) {
    if (v == LOOKUP) trm_tf_synthetic_fill(a->out[0], &call->outputs[0], initializer, 1);
    return TRM_OK;
  }
  table *t = find_table(name);
  CHECK_MEMORY(t, "a host embedding");
  if (v == LOOKUP) pthread_rwlock_rdlock(&t->lock);
  else pthread_rwlock_wrlock(&t->lock);
  const trm_status status = serve(t, v, call, a, error);
  pthread_rwlock_unlock(&t->lock);
  return status;
}

/* ---- Calls of Python ---- */

static _Atomic(trm_tf_host_function) python;

void trm_tf_set_host_function(trm_tf_host_function function) { atomic_store(&python, function); }

void trm_tf_host_error(const trm_tf_host_request *request, int32_t code, const char *message) {
  trm_fail(request->reply, code == TRM_OK ? TRM_UNKNOWN : (trm_status)code, "%s", message);
}

static trm_tf_host_array view(const trm_tensor_info *info, void *data) {
  return (trm_tf_host_array){(int32_t)trm_tf_type(info->dtype), info->rank, info->dims, data,
                             info->bytes};
}

static trm_status call_python(const one_call *call, const char *id, const arguments *a,
                              trm_error *error) {
  const trm_tf_host_function function = atomic_load(&python);
  if (function == NULL) {
    FAIL(FAILED_PRECONDITION,
         "the program runs part of its operations on the host (outside_compilation_scope, "
         "tf.print), for which Tremula's Python package must be loaded: import "
         "tensorflow.python.ipu");
  }
  trm_tf_host_array *arrays =
      trm_allocate_zeroed(call->num_inputs + call->num_outputs, sizeof *arrays);
  CHECK_MEMORY(arrays, "the arguments of a host call");
  for (size_t i = 0; i < call->num_inputs; ++i) {
    arrays[i] = view(&call->inputs[i], (void *)(uintptr_t)a->in[i]); /* Python only reads it */
  }
  for (size_t i = 0; i < call->num_outputs; ++i) {
    arrays[call->num_inputs + i] = view(&call->outputs[i], a->out[i]);
  }
  error->status = TRM_OK; /* Python's answer: trm_tf_host_error */
  const trm_tf_host_request request = {id,
                                       a->replica,
                                       (int32_t)call->num_inputs,
                                       (int32_t)call->num_outputs,
                                       arrays,
                                       arrays + call->num_inputs,
                                       error};
  function(&request);
  trm_free(arrays);
  return error->status;
}

/* ---- What the engine calls ---- */

static trm_status call_host(void *user, const void *const *inputs, void *const *outputs,
                            uint32_t replica, trm_error *error) {
  const one_call *call = user;
  const arguments a = {inputs, outputs, replica};
  char room[ID_SIZE];
  const char *id = trm_tf_feed_id(call->name, names_of(call), room, sizeof room);
  const bool is_table = strncmp(id, prefix, sizeof prefix - 1) == 0;
  return (is_table ? call_table : call_python)(call, id, &a, error);
}

static trm_status connect_calls(const trm_executable *executable, trm_engine *engine,
                                trm_tf_host_calls *calls, trm_error *error) {
  one_call call = {.all = calls};
  for (size_t i = 0;
       (call.name = trm_executable_host_call(executable, i, &call.inputs, &call.num_inputs,
                                             &call.outputs, &call.num_outputs)) != NULL;
       ++i) {
    if (!VECTOR_PUSH(&calls->calls, call)) FAIL_NO_MEMORY("a host call");
  }
  for (size_t i = 0; i < calls->calls.count; ++i) /* now that their addresses no longer change */
    TRY(trm_engine_set_host_call(engine, i, call_host, &calls->calls.items[i], error));
  return TRM_OK;
}

trm_status trm_tf_host_calls_create(const trm_executable *executable, trm_engine *engine,
                                    trm_tf_host_calls **out, trm_error *error) {
  trm_tf_host_calls *calls = trm_allocate_zeroed(1, sizeof *calls);
  CHECK_MEMORY(calls, "the host calls of a program");
  const trm_status status = connect_calls(executable, engine, calls, error);
  if (status != TRM_OK || calls->calls.count == 0) {
    trm_tf_host_calls_free(calls);
    calls = NULL;
  }
  *out = calls;
  return status;
}

void trm_tf_host_calls_name(trm_tf_host_calls *calls, const char *names) {
  if (calls == NULL) return;
  clear_sums(&calls->sums);
  if (calls->names && strcmp(calls->names, names) == 0) return;
  trm_free(calls->names);
  calls->names = trm_tf_copy_text(names);
}

void trm_tf_host_calls_free(trm_tf_host_calls *calls) {
  if (calls == NULL) return;
  VECTOR_FREE(&calls->calls);
  trm_free(calls->names);
  free_sums(&calls->sums);
  trm_free(calls);
}

/* ---- The nodes of tables --------------------------------------------------------------------- */

typedef struct table_node {
  char *name;
  bool registers;
} table_node;

static trm_status create_use(TF_OpKernelConstruction *construction, void **out_kernel,
                             trm_error *error) {
  table_node *node = *out_kernel = trm_allocate_zeroed(1, sizeof *node);
  CHECK_MEMORY(node, "a node");
  return trm_tf_get_text(construction, "table", &node->name, NULL, error);
}

static trm_status create_register(TF_OpKernelConstruction *construction, void **out_kernel,
                                  trm_error *error) {
  TRY(create_use(construction, out_kernel, error));
  table_node *node = *out_kernel;
  return trm_tf_get_bool(construction, "registers", &node->registers, error);
}

void trm_tf_table_node_delete(void *kernel) {
  table_node *node = kernel;
  if (node != NULL) trm_free(node->name);
  trm_free(node);
}

static trm_status compute_register(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  (void)context, (void)error;
  const table_node *node = kernel;
  trm_tf_register_host_table(node->name, node->registers);
  return TRM_OK;
}

/* Copies the variable's value to a buffer that only the table has, and keeps it. Call with the
 * table locked. */
static trm_status adopt(table *t, TF_OpKernelContext *context, const TF_Tensor *value,
                        trm_error *error) {
  const trm_dtype dtype = trm_tf_dtype(TF_TensorType(value));
  if (TF_NumDims(value) != 2 ||
      (dtype != TRM_F32 && dtype != TRM_F16 && dtype != TRM_S32 && dtype != TRM_U32)) {
    FAIL(INVALID_ARGUMENT,
         "The host embedding '%.*s' must be a table [tokens, encoding] of float32, float16, int32 "
         "or uint32.",
         t->shown, t->name);
  }
  const int64_t dims[2] = {TF_Dim(value, 0), TF_Dim(value, 1)};
  const size_t bytes = TF_TensorByteSize(value);
  TF_Tensor *own;
  TRY(trm_tf_allocate_output(context, 0, TF_TensorType(value), dims, 2, bytes, &own, error));
  TRY(trm_fetch_resident(TF_TensorData(value), error));
  if (bytes) memcpy(TF_TensorData(own), TF_TensorData(value), bytes);
  if (t->tensor) TF_DeleteTensor(t->tensor);
  t->tensor = own;
  t->rows = dims[0];
  t->width = dims[1];
  t->dtype = dtype;
  return TRM_OK;
}

/* With the table locked. */
static trm_status use_table(table *t, TF_OpKernelContext *context, TF_Tensor *value,
                            trm_error *error) {
  const bool is_made_up = trm_tf_settings_synthetic(NULL) & TRM_SYNTHETIC_HOST_EMBEDDING;
  TRY(check_registered(t, t->registered || is_made_up, error));
  if (is_made_up || (t->tensor && TF_TensorData(t->tensor) == TF_TensorData(value))) {
    return trm_tf_set_output(context, 0, value, error);
  }
  return adopt(t, context, value, error);
}

/* IpuHostTableUse: takes the variable's value and outputs the table that units use, which becomes
 * the variable's value. It is the same buffer, unless something else has written the variable
 * since. */
static trm_status compute_use(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  const table_node *node = kernel;
  table *t = find_table(node->name);
  CHECK_MEMORY(t, "a host embedding");
  trm_tf_inputs inputs;
  TRY(trm_tf_get_inputs(context, &inputs, error));
  pthread_rwlock_wrlock(&t->lock);
  const trm_status status = use_table(t, context, inputs.tensors[0], error);
  pthread_rwlock_unlock(&t->lock);
  trm_tf_inputs_free(&inputs);
  return status;
}

TRM_TF_DEFINE_CREATE(table_register, create_register)
TRM_TF_DEFINE_COMPUTE(table_register, compute_register)
TRM_TF_DEFINE_CREATE(table_use, create_use)
TRM_TF_DEFINE_COMPUTE(table_use, compute_use)
