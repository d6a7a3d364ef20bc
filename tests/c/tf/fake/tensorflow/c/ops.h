/* Part of kernels.h here. */
#include "tensorflow/c/kernels.h"
