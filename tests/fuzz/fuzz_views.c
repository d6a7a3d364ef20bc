/* Fuzz target: a chain of views of Poplar tensors. Each view that is possible covers as many
 * elements as its shape says, all within the variable. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "poplar/views.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FIRST = 6 * 7 * 8 * 9, MOST = 1 << 16 };

typedef struct input {
  const uint8_t *data;
  size_t left;
} input;

/* A small number, or after 255 any number of 64 bits. */
static uint64_t take(input *in) {
  uint64_t number = 0;
  if (in->left == 0) return 0;
  --in->left;
  if (*in->data++ != 255) return in->data[-1];
  const size_t bytes = in->left < sizeof number ? in->left : sizeof number;
  memcpy(&number, in->data, bytes);
  in->data += bytes;
  in->left -= bytes;
  return number;
}

static int32_t view(input *in, const trm_poplar_tensor *tensor, trm_poplar_tensor **out) {
  trm_poplar_error error;
  uint64_t dims[TRM_MAX_RANK];
  uint32_t order[TRM_MAX_RANK];
  const uint64_t kind = take(in) % 9;
  const uint32_t rank = (uint32_t)(take(in) % (TRM_MAX_RANK + 1));
  const trm_poplar_tensor *const both[] = {tensor, tensor};
  switch (kind) {
    case 0: return trm_poplar_tensor_slice(tensor, rank, take(in), take(in), out, &error);
    case 1: return trm_poplar_tensor_index(tensor, take(in), out, &error);
    case 2:
      for (uint32_t d = 0; d < rank; ++d) dims[d] = take(in);
      return trm_poplar_tensor_reshape(tensor, dims, rank, out, &error);
    case 3:
      for (uint32_t d = 0; d < tensor->rank; ++d) order[d] = (uint32_t)take(in);
      return trm_poplar_tensor_dim_shuffle(tensor, order, tensor->rank, out, &error);
    case 4: return trm_poplar_tensor_broadcast(tensor, take(in) % 64, rank, out, &error);
    case 5: return trm_poplar_tensor_concat(both, 2, rank, out, &error);
    case 6: return trm_poplar_tensor_pick(tensor, -1, rank, out, &error);
    case 7: return trm_poplar_tensor_pick(tensor, (int64_t)take(in), rank, out, &error);
    default: return trm_poplar_tensor_reinterpret(tensor, (int32_t)take(in), out, &error);
  }
}

static void check(const trm_poplar_tensor *tensor) {
  uint64_t elements = 0, product = 1;
  for (uint32_t d = 0; d < tensor->rank; ++d) product *= tensor->dims[d];
  for (uint64_t r = 0; r < tensor->num_runs; ++r) {
    const trm_poplar_run *run = &tensor->runs[r];
    const int64_t last = run->offset + (int64_t)(run->length - 1) * run->stride;
    if (run->begin != elements || run->length == 0 || run->offset < 0 || run->offset >= FIRST ||
        last < 0 || last >= FIRST) {
      abort();
    }
    elements += run->length;
  }
  if (elements != tensor->elements || product != elements) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint64_t dims[] = {6, 7, 8, 9};
  trm_poplar_error error;
  trm_poplar_tensor *tensor, *next;
  input in = {data, size};
  if (trm_poplar_tensor_of(0, TRM_F32, dims, 4, &tensor, &error) != TRM_OK) return 0;
  while (in.left > 0 && tensor->elements < MOST) {
    if (view(&in, tensor, &next) != TRM_OK) continue;
    check(next);
    trm_poplar_tensor_release(tensor);
    tensor = next;
  }
  trm_poplar_tensor_release(tensor);
  return 0;
}
