/* A call site: one node of a graph that runs a program, and the programs it has needed so far. */
#define _POSIX_C_SOURCE 200809L
#include "call.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"

/* More variants than this mean that something changes at every step; the oldest one goes. */
enum { MAX_VARIANTS = 64 };

typedef struct variant_input {
  TF_DataType type;
  int rank;
  int64_t *dims;
  void *value; /* of a constant; else NULL */
  size_t bytes;
} variant_input;

typedef struct variant {
  struct variant *next;
  int num_inputs;
  variant_input *inputs;
  void *module;
  size_t size;
  /* The compiled module, which it holds, and what it was compiled for. */
  tf_program *program;
  int ordinal;
  uint64_t generation;
} variant;

struct call_site {
  call_kind kind;
  void *payload;
  size_t size;
  char *name;
  char *feeds;
  tf_call call;
  pthread_mutex_t lock;
  variant *variants; /* the one used last is first */
};

static pthread_mutex_t lower_lock = PTHREAD_MUTEX_INITIALIZER;
static trm_tf_lower lower_callback;

static void *copy_of(const void *data, size_t size) {
  char *copy = malloc(size + 1);
  if (!copy) return NULL;
  if (size) memcpy(copy, data, size);
  copy[size] = '\0';
  return copy;
}

static void variant_free(variant *v) {
  if (!v) return;
  program_drop(v->program);
  for (int i = 0; i < v->num_inputs; ++i) {
    free(v->inputs[i].dims);
    free(v->inputs[i].value);
  }
  free(v->inputs);
  free(v->module);
  free(v);
}

call_site *call_site_create(call_kind kind, const void *payload, size_t size, const char *name,
                            size_t name_size, const char *feeds) {
  call_site *site = calloc(1, sizeof *site);
  if (!site) return NULL;
  site->kind = kind;
  site->size = size;
  site->payload = copy_of(payload, size);
  site->name = copy_of(name, name_size);
  site->feeds = copy_of(feeds ? feeds : "", feeds ? strlen(feeds) : 0);
  site->call = (tf_call){site->name, site->feeds, 0, kind == CALL_NODE, interrupt_session()};
  pthread_mutex_init(&site->lock, NULL);
  if (site->payload && site->name && site->feeds) return site;
  call_site_free(site);
  return NULL;
}

void call_site_set_variables(call_site *site, size_t count) { site->call.variables = count; }

const tf_call *call_site_call(const call_site *site) { return &site->call; }

void call_site_free(call_site *site) {
  if (!site) return;
  while (site->variants) {
    variant *v = site->variants;
    site->variants = v->next;
    variant_free(v);
  }
  pthread_mutex_destroy(&site->lock);
  free(site->payload);
  free(site->feeds);
  free(site->name);
  free(site);
}

static bool input_fits(const variant_input *input, const TF_Tensor *tensor) {
  if (input->type != TF_TensorType(tensor) || input->rank != TF_NumDims(tensor)) return false;
  for (int i = 0; i < input->rank; ++i)
    if (input->dims[i] != TF_Dim(tensor, i)) return false;
  return !input->value || memcmp(input->value, TF_TensorData(tensor), input->bytes) == 0;
}

static bool variant_fits(const variant *v, TF_Tensor *const *inputs) {
  for (int i = 0; i < v->num_inputs; ++i)
    if (!input_fits(&v->inputs[i], inputs[i])) return false;
  return true;
}

/* The variant that fits, moved to the front; NULL if there is none. */
static variant *find(call_site *site, TF_Tensor *const *inputs) {
  for (variant **link = &site->variants; *link; link = &(*link)->next) {
    variant *v = *link;
    if (!variant_fits(v, inputs)) continue;
    *link = v->next;
    v->next = site->variants;
    return site->variants = v;
  }
  return NULL;
}

/* Drops all but the first MAX_VARIANTS. */
static void trim(call_site *site) {
  variant **link = &site->variants;
  for (int i = 0; *link && i < MAX_VARIANTS; ++i) link = &(*link)->next;
  while (*link) {
    variant *v = *link;
    *link = v->next;
    variant_free(v);
  }
}

/* ---- Lowering ---- */

/* What a reply function fills in. */
typedef struct reply {
  variant *variant;
  bool answered;
  TF_Status *status;
} reply;

static variant *variant_create(TF_Tensor *const *inputs, int num_inputs) {
  variant *v = calloc(1, sizeof *v);
  if (!v) return NULL;
  v->num_inputs = num_inputs;
  v->inputs = calloc((size_t)num_inputs + 1, sizeof *v->inputs);
  bool ok = v->inputs != NULL;
  if (!ok) v->num_inputs = 0;
  for (int i = 0; ok && i < num_inputs; ++i) {
    variant_input *input = &v->inputs[i];
    input->type = TF_TensorType(inputs[i]);
    input->rank = TF_NumDims(inputs[i]);
    input->bytes = TF_TensorByteSize(inputs[i]);
    input->dims = calloc((size_t)input->rank + 1, sizeof *input->dims);
    ok = input->dims != NULL;
    for (int d = 0; ok && d < input->rank; ++d) input->dims[d] = TF_Dim(inputs[i], d);
  }
  if (ok) return v;
  variant_free(v);
  return NULL;
}

