/* Owns: calling Build of a user's library for an instruction.
 *
 * backend_config {"library":PATH,"op":NAME,"poplar":true}; it may have "name", "attributes",
 * "gp_path" (paths with commas between them), of a gradient "gradient_size", "forward_outputs"
 * (their number) and "partial_derivative_index", and the machine: "target", "tiles_per_ipu" and
 * "ipus". Without the last, an instruction on no shard has the IPUs of all shards. */
#define _GNU_SOURCE
#include "poplar/build.h"

#include <dlfcn.h>
#include <string.h>

#include "hlo/config.h"
#include "hlo/sharding.h"
#include "poplar/api.h"

enum { MAX_INDICES = 256 };

/* The lock is held while a user's function runs: it changes counts, and user code is
 * written for one thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static trm_poplar_built *all;

/* An instruction that is built. */
typedef struct building {
  const trm_module *module;
  const trm_computation *computation;
  const trm_instruction *instruction;
  json_t *config;
  const char *path, *op, *attributes;
  size_t attributes_size;
  const char *name; /* the debug prefix */
  void *library;
  int32_t level;
  trm_poplar_graph *graph;
  uint32_t num_inputs, num_outputs;
  const trm_shape **inputs;
  trm_poplar_tensor **tensors;
  bool *is_allocated; /* by input: the library lays it out */
  trm_arena arena;
  trm_poplar_error failure; /* of a function of ours */
} building;

/* ---- Failures ------------------------------------------------------------------------------- */

static const char *const kinds[] = {
    [TRM_POPLAR_ERROR] = "poplar_error",
    [TRM_POPLAR_ERROR_CONNECTION] = "graph_connection_error",
    [TRM_POPLAR_ERROR_CYCLE] = "graph_cycle_error",
    [TRM_POPLAR_ERROR_FILE] = "file_load_error",
    [TRM_POPLAR_ERROR_TYPE] = "type_error",
    [TRM_POPLAR_ERROR_TILE_MAPPING] = "invalid_tile_mapping",
    [TRM_POPLAR_ERROR_INDEX] = "index_error",
    [TRM_POPLAR_ERROR_NO_SUCH_FIELD] = "graph_object_load_error",
    [TRM_POPLAR_ERROR_LIBRARY] = "poplibs_error",
};

/* A failure of ours in the original's words; `stage` is "Build graph" or "Compile engine". */
static trm_status our_failure(const building *b, trm_status status, const char *stage,
                              trm_error *error) {
  if (status == TRM_RESOURCE_EXHAUSTED) FAIL(RESOURCE_EXHAUSTED, "%s", b->failure.what);
  FAIL(INTERNAL, "[Poplar][%s] %s: %s", stage, kinds[b->failure.kind], b->failure.what);
}
/* A call of ours that writes &b->failure. */
#define TRY_OURS(call)                                                     \
  do {                                                                     \
    const trm_status ours = (trm_status)(call);                            \
    if (ours != TRM_OK) return our_failure(b, ours, "Build graph", error); \
  } while (0)

/* A failure of the user's function, in the original's words. */
static trm_status user_failure(const trm_poplar_failure *failure, trm_error *error) {
  if (failure->thrown == TRM_POPLAR_THROWN_POPLAR) {
    FAIL(INTERNAL, "[Poplar][Build graph] %s: %s", failure->type, failure->what);
  }
  const bool is_standard = failure->thrown == TRM_POPLAR_THROWN_STANDARD;
  FAIL(UNKNOWN, "%s",
       is_standard ? failure->what : "the user's function threw what is no std::exception");
}

/* ---- The library ---------------------------------------------------------------------------- */

static void *find(const building *b, const char *suffix) {
  char symbol[512];
  if ((size_t)snprintf(symbol, sizeof symbol, "%s%s", b->op, suffix) >= sizeof symbol) return NULL;
  return dlsym(b->library, symbol);
}

/* A function of the headers, by the user's library. ISO C has no cast from data to a
 * function. */
static trm_status trampoline(const building *b, const char *symbol, void *out_function,
                             trm_error *error) {
  void *address = dlsym(b->library, symbol);
  memcpy(out_function, &address, sizeof address);
  if (address != NULL) return TRM_OK;
  FAIL(FAILED_PRECONDITION, "%s has no symbol %s: compile it again with Tremula's headers", b->path,
       symbol);
}

