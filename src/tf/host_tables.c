/* The tables of host embeddings. */
#define _POSIX_C_SOURCE 200809L
#include "host_tables.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"
#include "settings.h"
#include "synthetic.h"
#include "tensors.h"

static const char prefix[] = "host_table/";

typedef struct table {
  struct table *next;
  char *name;
  int shown; /* so many characters of the name are for messages */
  bool registered;
  TF_Tensor *tensor; /* NULL: not used since it was registered */
  int64_t rows, width;
  trm_dtype dtype;
  pthread_rwlock_t lock; /* held for reading by lookups, for writing by everything else */
} table;

/* Tables are few, and stay known as long as the process. */
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;
static table *tables;

/* NULL: no memory. */
static table *find_table(const char *name) {
  pthread_mutex_lock(&tables_lock);
  table *t = tables;
  while (t && strcmp(t->name, name) != 0) t = t->next;
  if (!t && (t = calloc(1, sizeof *t))) {
    t->name = strdup(name);
    const char *end = strrchr(name, '#');
    t->shown = end && end - name < 500 ? (int)(end - name) : 500;
    if (t->name && pthread_rwlock_init(&t->lock, NULL) == 0) {
      t->next = tables;
      tables = t;
    } else {
      free(t->name);
      free(t);
      t = NULL;
    }
  }
  pthread_mutex_unlock(&tables_lock);
  return t;
}

void trm_tf_register_host_table(const char *name, int32_t registered) {
  table *t = find_table(name);
  if (!t) return; /* the next run says that it is not registered */
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

static trm_status say(trm_error *error, trm_status code, const char *text, const table *t) {
  error->status = code;
  snprintf(error->message, sizeof error->message, text, t->shown, t->name);
  return code;
}

static trm_status check_indices(const table *t, const int32_t *indices, int64_t count,
                                trm_error *error) {
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] >= 0 && indices[i] < t->rows) continue;
    error->status = TRM_INVALID_ARGUMENT;
    snprintf(error->message, sizeof error->message,
             "Index %d is outside of the host embedding '%.*s', which has %lld rows. Look up with "
             "clip_indices=True to take the nearest row instead.",
             indices[i], t->shown, t->name, (long long)t->rows);
    return error->status;
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
      default: ADD(uint32_t); break; /* and s32: the same bits */
    }
  }
}

static void copy_rows(const table *t, const int32_t *indices, int64_t count, char *out) {
  const size_t size = (size_t)t->width * trm_dtype_size(t->dtype);
  const char *data = TF_TensorData(t->tensor);
  for (int64_t i = 0; size && i < count; ++i)
    memcpy(out + (size_t)i * size, data + (size_t)indices[i] * size, size);
}

/* ---- Rows that are kept ---- */

struct host_sums {
  host_sums *next;
  table *table;
  uint32_t replica;
  int64_t width, count, room;
  trm_dtype dtype;
  int32_t *indices;
  char *data;
};

static host_sums *find_sums(host_sums **all, table *t, uint32_t replica) {
  for (host_sums *s = *all; s; s = s->next)
    if (s->table == t && s->replica == replica) return s;
  host_sums *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  *s = (host_sums){.next = *all, .table = t, .replica = replica};
  return *all = s;
}

