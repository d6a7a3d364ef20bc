/* Owns: TensorFlow's op Assert on an IPU, where no program checks it: its failure is INTERNAL, as
 * that of an assertion in a program. TensorFlow's own kernel reports INVALID_ARGUMENT. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "ops.h"

/* A text that ends where its buffer ends. */
typedef struct text {
  char bytes[512];
  size_t size;
} text;

static void append(text *out, const char *bytes, size_t size) {
  const size_t room = sizeof out->bytes - 1 - out->size;
  if (size > room) size = room;
  memcpy(out->bytes + out->size, bytes, size);
  out->bytes[out->size += size] = '\0';
}

static void append_float(text *out, double value) {
  char number[32];
  append(out, number, (size_t)snprintf(number, sizeof number, "%g", value));
}

static void append_whole(text *out, int64_t value) {
  char number[32];
  append(out, number, (size_t)snprintf(number, sizeof number, "%" PRId64, value));
}

/* Element `i`; a type that an IPU does not have is "?". */
static void append_element(text *out, const TF_Tensor *tensor, size_t i) {
  const void *data = TF_TensorData(tensor);
  switch (TF_TensorType(tensor)) {
    case TF_STRING: {
      const TF_TString *one = (const TF_TString *)data + i;
      append(out, TF_TString_GetDataPointer(one), TF_TString_GetSize(one));
      break;
    }
    case TF_FLOAT: append_float(out, ((const float *)data)[i]); break;
    case TF_DOUBLE: append_float(out, ((const double *)data)[i]); break;
    case TF_HALF: append_float(out, trm_half_to_float(((const uint16_t *)data)[i])); break;
    case TF_INT64: append_whole(out, ((const int64_t *)data)[i]); break;
    case TF_INT32: append_whole(out, ((const int32_t *)data)[i]); break;
    case TF_UINT32: append_whole(out, ((const uint32_t *)data)[i]); break;
    case TF_INT8: append_whole(out, ((const int8_t *)data)[i]); break;
    case TF_UINT8:
    case TF_BOOL: append_whole(out, ((const uint8_t *)data)[i]); break;
    default: append(out, "?", 1);
  }
}

/* The first `most` elements of a tensor, or all if `most` is negative. */
static void append_tensor(text *out, const TF_Tensor *tensor, int64_t most) {
  const int64_t count = TF_TensorElementCount(tensor);
  append(out, " [", 2);
  for (int64_t i = 0; i < count && out->size < sizeof out->bytes - 1; ++i) {
    if (i == most) {
      append(out, "...", 3);
      break;
    }
    if (i > 0) append(out, " ", 1);
    append_element(out, tensor, (size_t)i);
  }
  append(out, "]", 1);
}

/* The state of a kernel is the attribute `summarize`. */
static trm_status read_most(TF_OpKernelConstruction *construction, void **out_kernel,
                            trm_error *error) {
  int64_t *most = *out_kernel = trm_allocate_zeroed(1, sizeof *most);
  CHECK_MEMORY(most, "a node");
  return trm_tf_get_number(construction, "summarize", most, error);
}

static trm_status check(void *kernel, TF_OpKernelContext *context, trm_error *error) {
  trm_tf_inputs inputs = {0};
  TRY(trm_tf_get_inputs(context, &inputs, error));
  trm_status status = TRM_OK;
  if (*(const uint8_t *)TF_TensorData(inputs.tensors[0]) == 0) {
    text data = {0};
    for (int i = 1; i < inputs.count; ++i) {
      append_tensor(&data, inputs.tensors[i], *(const int64_t *)kernel);
    }
    status = trm_fail(error, TRM_INTERNAL, "assertion failed:%s", data.bytes);
  }
  trm_tf_inputs_free(&inputs);
  return status;
}

static void *create_check(TF_OpKernelConstruction *construction) {
  return trm_tf_create_kernel(read_most, construction);
}

static void compute_check(void *kernel, TF_OpKernelContext *context) {
  trm_tf_compute_kernel(check, kernel, context);
}

trm_status trm_tf_assertions_register(trm_error *error) {
  TF_KernelBuilder *builder =
      TF_NewKernelBuilder("Assert", "IPU", create_check, compute_check, trm_free);
  TF_KernelBuilder_HostMemory(builder, "condition");
  TF_KernelBuilder_HostMemory(builder, "data");
  TF_Status *call = TF_NewStatus();
  TF_RegisterKernelBuilder("TremulaAssert", builder, call);
  return trm_tf_end_call(call, error);
}
