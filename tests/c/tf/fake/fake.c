/* The stand-in for TensorFlow. */
#include "fake.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/core/platform/ctstring.h"

/* ---- Statuses ---- */

struct TF_Status {
  TF_Code code;
  char message[4096];
};

TF_Status *TF_NewStatus(void) { return calloc(1, sizeof(TF_Status)); }
void TF_DeleteStatus(TF_Status *status) { free(status); }
void TF_SetStatus(TF_Status *status, TF_Code code, const char *message) {
  status->code = code;
  snprintf(status->message, sizeof status->message, "%s", message);
}
TF_Code TF_GetCode(const TF_Status *status) { return status->code; }
const char *TF_Message(const TF_Status *status) { return status->message; }

/* ---- Tensors ---- */

struct TF_Tensor {
  atomic_int references;
  TF_DataType type;
  int rank;
  int64_t dims[FAKE_MOST];
  void *data;
  size_t size;
  void (*release)(void *data, size_t size, void *argument);
  void *argument;
};

static atomic_int num_tensors;

int fake_num_tensors(void) { return num_tensors; }

static void release_data(void *data, size_t size, void *argument) {
  (void)size, (void)argument;
  free(data);
}

/* Strings are freed with their tensor. */
static void release_strings(void *data, size_t size, void *argument) {
  (void)argument;
  for (size_t i = 0; i < size / sizeof(TF_TString); ++i) free(((TF_TString *)data)[i].data);
  free(data);
}

TF_Tensor *TF_NewTensor(TF_DataType type, const int64_t *dims, int rank, void *data, size_t size,
                        void (*release)(void *, size_t, void *), void *argument) {
  TF_Tensor *tensor = calloc(1, sizeof *tensor);
  *tensor = (TF_Tensor){.references = 1,
                        .type = type,
                        .rank = rank,
                        .data = data,
                        .size = size,
                        .release = release,
                        .argument = argument};
  for (int i = 0; i < rank; ++i) tensor->dims[i] = dims[i];
  ++num_tensors;
  return tensor;
}

static TF_Tensor *retain(const TF_Tensor *tensor) {
  TF_Tensor *same = (TF_Tensor *)(uintptr_t)tensor;
  ++same->references;
  return same;
}

void TF_DeleteTensor(TF_Tensor *tensor) {
  if (--tensor->references) return;
  tensor->release(tensor->data, tensor->size, tensor->argument);
  free(tensor);
  --num_tensors;
}

TF_DataType TF_TensorType(const TF_Tensor *tensor) { return tensor->type; }
int TF_NumDims(const TF_Tensor *tensor) { return tensor->rank; }
int64_t TF_Dim(const TF_Tensor *tensor, int dim) { return tensor->dims[dim]; }
size_t TF_TensorByteSize(const TF_Tensor *tensor) { return tensor->size; }
void *TF_TensorData(const TF_Tensor *tensor) { return tensor->data; }

static TF_Tensor *allocate(TF_DataType type, const int64_t *dims, int rank, size_t size) {
  void *data = calloc(1, size + 1);
  return TF_NewTensor(type, dims, rank, data, size,
                      type == TF_STRING ? release_strings : release_data, NULL);
}

TF_Tensor *fake_tensor(TF_DataType type, const int64_t *dims, int rank, const void *values) {
  size_t size = type == TF_INT64 ? 8 : type == TF_BOOL ? 1 : 4;
  for (int i = 0; i < rank; ++i) size *= (size_t)dims[i];
  TF_Tensor *tensor = allocate(type, dims, rank, size);
  if (values) memcpy(tensor->data, values, size);
  return tensor;
}

void TF_TString_Init(TF_TString *string) { *string = (TF_TString){0}; }
void TF_TString_Copy(TF_TString *string, const char *data, size_t size) {
  free(string->data);
  *string = (TF_TString){malloc(size + 1), size};
  memcpy(string->data, data, size);
  string->data[size] = '\0';
}

/* ---- Calls ---- */

int TF_NumInputs(TF_OpKernelContext *context) { return context->num_inputs; }
int TF_NumOutputs(TF_OpKernelContext *context) { return context->num_outputs; }
int32_t TF_GetDeviceId(TF_OpKernelContext *context) { return context->device; }

void TF_GetInput(TF_OpKernelContext *context, int i, TF_Tensor **out, TF_Status *status) {
  (void)status;
  *out = retain(context->inputs[i]);
}

void TF_SetOutput(TF_OpKernelContext *context, int i, const TF_Tensor *tensor, TF_Status *status) {
  (void)status;
  if (context->outputs[i]) TF_DeleteTensor(context->outputs[i]);
  context->outputs[i] = retain(tensor);
}

