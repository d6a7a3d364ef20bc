/* Strings of TensorFlow's tensors, as the stand-in has them. */
#ifndef TREMULA_TESTS_TF_FAKE_CTSTRING_H_
#define TREMULA_TESTS_TF_FAKE_CTSTRING_H_

#include <stddef.h>

typedef struct TF_TString {
  char *data;
  size_t size;
} TF_TString;

void TF_TString_Init(TF_TString *string);
void TF_TString_Copy(TF_TString *string, const char *data, size_t size);

#endif /* TREMULA_TESTS_TF_FAKE_CTSTRING_H_ */