static bool keep_rows(host_sums **all, table *t, uint32_t replica, rows r) {
  host_sums *s = find_sums(all, t, replica);
  if (!s) return false;
  const size_t size = (size_t)t->width * trm_dtype_size(t->dtype);
  s->width = t->width;
  s->dtype = t->dtype;
  if (s->count + r.count > s->room) {
    const int64_t room = 2 * (s->count + r.count);
    int32_t *indices = realloc(s->indices, (size_t)room * sizeof *indices);
    if (indices) s->indices = indices;
    char *data = realloc(s->data, (size_t)room * size + 1);
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

void host_sums_clear(host_sums *sums) {
  for (; sums; sums = sums->next) sums->count = 0;
}

void host_sums_free(host_sums *sums) {
  while (sums) {
    host_sums *next = sums->next;
    free(sums->indices);
    free(sums->data);
    free(sums);
    sums = next;
  }
}

/* ---- Calls ---- */

bool host_table_is_named(const char *id) { return strncmp(id, prefix, sizeof prefix - 1) == 0; }

typedef enum verb { LOOKUP, UPDATE, ACCUMULATE, APPLY, NUM_VERBS } verb;

/* What a call does, and its table. */
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

const char *host_table_apply_id(const char *id, char *room, size_t size) {
  const char *name;
  if (verb_of(id, &name) == NUM_VERBS) name = "";
  snprintf(room, size, "%sapply/%s", prefix, name);
  return room;
}

/* Whether the arrays of a call are what the table can serve. */
static bool fits(const table *t, const trm_tensor_info *rows_info, const trm_tensor_info *indices) {
  return rows_info->dtype == t->dtype && rows_info->rank == 2 && rows_info->dims[1] == t->width &&
         indices->dtype == TRM_S32 && indices->rank == 1 && indices->dims[0] == rows_info->dims[0];
}

/* With the table locked. */
static trm_status serve(table *t, verb v, const host_table_call *call, trm_error *error) {
  if (!t->registered || !t->tensor)
    return say(error, TRM_FAILED_PRECONDITION,
               "Host embedding interface with id='%.*s' not registered. Did you run the associated "
               "host_embedding op in the session?",
               t);
  if (v == APPLY) {
    host_sums *s = find_sums(call->sums, t, call->replica);
    if (!s) return say(error, TRM_RESOURCE_EXHAUSTED, "The host has no memory left for '%.*s'.", t);
    if (s->count == 0) return TRM_OK;
    const rows kept = {s->count, s->indices, s->data};
    s->count = 0;
    if (s->width != t->width || s->dtype != t->dtype)
      return say(error, TRM_FAILED_PRECONDITION,
                 "The host embedding '%.*s' got another width or type during a run.", t);
    const trm_status status = check_indices(t, kept.indices, kept.count, error); /* again */
    if (status == TRM_OK) add_rows(t, kept);
    return status;
  }
  const bool gives = v == LOOKUP;
  if (call->num_inputs != (gives ? 1 : 2) || call->num_outputs != (gives ? 1 : 0) ||
      !fits(t, gives ? &call->outputs[0] : &call->inputs[0], &call->inputs[gives ? 0 : 1]))
    return say(error, TRM_INVALID_ARGUMENT,
               "The program was compiled for a host embedding '%.*s' of another width or type.", t);
  const trm_tensor_info *info = &call->inputs[gives ? 0 : 1];
  const rows r = {info->dims[0], call->in[gives ? 0 : 1], gives ? NULL : call->in[0]};
  const trm_status status = check_indices(t, r.indices, r.count, error);
  if (status != TRM_OK) return status;
  if (gives) {
    copy_rows(t, r.indices, r.count, call->out[0]);
  } else if (v == UPDATE || !call->applies_later) {
    add_rows(t, r);
  } else if (!keep_rows(call->sums, t, call->replica, r)) {
    return say(error, TRM_RESOURCE_EXHAUSTED, "The host has no memory left for '%.*s'.", t);
  }
  return TRM_OK;
}

trm_status host_table_run(const host_table_call *call, trm_error *error) {
  const char *name;
  const verb v = verb_of(call->id, &name);
  table *t = v == NUM_VERBS ? NULL : find_table(name);
  if (!t) {
    error->status = TRM_INTERNAL;
    snprintf(error->message, sizeof error->message, "There is no host call '%s'.", call->id);
    return error->status;
  }
  char initializer[SYNTHETIC_INITIALIZER_SIZE];
  if (settings_synthetic(initializer) & TF_SYNTHETIC_HOST_EMBEDDING) {
    if (v == LOOKUP) synthetic_fill(call->out[0], &call->outputs[0], initializer, 1);
    return TRM_OK;
  }
  if (v == LOOKUP) pthread_rwlock_rdlock(&t->lock);
  else pthread_rwlock_wrlock(&t->lock);
  const trm_status status = serve(t, v, call, error);
  pthread_rwlock_unlock(&t->lock);
  return status;
}

/* ---- Nodes ---- */

typedef struct table_node {
  char *name;
  bool registers;
} table_node;

static void *create_node(TF_OpKernelConstruction *construction, bool registers) {
  TF_Status *status = TF_NewStatus();
  table_node *node = calloc(1, sizeof *node);
  if (!node) fail_memory(status);
  else node->name = string_attribute(construction, "table", NULL, status);
  if (is_ok(status) && registers) {
    unsigned char value = 0;
    TF_OpKernelConstruction_GetAttrBool(construction, "registers", &value, status);
    node->registers = value;
  }
  if (!is_ok(status)) TF_OpKernelConstruction_Failure(construction, status);
  TF_DeleteStatus(status);
  return node;
}

void *table_register_create(TF_OpKernelConstruction *construction) {
  return create_node(construction, true);
}

void *table_use_create(TF_OpKernelConstruction *construction) {
  return create_node(construction, false);
}

void table_node_delete(void *kernel) {
  table_node *node = kernel;
  if (node) free(node->name);
  free(node);
}

void table_register_compute(void *kernel, TF_OpKernelContext *context) {
  (void)context;
  const table_node *node = kernel;
  trm_tf_register_host_table(node->name, node->registers);
}

/* Makes a copy of the variable's value that nobody else has, and keeps it. With the table locked.
 */
static void adopt(table *t, TF_OpKernelContext *context, const TF_Tensor *value,
                  TF_Status *status) {
  const trm_dtype dtype = hlo_type(TF_TensorType(value));
  if (TF_NumDims(value) != 2 ||
      (dtype != TRM_F32 && dtype != TRM_F16 && dtype != TRM_S32 && dtype != TRM_U32)) {
    fail(status, TF_INVALID_ARGUMENT,
         "The host embedding '%.*s' must be a table [tokens, encoding] of float32, float16, int32 "
         "or uint32.",
         t->shown, t->name);
    return;
  }
  const int64_t dims[2] = {TF_Dim(value, 0), TF_Dim(value, 1)};
  const size_t bytes = TF_TensorByteSize(value);
  TF_Tensor *own = TF_AllocateOutput(context, 0, TF_TensorType(value), dims, 2, bytes, status);
  if (!is_ok(status)) return;
  if (bytes) memcpy(TF_TensorData(own), TF_TensorData(value), bytes);
  if (t->tensor) TF_DeleteTensor(t->tensor);
  t->tensor = own;
  t->rows = dims[0];
  t->width = dims[1];
  t->dtype = dtype;
}

/* IpuHostTableUse: the variable's value -> the table that programs use, for the variable to have.
 * The same buffer, unless somebody else has written the variable since. */
void table_use_compute(void *kernel, TF_OpKernelContext *context) {
  const table_node *node = kernel;
  TF_Status *status = TF_NewStatus();
  tf_inputs inputs;
  if (inputs_get(context, &inputs, status)) {
    const bool synthetic = settings_synthetic(NULL) & TF_SYNTHETIC_HOST_EMBEDDING;
    TF_Tensor *value = inputs.tensors[0];
    table *t = find_table(node->name);
    if (!t) fail_memory(status);
    if (t) {
      pthread_rwlock_wrlock(&t->lock);
      if (!t->registered && !synthetic)
        fail(status, TF_FAILED_PRECONDITION,
             "Host embedding interface with id='%.*s' not registered. Did you run the associated "
             "host_embedding op in the session?",
             t->shown, t->name);
      else if (synthetic || (t->tensor && TF_TensorData(t->tensor) == TF_TensorData(value)))
        TF_SetOutput(context, 0, value, status);
      else adopt(t, context, value, status);
      pthread_rwlock_unlock(&t->lock);
    }
    inputs_free(&inputs);
  }
  finish(context, status);
}