TF_Tensor *TF_AllocateOutput(TF_OpKernelContext *context, int i, TF_DataType type,
                             const int64_t *dims, int rank, size_t size, TF_Status *status) {
  if (context->has_no_memory) {
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "the stand-in has no memory");
    return NULL;
  }
  TF_Tensor *tensor = allocate(type, dims, rank, size);
  TF_SetOutput(context, i, tensor, status);
  return tensor;
}

void TF_OpKernelContext_Failure(TF_OpKernelContext *context, TF_Status *status) {
  context->code = status->code;
  snprintf(context->message, sizeof context->message, "%.1000s", status->message);
}

void fake_context_clear(TF_OpKernelContext *context) {
  for (int i = 0; i < FAKE_MOST; ++i) {
    if (context->inputs[i]) TF_DeleteTensor(context->inputs[i]);
    if (context->outputs[i]) TF_DeleteTensor(context->outputs[i]);
  }
  *context = (TF_OpKernelContext){0};
}

/* ---- Construction ---- */

static const fake_attribute *find(const TF_OpKernelConstruction *construction, const char *name,
                                  TF_Status *status) {
  for (const fake_attribute *a = construction->attributes; a->name; ++a)
    if (strcmp(a->name, name) == 0) return a;
  TF_SetStatus(status, TF_NOT_FOUND, name);
  return NULL;
}

static size_t text_size(const fake_attribute *a, int i) {
  return i == 0 && a->size ? a->size : strlen(a->texts[i]);
}

TF_StringView TF_OpKernelConstruction_GetName(TF_OpKernelConstruction *construction) {
  return (TF_StringView){construction->name, strlen(construction->name)};
}

void TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction *construction, const char *name,
                                         int32_t *list_size, int32_t *total_size,
                                         TF_Status *status) {
  const fake_attribute *a = find(construction, name, status);
  *list_size = a ? a->count : 0;
  *total_size = 0;
  if (!a || !a->texts) return;
  for (*list_size = 0; a->texts[*list_size]; ++*list_size)
    *total_size += (int32_t)text_size(a, *list_size);
}

void TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction *construction, const char *name,
                                           char *value, size_t size, TF_Status *status) {
  const fake_attribute *a = find(construction, name, status);
  if (a && size) memcpy(value, a->texts[0], size);
}

void TF_OpKernelConstruction_GetAttrStringList(TF_OpKernelConstruction *construction,
                                               const char *name, char **values, size_t *lengths,
                                               int count, void *storage, size_t storage_size,
                                               TF_Status *status) {
  (void)storage_size;
  const fake_attribute *a = find(construction, name, status);
  char *at = storage;
  for (int i = 0; a && i < count; ++i) {
    lengths[i] = text_size(a, i);
    values[i] = memcpy(at, a->texts[i], lengths[i]);
    at += lengths[i];
  }
}

void TF_OpKernelConstruction_GetAttrInt64List(TF_OpKernelConstruction *construction,
                                              const char *name, int64_t *values, int count,
                                              TF_Status *status) {
  const fake_attribute *a = find(construction, name, status);
  for (int i = 0; a && i < count; ++i) values[i] = a->numbers[i];
}

void TF_OpKernelConstruction_GetAttrInt64(TF_OpKernelConstruction *construction, const char *name,
                                          int64_t *value, TF_Status *status) {
  TF_OpKernelConstruction_GetAttrInt64List(construction, name, value, 1, status);
}

void TF_OpKernelConstruction_GetAttrTypeList(TF_OpKernelConstruction *construction,
                                             const char *name, TF_DataType *values, int count,
                                             TF_Status *status) {
  const fake_attribute *a = find(construction, name, status);
  for (int i = 0; a && i < count; ++i) values[i] = (TF_DataType)a->numbers[i];
}

void TF_OpKernelConstruction_GetAttrBool(TF_OpKernelConstruction *construction, const char *name,
                                         unsigned char *value, TF_Status *status) {
  const fake_attribute *a = find(construction, name, status);
  if (a) *value = (unsigned char)a->numbers[0];
}

TF_KernelBuilder *TF_NewKernelBuilder(const char *op, const char *device,
                                      void *(*create)(TF_OpKernelConstruction *),
                                      void (*compute)(void *, TF_OpKernelContext *),
                                      void (*release)(void *)) {
  (void)op, (void)device, (void)create, (void)compute, (void)release;
  return NULL;
}

void TF_RegisterKernelBuilder(const char *name, TF_KernelBuilder *builder, TF_Status *status) {
  (void)name, (void)builder, (void)status;
}

void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction *construction, TF_Status *status) {
  construction->code = status->code;
  snprintf(construction->message, sizeof construction->message, "%.1000s", status->message);
}