/* What each call of a function of the user's has. */
static trm_poplar_user_call user_call(const building *b, const char *suffix, const char *prefix) {
  return (trm_poplar_user_call){.level = b->level,
                                .api = trm_poplar_api_table(),
                                .function = find(b, suffix),
                                .graph = b->graph,
                                .attributes = b->attributes,
                                .attributes_size = b->attributes_size,
                                .debug_prefix = prefix};
}

static trm_status open_library(building *b, trm_error *error) {
  b->library = dlopen(b->path, RTLD_NOW | RTLD_LOCAL);
  if (b->library == NULL) {
    const char *reason = dlerror();
    FAIL(NOT_FOUND, "the library of a user op could not be opened: %s",
         reason != NULL ? reason : b->path);
  }
  const int32_t *level = dlsym(b->library, "custom_op_api_level");
  const uint32_t *version = dlsym(b->library, TRM_POPLAR_SYMBOL_HEADER);
  b->level = level != NULL ? *level : 0;
  if (b->level < 1 || b->level > 5) {
    FAIL(INTERNAL,
         "Api level of module %s, op name %s is %d, expected 5. See section \"API level\" of "
         "docs/custom_operators.md",
         b->path, b->op, b->level);
  }
  if (version == NULL) {
    FAIL(FAILED_PRECONDITION,
         "%s was not compiled with Tremula's headers of Poplar: compile it again with them "
         "(docs/custom_operators.md)",
         b->path);
  }
  if (*version > TRM_POPLAR_VERSION) {
    FAIL(FAILED_PRECONDITION,
         "%s was compiled with headers of version %u, this is version %d: compile it again",
         b->path, *version, TRM_POPLAR_VERSION);
  }
  if (find(b, "") == NULL) FAIL(NOT_FOUND, "%s has no function '%s'", b->path, b->op);
  return TRM_OK;
}

/* Which inputs the library lays out. */
static trm_status read_metadata(building *b, trm_error *error) {
  if (find(b, "_metadata") == NULL || find(b, "_allocator") == NULL) return TRM_OK;
  int64_t indices[4][MAX_INDICES];
  trm_poplar_metadata_function call;
  TRY(trampoline(b, TRM_POPLAR_SYMBOL_METADATA, &call, error));
  trm_poplar_metadata_call said = {.user = user_call(b, "_metadata", NULL),
                                   .num_inputs = b->num_inputs,
                                   .max_indices = MAX_INDICES,
                                   .allocating = indices[0],
                                   .replica_identical = indices[1],
                                   .alias_inputs = indices[2],
                                   .alias_outputs = indices[3]};
  if (call(&said) != 0) return user_failure(&said.user.failure, error);
  for (uint32_t i = 0; i < said.num_allocating && i < MAX_INDICES; ++i) {
    if (indices[0][i] >= 0 && indices[0][i] < b->num_inputs) b->is_allocated[indices[0][i]] = true;
  }
  return TRM_OK;
}

/* ---- Inputs --------------------------------------------------------------------------------- */

static trm_status allocate(const building *b, uint32_t i, const uint64_t *dims,
                           trm_poplar_tensor **out_tensor, trm_error *error) {
  char prefix[512];
  snprintf(prefix, sizeof prefix, "%s:%u", b->name, i);
  trm_poplar_allocator_function function;
  TRY(trampoline(b, TRM_POPLAR_SYMBOL_ALLOCATOR, &function, error));
  trm_poplar_allocator_call call = {.user = user_call(b, "_allocator", prefix),
                                    .operand = i,
                                    .dtype = (int32_t)b->inputs[i]->dtype,
                                    .rank = (uint32_t)b->inputs[i]->rank,
                                    .dims = dims};
  if (function(&call) != 0) return user_failure(&call.user.failure, error);
  const trm_poplar_tensor *made = call.out_tensor;
  if (made != NULL && (made->dtype != b->inputs[i]->dtype || made->rank != call.rank ||
                       memcmp(made->dims, dims, call.rank * sizeof *dims) != 0)) {
    trm_poplar_tensor_release(call.out_tensor);
    FAIL(INTERNAL,
         "the allocator of the user op %s made a tensor of another shape or type for input %u",
         b->op, i);
  }
  *out_tensor = call.out_tensor;
  return TRM_OK;
}

