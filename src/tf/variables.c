/* Variables of 32-bit integers.
 *
 * TensorFlow has kernels for every device that read, assign and add to variables of all types, and
 * that make handles of all types but int32, which on a GPU lives in host memory. So this is the one
 * kernel that is missing. */
#define _GNU_SOURCE
#include "variables.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node.pb-c.h"
#include "status.h"

/* What a handle says of the type that it leads to: its mangled name, and TensorFlow's hash of that.
 * 2.15 and 2.21 have the same; with another one TensorFlow would refuse to use the handle. */
static const char VARIABLE_TYPE[] = "N10tensorflow3VarE";
static const uint64_t VARIABLE_TYPE_HASH = UINT64_C(0xf23c5122fe0979e5);
/* The name with which TensorFlow 2 asks for a variable that nobody else can name. */
static const char ANONYMOUS[] = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";

enum { NAME_ROOM = 48, DEVICE_ROOM = 64 };

typedef struct handle_kernel {
  TrmTf__Node *node;
  TrmTf__Shape *shape; /* the node's, or NULL */
  char *container;
  char *name;
  bool anonymous;
} handle_kernel;

static void handle_free(void *kernel) {
  handle_kernel *handle = kernel;
  if (!handle) return;
  if (handle->node) trm_tf__node__free_unpacked(handle->node, NULL);
  free(handle->container);
  free(handle->name);
  free(handle);
}

static char *text_of(const ProtobufCBinaryData *bytes) {
  char *text = malloc(bytes->len + 1);
  if (!text) return NULL;
  if (bytes->len) memcpy(text, bytes->data, bytes->len);
  text[bytes->len] = '\0';
  return text;
}

/* The value of an attribute, or NULL. */
static TrmTf__AttrValue *find_attribute(const TrmTf__Node *node, const char *key) {
  for (size_t i = 0; i < node->n_attr; ++i)
    if (strcmp(node->attr[i]->key, key) == 0) return node->attr[i]->value;
  return NULL;
}

/* An attribute that holds bytes as a text that must be freed, "" if it is not there. */
static char *text_attribute(const TrmTf__Node *node, const char *key) {
  static const ProtobufCBinaryData none;
  const TrmTf__AttrValue *value = find_attribute(node, key);
  return text_of(value && value->value_case == TRM_TF__ATTR_VALUE__VALUE_S ? &value->s : &none);
}

static bool read_node(handle_kernel *handle, TF_OpKernelConstruction *construction,
                      TF_Status *status) {
  TF_Buffer *buffer = TF_OpKernelConstruction_GetNodeDef(construction, status);
  if (is_ok(status)) handle->node = trm_tf__node__unpack(NULL, buffer->length, buffer->data);
  if (buffer) TF_DeleteBuffer(buffer);
  if (!is_ok(status)) return false;
  if (!handle->node) return fail(status, TF_INTERNAL, "VarHandleOp: its node cannot be read.");
  const TrmTf__AttrValue *shape = find_attribute(handle->node, "shape");
  if (shape && shape->value_case == TRM_TF__ATTR_VALUE__VALUE_SHAPE) handle->shape = shape->shape;
  handle->container = text_attribute(handle->node, "container");
  handle->name = text_attribute(handle->node, "shared_name");
  if (!handle->container || !handle->name) return fail_memory(status);
  handle->anonymous = strcmp(handle->name, ANONYMOUS) == 0;
  return true;
}

static void *handle_create(TF_OpKernelConstruction *construction) {
  TF_Status *status = TF_NewStatus();
  handle_kernel *handle = calloc(1, sizeof *handle);
  if (handle) read_node(handle, construction, status);
  else fail_memory(status);
  if (!is_ok(status)) {
    TF_OpKernelConstruction_Failure(construction, status);
    handle_free(handle);
    handle = NULL;
  }
  TF_DeleteStatus(status);
  return handle;
}

/* The job in the name of a device, "/job:NAME/...", which is what a device calls its default
 * container. Returns how long it is; 0: there is none. */
static size_t job_of(const char *device, const char **out) {
  static const char prefix[] = "/job:";
  if (strncmp(device, prefix, sizeof prefix - 1) != 0) return 0;
  *out = device + sizeof prefix - 1;
  return strcspn(*out, "/");
}

/* A tensor with the handle in it; NULL if there is none. A kernel cannot make one of bytes: only
 * this function of TensorFlow's can, which lies in a library that we do not need otherwise. */
