/* Owns: call sites, and the op IpuLaunch, a compiled part of a graph as one node.
 *
 * A list argument of a node is as a whole in host memory or in device memory. So there are two, and
 * neither is copied: `host` for values from the CPU and `device` for variables. The inputs of the
 * unit are in this order. Its outputs are results, then new values of variables. */
#define _POSIX_C_SOURCE 200809L
#include "launch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "feeds.h"
#include "interrupt.h"
#include "ops.h"
#include "tremula/timeline.h"

/* With more variants, something changes at every step; the oldest variant is dropped. */
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
  /* The unit, which the variant holds, and its configuration. */
  trm_tf_unit *unit;
  int ordinal;
  uint64_t generation;
} variant;

struct trm_tf_site {
  trm_tf_call_kind kind;
  void *payload;
  size_t size;
  char *name;
  char *feeds;
  trm_tf_call call;
  pthread_mutex_t lock;
  variant *variants; /* the most recently used is first */
};

/* ---- Call sites ----------------------------------------------------------------------------- */

static void variant_free(variant *v) {
  if (v == NULL) return;
  trm_tf_unit_drop(v->unit);
  for (int i = 0; i < v->num_inputs; ++i) {
    trm_free(v->inputs[i].dims);
    trm_free(v->inputs[i].value);
  }
  trm_free(v->inputs);
  trm_free(v->module);
  trm_free(v);
}

trm_status trm_tf_site_create(trm_tf_call_kind kind, const void *payload, size_t size,
                              TF_StringView name, const char *feeds, trm_tf_site **out,
                              trm_error *error) {
  trm_tf_site *site = trm_allocate_zeroed(1, sizeof *site);
  CHECK_MEMORY(site, "a node");
  site->kind = kind;
  site->size = size;
  site->payload = trm_tf_copy_bytes(payload, size);
  site->name = trm_tf_copy_bytes(name.data, name.len);
  site->feeds = trm_tf_copy_text(feeds != NULL ? feeds : "");
  site->call = (trm_tf_call){.name = site->name,
                             .feeds = site->feeds,
                             .is_one_op = kind == TRM_TF_CALL_NODE,
                             .session = trm_tf_interrupt_session()};
  pthread_mutex_init(&site->lock, NULL);
  if (site->payload == NULL || site->name == NULL || site->feeds == NULL) {
    trm_tf_site_free(site);
    FAIL_NO_MEMORY("a node");
  }
  *out = site;
  return TRM_OK;
}

const trm_tf_call *trm_tf_site_call(const trm_tf_site *site) { return &site->call; }

void trm_tf_site_free(trm_tf_site *site) {
  if (site == NULL) return;
  while (site->variants != NULL) {
    variant *v = site->variants;
    site->variants = v->next;
    variant_free(v);
  }
  pthread_mutex_destroy(&site->lock);
  trm_free(site->payload);
  trm_free(site->feeds);
  trm_free(site->name);
  trm_free(site);
}

static bool input_fits(const variant_input *input, const TF_Tensor *tensor) {
  if (input->type != TF_TensorType(tensor) || input->rank != TF_NumDims(tensor)) return false;
  for (int i = 0; i < input->rank; ++i) {
    if (input->dims[i] != TF_Dim(tensor, i)) return false;
  }
  if (!input->value) return true;
  return trm_fetch_resident(TF_TensorData(tensor), &(trm_error){0}) == TRM_OK &&
         memcmp(input->value, TF_TensorData(tensor), input->bytes) == 0;
}

static bool variant_fits(const variant *v, TF_Tensor *const *inputs) {
  for (int i = 0; i < v->num_inputs; ++i) {
    if (!input_fits(&v->inputs[i], inputs[i])) return false;
  }
  return true;
}