static trm_status make_inputs(building *b, trm_error *error) {
  for (uint32_t i = 0; i < b->num_inputs; ++i) {
    uint64_t dims[TRM_MAX_RANK] = {0};
    const trm_shape *shape = b->inputs[i];
    for (int32_t d = 0; d < shape->rank; ++d) dims[d] = (uint64_t)shape->dims[d];
    if (b->is_allocated[i]) TRY(allocate(b, i, dims, &b->tensors[i], error));
    if (b->tensors[i] != NULL) continue;
    char name[512];
    snprintf(name, sizeof name, "%s/in%u", b->name, i);
    TRY_OURS(trm_poplar_add_variable(b->graph, (int32_t)shape->dtype, dims, (uint32_t)shape->rank,
                                     TRM_POPLAR_PLACE_LINEAR, name, &b->tensors[i], &b->failure));
  }
  return TRM_OK;
}

/* ---- Building ------------------------------------------------------------------------------- */

static int64_t number_of(const building *b, const char *key, int64_t otherwise) {
  const json_t *number = json_object_get(b->config, key);
  return json_is_integer(number) ? json_integer_value(number) : otherwise;
}

static const char *text_of(const building *b, const char *key) {
  const char *text = json_string_value(json_object_get(b->config, key));
  return text == NULL ? "" : text;
}

static trm_status make_graph(building *b, trm_error *error) {
  const char *target = text_of(b, "target"), *paths = text_of(b, "gp_path");
  const uint32_t shards = b->instruction->sharding == NULL ? trm_module_num_shards(b->module) : 1;
  const int64_t ipus = number_of(b, "ipus", shards), tiles = number_of(b, "tiles_per_ipu", 0);
  if (ipus < 1 || ipus > 1024 || tiles < 0 || tiles > 65536) {
    FAIL(INVALID_ARGUMENT, "a user op for %lld IPUs of %lld tiles", (long long)ipus,
         (long long)tiles);
  }
  TRY_OURS(trm_poplar_graph_create(*target == '\0' ? NULL : target, (uint32_t)ipus, (uint32_t)tiles,
                                   &b->graph, &b->failure));
  while (*paths != '\0') {
    const size_t length = strcspn(paths, ",");
    const char *path = trm_arena_string(&b->arena, paths, length);
    CHECK_MEMORY(path, "a user op");
    if (length > 0) TRY_OURS(trm_poplar_add_codelets(b->graph, path, NULL, NULL, &b->failure));
    paths += length + (paths[length] == ',');
  }
  return TRM_OK;
}

/* Calls Build, or Build_grad, whose operands are gradients, outputs and inputs. */
static trm_status call_build(building *b, trm_poplar_build_call *call, trm_error *error) {
  const bool is_gradient = json_object_get(b->config, "gradient_size") != NULL;
  *call = (trm_poplar_build_call){.user = user_call(b, "", b->name),
                                  .num_inputs = is_gradient ? 0 : b->num_inputs,
                                  .inputs = b->tensors,
                                  .max_outputs = b->num_outputs};
  call->out_outputs = ARENA_NEW(&b->arena, trm_poplar_tensor *, b->num_outputs + 1u);
  CHECK_MEMORY(call->out_outputs, "a user op");
  if (is_gradient) {
    const int64_t grads = number_of(b, "gradient_size", 0);
    if (grads < 0 || 2 * grads > (int64_t)b->num_inputs) {
      FAIL(INVALID_ARGUMENT, "the gradient of a user op has %lld gradients among %u operands",
           (long long)grads, b->num_inputs);
    }
    call->input_grad_index = number_of(b, "partial_derivative_index", 0);
    call->num_gradients = call->num_fwd_outputs = (uint32_t)grads;
    call->num_fwd_inputs = b->num_inputs - 2 * (uint32_t)grads;
    call->gradients = b->tensors;
    call->fwd_outputs = b->tensors + grads;
    call->fwd_inputs = b->tensors + 2 * grads;
  }
  trm_poplar_build_function function;
  TRY(trampoline(b, is_gradient ? TRM_POPLAR_SYMBOL_GRAD : TRM_POPLAR_SYMBOL_BUILD, &function,
                 error));
  return function(call) == 0 ? TRM_OK : user_failure(&call->user.failure, error);
}

