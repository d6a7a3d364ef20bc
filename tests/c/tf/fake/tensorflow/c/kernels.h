/* A stand-in for TensorFlow's C API, as much of it as the plugin's kernels use: with it the plugin
 * is tested without TensorFlow, under sanitizers too. fake.h has what tests control it by. */
#ifndef TREMULA_TESTS_TF_FAKE_KERNELS_H_
#define TREMULA_TESTS_TF_FAKE_KERNELS_H_

#include <stddef.h>
#include <stdint.h>

typedef enum TF_Code {
  TF_OK = 0,
  TF_CANCELLED = 1,
  TF_UNKNOWN = 2,
  TF_INVALID_ARGUMENT = 3,
  TF_NOT_FOUND = 5,
  TF_ALREADY_EXISTS = 6,
  TF_RESOURCE_EXHAUSTED = 8,
  TF_FAILED_PRECONDITION = 9,
  TF_ABORTED = 10,
  TF_OUT_OF_RANGE = 11,
  TF_UNIMPLEMENTED = 12,
  TF_INTERNAL = 13,
} TF_Code;

typedef enum TF_DataType {
  TF_FLOAT = 1,
  TF_DOUBLE = 2,
  TF_INT32 = 3,
  TF_UINT8 = 4,
  TF_INT16 = 5,
  TF_INT8 = 6,
  TF_STRING = 7,
  TF_COMPLEX64 = 8,
  TF_INT64 = 9,
  TF_BOOL = 10,
  TF_BFLOAT16 = 14,
  TF_UINT16 = 17,
  TF_COMPLEX128 = 18,
  TF_HALF = 19,
  TF_UINT32 = 22,
  TF_UINT64 = 23,
} TF_DataType;

typedef struct TF_Status TF_Status;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_OpKernelContext TF_OpKernelContext;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_AsyncOpKernelDoneCallback TF_AsyncOpKernelDoneCallback;
typedef struct TF_StringView {
  const char *data;
  size_t len;
} TF_StringView;

TF_Status *TF_NewStatus(void);
void TF_DeleteStatus(TF_Status *status);
void TF_SetStatus(TF_Status *status, TF_Code code, const char *message);
TF_Code TF_GetCode(const TF_Status *status);
const char *TF_Message(const TF_Status *status);

TF_Tensor *TF_NewTensor(TF_DataType type, const int64_t *dims, int rank, void *data, size_t size,
                        void (*release)(void *data, size_t size, void *argument), void *argument);
void TF_DeleteTensor(TF_Tensor *tensor);
TF_DataType TF_TensorType(const TF_Tensor *tensor);
int TF_NumDims(const TF_Tensor *tensor);
int64_t TF_Dim(const TF_Tensor *tensor, int dim);
size_t TF_TensorByteSize(const TF_Tensor *tensor);
void *TF_TensorData(const TF_Tensor *tensor);

int TF_NumInputs(TF_OpKernelContext *context);
int TF_NumOutputs(TF_OpKernelContext *context);
int32_t TF_GetDeviceId(TF_OpKernelContext *context);
void TF_GetInput(TF_OpKernelContext *context, int i, TF_Tensor **out, TF_Status *status);
void TF_SetOutput(TF_OpKernelContext *context, int i, const TF_Tensor *tensor, TF_Status *status);
TF_Tensor *TF_AllocateOutput(TF_OpKernelContext *context, int i, TF_DataType type,
                             const int64_t *dims, int rank, size_t size, TF_Status *status);
void TF_OpKernelContext_Failure(TF_OpKernelContext *context, TF_Status *status);

TF_StringView TF_OpKernelConstruction_GetName(TF_OpKernelConstruction *construction);
void TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction *construction, const char *name,
                                         int32_t *list_size, int32_t *total_size,
                                         TF_Status *status);
void TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction *construction, const char *name,
                                           char *value, size_t size, TF_Status *status);
void TF_OpKernelConstruction_GetAttrStringList(TF_OpKernelConstruction *construction,
                                               const char *name, char **values, size_t *lengths,
                                               int count, void *storage, size_t storage_size,
                                               TF_Status *status);
void TF_OpKernelConstruction_GetAttrInt64(TF_OpKernelConstruction *construction, const char *name,
                                          int64_t *value, TF_Status *status);
void TF_OpKernelConstruction_GetAttrInt64List(TF_OpKernelConstruction *construction,
                                              const char *name, int64_t *values, int count,
                                              TF_Status *status);
void TF_OpKernelConstruction_GetAttrTypeList(TF_OpKernelConstruction *construction,
                                             const char *name, TF_DataType *values, int count,
                                             TF_Status *status);
void TF_OpKernelConstruction_GetAttrBool(TF_OpKernelConstruction *construction, const char *name,
                                         unsigned char *value, TF_Status *status);
void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction *construction, TF_Status *status);

/* Both do nothing. */
TF_KernelBuilder *TF_NewKernelBuilder(const char *op, const char *device,
                                      void *(*create)(TF_OpKernelConstruction *),
                                      void (*compute)(void *, TF_OpKernelContext *),
                                      void (*release)(void *));
void TF_RegisterKernelBuilder(const char *name, TF_KernelBuilder *builder, TF_Status *status);

#endif /* TREMULA_TESTS_TF_FAKE_KERNELS_H_ */