/* Lets Python lower the payload for these inputs. */
static variant *lower(const call_site *site, TF_Tensor *const *inputs, int num_inputs,
                      TF_Status *status) {
  pthread_mutex_lock(&lower_lock);
  trm_tf_lower callback = lower_callback;
  pthread_mutex_unlock(&lower_lock);
  if (!callback) {
    fail(status, TF_FAILED_PRECONDITION,
         "%s: the shapes of this program are known only when it runs, and then it is compiled with "
         "the help of Tremula's Python package, which has not been loaded. Import "
         "tensorflow.python.ipu, or save the program with fixed shapes.",
         site->name);
    return NULL;
  }
  variant *v = variant_create(inputs, num_inputs);
  trm_tf_input *views = calloc((size_t)num_inputs + 1, sizeof *views);
  if (!v || !views) {
    variant_free(v);
    free(views);
    fail_memory(status);
    return NULL;
  }
  for (int i = 0; i < num_inputs; ++i)
    views[i] = (trm_tf_input){(int32_t)v->inputs[i].type, v->inputs[i].rank, v->inputs[i].dims,
                              TF_TensorData(inputs[i]), v->inputs[i].bytes};
  reply answer = {v, false, status};
  trm_tf_request request = {(int32_t)site->kind, num_inputs, site->payload, site->size,
                            site->name,          views,      &answer};
  callback(&request);
  free(views);
  if (is_ok(status) && !answer.answered)
    fail(status, TF_INTERNAL, "%s: Python did not answer a request to lower it.", site->name);
  if (is_ok(status)) return v;
  variant_free(v);
  return NULL;
}

void trm_tf_set_lower(trm_tf_lower new_callback) {
  pthread_mutex_lock(&lower_lock);
  lower_callback = new_callback;
  pthread_mutex_unlock(&lower_lock);
}

void trm_tf_reply_module(const trm_tf_request *request, const void *module, uint64_t size,
                         const uint8_t *constant) {
  reply *answer = request->reply;
  variant *v = answer->variant;
  answer->answered = true;
  v->size = size;
  v->module = copy_of(module, size);
  bool ok = v->module != NULL;
  for (int i = 0; ok && i < v->num_inputs; ++i) {
    if (!constant[i]) continue;
    v->inputs[i].value = copy_of(request->inputs[i].data, v->inputs[i].bytes);
    ok = v->inputs[i].value != NULL;
  }
  if (!ok) fail_memory(answer->status);
}

void trm_tf_reply_error(const trm_tf_request *request, int32_t code, const char *message) {
  reply *answer = request->reply;
  answer->answered = true;
  TF_SetStatus(answer->status, code == TF_OK ? TF_UNKNOWN : (TF_Code)code, message);
}

/* ---- Finding ---- */

/* A module that the node carries is its only variant and fits whatever comes: program_check says
 * better than we could what is wrong with an input. */
static variant *fixed(call_site *site, TF_Status *status) {
  if (!site->variants) {
    variant *v = calloc(1, sizeof *v);
    if (v) v->module = copy_of(site->payload, site->size);
    if (!v || !v->module) {
      variant_free(v);
      fail_memory(status);
      return NULL;
    }
    v->size = site->size;
    site->variants = v;
  }
  return site->variants;
}

bool call_site_find(call_site *site, TF_Tensor *const *inputs, int num_inputs, int ordinal,
                    tf_program **out_program, bool *out_taken, TF_Status *status) {
  *out_program = NULL;
  pthread_mutex_lock(&site->lock);
  variant *v = site->kind == CALL_MODULE ? fixed(site, status) : find(site, inputs);
  if (!v && is_ok(status)) {
    v = lower(site, inputs, num_inputs, status);
    if (v) {
      v->next = site->variants;
      site->variants = v;
      trim(site);
    }
  }
  if (v) {
    const uint64_t generation = settings_generation();
    const bool fits = v->program && v->ordinal == ordinal && v->generation == generation;
    if (!fits || !program_use(v->program)) {
      program_drop(v->program);
      v->program = NULL;
      if (program_get(v->module, v->size, ordinal, &v->program, status)) {
        v->ordinal = ordinal;
        v->generation = generation;
      }
    }
    *out_program = v->program;
    for (int i = 0; i < num_inputs; ++i) out_taken[i] = i >= v->num_inputs || !v->inputs[i].value;
  }
  pthread_mutex_unlock(&site->lock);
  return is_ok(status);
}
