/* Owns: the custom call "tremula.user-op", a function of the user's in a shared library.
 *
 * backend_config {"library":PATH,"op":NAME,"name":TEXT,"attributes":TEXT}; of a gradient also
 * "gradient_size" and "partial_derivative_index". The function has the signature of
 * include/tremula/user_op.h, as a symbol NAME_tremula states. With "callback":true it may instead
 * be a host callback in the original's form, which takes C++ vectors and strings by reference and
 * only reads them. They are laid out here like those of GCC's C++ library. */
#define _GNU_SOURCE
#include "host/ops/reference.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "hlo/config.h"
#include "tremula/user_op.h"

typedef struct vector {
  const void *begin, *end, *end_of_storage;
} vector;

typedef struct string {
  const char *data;
  size_t size;
  char local[16]; /* or the capacity */
} string;

typedef void (*callback)(const vector *data, const vector *number_of_elements,
                         const vector *outputs, const string *attributes, const string *name);

typedef struct user_op {
  void *library;
  trm_user_op function;
  callback callback;     /* if not NULL, it is called instead of the op */
  pthread_mutex_t lock;  /* callbacks do not get the replica's number, so they run one at a time */
  trm_user_op_call call; /* the parts that are equal in every run */
  uint32_t *counts;      /* elements of the inputs */
} user_op;

static string string_of(const char *text, size_t size) {
  string s = {text, size, {0}};
  memcpy(s.local, &size, sizeof size);
  return s;
}

static trm_status run_callback(user_op *op, const trm_kernel_call *call) {
  const trm_user_op_call *c = &op->call;
  const vector data = {call->operands, call->operands + c->num_inputs,
                       call->operands + c->num_inputs};
  const vector counts = {op->counts, op->counts + c->num_inputs, op->counts + c->num_inputs};
  const vector outputs = {call->results, call->results + c->num_outputs,
                          call->results + c->num_outputs};
  const string attributes = string_of(c->attributes, (size_t)c->attributes_size);
  const string name = string_of(c->name, strlen(c->name));
  pthread_mutex_lock(&op->lock);
  op->callback(&data, &counts, &outputs, &attributes, &name);
  pthread_mutex_unlock(&op->lock);
  return TRM_OK;
}

static trm_status run_user_op(const trm_kernel *kernel, const trm_kernel_call *call,
                              trm_error *error) {
  user_op *op = kernel->state;
  if (op->callback != NULL) return run_callback(op, call);
  char message[TRM_ERROR_SIZE / 2] = "";
  trm_user_op_call mine = op->call;
  mine.replica = call->exchange != NULL ? call->exchange->replica : 0;
  mine.inputs = call->operands;
  mine.outputs = call->results;
  mine.message = message;
  mine.message_size = sizeof message;
  const int code = op->function(&mine);
  if (code == TRM_USER_OP_OK) return TRM_OK;
  message[sizeof message - 1] = '\0';
  return trm_fail(error, code > 0 && code <= 16 ? (trm_status)code : TRM_UNKNOWN, "%s",
                  message[0] != '\0' ? message : "the user op failed and did not say why");
}

static void destroy_user_op(trm_kernel *kernel) {
  user_op *op = kernel->state;
  pthread_mutex_destroy(&op->lock);
  dlclose(op->library);
}

/* ---- Making --------------------------------------------------------------------------------- */

/* Finds a function by its symbol. ISO C has no cast from a data pointer to a function's. */
static bool find_function(void *library, const char *symbol, void *out_function) {
  void *address = dlsym(library, symbol);
  memcpy(out_function, &address, sizeof address);
  return address != NULL;
}

/* Finds the op; with `callbacks` a host callback in the original's form serves too. */
static trm_status find_op(user_op *op, const char *path, const char *name, bool callbacks,
                          trm_arena *arena, trm_error *error) {
  const size_t size = strlen(name) + sizeof "_tremula";
  char *symbol = ARENA_NEW(arena, char, size);
  CHECK_MEMORY(symbol, "a user op");
  memcpy(symbol, name, strlen(name));
  memcpy(symbol + strlen(name), "_tremula", sizeof "_tremula");
  const uint32_t *version = dlsym(op->library, symbol);
  if (version != NULL && *version != TRM_USER_OP_API) {
    FAIL(FAILED_PRECONDITION,
         "the user op '%s' of %s was written for version %u of tremula/user_op.h, this is version "
         "%d: compile it again",
         name, path, *version, TRM_USER_OP_API);
  }
  if (version != NULL && find_function(op->library, name, &op->function)) return TRM_OK;
  if (version == NULL && callbacks && find_function(op->library, name, &op->callback)) {
    return TRM_OK;
  }
  if (dlsym(op->library, "custom_op_api_level") != NULL || dlsym(op->library, name) != NULL) {
    FAIL(
        UNIMPLEMENTED,
        "%s does not have the user op '%s' with the C signature of tremula/user_op.h: write it "
        "as TRM_USER_OP(%s) (docs/user_ops.md); docs/custom_operators.md is about operators in C++",
        path, name, name);
  }
  FAIL(NOT_FOUND, "%s has no function '%s' for the user op", path, name);
}