/* Finds the variant that fits the inputs, and moves it to the front; NULL: none. */
static variant *find(trm_tf_site *site, TF_Tensor *const *inputs) {
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
static void trim(trm_tf_site *site) {
  variant **link = &site->variants;
  for (int i = 0; *link && i < MAX_VARIANTS; ++i) link = &(*link)->next;
  while (*link) {
    variant *v = *link;
    *link = v->next;
    variant_free(v);
  }
}

/* ---- Lowering ------------------------------------------------------------------------------- */

static _Atomic(trm_tf_lower) python;

/* The result of a reply function. */
typedef struct reply {
  variant *variant;
  bool answered;
  trm_status status;
  trm_error *error;
} reply;

static trm_status describe_input(variant_input *input, const TF_Tensor *tensor, trm_error *error) {
  *input = (variant_input){.type = TF_TensorType(tensor),
                           .rank = TF_NumDims(tensor),
                           .bytes = TF_TensorByteSize(tensor)};
  input->dims = trm_allocate_zeroed((size_t)input->rank, sizeof *input->dims);
  CHECK_MEMORY(input->dims, "the shape of an input");
  for (int d = 0; d < input->rank; ++d) input->dims[d] = TF_Dim(tensor, d);
  return TRM_OK;
}

/* Asks Python to lower the payload for these inputs, and puts the module into `v`. */
static trm_status ask_python(const trm_tf_site *site, TF_Tensor *const *inputs, int num_inputs,
                             variant *v, trm_error *error) {
  const trm_tf_lower callback = atomic_load(&python);
  if (callback == NULL) {
    FAIL(FAILED_PRECONDITION,
         "%s: the shapes of this program are known only when it runs, and then it is compiled with "
         "the help of Tremula's Python package, which has not been loaded. Import "
         "tensorflow.python.ipu, or save the program with fixed shapes.",
         site->name);
  }
  v->inputs = trm_allocate_zeroed((size_t)num_inputs, sizeof *v->inputs);
  CHECK_MEMORY(v->inputs, "the inputs of a node");
  for (int i = 0; i < num_inputs; ++i) TRY(trm_fetch_resident(TF_TensorData(inputs[i]), error));
  for (; v->num_inputs < num_inputs; ++v->num_inputs) {
    TRY(describe_input(&v->inputs[v->num_inputs], inputs[v->num_inputs], error));
  }
  trm_tf_input *views = trm_allocate_zeroed((size_t)num_inputs, sizeof *views);
  CHECK_MEMORY(views, "the inputs of a node");
  for (int i = 0; i < num_inputs; ++i) {
    views[i] = (trm_tf_input){(int32_t)v->inputs[i].type, v->inputs[i].rank, v->inputs[i].dims,
                              TF_TensorData(inputs[i]), v->inputs[i].bytes};
  }
  reply answer = {.variant = v, .error = error};
  const trm_tf_request request = {(int32_t)site->kind, num_inputs, site->payload, site->size,
                                  site->name,          views,      &answer};
  char label[256];
  snprintf(label, sizeof label, "lower %s", site->name);
  trm_timeline_begin(TRM_TIMELINE_FRAMEWORK, label);
  callback(&request);
  trm_timeline_end(TRM_TIMELINE_FRAMEWORK, label);
  trm_free(views);
  if (!answer.answered) {
    FAIL(INTERNAL, "%s: Python did not answer a request to lower it.", site->name);
  }
  return answer.status;
}

void trm_tf_set_lower(trm_tf_lower lower) { atomic_store(&python, lower); }

void trm_tf_reply_module(const trm_tf_request *request, const void *module, uint64_t size,
                         const uint8_t *constant) {
  reply *answer = request->reply;
  variant *v = answer->variant;
  answer->answered = true;
  v->size = size;
  v->module = trm_tf_copy_bytes(module, size);
  bool ok = v->module != NULL;
  for (int i = 0; ok && i < v->num_inputs; ++i) {
    if (!constant[i]) continue;
    v->inputs[i].value = trm_tf_copy_bytes(request->inputs[i].data, v->inputs[i].bytes);
    ok = v->inputs[i].value != NULL;
  }
  if (!ok) {
    answer->status = trm_fail(answer->error, TRM_RESOURCE_EXHAUSTED,
                              "out of memory while allocating a lowered module");
  }
}

void trm_tf_reply_error(const trm_tf_request *request, int32_t code, const char *message) {
  reply *answer = request->reply;
  answer->answered = true;
  answer->status =
      trm_fail(answer->error, code == TRM_OK ? TRM_UNKNOWN : (trm_status)code, "%s", message);
}

/* ---- Finding a unit ------------------------------------------------------------------------- */

/* Adds a new variant at the front: of the node's own module, or of one that Python makes. */
static trm_status add_variant(trm_tf_site *site, TF_Tensor *const *inputs, int num_inputs,
                              variant **out, trm_error *error) {
  variant *v = trm_allocate_zeroed(1, sizeof *v);
  CHECK_MEMORY(v, "a program of a node");
  trm_status status = TRM_OK;
  if (site->kind != TRM_TF_CALL_MODULE) {
    status = ask_python(site, inputs, num_inputs, v, error);
  } else {
    v->size = site->size;
    v->module = trm_tf_copy_bytes(site->payload, site->size);
    if (v->module == NULL) {
      status = trm_fail(error, TRM_RESOURCE_EXHAUSTED, "out of memory while allocating a module");
    }
  }
  if (status != TRM_OK) {
    variant_free(v);
    return status;
  }
  v->next = site->variants;
  *out = site->variants = v;
  trim(site);
  return TRM_OK;
}

/* Gets a unit that a run with these inputs, as far as they are no constants of it, is to be the
 * first of. */
static trm_status get_unit(variant *v, TF_Tensor *const *inputs, int num_inputs, int ordinal,
                           trm_error *error) {
  TF_Tensor **taken = trm_allocate_zeroed((size_t)num_inputs, sizeof *taken);
  CHECK_MEMORY(taken, "the inputs of a node");
  trm_tf_code code = {.module = v->module, .size = v->size, .tensors = taken};
  for (int i = 0; i < num_inputs; ++i) {
    if (i >= v->num_inputs || !v->inputs[i].value) taken[code.num_tensors++] = inputs[i];
  }
  const trm_status status = trm_tf_unit_get(&code, ordinal, &v->unit, error);
  trm_free(taken);
  return status;
}

/* Makes sure that the variant's unit is one of the current configuration; the caller then uses it.
 */
static trm_status use_unit(variant *v, TF_Tensor *const *inputs, int num_inputs, int ordinal,
                           trm_error *error) {
  const uint64_t generation = trm_tf_settings_generation();
  const bool fits = v->unit && v->ordinal == ordinal && v->generation == generation;
  if (fits && trm_tf_unit_use(v->unit)) return TRM_OK;
  trm_tf_unit_drop(v->unit);
  v->unit = NULL;
  TRY(get_unit(v, inputs, num_inputs, ordinal, error));
  v->ordinal = ordinal;
  v->generation = generation;
  return TRM_OK;
}

/* A node with a module has one variant, for any inputs: trm_tf_unit_check gives better messages
 * about wrong inputs. */
trm_status trm_tf_site_find(trm_tf_site *site, TF_Tensor *const *inputs, int num_inputs,
                            int ordinal, trm_tf_unit **out_unit, bool *out_taken,
                            trm_error *error) {
  *out_unit = NULL;
  pthread_mutex_lock(&site->lock);
  variant *v = site->kind == TRM_TF_CALL_MODULE ? site->variants : find(site, inputs);
  trm_status status = TRM_OK;
  if (v == NULL) status = add_variant(site, inputs, num_inputs, &v, error);
  if (status == TRM_OK) status = use_unit(v, inputs, num_inputs, ordinal, error);
  if (status == TRM_OK) {
    *out_unit = v->unit;
    for (int i = 0; i < num_inputs; ++i) out_taken[i] = i >= v->num_inputs || !v->inputs[i].value;
  }
  pthread_mutex_unlock(&site->lock);
  return status;
}

/* ---- Running -------------------------------------------------------------------------------- */

trm_status trm_tf_launch_prepare(trm_tf_site *site, TF_OpKernelContext *context,
                                 const trm_tf_inputs *inputs, TF_Tensor **taken,
                                 trm_tf_unit **out_unit, trm_error *error) {
  *out_unit = NULL;
  trm_tf_unit *unit;
  bool *is_taken = trm_allocate_zeroed((size_t)inputs->count, sizeof *is_taken);
  CHECK_MEMORY(is_taken, "the inputs of a node");
  trm_status status = trm_tf_site_find(site, inputs->tensors, inputs->count,
                                       TF_GetDeviceId(context), &unit, is_taken, error);
  size_t count = 0;
  for (int i = 0; status == TRM_OK && i < inputs->count; ++i) {
    if (is_taken[i]) taken[count++] = inputs->tensors[i];
  }
  trm_free(is_taken);
  TRY(status);
  const size_t num_outputs = trm_tf_unit_num_outputs(unit);
  if (!trm_tf_unit_is_fed(unit) && num_outputs != (size_t)TF_NumOutputs(context)) {
    status = trm_fail(error, TRM_INTERNAL, "The program has %zu results and its node %d outputs.",
                      num_outputs, TF_NumOutputs(context));
  } else {
    status = trm_tf_unit_check(unit, taken, count, error);
  }
  if (status == TRM_OK) *out_unit = unit;
  else trm_tf_unit_done(unit);
  return status;
}

static trm_status run_locked(trm_tf_unit *p, const trm_tf_call *call, TF_Tensor *const *taken,
                             void *const *outputs, trm_error *error) {
  trm_tf_feed_use use = {0};
  trm_tf_unit_lock(p);
  if (call->feeds[0] != '\0') trm_tf_feed_use_begin(&use, call->feeds);
  const trm_status status = trm_tf_unit_run(p, call, taken, outputs, error);
  if (use.is_on) trm_tf_feed_use_end(&use);
  trm_tf_unit_unlock(p);
  return status;
}

/* Allocates the outputs, runs the unit, and gives them to TensorFlow. */
static trm_status run(trm_tf_unit *p, const trm_tf_call *call, TF_Tensor *const *taken,
                      TF_OpKernelContext *context, trm_error *error) {
  const size_t count = trm_tf_unit_num_outputs(p);
  TF_Tensor **tensors = trm_allocate_zeroed(count, sizeof *tensors);
  void **outputs = trm_allocate_zeroed(count, sizeof *outputs);
  trm_status status = TRM_OK;
  if (tensors == NULL || outputs == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while allocating the results of a node");
  }
  for (size_t i = 0; i < count; ++i) {
    const trm_tensor_info *info = trm_tf_unit_output(p, i);
    TRY_OR_GOTO(trm_tf_allocate_output(context, (int)i, trm_tf_type(info->dtype), info->dims,
                                       info->rank, info->bytes, &tensors[i], error),
                done);
    outputs[i] = TF_TensorData(tensors[i]);
  }
  status = run_locked(p, call, taken, outputs, error);
done:
  for (size_t i = 0; tensors && i < count; ++i) {
    if (tensors[i] != NULL) TF_DeleteTensor(tensors[i]);
  }
  trm_free(tensors);
  trm_free(outputs);
  return status;
}

trm_status trm_tf_launch(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  trm_tf_site *site = kernel;
  trm_tf_inputs inputs;
  TRY(trm_tf_get_inputs(context, &inputs, error));
  trm_status status = TRM_OK;
  trm_tf_unit *p = NULL;
  TF_Tensor **taken = trm_allocate_zeroed((size_t)inputs.count, sizeof *taken);
  if (taken == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while allocating the inputs of a node");
  }
  TRY_OR_GOTO(trm_tf_launch_prepare(site, context, &inputs, taken, &p, error), done);
  status = run(p, &site->call, taken, context, error);
  trm_tf_unit_done(p);
done:
  trm_free(taken);
  trm_tf_inputs_free(&inputs);
  return status;
}

/* ---- The node ------------------------------------------------------------------------------- */

/* The attribute `feeds` as lines; free it with trm_free. */
static trm_status read_feeds(TF_OpKernelConstruction *construction, char **out, trm_error *error) {
  size_t count, size;
  TRY(trm_tf_get_list_size(construction, "feeds", &count, &size, error));
  char **values = trm_allocate_zeroed(count, sizeof *values);
  size_t *lengths = trm_allocate_zeroed(count, sizeof *lengths);
  char *storage = trm_allocate(size);
  trm_text lines = {0};
  trm_status status = TRM_OK;
  if (values == NULL || lengths == NULL || storage == NULL) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while allocating the feeds of a node");
  }
  if (count > 0) {
    TF_Status *call = TF_NewStatus();
    TF_OpKernelConstruction_GetAttrStringList(construction, "feeds", values, lengths, (int)count,
                                              storage, size, call);
    TRY_OR_GOTO(trm_tf_end_call(call, error), done);
  }
  trm_text_append(&lines, "", 0); /* "" if there is no feed */
  for (size_t i = 0; i < count; ++i) {
    trm_text_append(&lines, values[i], lengths[i]);
    trm_text_append(&lines, "\n", 1);
  }
  if (lines.failed) {
    FAIL_OR_GOTO(done, RESOURCE_EXHAUSTED, "out of memory while allocating the feeds of a node");
  }
  *out = lines.data;
done:
  if (status != TRM_OK) trm_text_free(&lines);
  trm_free(values);
  trm_free(lengths);
  trm_free(storage);
  return status;
}