/* A null Tensor of a gradient is no gradient: zeros. */
static trm_status fill_missing(building *b, trm_poplar_build_call *call, trm_error *error) {
  if (call->num_inputs == b->num_inputs) return TRM_OK; /* Build */
  for (uint32_t o = 0; o < b->num_outputs && o < call->num_outputs; ++o) {
    const trm_shape *shape = trm_shape_leaf(&b->instruction->shape, (int32_t)o);
    const uint64_t one = 1, count = (uint64_t)trm_shape_count(shape);
    trm_poplar_tensor *zero = NULL;
    if (call->out_outputs[o] != NULL) continue;
    TRY_OURS(trm_poplar_add_constant(b->graph, (int32_t)shape->dtype, &one, 1, TRM_F32, &(float){0},
                                     1, b->name, &zero, &b->failure));
    const int32_t status =
        trm_poplar_tensor_broadcast(zero, count, 0, &call->out_outputs[o], &b->failure);
    trm_poplar_tensor_release(zero);
    TRY_OURS(status);
  }
  return TRM_OK;
}

/* Whether the tensors that Build gave are what the instruction says. */
static trm_status check_outputs(const building *b, const trm_poplar_build_call *call,
                                trm_error *error) {
  if (call->num_outputs < b->num_outputs) {
    FAIL(INTERNAL, "Instruction %s has mismatched outputs number, expected: %u, returned: %u",
         b->instruction->name, b->num_outputs, call->num_outputs);
  }
  for (uint32_t o = 0; o < b->num_outputs; ++o) {
    const trm_poplar_tensor *tensor = call->out_outputs[o];
    const trm_shape *shape = trm_shape_leaf(&b->instruction->shape, (int32_t)o);
    if (tensor == NULL) {
      FAIL(INTERNAL, "output %u of the user op %s is a null Tensor: it was not written", o, b->op);
    }
    if (tensor->dtype != shape->dtype || tensor->elements != (uint64_t)trm_shape_count(shape)) {
      FAIL(INTERNAL,
           "output %u of the user op %s is a tensor of %s%s, but output_types and output_shapes "
           "say %s of %lld elements",
           o, b->op, trm_dtype_name(tensor->dtype), SHAPE_TEXT(tensor),
           trm_dtype_name(shape->dtype), (long long)trm_shape_count(shape));
    }
  }
  return TRM_OK;
}

static trm_status build(building *b, trm_poplar_plan **out_plan, trm_error *error) {
  TRY(open_library(b, error));
  TRY(read_metadata(b, error));
  TRY(make_graph(b, error));
  TRY(make_inputs(b, error));
  trm_poplar_build_call call;
  trm_status status = call_build(b, &call, error);
  if (status == TRM_OK) status = fill_missing(b, &call, error);
  if (status == TRM_OK) status = check_outputs(b, &call, error);
  if (status == TRM_OK) {
    status = trm_poplar_plan_create(b->graph, call.out_program, b->tensors, b->num_inputs,
                                    call.out_outputs, b->num_outputs, out_plan, &b->failure);
    if (status != TRM_OK) status = our_failure(b, status, "Compile engine", error);
  }
  for (uint32_t o = 0; call.out_outputs != NULL && o < b->num_outputs; ++o) {
    trm_poplar_tensor_release(call.out_outputs[o]);
  }
  trm_poplar_program_release(call.out_program);
  return status;
}

/* ---- Operands ------------------------------------------------------------------------------- */

static trm_status describe(building *b, trm_error *error) {
  const trm_instruction *instruction = b->instruction;
  b->num_outputs = (uint32_t)trm_shape_num_leaves(&instruction->shape);
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    b->num_inputs += (uint32_t)trm_shape_num_leaves(
        &b->computation->instructions[instruction->operands[k]].shape);
  }
  b->inputs = ARENA_NEW(&b->arena, const trm_shape *, b->num_inputs + 1u);
  b->tensors = ARENA_NEW(&b->arena, trm_poplar_tensor *, b->num_inputs + 1u);
  b->is_allocated = ARENA_NEW(&b->arena, bool, b->num_inputs + 1u);
  if (b->inputs == NULL || b->tensors == NULL || b->is_allocated == NULL) {
    FAIL_NO_MEMORY("a user op");
  }
  uint32_t used = 0;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_shape *shape = &b->computation->instructions[instruction->operands[k]].shape;
    const int32_t leaves = trm_shape_num_leaves(shape);
    for (int32_t l = 0; l < leaves; ++l) b->inputs[used++] = trm_shape_leaf(shape, l);
  }
  return TRM_OK;
}

