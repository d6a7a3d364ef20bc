/* Owns: handles of 32-bit integer variables.
 *
 * TensorFlow has kernels for every device that read, assign and add to variables of all types, and
 * that make handles of all types but int32, which on a GPU is in host memory. This kernel makes
 * those handles. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "node.pb-c.h"
#include "ops.h"

/* The type in a handle: its mangled name, and TensorFlow's hash of that. TensorFlow refuses a
 * handle with another hash. TensorFlow 2.15 and 2.21 have the same. */
static const char VARIABLE_TYPE[] = "N10tensorflow3VarE";
static const uint64_t VARIABLE_TYPE_HASH = UINT64_C(0xf23c5122fe0979e5);
/* The name by which TensorFlow 2 asks for an anonymous variable. */
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
  trm_free(handle->container);
  trm_free(handle->name);
  trm_free(handle);
}

/* The value of an attribute, or NULL. */
static TrmTf__AttrValue *find_attribute(const TrmTf__Node *node, const char *key) {
  for (size_t i = 0; i < node->n_attr; ++i) {
    if (strcmp(node->attr[i]->key, key) == 0) return node->attr[i]->value;
  }
  return NULL;
}

/* The bytes of an attribute as a text, "" if it does not exist. Free it. */
static char *text_attribute(const TrmTf__Node *node, const char *key) {
  static const ProtobufCBinaryData none;
  const TrmTf__AttrValue *value = find_attribute(node, key);
  const ProtobufCBinaryData *bytes =
      value && value->value_case == TRM_TF__ATTR_VALUE__VALUE_S ? &value->s : &none;
  return trm_tf_copy_bytes(bytes->data, bytes->len);
}

static trm_status read_node(TF_OpKernelConstruction *construction, TrmTf__Node **out,
                            trm_error *error) {
  TF_Status *call = TF_NewStatus();
  TF_Buffer *buffer = TF_OpKernelConstruction_GetNodeDef(construction, call);
  const trm_status status = trm_tf_end_call(call, error);
  if (status == TRM_OK) *out = trm_tf__node__unpack(NULL, buffer->length, buffer->data);
  if (buffer != NULL) TF_DeleteBuffer(buffer);
  TRY(status);
  if (*out == NULL) FAIL(INTERNAL, "VarHandleOp: its node cannot be read.");
  return TRM_OK;
}

static trm_status create_handle(TF_OpKernelConstruction *construction, void **out_kernel,
                                trm_error *error) {
  handle_kernel *handle = *out_kernel = trm_allocate_zeroed(1, sizeof *handle);
  CHECK_MEMORY(handle, "a node");
  TRY(read_node(construction, &handle->node, error));
  const TrmTf__AttrValue *shape = find_attribute(handle->node, "shape");
  if (shape && shape->value_case == TRM_TF__ATTR_VALUE__VALUE_SHAPE) handle->shape = shape->shape;
  handle->container = text_attribute(handle->node, "container");
  handle->name = text_attribute(handle->node, "shared_name");
  if (handle->container == NULL || handle->name == NULL) FAIL_NO_MEMORY("a node");
  handle->anonymous = strcmp(handle->name, ANONYMOUS) == 0;
  return TRM_OK;
}

/* The job in the name of a device, "/job:NAME/...", which is the device's default container.
 * Returns its length; 0: none. */
static size_t job_of(const char *device, const char **out) {
  static const char prefix[] = "/job:";
  if (strncmp(device, prefix, sizeof prefix - 1) != 0) return 0;
  *out = device + sizeof prefix - 1;
  return strcspn(*out, "/");
}

/* TensorFlow's function that makes a tensor from a proto. Kernels have no other way; it is in a
 * library that the plugin needs for nothing else. */
typedef void (*from_proto)(const TF_Buffer *from, TF_Tensor *to, TF_Status *status);

