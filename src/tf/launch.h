/* Running a program inside a kernel. */
#ifndef TREMULA_TF_LAUNCH_H_
#define TREMULA_TF_LAUNCH_H_

#include "call.h"

/* Reads a node's attributes `module` and `graph` (one of them is not empty) into a call site.
 * Returns NULL and reports the failure to TensorFlow if it cannot. */
call_site *launch_site(TF_OpKernelConstruction *construction);

/* Runs the call site's program on the kernel's inputs and sets its outputs. */
void launch(call_site *site, TF_OpKernelContext *context, TF_Status *status);

/* Chooses the program for a kernel's inputs, which the caller uses (program_done; NULL after a
 * failure), and leaves in `taken`, which has room for as many, the tensors that it takes. */
bool launch_prepare(call_site *site, TF_OpKernelContext *context, const tf_inputs *inputs,
                    TF_Tensor **taken, tf_program **out_program, TF_Status *status);

#endif /* TREMULA_TF_LAUNCH_H_ */