static trm_status read_config(building *b, trm_error *error) {
  static const char *const texts[] = {"library", "op", "name", "attributes", "gp_path", "target"};
  bool fits = true;
  for (size_t t = 0; t < sizeof texts / sizeof *texts; ++t) {
    const json_t *text = json_object_get(b->config, texts[t]);
    fits = fits && (json_is_string(text) || (text == NULL && t >= 2));
  }
  if (!fits) {
    FAIL(INVALID_ARGUMENT,
         "the backend_config of tremula.user-op must give 'library' and 'op', and may give 'name', "
         "'attributes', 'gp_path' and 'target', as texts");
  }
  b->path = text_of(b, "library");
  b->op = text_of(b, "op");
  b->attributes = text_of(b, "attributes");
  b->attributes_size = json_string_length(json_object_get(b->config, "attributes"));
  return TRM_OK;
}

/* What tells the instruction's Build from others: everything that it gets. */
static trm_status key_of(const building *b, char **out_key, trm_error *error) {
  trm_text key = {0};
  trm_text_format(&key, "%s %s", b->name, b->instruction->backend_config);
  for (uint32_t i = 0; i < b->num_inputs; ++i) trm_shape_print(b->inputs[i], false, &key);
  trm_shape_print(&b->instruction->shape, false, &key);
  if (key.failed) {
    trm_text_free(&key);
    FAIL_NO_MEMORY("a user op");
  }
  *out_key = key.data;
  return TRM_OK;
}

static void building_free(building *b) {
  for (uint32_t i = 0; b->tensors != NULL && i < b->num_inputs; ++i) {
    trm_poplar_tensor_release(b->tensors[i]);
  }
  trm_poplar_graph_release(b->graph);
  if (b->library != NULL) dlclose(b->library);
  json_decref(b->config);
  trm_arena_free(&b->arena);
}

/* ---- What is shared ------------------------------------------------------------------------- */

bool trm_poplar_is_operator(const trm_instruction *instruction) {
  return trm_config_is(instruction, "poplar", JSON_TRUE);
}

/* Builds; the key is taken over. Under the lock. */
static trm_status build_new(building *b, char *key, trm_poplar_built **out_built,
                            trm_error *error) {
  trm_poplar_built *built = trm_allocate_zeroed(1, sizeof *built);
  trm_status status = built == NULL ? TRM_RESOURCE_EXHAUSTED : build(b, &built->plan, error);
  if (status != TRM_OK) {
    trm_free(key);
    if (built == NULL) trm_fail(error, status, "out of memory while allocating a user op");
    trm_free(built);
    return status;
  }
  built->references = 1;
  built->key = key;
  built->library = b->library;
  b->library = NULL;
  built->next = all;
  all = built;
  *out_built = built;
  return TRM_OK;
}

static trm_status take(building *b, trm_poplar_built **out_built, trm_error *error) {
  TRY(describe(b, error));
  TRY(read_config(b, error));
  char *key;
  TRY(key_of(b, &key, error));
  for (trm_poplar_built *one = all; one != NULL; one = one->next) {
    if (strcmp(one->key, key) != 0) continue;
    trm_free(key);
    ++one->references;
    *out_built = one;
    return TRM_OK;
  }
  return build_new(b, key, out_built, error);
}

trm_status trm_poplar_built_take(const trm_module *module, const trm_computation *computation,
                                 const trm_instruction *instruction, trm_poplar_built **out_built,
                                 trm_error *error) {
  building b = {.module = module,
                .computation = computation,
                .instruction = instruction,
                .name = instruction->name,
                .config = trm_instruction_config(instruction, JSON_ALLOW_NUL, NULL)};
  pthread_mutex_lock(&lock);
  const trm_status status = take(&b, out_built, error);
  building_free(&b);
  pthread_mutex_unlock(&lock);
  char text[512];
  TRY_NOTE(status, "in %s", trm_instruction_text(module, instruction, text, sizeof text));
  return TRM_OK;
}

void trm_poplar_built_release(trm_poplar_built *built) {
  if (built == NULL) return;
  pthread_mutex_lock(&lock);
  if (--built->references == 0) {
    trm_poplar_built **link = &all;
    while (*link != built) link = &(*link)->next;
    *link = built->next;
    trm_poplar_plan_free(built->plan);
    dlclose(built->library);
    trm_free(built->key);
    trm_free(built);
  }
  pthread_mutex_unlock(&lock);
}