static TF_Tensor *tensor_of(TrmTf__ResourceHandle *handle, TF_Status *status) {
  void (*from_proto)(const TF_Buffer *from, TF_Tensor *to, TF_Status *status) = NULL;
  void *library = dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD);
  void *symbol = dlsym(library ? library : RTLD_DEFAULT, "TF_TensorFromProto");
  if (symbol) memcpy(&from_proto, &symbol, sizeof symbol);
  if (library) dlclose(library); /* TensorFlow keeps it */
  if (!from_proto) {
    fail(status, TF_UNIMPLEMENTED,
         "Variables of int32 on an IPU need TensorFlow's library libtensorflow_cc.so.2, which this "
         "process has not loaded.");
    return NULL;
  }
  TrmTf__Tensor message = TRM_TF__TENSOR__INIT;
  TrmTf__Shape scalar = TRM_TF__SHAPE__INIT;
  message.dtype = TF_RESOURCE;
  message.tensor_shape = &scalar;
  message.n_resource_handle_val = 1;
  message.resource_handle_val = &handle;
  size_t size = trm_tf__tensor__get_packed_size(&message);
  uint8_t *bytes = malloc(size);
  TF_Tensor *tensor = TF_AllocateTensor(TF_UINT8, NULL, 0, 1);
  if (bytes && tensor) {
    trm_tf__tensor__pack(&message, bytes);
    TF_Buffer buffer = {bytes, size, NULL};
    from_proto(&buffer, tensor, status);
  } else {
    fail_memory(status);
  }
  free(bytes);
  if (is_ok(status)) return tensor;
  if (tensor) TF_DeleteTensor(tensor);
  return NULL;
}

static void handle_compute(void *kernel, TF_OpKernelContext *context) {
  static atomic_ullong last_anonymous;
  const handle_kernel *handle = kernel;
  TF_Status *status = TF_NewStatus();
  char name[NAME_ROOM];
  char own_device[DEVICE_ROOM];
  snprintf(name, sizeof name, "_AnonymousVarOfIpu%llu",
           handle->anonymous ? atomic_fetch_add(&last_anonymous, 1) : 0);
  snprintf(own_device, sizeof own_device, "/job:localhost/replica:0/task:0/device:IPU:%d",
           TF_GetDeviceId(context));
  char *device = handle->node->device[0] ? handle->node->device : own_device;
  const char *job = NULL;
  size_t job_size = handle->container[0] ? 0 : job_of(device, &job);
  char *default_container = job_size ? strndup(job, job_size) : NULL;

  TrmTf__Shape unknown = TRM_TF__SHAPE__INIT;
  unknown.unknown_rank = true;
  TrmTf__ResourceHandle__DtypeAndShape element = TRM_TF__RESOURCE_HANDLE__DTYPE_AND_SHAPE__INIT;
  TrmTf__ResourceHandle__DtypeAndShape *elements[] = {&element};
  element.dtype = TF_INT32;
  element.shape = handle->shape ? handle->shape : &unknown;
  TrmTf__ResourceHandle message = TRM_TF__RESOURCE_HANDLE__INIT;
  message.device = device;
  message.container = default_container ? default_container : handle->container;
  message.name = handle->anonymous ? name : handle->name;
  message.hash_code = VARIABLE_TYPE_HASH;
  message.maybe_type_name = (char *)(uintptr_t)VARIABLE_TYPE;
  message.n_dtypes_and_shapes = 1;
  message.dtypes_and_shapes = elements;
  TF_Tensor *tensor = tensor_of(&message, status);
  if (tensor) {
    TF_SetOutput(context, 0, tensor, status);
    TF_DeleteTensor(tensor);
  }
  free(default_container);
  if (!is_ok(status)) TF_OpKernelContext_Failure(context, status);
  TF_DeleteStatus(status);
}

void variables_register(TF_Status *status) {
  TF_KernelBuilder *builder =
      TF_NewKernelBuilder("VarHandleOp", "IPU", handle_create, handle_compute, handle_free);
  TF_KernelBuilder_TypeConstraint(builder, "dtype", TF_INT32, status);
  TF_KernelBuilder_HostMemory(builder, "resource");
  if (is_ok(status)) TF_RegisterKernelBuilder("VarHandleOp", builder, status);
  else TF_DeleteKernelBuilder(builder);
}
