/* What a test sets up and looks at where TensorFlow would call a kernel. */
#ifndef TREMULA_TESTS_TF_FAKE_H_
#define TREMULA_TESTS_TF_FAKE_H_

#include <stdbool.h>

#include "tensorflow/c/kernels.h"

enum { FAKE_MOST = 16 };

/* An attribute of a node: text, or numbers (also booleans and types). */
typedef struct fake_attribute {
  const char *name;
  const char *const *texts; /* ends with NULL; NULL: none */
  size_t size;              /* of the first text; 0: it ends with NUL */
  int64_t numbers[FAKE_MOST];
  int count;
} fake_attribute;

struct TF_OpKernelConstruction {
  const char *name;
  const fake_attribute *attributes; /* ends with a name NULL */
  TF_Code code;
  char message[1024];
};

/* One call of a kernel. Tensors are the context's until fake_context_clear. */
struct TF_OpKernelContext {
  TF_Tensor *inputs[FAKE_MOST], *outputs[FAKE_MOST];
  int num_inputs, num_outputs;
  int32_t device;
  bool has_no_memory; /* TF_AllocateOutput fails */
  TF_Code code;
  char message[1024];
};

/* A tensor of 32-bit floats with these values, or of any type with zeros (values: NULL). */
TF_Tensor *fake_tensor(TF_DataType type, const int64_t *dims, int rank, const void *values);
void fake_context_clear(TF_OpKernelContext *context);
/* How many tensors there are. */
int fake_num_tensors(void);

#endif /* TREMULA_TESTS_TF_FAKE_H_ */
