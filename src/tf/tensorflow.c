/* Owns: the conversion of statuses and types, and the helpers of all kernels. */
#include "tensorflow.h"

#include <stdio.h>
#include <string.h>

/* ---- Statuses ---- */

void trm_tf_report(TF_Status *status, trm_status result, const trm_error *error) {
  TF_SetStatus(status, (TF_Code)result, result == TRM_OK ? "" : error->message);
}

trm_status trm_tf_end_call(TF_Status *status, trm_error *error) {
  const trm_status result = (trm_status)TF_GetCode(status);
  if (result != TRM_OK) trm_fail(error, result, "%s", TF_Message(status));
  TF_DeleteStatus(status);
  return result;
}

int32_t trm_tf_reply(trm_status result, const trm_error *error, char *message,
                     uint64_t message_size) {
  if (result != TRM_OK) snprintf(message, message_size, "%s", error->message);
  return (int32_t)result;
}

/* ---- Texts ---- */

char *trm_tf_copy_bytes(const void *data, size_t size) {
  char *copy = trm_allocate(size + 1);
  if (copy == NULL) return NULL;
  if (size > 0) memcpy(copy, data, size);
  copy[size] = '\0';
  return copy;
}

char *trm_tf_copy_text(const char *text) { return trm_tf_copy_bytes(text, strlen(text)); }

/* ---- Types ---- */

static const struct {
  TF_DataType tensorflow;
  trm_dtype hlo;
} TYPES[] = {
    {TF_BOOL, TRM_PRED},     {TF_INT8, TRM_S8},       {TF_INT16, TRM_S16},
    {TF_INT32, TRM_S32},     {TF_INT64, TRM_S64},     {TF_UINT8, TRM_U8},
    {TF_UINT16, TRM_U16},    {TF_UINT32, TRM_U32},    {TF_UINT64, TRM_U64},
    {TF_HALF, TRM_F16},      {TF_FLOAT, TRM_F32},     {TF_DOUBLE, TRM_F64},
    {TF_COMPLEX64, TRM_C64}, {TF_BFLOAT16, TRM_BF16}, {TF_COMPLEX128, TRM_C128},
};
enum { NUM_TYPES = sizeof TYPES / sizeof *TYPES };

TF_DataType trm_tf_type(trm_dtype dtype) {
  for (int i = 0; i < NUM_TYPES; ++i) {
    if (TYPES[i].hlo == dtype) return TYPES[i].tensorflow;
  }
  return (TF_DataType)0;
}

trm_dtype trm_tf_dtype(TF_DataType type) {
  for (int i = 0; i < NUM_TYPES; ++i) {
    if (TYPES[i].tensorflow == type) return TYPES[i].hlo;
  }
  return TRM_INVALID_TYPE;
}

/* ---- Kernels ---- */

void *trm_tf_create_kernel(trm_tf_create *create, TF_OpKernelConstruction *construction) {
  void *kernel = NULL;
  trm_error error = {0};
  const trm_status result = create(construction, &kernel, &error);
  if (result == TRM_OK) return kernel;
  TF_Status *status = TF_NewStatus();
  trm_tf_report(status, result, &error);
  TF_OpKernelConstruction_Failure(construction, status);
  TF_DeleteStatus(status);
  return kernel;
}

void trm_tf_compute_kernel(trm_tf_compute *compute, void *kernel, TF_OpKernelContext *context) {
  trm_error error = {0};
  const trm_status result = compute(kernel, context, &error);
  if (result == TRM_OK) return;
  TF_Status *status = TF_NewStatus();
  trm_tf_report(status, result, &error);
  TF_OpKernelContext_Failure(context, status);
  TF_DeleteStatus(status);
}

trm_status trm_tf_get_list_size(TF_OpKernelConstruction *construction, const char *name,
                                size_t *out_count, size_t *out_bytes, trm_error *error) {
  int32_t count = 0, bytes = 0;
  TF_Status *status = TF_NewStatus();
  TF_OpKernelConstruction_GetAttrSize(construction, name, &count, &bytes, status);
  TRY(trm_tf_end_call(status, error));
  *out_count = count > 0 ? (size_t)count : 0;
  *out_bytes = bytes > 0 ? (size_t)bytes : 0;
  return TRM_OK;
}

