/* Variables of 32-bit integers. */
#ifndef TREMULA_TF_VARIABLES_H_
#define TREMULA_TF_VARIABLES_H_

#include "tensorflow.h"

/* Registers the device's kernel of VarHandleOp for int32. */
void variables_register(TF_Status *status);

#endif /* TREMULA_TF_VARIABLES_H_ */