static trm_status find_from_proto(from_proto *out, trm_error *error) {
  void *library = dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD);
  void *symbol = dlsym(library ? library : RTLD_DEFAULT, "TF_TensorFromProto");
  if (library) dlclose(library); /* TensorFlow keeps it loaded */
  if (symbol == NULL) {
    FAIL(UNIMPLEMENTED,
         "Variables of int32 on an IPU need TensorFlow's library libtensorflow_cc.so.2, which this "
         "process has not loaded.");
  }
  memcpy(out, &symbol, sizeof symbol);
  return TRM_OK;
}

/* Makes a tensor of the handle. */
static trm_status tensor_of(TrmTf__ResourceHandle *handle, TF_Tensor **out, trm_error *error) {
  from_proto convert;
  TRY(find_from_proto(&convert, error));
  TrmTf__Tensor message = TRM_TF__TENSOR__INIT;
  TrmTf__Shape scalar = TRM_TF__SHAPE__INIT;
  message.dtype = TF_RESOURCE;
  message.tensor_shape = &scalar;
  message.n_resource_handle_val = 1;
  message.resource_handle_val = &handle;
  const size_t size = trm_tf__tensor__get_packed_size(&message);
  uint8_t *bytes = trm_allocate(size);
  CHECK_MEMORY(bytes, "the handle of a variable");
  trm_tf__tensor__pack(&message, bytes);
  TF_Tensor *tensor = TF_AllocateTensor(TF_UINT8, NULL, 0, 1);
  const TF_Buffer buffer = {bytes, size, NULL};
  TF_Status *call = TF_NewStatus();
  if (tensor != NULL) convert(&buffer, tensor, call);
  else TF_SetStatus(call, TF_RESOURCE_EXHAUSTED, "The host has no memory left.");
  const trm_status status = trm_tf_end_call(call, error);
  trm_free(bytes);
  if (status == TRM_OK) *out = tensor;
  else if (tensor != NULL) TF_DeleteTensor(tensor);
  return status;
}

/* Computes the handle: its name, container, device and type, like TensorFlow's own kernels. */
static trm_status compute_handle(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  static atomic_ullong last_anonymous;
  const handle_kernel *handle = kernel;
  char name[NAME_ROOM];
  char own_device[DEVICE_ROOM];
  snprintf(name, sizeof name, "_AnonymousVarOfIpu%llu",
           handle->anonymous ? atomic_fetch_add(&last_anonymous, 1) : 0);
  snprintf(own_device, sizeof own_device, "/job:localhost/replica:0/task:0/device:IPU:%d",
           TF_GetDeviceId(context));
  char *device = handle->node->device[0] ? handle->node->device : own_device;
  const char *job = NULL;
  size_t job_size = handle->container[0] ? 0 : job_of(device, &job);
  char *default_container = job_size ? trm_tf_copy_bytes(job, job_size) : NULL;

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
  TF_Tensor *tensor;
  trm_status status = tensor_of(&message, &tensor, error);
  if (status == TRM_OK) {
    status = trm_tf_set_output(context, 0, tensor, error);
    TF_DeleteTensor(tensor);
  }
  trm_free(default_container);
  return status;
}

static void *handle_create(TF_OpKernelConstruction *construction) {
  return trm_tf_create_kernel(create_handle, construction);
}

static void handle_compute(void *kernel, TF_OpKernelContext *context) {
  trm_tf_compute_kernel(compute_handle, kernel, context);
}

trm_status trm_tf_variables_register(trm_error *error) {
  TF_KernelBuilder *builder =
      TF_NewKernelBuilder("VarHandleOp", "IPU", handle_create, handle_compute, handle_free);
  TF_Status *call = TF_NewStatus();
  TF_KernelBuilder_TypeConstraint(builder, "dtype", TF_INT32, call);
  TF_KernelBuilder_HostMemory(builder, "resource");
  if (TF_GetCode(call) == TF_OK) TF_RegisterKernelBuilder("VarHandleOp", builder, call);
  else TF_DeleteKernelBuilder(builder);
  return trm_tf_end_call(call, error);
}
