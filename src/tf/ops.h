/* Owns: the ops, kernels and the graph optimiser that the plugin registers with TensorFlow.
 *
 * TensorFlow calls the optimiser after placement, for each graph with nodes on the device. It joins
 * ops without `compile` into parts that are compiled. Python does this work
 * (runtime/clusters/clusters.py), because it also lowers graphs of unknown shapes. Without Python
 * graphs stay as they are. */
#ifndef TREMULA_TF_OPS_H_
#define TREMULA_TF_OPS_H_

#include "tensorflow.h"

/* The kernels, each in the file of its subject. */
#define TRM_TF_DECLARE_CREATE(name) \
  void *trm_tf_##name##_create(TF_OpKernelConstruction *construction)
#define TRM_TF_DECLARE_COMPUTE(name) \
  void trm_tf_##name##_compute(void *kernel, TF_OpKernelContext *context)

/* launch.c */
TRM_TF_DECLARE_CREATE(launch);
TRM_TF_DECLARE_COMPUTE(launch);
void trm_tf_launch_delete(void *kernel);
/* feed_ops.c */
TRM_TF_DECLARE_COMPUTE(start);
TRM_TF_DECLARE_COMPUTE(ready);
TRM_TF_DECLARE_COMPUTE(push);
TRM_TF_DECLARE_COMPUTE(end);
TRM_TF_DECLARE_COMPUTE(finish);
TRM_TF_DECLARE_CREATE(reset);
TRM_TF_DECLARE_COMPUTE(reset);
void trm_tf_reset_delete(void *kernel);
TRM_TF_DECLARE_CREATE(dequeue);
TRM_TF_DECLARE_COMPUTE(dequeue);
void trm_tf_dequeue_delete(void *kernel);
TRM_TF_DECLARE_CREATE(outfeed_delete);
TRM_TF_DECLARE_COMPUTE(outfeed_delete);
/* host_calls.c */
TRM_TF_DECLARE_CREATE(table_register);
TRM_TF_DECLARE_COMPUTE(table_register);
TRM_TF_DECLARE_CREATE(table_use);
TRM_TF_DECLARE_COMPUTE(table_use);
void trm_tf_table_node_delete(void *kernel);
/* events.c */
TRM_TF_DECLARE_COMPUTE(event_trace);

/* collectives.c; asynchronous */
TRM_TF_DECLARE_CREATE(collective);
void trm_tf_collective_compute(void *kernel, TF_OpKernelContext *context,
                               TF_AsyncOpKernelDoneCallback *done);
void trm_tf_collective_delete(void *kernel);

/* variables.c: registers the device's kernel of VarHandleOp for int32. */
trm_status trm_tf_variables_register(trm_error *error);
/* assertions.c: registers the device's kernel of Assert. */
trm_status trm_tf_assertions_register(trm_error *error);

/* ---- For Python ---- */

/* Registers a kernel of the device for `op`. `kernel_def` is a serialised KernelDef; TensorFlow
 * reads it up to the first NUL, so it must have no zero byte. The kernel of an update of a variable
 * only reports that it cannot run by itself. Returns a status code. */
TRM_TF_API int32_t trm_tf_register_kernel(const char *op, const char *kernel_def,
                                          int32_t on_variables, char *message,
                                          uint64_t message_size);

/* A request of the optimiser to Python. Python answers with trm_tf_reply_graph before it returns,
 * or not at all if the graph does not change. */
typedef struct trm_tf_optimize_request {
  const void *graph; /* a serialised GraphDef */
  uint64_t graph_size;
  /* Names of nodes that must stay, and of those among them that are fetched; the others may be fed.
   * A newline follows each name. */
  const char *preserved;
  uint64_t preserved_size;
  const char *fetched;
  uint64_t fetched_size;
  void *reply; /* belongs to C */
} trm_tf_optimize_request;

typedef void (*trm_tf_optimize)(const trm_tf_optimize_request *request);

TRM_TF_API void trm_tf_set_optimize(trm_tf_optimize optimize);
/* Answers with a new graph, which is copied. */
TRM_TF_API void trm_tf_reply_graph(const trm_tf_optimize_request *request, const void *graph,
                                   uint64_t size);

/* collectives.c: who takes part in the collectives that begin from now on: ranks in rising order; 0
 * of them: all processes. Returns a status code. */
TRM_TF_API int32_t trm_tf_set_participants(const uint32_t *ranks, uint32_t count, char *message,
                                           uint64_t message_size);

/* TensorFlow looks it up when it loads the plugin. */
TRM_TF_API void TF_InitKernel(void);

#endif /* TREMULA_TF_OPS_H_ */
