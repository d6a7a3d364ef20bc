/* The ops that the plugin adds to TensorFlow, and their kernels. */
#ifndef TREMULA_TF_OPS_H_
#define TREMULA_TF_OPS_H_

#include "status.h"

typedef void *(*create_kernel)(TF_OpKernelConstruction *construction);
typedef void (*compute_kernel)(void *kernel, TF_OpKernelContext *context);
typedef void (*delete_kernel)(void *kernel);

/* Kernels of single ops, each in the file of its subject. */
void *launch_create(TF_OpKernelConstruction *construction);
void launch_compute(void *kernel, TF_OpKernelContext *context);
void launch_delete(void *kernel);

void start_compute(void *kernel, TF_OpKernelContext *context);
void ready_compute(void *kernel, TF_OpKernelContext *context);
void push_compute(void *kernel, TF_OpKernelContext *context);
void end_compute(void *kernel, TF_OpKernelContext *context);
void finish_compute(void *kernel, TF_OpKernelContext *context);

void *refuse_create(TF_OpKernelConstruction *construction);
void refuse_compute(void *kernel, TF_OpKernelContext *context);
void refuse_delete(void *kernel);
void *call_create(TF_OpKernelConstruction *construction);
void call_compute(void *kernel, TF_OpKernelContext *context);
void calls_register(TF_Status *status);
void *reset_create(TF_OpKernelConstruction *construction);
void reset_delete(void *kernel);
void reset_compute(void *kernel, TF_OpKernelContext *context);

void *table_register_create(TF_OpKernelConstruction *construction);
void table_register_compute(void *kernel, TF_OpKernelContext *context);
void *table_use_create(TF_OpKernelConstruction *construction);
void table_use_compute(void *kernel, TF_OpKernelContext *context);
void table_node_delete(void *kernel);

void *dequeue_create(TF_OpKernelConstruction *construction);
void dequeue_compute(void *kernel, TF_OpKernelContext *context);
void dequeue_delete(void *kernel);

void *outfeed_delete_create(TF_OpKernelConstruction *construction);
void outfeed_delete_compute(void *kernel, TF_OpKernelContext *context);
void outfeed_delete_delete(void *kernel);

void event_trace_compute(void *kernel, TF_OpKernelContext *context);

/* Looked up by TensorFlow when the plugin is loaded. */
TRM_TF_API void TF_InitKernel(void);

#endif /* TREMULA_TF_OPS_H_ */