static trm_status describe(trm_arena *arena, const trm_shape *const *shapes, uint32_t count,
                           const trm_user_tensor **out_info, trm_error *error) {
  trm_user_tensor *info = ARENA_NEW(arena, trm_user_tensor, count);
  CHECK_MEMORY(info, "a user op");
  for (uint32_t i = 0; i < count; ++i) {
    info[i] = (trm_user_tensor){(int32_t)shapes[i]->dtype, shapes[i]->rank, shapes[i]->dims,
                                (uint64_t)trm_shape_count(shapes[i]), trm_shape_bytes(shapes[i])};
  }
  *out_info = info;
  return TRM_OK;
}

/* Describes the arrays of all operands or results. */
static trm_status describe_operands(user_op *op, const trm_kernel_request *request,
                                    trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  trm_user_op_call *call = &op->call;
  call->num_outputs = (uint32_t)trm_shape_num_leaves(&instruction->shape);
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    call->num_inputs += (uint32_t)trm_shape_num_leaves(trm_operand_shape(request, k));
  }
  const size_t count = (size_t)call->num_inputs + call->num_outputs;
  const trm_shape **shapes = ARENA_NEW(request->arena, const trm_shape *, count);
  op->counts = ARENA_NEW(request->arena, uint32_t, call->num_inputs);
  if (shapes == NULL || op->counts == NULL) FAIL_NO_MEMORY("a user op");
  uint32_t used = 0;
  for (uint32_t k = 0; k < instruction->num_operands; ++k) {
    const trm_shape *shape = trm_operand_shape(request, k);
    const int32_t leaves = trm_shape_num_leaves(shape);
    for (int32_t l = 0; l < leaves; ++l) shapes[used++] = trm_shape_leaf(shape, l);
  }
  for (uint32_t l = 0; l < call->num_outputs; ++l) {
    shapes[used++] = trm_shape_leaf(&instruction->shape, (int32_t)l);
  }
  for (uint32_t i = 0; i < call->num_inputs; ++i) {
    op->counts[i] = (uint32_t)trm_shape_count(shapes[i]);
  }
  TRY(describe(request->arena, shapes, call->num_inputs, &call->input_info, error));
  return describe(request->arena, shapes + call->num_inputs, call->num_outputs, &call->output_info,
                  error);
}

static const char *copy_text(trm_arena *arena, const json_t *text, size_t *out_size) {
  *out_size = text == NULL ? 0 : json_string_length(text);
  return trm_arena_string(arena, text == NULL ? "" : json_string_value(text), *out_size);
}

static trm_status open_op(user_op *op, const json_t *config, const trm_kernel_request *request,
                          trm_error *error) {
  const json_t *library = json_object_get(config, "library");
  const json_t *name = json_object_get(config, "op"), *shown = json_object_get(config, "name");
  const json_t *attributes = json_object_get(config, "attributes");
  if (!json_is_string(library) || !json_is_string(name) || (shown && !json_is_string(shown)) ||
      (attributes && !json_is_string(attributes))) {
    FAIL(INVALID_ARGUMENT,
         "the backend_config of tremula.user-op must give 'library' and 'op', and "
         "may give 'name' and 'attributes', as texts");
  }
  size_t size;
  op->call.name = copy_text(request->arena, shown != NULL ? shown : name, &size);
  op->call.attributes = copy_text(request->arena, attributes, &size);
  op->call.attributes_size = size;
  if (op->call.name == NULL || op->call.attributes == NULL) FAIL_NO_MEMORY("a user op");
  op->call.size = sizeof op->call;
  op->call.gradient_size = (uint32_t)json_integer_value(json_object_get(config, "gradient_size"));
  op->call.partial_derivative_index =
      (uint32_t)json_integer_value(json_object_get(config, "partial_derivative_index"));
  op->library = dlopen(json_string_value(library), RTLD_NOW | RTLD_LOCAL);
  if (op->library == NULL) {
    const char *reason = dlerror();
    FAIL(NOT_FOUND, "the library of a user op could not be opened: %s",
         reason != NULL ? reason : json_string_value(library));
  }
  const trm_status status =
      find_op(op, json_string_value(library), json_string_value(name),
              json_is_true(json_object_get(config, "callback")), request->arena, error);
  if (status != TRM_OK) dlclose(op->library);
  return status;
}

trm_status trm_c_user_op_create(const trm_kernel_request *request, trm_kernel *out_kernel,
                                bool *out_supported, trm_error *error) {
  const trm_instruction *instruction = request->instruction;
  user_op *op = ARENA_NEW(request->arena, user_op, 1);
  CHECK_MEMORY(op, "a user op");
  memset(op, 0, sizeof *op);
  TRY(describe_operands(op, request, error));
  json_t *config = trm_instruction_config(instruction, JSON_ALLOW_NUL, NULL);
  const trm_status status = open_op(op, config, request, error);
  json_decref(config);
  char text[512];
  TRY_NOTE(status, "in %s", trm_instruction_text(request->module, instruction, text, sizeof text));
  pthread_mutex_init(&op->lock, NULL);
  *out_supported = true;
  *out_kernel = (trm_kernel){
      .name = "host.user-op", .state = op, .run = run_user_op, .destroy = destroy_user_op};
  return TRM_OK;
}