trm_status trm_tf_get_text(TF_OpKernelConstruction *construction, const char *name, char **out,
                           size_t *out_size, trm_error *error) {
  size_t count, bytes;
  TRY(trm_tf_get_list_size(construction, name, &count, &bytes, error));
  char *text = trm_allocate_zeroed(bytes + 1, 1);
  CHECK_MEMORY(text, "an attribute");
  TF_Status *status = TF_NewStatus();
  TF_OpKernelConstruction_GetAttrString(construction, name, text, bytes, status);
  const trm_status result = trm_tf_end_call(status, error);
  if (result != TRM_OK) {
    trm_free(text);
    return result;
  }
  if (out_size != NULL) *out_size = bytes;
  *out = text;
  return TRM_OK;
}

trm_status trm_tf_get_bool(TF_OpKernelConstruction *construction, const char *name, bool *out,
                           trm_error *error) {
  unsigned char value = 0;
  TF_Status *status = TF_NewStatus();
  TF_OpKernelConstruction_GetAttrBool(construction, name, &value, status);
  *out = value != 0;
  return trm_tf_end_call(status, error);
}

trm_status trm_tf_get_number(TF_OpKernelConstruction *construction, const char *name, int64_t *out,
                             trm_error *error) {
  TF_Status *status = TF_NewStatus();
  TF_OpKernelConstruction_GetAttrInt64(construction, name, out, status);
  return trm_tf_end_call(status, error);
}

trm_status trm_tf_get_inputs(TF_OpKernelContext *context, trm_tf_inputs *out, trm_error *error) {
  const int count = TF_NumInputs(context);
  *out = (trm_tf_inputs){trm_allocate_zeroed((size_t)count, sizeof(TF_Tensor *)), count};
  CHECK_MEMORY(out->tensors, "the inputs of a node");
  TF_Status *status = TF_NewStatus();
  for (int i = 0; i < count && TF_GetCode(status) == TF_OK; ++i) {
    TF_GetInput(context, i, &out->tensors[i], status);
  }
  const trm_status result = trm_tf_end_call(status, error);
  if (result != TRM_OK) trm_tf_inputs_free(out);
  return result;
}

void trm_tf_inputs_free(trm_tf_inputs *inputs) {
  for (int i = 0; inputs->tensors != NULL && i < inputs->count; ++i) {
    if (inputs->tensors[i] != NULL) TF_DeleteTensor(inputs->tensors[i]);
  }
  trm_free(inputs->tensors);
  inputs->tensors = NULL;
}

trm_status trm_tf_allocate_output(TF_OpKernelContext *context, int i, TF_DataType type,
                                  const int64_t *dims, int rank, size_t bytes, TF_Tensor **out,
                                  trm_error *error) {
  TF_Status *status = TF_NewStatus();
  TF_Tensor *tensor = TF_AllocateOutput(context, i, type, dims, rank, bytes, status);
  const trm_status result = trm_tf_end_call(status, error);
  if (result != TRM_OK && tensor != NULL) TF_DeleteTensor(tensor);
  else *out = tensor;
  return result;
}

trm_status trm_tf_set_output(TF_OpKernelContext *context, int i, const TF_Tensor *tensor,
                             trm_error *error) {
  TF_Status *status = TF_NewStatus();
  TF_SetOutput(context, i, tensor, status);
  return trm_tf_end_call(status, error);
}

trm_status trm_tf_copy_output(TF_OpKernelContext *context, int i, TF_DataType type,
                              const int64_t *dims, int rank, const void *data, size_t bytes,
                              trm_error *error) {
  TF_Tensor *tensor;
  TRY(trm_tf_allocate_output(context, i, type, dims, rank, bytes, &tensor, error));
  if (bytes > 0) memcpy(TF_TensorData(tensor), data, bytes);
  TF_DeleteTensor(tensor);
  return TRM_OK;
}
