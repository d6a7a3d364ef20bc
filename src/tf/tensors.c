/* What kernels are given: inputs, attributes, and the types of both sides. */
#include "tensors.h"

#include <stdlib.h>

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

TF_DataType tensor_type(trm_dtype dtype) {
  for (int i = 0; i < NUM_TYPES; ++i)
    if (TYPES[i].hlo == dtype) return TYPES[i].tensorflow;
  return (TF_DataType)0;
}

trm_dtype hlo_type(TF_DataType type) {
  for (int i = 0; i < NUM_TYPES; ++i)
    if (TYPES[i].tensorflow == type) return TYPES[i].hlo;
  return TRM_INVALID_TYPE;
}

bool inputs_get(TF_OpKernelContext *context, tf_inputs *out, TF_Status *status) {
  int count = TF_NumInputs(context);
  *out = (tf_inputs){calloc((size_t)count + 1, sizeof(TF_Tensor *)), count};
  if (!out->tensors) return fail_memory(status);
  for (int i = 0; i < count && is_ok(status); ++i)
    TF_GetInput(context, i, &out->tensors[i], status);
  if (!is_ok(status)) inputs_free(out);
  return is_ok(status);
}

void inputs_free(tf_inputs *inputs) {
  for (int i = 0; inputs->tensors && i < inputs->count; ++i)
    if (inputs->tensors[i]) TF_DeleteTensor(inputs->tensors[i]);
  free(inputs->tensors);
  inputs->tensors = NULL;
}

char *string_attribute(TF_OpKernelConstruction *construction, const char *name, size_t *out_size,
                       TF_Status *status) {
  int32_t list_size = 0;
  int32_t size = 0;
  TF_OpKernelConstruction_GetAttrSize(construction, name, &list_size, &size, status);
  if (!is_ok(status)) return NULL;
  const size_t bytes = size > 0 ? (size_t)size : 0;
  char *text = calloc(bytes + 1, 1);
  if (!text) fail_memory(status);
  else TF_OpKernelConstruction_GetAttrString(construction, name, text, bytes, status);
  if (out_size) *out_size = bytes;
  if (is_ok(status)) return text;
  free(text);
  return NULL;
}

void finish(TF_OpKernelContext *context, TF_Status *status) {
  if (!is_ok(status)) TF_OpKernelContext_Failure(context, status);
  TF_DeleteStatus(status);
}