/* Reads the attributes `module` and `graph`, one of which is not empty, into a call site. */
static trm_status create(TF_OpKernelConstruction *construction, void **out_kernel,
                         trm_error *error) {
  char *module = NULL, *graph = NULL, *feeds = NULL;
  size_t module_size, graph_size;
  int64_t variables = 0;
  trm_tf_site *site = NULL;
  trm_status status;
  TRY(trm_tf_get_number(construction, "variables", &variables, error));
  TRY_OR_GOTO(trm_tf_get_text(construction, "module", &module, &module_size, error), done);
  TRY_OR_GOTO(trm_tf_get_text(construction, "graph", &graph, &graph_size, error), done);
  TRY_OR_GOTO(read_feeds(construction, &feeds, error), done);
  const TF_StringView name = TF_OpKernelConstruction_GetName(construction);
  status =
      module_size > 0
          ? trm_tf_site_create(TRM_TF_CALL_MODULE, module, module_size, name, feeds, &site, error)
          : trm_tf_site_create(TRM_TF_CALL_GRAPH, graph, graph_size, name, feeds, &site, error);
  if (status == TRM_OK) {
    site->call.variables = variables > 0 ? (size_t)variables : 0;
    *out_kernel = site;
  }
done:
  trm_free(module);
  trm_free(graph);
  trm_free(feeds);
  return status;
}

TRM_TF_DEFINE_CREATE(launch, create)
TRM_TF_DEFINE_COMPUTE(launch, trm_tf_launch)

void trm_tf_launch_delete(void *kernel) { trm_tf_site_free(kernel); }
